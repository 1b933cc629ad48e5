"""Which differences two runs of the trade-off name alike. Pure.

A difference is a pair of options that are told apart in one respect under one condition. Two runs agree on it if both
name it, with the same option as the better one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from framehold_loadtest.report.data import Tradeoff
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
