"""What the page of the trade-off says beside its figures: who harms, who wins, and all that was measured."""

from __future__ import annotations

from collections.abc import Mapping

from framehold_loadtest.report.data import Missing, Tradeoff
from framehold_loadtest.report.respects import RESPECTS, Respect, Value, others, value
from framehold_loadtest.report.winners import FEWEST, NOISE, Contest, contest, harm, standing
from framehold_loadtest.report.words import label, listed, number, parts, quartiles
from framehold_loadtest.table import Cell, Entry, Table, absent


def harms(tradeoff: Tradeoff) -> Table:
    """For each option, whether it lost a call or repeated an effect anywhere, and in what share of the calls that could
    be hit."""
    lines: list[list[Cell]] = [["option", "verdict", "seen", "not available"]]
    for found in (harm(tradeoff, option) for option in tradeoff.options):
        verdict = Entry("harmless", kind="good") if found.none else Entry("harm", kind="bad")
        if not found.done and found.unknown:
            verdict = Entry("not known", kind="missing")
        lines.append([found.option, verdict, listed(found.done, "nothing"), listed(found.unknown, "-")])
    note = (
        "Of each option over all conditions and turns. Shares are of the calls that the fault could reach, or of all"
        " calls where the harm needs no fault. Waits, and calls that were refused at their beginning, are no harm here."
        " An option that was not looked at everywhere is not cleared."
    )
    return Table("Who loses a call, or lets an effect happen twice", lines, [note])


def standings(tradeoff: Tradeoff) -> Table:
    """For each option, where it is the best and where the worst."""
    lines = [["option", "best in", "worst in"]]
    for option in tradeoff.options:
        found = standing(tradeoff, option)
        lines.append([option, _where(found.best, tradeoff), _where(found.worst, tradeoff)])
    note = (
        f"A difference is named only where each of {FEWEST} turns or more of the one is better than each of the other,"
        f" so that the quartiles do not touch, and the medians differ by more than {NOISE:.0%}. Counts must be equal."
        " In the table of each condition the best value is marked, with all that are not told apart from it. Counted"
        " where the options differ. Without conditions in brackets: under each condition that tells them apart."
    )
    return Table("What speaks for and against each option", lines, [note])


def condition(tradeoff: Tradeoff, name: str) -> Table:
    """All that was measured under one condition, a column for each option."""
    lines: list[list[Cell]] = [["", *tradeoff.options]]
    for respect in (*RESPECTS, *others(tradeoff)):
        best = contest(tradeoff, respect, name)
        head = f"{label(tradeoff, respect)} ({respect.folded})" if respect.folded else label(tradeoff, respect)
        lines.append([head, *(_measured(tradeoff, respect, option, best) for option in tradeoff.options)])
    return Table(name, lines)


def _measured(tradeoff: Tradeoff, respect: Respect, option: str, best: Contest) -> Entry:
    found = value(tradeoff.metrics(option, best.condition), respect)
    if isinstance(found, Missing):
        return absent(found.missing)
    return Entry(number(found.number), _beside(found), "best" if best.decided and option in best.winners else "")


def _beside(found: Value) -> str:
    """The quartiles, the parts, and what is to be shown with a value."""
    return "; ".join(filter(None, (quartiles(found), parts(found), found.beside)))


def _where(found: Mapping[str, tuple[str, ...]], tradeoff: Tradeoff) -> str:
    parts = []
    for respect in RESPECTS:
        if respect.label in found:
            apart = tuple(name for name in tradeoff.conditions if contest(tradeoff, respect, name).decided)
            under = found[respect.label]
            parts.append(respect.label if under == apart else f"{respect.label} ({', '.join(under)})")
    return listed(parts, "nothing")
