"""What the page of the trade-off says beside its figures: who harms, who wins, and all that was measured."""

from __future__ import annotations

from collections.abc import Mapping

from framehold_loadtest.report.data import Missing, Tradeoff
from framehold_loadtest.report.respects import BY_NAME, RESPECTS, Respect, Value, others, value
from framehold_loadtest.report.table import Entry, Line, Table, absent
from framehold_loadtest.report.winners import FEWEST, NOISE, Contest, Harm, contest, harm, standing
from framehold_loadtest.report.words import label, listed, number, parts, quartiles

_OF_MODES = ("cpu_us", "calls_per_second", "p50_ms", "p99_ms")
_NAMED = (
    f"A difference is named only where each of {FEWEST} turns or more of the one is better than each of the other, so"
    f" that the quartiles do not touch, and the medians differ by more than {NOISE:.0%}. Counts must be equal. In the"
    " table of each condition the best value is marked, with all that are not told apart from it."
)


def harms(tradeoff: Tradeoff) -> Table:
    """For each option, whether it lost a call or repeated an effect anywhere, and in what share of the calls that could
    be hit."""
    rows = []
    for found in _harms(tradeoff):
        verdict = Entry("harmless", kind="good") if found.none else Entry("harm", kind="bad")
        if not found.done and found.unknown:
            verdict = Entry("not known", kind="missing")
        rows.append(
            Line(found.option, (verdict, Entry(listed(found.done, "nothing")), Entry(listed(found.unknown, "-"))))
        )
    note = (
        "Of each option over all conditions and turns. Shares are of the calls that the fault could reach, or of all"
        " calls where the harm needs no fault. Waits, and calls that were refused at their beginning, are no harm here."
        " An option that was not looked at everywhere is not cleared."
    )
    columns = ("option", "verdict", "seen", "not available")
    return Table("Who loses a call, or lets an effect happen twice", columns, tuple(rows), note)


def standings(tradeoff: Tradeoff) -> Table:
    """For each option, where it is the best and where the worst."""
    rows = []
    for option in tradeoff.options:
        found = standing(tradeoff, option)
        entries = (Entry(_where(found.best, tradeoff)), Entry(_where(found.worst, tradeoff)))
        rows.append(Line(option, entries))
    note = (
        f"{_NAMED} Counted where the options differ. Without conditions in brackets: under each condition that tells"
        " them apart."
    )
    return Table("What speaks for and against each option", ("option", "best in", "worst in"), tuple(rows), note)


def condition(tradeoff: Tradeoff, name: str) -> Table:
    """All that was measured under one condition, a column for each option."""
    rows = []
    for respect in (*RESPECTS, *others(tradeoff)):
        best = contest(tradeoff, respect, name)
        entries = tuple(_measured(tradeoff, respect, option, best) for option in tradeoff.options)
        head = f"{label(tradeoff, respect)} ({respect.folded})" if respect.folded else label(tradeoff, respect)
        rows.append(Line(head, entries))
    return Table(name, ("", *tradeoff.options), tuple(rows))


def modes(tradeoff: Tradeoff) -> Table | None:
    """The option that was measured in two modes of its servers, its own and the SDK's default; None if none was."""
    again = tradeoff.default_mode
    if again is None:
        return None
    both = (tradeoff.metrics(again.option, again.condition), again.metrics)
    rows = []
    for name in _OF_MODES:
        found = [value(metrics, BY_NAME[name]) for metrics in both]
        entries = [
            absent(one.missing) if isinstance(one, Missing) else Entry(number(one.number), _beside(one))
            for one in found
        ]
        rows.append(Line(label(tradeoff, BY_NAME[name]), tuple(entries)))
    note = (
        f"{again.option} responds with JSON alone. In the SDK's default mode each request is prepared for an event"
        " stream, also where its response is JSON in the end."
    )
    columns = ("", again.option, f"{again.option} in the SDK's default mode")
    return Table(f"{again.option} in two modes, {again.condition}", columns, tuple(rows), note)


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


def _harms(tradeoff: Tradeoff) -> list[Harm]:
    return [harm(tradeoff, option) for option in tradeoff.options]
