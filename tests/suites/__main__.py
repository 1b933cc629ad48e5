"""`python -m tests.suites`: play the suites without Framehold and with it, and print what differs.

Exit codes: 0 each difference is accepted, and each acceptance is needed; 1 not so; 2 nothing could be compared.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

from pydantic import ValidationError

from tests.kit.redis_server import RedisServer, running
from tests.suites import place
from tests.suites.comparison import Acceptance, Comparison, accepted, compare, report, with_retries
from tests.suites.play import Options, Run, play
from tests.suites.suites import FLEET, MODES, SUITES, Suite

Play = Callable[[str, Sequence[str], str], Run]
"""Plays a mode: all tests, or only these; the last argument labels the run."""


def main() -> int:
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
        comparisons = [comparison for suite in suites for comparison in _compared(suite, chosen, accepted())]
    except (ValidationError, place.PlaceFailed) as error:
        print(f"suites: {error}", file=sys.stderr)
        return 2
    print("", *report(comparisons), sep="\n")
    if not comparisons or any(comparison.problem for comparison in comparisons):
        return 2
    return 0 if all(comparison.is_good for comparison in comparisons) else 1


def _compared(suite: Suite, chosen: argparse.Namespace, listed: Sequence[Acceptance]) -> Iterator[Comparison]:
    """Play one suite in each mode that is chosen and that it has."""
    modes = [mode for mode in chosen.mode or suite.modes if mode in suite.modes]
    made = place.ensure(suite)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(running(RedisServer())).url if FLEET in modes else ""
        options = Options(chosen.workers, chosen.limit, store)

        def played(mode: str, only: Sequence[str], label: str) -> Run:
            """Play, and print what is played and where Framehold was put."""
            print(f"{suite.name}, {mode}{label}: {'all tests' if not only else f'{len(only)} tests or files'}")
            run = play(suite, mode, made, options, only, label)
            if run.placed:
                print(f"  put in between: {', '.join(f'{count} {kind}' for kind, count in run.placed.items())}")
            sys.stdout.flush()
            return run

        series = Series(suite, played, listed, chosen.tests, chosen.retries)
        for mode in modes:
            yield series.compared(mode)


class Series:
    """The runs of one suite. `only` are the tests to run, if not all. `retries` is how often tests that differ are run
    again."""

    def __init__(
        self, suite: Suite, play: Play, listed: Sequence[Acceptance], only: Sequence[str], retries: int
    ) -> None:
        self._suite, self._play, self._listed = suite, play, listed
        self._only, self._retries = only, retries
        self._runs: dict[str, Run] = {}

    def compared(self, mode: str) -> Comparison:
        """What a mode changes. The mode without Framehold is played once for all."""
        plain, other = self._run(MODES[mode]), self._run(mode)
        for run, name in ((plain, MODES[mode]), (other, mode)):
            if run.problem:
                return Comparison(self._suite.name, mode, problem=f"{name}: {run.problem}")
        first = self._compare(mode, plain, other)
        if not first.new or not self._retries:
            return first
        plain, other = self._again(MODES[mode], plain, [*first.new]), self._again(mode, other, [*first.new])
        still = self._compare(mode, plain, other).new
        return self._compare(mode, plain, other, [test for test in first.new if test not in still])

    def _run(self, mode: str) -> Run:
        if mode not in self._runs:
            self._runs[mode] = self._play(mode, self._only, "")
        return self._runs[mode]

    def _again(self, mode: str, run: Run, tests: Sequence[str]) -> Run:
        """`run`, with the tests that pass when they are run again."""
        again = [self._play(mode, tests, f"-retry-{number + 1}").outcomes for number in range(self._retries)]
        return Run(with_retries(run.outcomes, again), run.placed)

    def _compare(self, mode: str, plain: Run, other: Run, retried: Sequence[str] = ()) -> Comparison:
        is_whole = not self._only
        return compare(self._suite.name, mode, plain.outcomes, other.outcomes, self._listed, is_whole, retried)


if __name__ == "__main__":
    sys.exit(main())
