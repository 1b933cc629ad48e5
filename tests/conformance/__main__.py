"""`python -m tests.conformance`: start the example server, run the suite for both revisions, print what failed.

Exit codes: 0 every check of both revisions passed; 1 some did not; 2 nothing could be run.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from contextlib import AbstractContextManager

from tests.conformance import node_cache, suite
from tests.conformance.child import ServerFailed, serving
from tests.conformance.fleet import fleet_serving

WAYS = {"hold": {}, "rehearse": {"FRAMEHOLD_REHEARSE": "1"}, "replay": {"FRAMEHOLD_STRATEGY": "replay"}}
"""Settings of the example server."""
HELD, PLAIN = "tests.conformance.held:app", "tests.conformance.plain:app"
"""The example server as a node, and as the SDK alone serves it."""
SDK_VERSION = "2025-11-25"
"""The revision on which the SDK alone serves all of the example server."""


def main() -> int:
    """Parse the arguments and run within the time limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--app", default=HELD, help="MODULE:NAME of the ASGI app to test")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for everything, npm included")
    parser.add_argument("--spec-version", choices=suite.REQUIRED, action="append", help="only this revision")
    parser.add_argument("--nodes", type=int, default=0, help="test the example server on a router with so many nodes")
    parser.add_argument("--way", choices=WAYS, default="hold", help="what becomes of a frame between its rounds")
    parser.add_argument(
        "--beside-sdk", action="store_true", help=f"on {SDK_VERSION}, be no worse than the SDK without Framehold"
    )
    arguments = parser.parse_args()
    os.environ.update(WAYS[arguments.way])

    deadline = time.monotonic() + arguments.limit
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the child is ended too
    try:
        node_cache.ensure(_left(deadline))
        reports = _run(arguments, deadline)
        alone = _run_alone(deadline) if arguments.beside_sdk else None
    except (node_cache.NodeUnavailable, ServerFailed) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    for report in reports:
        _print(report)
    fewer = alone is not None and _is_fewer(reports, alone)
    return 0 if all(report.complete for report in reports) and not fewer else 1


def _run(arguments: argparse.Namespace, deadline: float) -> list[suite.Report]:
    versions = arguments.spec_version or list(suite.REQUIRED)
    started = fleet_serving(arguments.nodes) if arguments.nodes else _serving(arguments.app, deadline)
    with started as url:
        return [suite.run(url, version, _left(deadline)) for version in versions]


def _run_alone(deadline: float) -> suite.Report:
    """What the SDK's own server scores, with the same tools."""
    with _serving(PLAIN, deadline) as url:
        return suite.run(url, SDK_VERSION, _left(deadline), "sdk")


def _is_fewer(reports: list[suite.Report], alone: suite.Report) -> bool:
    """Whether Framehold passes fewer checks than the SDK alone, or nobody can tell; says so."""
    print(f"{SDK_VERSION}: {alone.passed} of {alone.counted} checks by the SDK alone")
    ours = [report.passed for report in reports if report.version == SDK_VERSION]
    if alone.problem or not ours:
        print(f"  not compared: {alone.problem or f'{SDK_VERSION} was not run with Framehold'}")
        return True
    return min(ours) < alone.passed


def _serving(app: str, deadline: float) -> AbstractContextManager[str]:
    return serving(app, node_cache.CACHE / "server.log", max(0.0, min(30.0, _left(deadline))))


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
