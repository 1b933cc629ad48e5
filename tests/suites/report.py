"""What the command prints: a line for each comparison, and below it what a reader must look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.suites.comparison import Comparison

TITLES = ("suite", "mode", "passed", "failed in both", "accepted", "new", "stale", "same on retry")


def report(comparisons: Sequence[Comparison]) -> list[str]:
    """The lines."""
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


def _details(comparison: Comparison) -> Iterator[str]:
    if comparison.problem:
        yield f"problem: {comparison.problem}"
        return
    for reason, count in comparison.accepted.most_common():
        yield f"accepted: {count}: {reason}"
    yield from (f"new: {difference}" for difference in comparison.new)
    yield from (f"stale: accepted.toml names {pattern}, and no such test differs" for pattern in comparison.stale)
    yield from (f"same on retry: {test}" for test in comparison.retried)
