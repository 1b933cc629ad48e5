"""`python -m tests.suites`: play the suites without Framehold and with it, and print what differs.

Exit codes: 0 each difference is accepted, and each acceptance is needed; 1 not so; 2 nothing could be compared.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from tests.store.server import RedisServer, running
from tests.suites import accepted, place
from tests.suites.comparison import Comparison
from tests.suites.play import Options, Run, play
from tests.suites.report import report
from tests.suites.series import Series
from tests.suites.suites import FLEET, MODES, SUITES, Suite


def main() -> int:
    """Parse the arguments, play, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=SUITES, action="append", help="only this suite")
    parser.add_argument("--mode", choices=MODES, action="append", help="only this mode")
    parser.add_argument("--workers", type=int, default=2, help="parallel workers of one run (2)")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that one run may take (1800)")
    parser.add_argument("--retries", type=int, default=2, help="how often tests that differ are run again (2)")
    parser.add_argument("tests", nargs="*", help="only these files or tests of the suite; nothing is stale then")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the child is ended too
    suites = [SUITES[name] for name in chosen.suite or SUITES]
    try:
        comparisons = [comparison for suite in suites for comparison in _compared(suite, chosen, accepted.load())]
    except (accepted.ListFailed, place.PlaceFailed) as error:
        print(f"suites: {error}", file=sys.stderr)
        return 2
    print("", *report(comparisons), sep="\n")
    if not comparisons or any(comparison.problem for comparison in comparisons):
        return 2
    return 0 if all(comparison.is_good for comparison in comparisons) else 1


def _compared(suite: Suite, chosen: argparse.Namespace, listed: Sequence[accepted.Acceptance]) -> Iterator[Comparison]:
    """Play one suite in each mode that is chosen and that it has."""
    modes = [mode for mode in chosen.mode or suite.modes if mode in suite.modes]
    made = place.ensure(suite)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(running(RedisServer())).url if FLEET in modes else ""
        options = Options(chosen.workers, chosen.limit, store)
        series = Series(suite, partial(_played, suite, made, options), listed, chosen.tests, chosen.retries)
        for mode in modes:
            yield series.compared(mode)


def _played(suite: Suite, made: place.Place, options: Options, mode: str, only: Sequence[str], label: str) -> Run:
    """Play, and print what is played and where Framehold was put."""
    print(f"{suite.name}, {mode}{label}: {'all tests' if not only else f'{len(only)} tests or files'}", flush=True)
    run = play(suite, mode, made, options, only, label)
    if run.placed:
        print(f"  put in between: {', '.join(f'{count} {kind}' for kind, count in run.placed.items())}", flush=True)
    return run


if __name__ == "__main__":
    sys.exit(main())
