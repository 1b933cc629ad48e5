"""The fleet on trial: the chart with short times, and a server whose tools keep a ledger.

The server is `tests.fleet.trials`. Its pods mount the repository, which each machine of the cluster has read-only, and
the folder of the ledger, which all of them share.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from tests.fleet.ledger import VARIABLE, Ledger
from tests.kube.drills.cluster import FRONT, MACHINE, NAME, REPOSITORY, SHARED, Cluster

LEASE_TTL, DRAIN = 5, 30
NODES, ROUTERS = 3, 2
URL = f"http://{FRONT}/mcp"
FOLDER = SHARED / "ledger"
_PATHS = {"repository": "/opt/kube/repository", "ledger": "/opt/kube/shared/ledger"}

STORE_IMAGE = "docker.io/valkey/valkey:local"
OLD_KEY, NEW_KEY = "old-" * 8, "new-" * 8

VALUES: dict[str, Any] = {
    "allowedHosts": [FRONT],
    "auth": {"keys": [OLD_KEY]},
    "settings": {"routeHeaders": True},
    "service": {"type": "LoadBalancer"},
    "node": {
        "replicas": NODES,
        "image": {"tag": "local", "pullPolicy": "Never"},
        "target": "tests.fleet.trials:mcp",
        "settings": {"leaseTtl": LEASE_TTL, "drainTimeout": DRAIN},
        "startupSeconds": 300,
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "env": [{"name": "PYTHONPATH", "value": "/repository"}, {"name": VARIABLE, "value": "/ledger/ledger"}],
        "extraVolumes": [{"name": name, "hostPath": {"path": path}} for name, path in _PATHS.items()],
        "extraVolumeMounts": [
            {"name": "repository", "mountPath": "/repository", "readOnly": True},
            {"name": "ledger", "mountPath": "/ledger"},
        ],
    },
    "router": {
        "replicas": ROUTERS,
        "image": {"tag": "local", "pullPolicy": "Never"},
        "startupSeconds": 300,
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
    },
    "store": {
        "bundled": {
            "image": {"repository": STORE_IMAGE.partition(":")[0], "tag": "local", "pullPolicy": "Never"},
            "persistence": {"enabled": False},
        }
    },
}

PERSISTENT: dict[str, Any] = {"store__bundled__persistence": {"enabled": True, "size": "64Mi"}}
FEWEST = 2
AUTOSCALED: dict[str, Any] = {
    "node__autoscaling": {
        "enabled": True,
        "minReplicas": FEWEST,
        "maxReplicas": 4,
        "cpuPercent": 30,
        "memoryPercent": None,
        "scaleInSeconds": 30,
    },
    "node__resources__requests__cpu": "100m",
}
HAPROXY: dict[str, Any] = {
    "haproxy": {
        "enabled": True,
        "image": {"repository": "docker.io/library/haproxy", "tag": "local", "pullPolicy": "Never"},
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
    }
}
ROLLED: dict[str, Any] = {**HAPROXY, "node__replicas": NODES + 1, "node__podAnnotations": {"rolled": "once"}}
"""All nodes are made new, and HAProxy too, since its list of nodes is longer."""
OTHER_TAG: dict[str, Any] = {"node__image__tag": "again", "router__image__tag": "again"}
BEFORE, AFTER = ({"node__target": f"/ledger/{name}/server.py:mcp"} for name in ("before", "after"))
FRONT_HOST = "fleet.example"
CONTOUR_URL = f"http://{MACHINE}:30080/mcp"
INGRESS: dict[str, Any] = {
    "service__type": "ClusterIP",
    "ingress": {"enabled": True, "className": "contour", "hosts": [FRONT_HOST]},
}
GATEWAY: dict[str, Any] = {
    "service__type": "ClusterIP",
    "httpRoute": {
        "enabled": True,
        "parentRefs": [{"name": "front", "namespace": "kube-system"}],
        "hostnames": [FRONT_HOST],
    },
}


def changed(**more: Any) -> dict[str, Any]:
    """The values but for `more`, by path: `node__replicas=5`."""
    made = copy.deepcopy(VALUES)
    for path, value in more.items():
        *above, last = path.split("__")
        at = made
        for part in above:
            at = at.setdefault(part, {})
        at[last] = value
    return made


async def install(cluster: Cluster, **more: Any) -> Ledger:
    """Install the fleet, or bring it back to these values, and begin a new ledger."""
    await bring(cluster, **more)
    ledger = Ledger(FOLDER / "ledger")
    ledger.path.unlink(missing_ok=True)
    return ledger


async def bring(cluster: Cluster, **more: Any) -> None:
    """Install the fleet, or bring it to these values; it is ready at the end."""
    _write_sources()
    values = changed(**more)
    await cluster.install(values)
    if values["service"]["type"] == "LoadBalancer":
        # What a cloud's controller does: the Service has its address.
        status = f'{{"status": {{"loadBalancer": {{"ingress": [{{"ip": "{FRONT}"}}]}}}}}}'
        await cluster.kubectl("patch", "service", NAME, "--subresource=status", "--patch", status)
        await cluster.until(_front_answers, f"each machine of the cluster takes connections to {FRONT}")
    await cluster.settled()


def _write_sources() -> None:
    """The server on trial as two files: as it is, and with the two questions of its errand in the other order. Of the
    same answers both make the same result."""
    before = (REPOSITORY / "tests" / "fleet" / "trials.py").read_text()
    errand, rest = before.split("async def talk(")
    one, two = ('one = await ask(name, "one")', 'two = await ask(name, "two")')
    after = errand.replace(one, "<>").replace(two, one).replace("<>", two)
    for name, text in (("before", before), ("after", f"{after}async def talk({rest}")):
        (FOLDER / name).mkdir(exist_ok=True)
        (FOLDER / name / "server.py").write_text(text)


async def _front_answers() -> bool:
    """Whether all of many connections are taken: they are spread over the machines, each with a kube-proxy."""
    tries = (asyncio.open_connection(FRONT, 80) for _ in range(32))
    try:
        opened = await asyncio.wait_for(asyncio.gather(*tries, return_exceptions=True), 3)
    except TimeoutError:
        return False
    for one in opened:
        if not isinstance(one, BaseException):
            one[1].close()
    return not any(isinstance(one, BaseException) for one in opened)
