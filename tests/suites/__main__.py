"""`python -m tests.suites`: play the suites without Framehold and with it, and print what differs.

Exit codes: 0 each difference is accepted, and each acceptance is needed; 1 not so; 2 nothing could be compared.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

from tests.suites import accepted, place
from tests.suites.comparison import Comparison, compare
from tests.suites.outcomes import Outcome, with_retries
from tests.suites.play import Run, play
from tests.suites.suites import MODES, PLAIN, SUITES, Suite

TITLES = ("suite", "mode", "passed", "failed in both", "accepted", "new", "stale", "same on retry")


class Wanted(NamedTuple):
    """What is to be played, and how."""

    modes: Sequence[str]
    workers: int
    limit: float
    retries: int
    only: Sequence[str]


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
    wanted = Wanted(chosen.mode or MODES, chosen.workers, chosen.limit, chosen.retries, chosen.tests)
    try:
        listed = accepted.load()
        comparisons = [
            comparison for name in chosen.suite or SUITES for comparison in _compared(SUITES[name], wanted, listed)
        ]
    except (accepted.ListFailed, place.PlaceFailed) as error:
        print(f"suites: {error}", file=sys.stderr)
        return 2
    _print(comparisons)
    if any(comparison.problem for comparison in comparisons):
        return 2
    return 0 if all(comparison.is_good for comparison in comparisons) else 1


def _compared(suite: Suite, wanted: Wanted, listed: Sequence[accepted.Acceptance]) -> list[Comparison]:
    """Play one suite without Framehold once, and in each mode."""
    made = place.ensure(suite)

    def played(mode: str, only: Sequence[str], label: str = "") -> Run:
        print(f"{suite.name}: {mode}{label}: {len(only) or 'all'} tests or files", flush=True)
        return play(suite, mode, made, wanted.workers, wanted.limit, only, label)

    plain = played(PLAIN, wanted.only)
    if plain.problem:
        return [Comparison(suite.name, PLAIN, problem=plain.problem)]
    found = []
    for mode in wanted.modes:
        run = played(mode, wanted.only)
        if run.problem:
            found.append(Comparison(suite.name, mode, problem=run.problem))
            continue
        print(f"  put in between: {', '.join(f'{place} {count}' for place, count in run.placed.items())}")
        first = compare(suite.name, mode, plain.outcomes, run.outcomes, listed, not wanted.only)
        tests = [difference.test for difference in first.new]
        if not tests or first.problem:
            found.append(first)
            continue
        labels = [f"-retry-{number}" for number in range(1, wanted.retries + 1)]
        again = {each: [played(each, tests, label).outcomes for label in labels] for each in (PLAIN, mode)}
        sides = with_retries(plain.outcomes, again[PLAIN]), with_retries(run.outcomes, again[mode])
        found.append(_after_retries(suite.name, mode, sides, first, listed, not wanted.only))
    return found


def _after_retries(
    suite: str,
    mode: str,
    sides: tuple[dict[str, Outcome], dict[str, Outcome]],
    first: Comparison,
    listed: Sequence[accepted.Acceptance],
    is_whole: bool,
) -> Comparison:
    second = compare(suite, mode, *sides, listed, is_whole)
    still = {difference.test for difference in second.new}
    same = [difference.test for difference in first.new if difference.test not in still]
    return compare(suite, mode, *sides, listed, is_whole, same)


def _print(comparisons: Sequence[Comparison]) -> None:
    """A table with a line for each comparison, and below it what a reader must look at."""
    for line in report(comparisons):
        print(line)


def report(comparisons: Sequence[Comparison]) -> list[str]:
    """The lines that `main` prints."""
    rows = [TITLES, *(_row(comparison) for comparison in comparisons)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(TITLES))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for comparison in comparisons:
        lines += ["", f"{comparison.suite}, {comparison.mode}:", *(f"  {line}" for line in _details(comparison))]
    return lines


def _row(comparison: Comparison) -> tuple[str, ...]:
    counts = (
        comparison.passed,
        comparison.failed_in_both,
        comparison.accepted.total(),
        len(comparison.new),
        len(comparison.stale),
        len(comparison.retried),
    )
    return (comparison.suite, comparison.mode, *map(str, counts))


def _details(comparison: Comparison) -> list[str]:
    if comparison.problem:
        return [f"problem: {comparison.problem}"]
    lines = [f"accepted: {count}: {reason}" for reason, count in comparison.accepted.most_common()]
    lines += [f"new: {difference}" for difference in comparison.new]
    lines += [f"stale: accepted.toml names {pattern}, and no such test differs" for pattern in comparison.stale]
    lines += [f"same on retry: {test}" for test in comparison.retried]
    return lines or ["no difference"]


if __name__ == "__main__":
    sys.exit(main())
