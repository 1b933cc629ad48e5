"""Which differences two runs of the trade-off name alike. Pure.

A difference is a pair of options that are told apart in one respect under one condition. Two runs agree on it if both
name it, with the same option as the better one. A run that an earlier one confirms names no other differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from framehold_loadtest.report.data import Cell, Measured, Missing, Tradeoff
from framehold_loadtest.report.respects import RESPECTS, Better, Value, value
from framehold_loadtest.report.winners import told_apart


@dataclass(frozen=True, slots=True)
class Difference:
    """One option that is better than another in a respect under a condition."""

    respect: str
    condition: str
    better: str
    worse: str

    def __str__(self) -> str:
        return f"{self.respect}, {self.condition}: {self.better} is better than {self.worse}"

    @property
    def reversed(self) -> Difference:
        """The opposite."""
        return Difference(self.respect, self.condition, self.worse, self.better)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Differences by how the runs name them: alike, the other way round, or one run alone."""

    alike: frozenset[Difference]
    opposite: frozenset[Difference]
    alone: frozenset[Difference]

    @property
    def whole(self) -> bool:
        """Whether all that is named is named alike."""
        return not self.opposite and not self.alone


def agreement(one: Tradeoff, other: Tradeoff) -> Agreement:
    """Of two runs."""
    first, second = frozenset(named(one)), frozenset(named(other))
    opposite = frozenset(found for found in first if found.reversed in second)
    turned = opposite | {found.reversed for found in opposite}
    return Agreement(first & second, opposite, (first ^ second) - turned)


def confirmed(run: Tradeoff, earlier: Tradeoff) -> Tradeoff:
    """The run, which names only the differences that the earlier one names as well.

    Raises:
        ValueError: the earlier run lacks an option or a condition of the run.
    """
    check(earlier, run.options, run.conditions)
    by = f"the run of {earlier.started} at commit {earlier.commit}"
    cells = [_confirmed(cell, earlier) for cell in run.cells]
    return run.model_copy(update={"cells": cells, "machine": run.machine | {"differences confirmed by": by}})


def check(earlier: Tradeoff, options: Sequence[str], conditions: Sequence[str]) -> None:
    """See that a run can confirm another one of these options and conditions.

    Raises:
        ValueError: it lacks one of them.
    """
    gaps = [name for name in (*options, *conditions) if name not in (*earlier.options, *earlier.conditions)]
    if gaps:
        raise ValueError(f"the earlier run did not measure {', '.join(gaps)}, so it can't confirm this one")


def _confirmed(cell: Cell, earlier: Tradeoff) -> Cell:
    known = earlier.metrics(cell.option, cell.condition)
    found = {name: one.model_copy(update={"earlier": _numbers(known.get(name))}) if isinstance(one, Measured) else one
             for name, one in cell.metrics.items()}  # fmt: skip
    return cell.model_copy(update={"metrics": found})


def _numbers(found: Measured | Missing | None) -> list[float]:
    return (found.turns or [found.value]) if isinstance(found, Measured) else []


def named(run: Tradeoff) -> Iterator[Difference]:
    """All differences of a run."""
    for respect in (respect for respect in RESPECTS if respect.better is not Better.NEITHER):
        for condition in run.conditions:
            found = {option: value(run.metrics(option, condition), respect) for option in run.options}
            known = {option: seen for option, seen in found.items() if isinstance(seen, Value)}
            for left, right in combinations(known, 2):
                if told_apart(respect, known[left], known[right]):
                    less = known[left].number < known[right].number
                    better, worse = (left, right) if less == (respect.better is Better.LESS) else (right, left)
                    yield Difference(respect.label, condition, better, worse)
