"""The tables of the trade-off: who harms, and all that was measured, with the best option marked in each respect.

Law: what is best, and who harms nobody, is computed from the report, never written by hand. An option that was not
measured is neither better nor worse. Two measured values are told apart only if each turn of the one is better than
each turn of the other, and their medians differ by more than `NOISE`; their quartiles then do not touch. Of equal
things measured in five turns, the quartiles alone miss each other in one of five comparisons, and all turns in one of
126. A counted value shares a win only if it is equal to the best.
"""

from __future__ import annotations

from statistics import median

from framehold_loadtest.report.data import Missing, Tradeoff
from framehold_loadtest.report.respects import BY_NAME, RESPECTS, Respect, Value, value
from framehold_loadtest.stats import Spread
from framehold_loadtest.table import NONE, Cell, Entry, Table, absent, number

NOISE = 0.05
"""The share by which two measured values must differ before one is better."""
FEWEST = 3
"""Turns without which nothing is told apart."""

HARM = (BY_NAME["lost_share"], BY_NAME["repeated_share"])
_HARMED = {"lost_share": "calls lost", "repeated_share": "calls with a repeated effect"}
"""What no caller can forgive: of these every option should have none."""

READING = (
    "Medians of the turns; counts and shares are of all turns. In brackets the quartiles, then the rounds in their"
    " order, or the parts of a sum. The best value is in bold, with all that are not told apart from it: a difference"
    f" is named only where each of {FEWEST} turns or more of the one is better than each of the other, and the medians"
    f" differ by more than {NOISE:.0%}. Counts must be equal."
)
"""How the table of a condition is read."""


def harms(tradeoff: Tradeoff) -> Table:
    """For each option what it costs undisturbed, whether it lost a call or repeated an effect anywhere, and in what
    share of the calls that could be hit."""
    costs = [BY_NAME[name] for name in ("cpu_us", "bytes_per_parked_call")]
    lines = [["option", *(respect.label for respect in costs), "verdict", "seen", "not available"]]
    for option in tradeoff.options:
        done, unknown = harm(tradeoff, option)
        verdict = "harm" if done else "not known" if unknown else "harmless"
        spent = [_short(tradeoff, option, tradeoff.conditions[0], respect) for respect in costs]
        lines.append([option, *spent, verdict, "; ".join(done) or "nothing", ", ".join(unknown) or NONE])
    note = (
        "CPU and memory are undisturbed. Harms are of each option over all conditions and turns. Shares are of the"
        " calls that the fault could reach, or of all calls where the harm needs no fault. Waits, and calls that were"
        " refused at their beginning, are no harm here. An option that was not looked at everywhere is not cleared."
    )
    return Table("Who loses a call, or lets an effect happen twice", lines, [note])


def faults(tradeoff: Tradeoff) -> Table:
    """What each condition costs with each option."""
    names = ("lost_share", "repeated_share", "wait_longest_ms", "seconds_to_recover")
    lines = [["option", *tradeoff.conditions]]
    for option in tradeoff.options:
        cells = (" / ".join(_short(tradeoff, option, under, BY_NAME[name]) for name in names)
                 for under in tradeoff.conditions)  # fmt: skip
        lines.append([option, *cells])
    note = f"In each place: {'; '.join(BY_NAME[name].label for name in names)}."
    return Table("What each condition costs", lines, [note])


def condition(tradeoff: Tradeoff, name: str) -> Table:
    """All that was measured under one condition, a column for each option."""
    lines: list[list[Cell]] = [["", *tradeoff.options]]
    for respect in RESPECTS:
        winners = best(tradeoff, respect, name)
        head = f"{respect.label} ({respect.folded})" if respect.folded else respect.label
        found = {option: value(tradeoff.metrics(option, name), respect) for option in tradeoff.options}
        lines.append([head, *(_entry(one, option in winners) for option, one in found.items())])
    return Table(name, lines)


def _short(tradeoff: Tradeoff, option: str, under: str, respect: Respect) -> str:
    """The number alone; a dash where there is none."""
    found = value(tradeoff.metrics(option, under), respect)
    return number(found.number) if isinstance(found, Value) else NONE


def _entry(found: Value | Missing, is_best: bool) -> Entry:
    if isinstance(found, Missing):
        return absent(found.missing)
    beside = "; ".join(filter(None, (_quartiles(found), _parts(found), found.beside)))
    return Entry(number(found.number), beside, "best" if is_best else "")


def _quartiles(found: Value) -> str:
    """The quartiles of a value's turns; nothing without turns, or where all are equal."""
    if len(set(found.turns)) < 2:
        return ""
    spread = Spread.of(found.turns)
    return f"{number(spread.low)} to {number(spread.high)}"


def _parts(found: Value) -> str:
    """What a value is made of, or nothing if it is one piece."""
    if len(found.parts) < 2:
        return ""
    if all(part.startswith("round ") for part in found.parts):
        return " · ".join(number(figure) for figure in found.parts.values())
    return " + ".join(f"{number(figure)} {part}" for part, figure in found.parts.items())


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
    done: dict[str, dict[str, list[str]]] = {}
    unknown: list[str] = []
    for condition in tradeoff.conditions:
        found = {_HARMED[respect.name]: value(tradeoff.metrics(option, condition), respect) for respect in HARM}
        for label, seen in found.items():
            if isinstance(seen, Value) and seen.number:
                done.setdefault(label, {}).setdefault(_share(seen), []).append(condition)
        gaps: dict[str, list[str]] = {}
        for label, seen in found.items():
            if isinstance(seen, Missing):
                gaps.setdefault(seen.missing, []).append(label)
        unknown += [f"{' and '.join(labels)} under {condition}: {why}" for why, labels in gaps.items()]
    told = (f"{label}: {share} under {', '.join(where)}" for label, by in done.items() for share, where in by.items())
    return list(told), unknown


def _share(seen: Value) -> str:
    """A share. One that is not 0 is never written as 0."""
    return f"{seen.number:.3g}%" if seen.number < 100 else "100%"


def told_apart(respect: Respect, one: Value, other: Value) -> bool:
    """Whether the difference of two values may be named."""
    if respect.counted:
        return one.number != other.number
    low, high = (seen.turns for seen in sorted((one, other), key=lambda seen: seen.number))
    if min(len(low), len(high)) < FEWEST:
        return False
    return max(low) < min(high) and median(high) - median(low) > NOISE * abs(median(high))
