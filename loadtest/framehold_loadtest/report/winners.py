"""Which option is best in what respect, and which ones harm nobody: computed from the report, never written by hand.

Law: an option that was not measured is neither better nor worse. Two measured values are told apart only if
each turn of the one is better than each turn of the other, and their medians differ by more than `NOISE`; their
quartiles then do not touch. Of equal things measured in five turns, the quartiles alone miss each other in one of five
comparisons, and all turns in one of 126. A counted value shares a win only if it is equal to the best.
"""

from __future__ import annotations

from statistics import median

from framehold_loadtest.report.data import Missing, Tradeoff
from framehold_loadtest.report.respects import BY_NAME, Respect, Value, value

NOISE = 0.05
"""The share by which two measured values must differ before one is better."""
FEWEST = 3
"""Turns without which nothing is told apart."""

HARM = (BY_NAME["lost_share"], BY_NAME["repeated_share"])
_HARMED = {"lost_share": "calls lost", "repeated_share": "calls with a repeated effect"}
"""What no caller can forgive: of these every option should have none."""


def best(tradeoff: Tradeoff, respect: Respect, condition: str) -> tuple[str, ...]:
    """The best options in one respect under one condition, with all that are not told apart from them; none where that
    is all of them."""
    found = {option: value(tradeoff.metrics(option, condition), respect) for option in tradeoff.options}
    values = {option: seen for option, seen in found.items() if isinstance(seen, Value)}
    if not values:
        return ()
    first = (max if respect.more else min)(values.values(), key=lambda seen: seen.number)
    winners = tuple(option for option, seen in values.items() if not told_apart(respect, seen, first))
    return winners if len(winners) < len(values) else ()


def harm(tradeoff: Tradeoff, option: str) -> tuple[list[str], list[str]]:
    """Where the option lost calls or repeated effects, and where nobody looked, in words. It is harmless if there is
    none of both."""
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
    return done, unknown


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
