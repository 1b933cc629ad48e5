"""`python -m tests.kube.drills [NAME ...]`: carries out drills on the cluster that is up, in its network.

With --report it writes report.md beside it and the table of docs/kubernetes.md, which want all drills.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

from tests.kube.drills.cluster import CACHE, Cluster
from tests.kube.drills.drills import DRILLS, LOGS, carry_out, describe
from tests.kube.drills.fleet import DRAIN, LEASE_TTL, NODES, ROUTERS
from tests.kube.drills.judged import Facts, as_json
from tests.kube.drills.report import inserted, report, summary

REPORT = Path(__file__).with_name("report.md")
PAGE = Path(__file__).parents[3] / "docs" / "kubernetes.md"


async def parts(cluster: Cluster) -> dict[str, str]:
    """What the cluster and the fleet are made of."""
    nodes = (await cluster.get("nodes"))["items"]
    first = nodes[0]["status"]["nodeInfo"]
    return {
        "Kubernetes": first["kubeletVersion"],
        "Machines": f"{len(nodes)}, as namespaces of one with {nodes[0]['status']['capacity']['cpu']} cores",
        "Container runtime": first["containerRuntimeVersion"].replace("://", " "),
        "System": f"{first['osImage']}, Linux {first['kernelVersion'].partition('-')[0]}",
        "Network": "bridges with routes between them, kube-proxy with iptables, kube-router for NetworkPolicies",
        "DNS": "CoreDNS",
        "Fleet": f"{NODES} nodes, {ROUTERS} routers, the bundled store without persistence",
        "Settings": f"lease {LEASE_TTL} s, drain {DRAIN} s",
        "Date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


async def run(names: list[str], users: int, *, reported: bool) -> int:
    """Carry out the drills; 1 if one did not pass."""
    cluster = Cluster()
    # What an interrupted run has left: an upgrade that is not over would refuse the next one.
    await cluster.uninstall()
    found: list[Facts] = []
    for name in names:
        facts = await carry_out(name, cluster, users)
        found.append(facts)
        print(json.dumps(as_json(facts), indent=1), flush=True)
        print(f"{name}: {'passed' if facts.passed else '; '.join(facts.faults)}", file=sys.stderr, flush=True)
        if not facts.passed:
            print(f"{name}: what its pods logged is in {LOGS / name}", file=sys.stderr, flush=True)
        with (CACHE / "drills.jsonl").open("a") as file:
            file.write(json.dumps(as_json(facts)) + "\n")
    if reported:
        made_of = await parts(cluster)
        REPORT.write_text(report(made_of, {name: describe(name) for name in DRILLS}, found))
        PAGE.write_text(inserted(PAGE.read_text(), summary(made_of, found)))
    return 0 if all(facts.passed for facts in found) else 1


def main() -> int:
    """Read the command line, and carry out what it names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *DRILLS], help="which drills; all of them without one")
    parser.add_argument("--users", type=int, default=200, help="calls that are parked, half of them marked")
    parser.add_argument("--report", action="store_true", help=f"write {REPORT.name} and the table of {PAGE.name}")
    chosen = parser.parse_args()
    return asyncio.run(run(chosen.names or list(DRILLS), chosen.users, reported=chosen.report))


if __name__ == "__main__":
    sys.exit(main())
