"""Which option wins in what respect, and which ones lose nothing: computed from the report, never written by hand.

Law: an option that was not measured neither wins nor loses; it is named with the reason. Two measured values are told
apart only if each turn of the one is better than each turn of the other, and their medians differ by more than `NOISE`;
their quartiles then do not touch. Of equal things measured in five turns, the quartiles alone miss each other in one of
five comparisons, and all turns in one of 126. A counted value shares a win only if it is equal to the best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from framehold_loadtest.report.data import Missing, Tradeoff
from framehold_loadtest.report.respects import BY_NAME, RESPECTS, Better, Respect, Value, value

NOISE = 0.05
"""The share by which two measured values must differ before one is better."""
FEWEST = 3
"""Turns without which nothing is told apart."""

HARM = (BY_NAME["lost_share"], BY_NAME["repeated_share"])
_HARMED = {"lost_share": "calls lost", "repeated_share": "calls with a repeated effect"}
"""What no caller can forgive: of these every option should have none."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One respect under one condition: each option's value, those not told apart from the best, those not told apart
    from the worst but from the best, and why others took no part."""

    respect: Respect
    condition: str
    values: Mapping[str, Value]
    winners: tuple[str, ...]
    losers: tuple[str, ...]
    absent: Mapping[str, str]

    @property
    def numbers(self) -> Mapping[str, float]:
        """Each option's number."""
        return {option: seen.number for option, seen in self.values.items()}

    @property
    def decided(self) -> bool:
        """Whether the win tells the options apart."""
        return 0 < len(self.winners) < len(self.numbers)


def contest(tradeoff: Tradeoff, respect: Respect, condition: str) -> Contest:
    """Compare the options in one respect under one condition."""
    found = {option: value(tradeoff.metrics(option, condition), respect) for option in tradeoff.options}
    values = {option: seen for option, seen in found.items() if isinstance(seen, Value)}
    absent = {option: seen.missing for option, seen in found.items() if isinstance(seen, Missing)}
    if not values or respect.better is Better.NEITHER:
        return Contest(respect, condition, values, (), (), absent)
    ordered = sorted(values.values(), key=lambda seen: seen.number, reverse=respect.better is Better.MORE)
    best = ordered[0]
    winners = tuple(option for option, seen in values.items() if not told_apart(respect, seen, best))
    losers = tuple(
        option
        for option, seen in values.items()
        if option not in winners and not told_apart(respect, seen, ordered[-1])
    )
    return Contest(respect, condition, values, winners, losers, absent)


@dataclass(frozen=True, slots=True)
class Harm:
    """What an option did to its callers over all conditions: the worst it was seen to do, and where nobody looked."""

    option: str
    done: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def none(self) -> bool:
        """No harm in any condition, and all of them measured."""
        return not self.done and not self.unknown


def harm(tradeoff: Tradeoff, option: str) -> Harm:
    """Where the option lost calls or repeated effects, in words."""
    done: list[str] = []
    unknown: list[str] = []
    for condition in tradeoff.conditions:
        found = {_HARMED[respect.name]: value(tradeoff.metrics(option, condition), respect) for respect in HARM}
        done += [f"{label} under {condition}: {_share(seen)}" for label, seen in found.items()
                 if isinstance(seen, Value) and seen.number]  # fmt: skip
        gaps: dict[str, list[str]] = {}
        for label, seen in found.items():
            if isinstance(seen, Missing):
                gaps.setdefault(seen.missing, []).append(label)
        unknown += [f"{' and '.join(labels)} under {condition}: {why}" for why, labels in gaps.items()]
    return Harm(option, tuple(done), tuple(unknown))


@dataclass(frozen=True, slots=True)
class Standing:
    """In which respects an option is the best, and the worst, each with the conditions under which it is."""

    option: str
    best: Mapping[str, tuple[str, ...]]
    worst: Mapping[str, tuple[str, ...]]


def standing(tradeoff: Tradeoff, option: str) -> Standing:
    """Where the option wins or loses, over all respects and conditions that tell the options apart."""
    best: dict[str, tuple[str, ...]] = {}
    worst: dict[str, tuple[str, ...]] = {}
    for respect in RESPECTS:
        found = [contest(tradeoff, respect, condition) for condition in tradeoff.conditions]
        won = tuple(one.condition for one in found if one.decided and option in one.winners)
        lost = tuple(one.condition for one in found if option in one.losers)
        best |= {respect.label: won} if won else {}
        worst |= {respect.label: lost} if lost else {}
    return Standing(option, best, worst)


def _share(seen: Value) -> str:
    """A share with its counts. One that is not 0 is never written as 0."""
    shown = f"{seen.number:.3g}%" if seen.number < 100 else "100%"
    return f"{shown} ({seen.beside})" if seen.beside else shown


def told_apart(respect: Respect, one: Value, other: Value) -> bool:
    """Whether the difference of two values may be named."""
    if respect.counted:
        return one.number != other.number
    low, high = (seen.turns for seen in sorted((one, other), key=lambda seen: seen.number))
    if min(len(low), len(high)) < FEWEST:
        return False
    return max(low) < min(high) and median(high) - median(low) > NOISE * abs(median(high))
