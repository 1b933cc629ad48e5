"""`python -m tests.conformance`: start the example server, run the suite for both revisions, print what failed.

Exit codes: 0 every check of both revisions passed; 1 some did not; 2 nothing could be run.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

from tests.conformance import node_cache, suite
from tests.conformance.child import ServerFailed, serving
from tests.conformance.fleet import fleet_serving

WAYS = {"hold": {}, "rehearse": {"FRAMEHOLD_REHEARSE": "1"}, "replay": {"FRAMEHOLD_STRATEGY": "replay"}}
"""Settings of the example server."""


def main() -> int:
    """Parse the arguments and run within the time limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--app", default="tests.conformance.server:app", help="MODULE:NAME of the ASGI app to test")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for everything, npm included")
    parser.add_argument("--spec-version", choices=suite.REQUIRED, action="append", help="only this revision")
    parser.add_argument("--nodes", type=int, default=0, help="test the example server on a router with so many nodes")
    parser.add_argument("--way", choices=WAYS, default="hold", help="what becomes of a frame between its rounds")
    arguments = parser.parse_args()
    os.environ.update(WAYS[arguments.way])

    deadline = time.monotonic() + arguments.limit
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the child is ended too
    try:
        node_cache.ensure(_left(deadline))
        reports = _run(arguments, deadline)
    except (node_cache.NodeUnavailable, ServerFailed) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    for report in reports:
        _print(report)
    return 0 if all(report.complete for report in reports) else 1


def _run(arguments: argparse.Namespace, deadline: float) -> list[suite.Report]:
    versions = arguments.spec_version or list(suite.REQUIRED)
    if arguments.nodes:
        started = fleet_serving(arguments.nodes)
    else:
        started = serving(arguments.app, node_cache.CACHE / "server.log", max(0.0, min(30.0, _left(deadline))))
    with started as url:
        return [suite.run(url, version, _left(deadline)) for version in versions]


def _left(deadline: float) -> float:
    return deadline - time.monotonic()


def _print(report: suite.Report) -> None:
    required = suite.REQUIRED[report.version]
    verdict = "" if report.complete else f"  (required: {required} of {required})"
    print(f"{report.version}: {report.passed} of {report.counted} checks{verdict}")
    for check in report.faults:
        print(f"  {check.status} {check.scenario} / {check.identifier}: {check.message}")
    if report.problem:
        print(f"  {report.problem}")


if __name__ == "__main__":
    sys.exit(main())
