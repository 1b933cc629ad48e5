"""One cell from its turns: medians with each turn's value, sums of what is counted, and shares of who could be hit.

Law: a turn in which the machine was busy is left out. Where fewer than half of the turns are left, the cell was not
measured, and each of its metrics says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from framehold_loadtest.report.data import NOT_MEASURED, Measured, Missing
from framehold_loadtest.tradeoff.metrics import Metrics, missing

_SUMMED = ("duplicate_effects", "calls_lost", "calls_ended", "calls_refused_at_their_beginning")
_HITS = "calls_hit_"
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Turned:
    """One turn of a cell, and why it can't be used if the machine was busy."""

    metrics: Metrics
    busy: str = ""


def merged(turns: Sequence[Turned]) -> Metrics:
    """The cell."""
    quiet = [turn.metrics for turn in turns if not turn.busy]
    if 2 * len(quiet) <= len(turns):
        why = next(turn.busy for turn in turns if turn.busy)
        return missing(f"{NOT_MEASURED}, in {len(turns) - len(quiet)} of {len(turns)} turns: {why}")
    names = dict.fromkeys(name for found in quiet for name in found)
    cell = {name: _of(name, [found[name] for found in quiet if name in found]) for name in names}
    return _shares({name: found for name, found in cell.items() if not name.startswith(_HITS)}, cell)


def _of(name: str, turns: Sequence[Measured | Missing]) -> Measured | Missing:
    known = [found for found in turns if isinstance(found, Measured)]
    gaps = [found for found in turns if isinstance(found, Missing)]
    if not known or len(known) < len(gaps):
        return gaps[0]
    values = [found.value for found in known]
    if name in _SUMMED or name.startswith(_HITS):
        return Measured(value=sum(values), unit=known[0].unit)
    rounded = [float(f"{value:.{_DIGITS}g}") for value in values]
    return Measured(value=median(rounded), unit=known[0].unit, turns=rounded)


def _shares(found: Metrics, cell: Metrics) -> Metrics:
    """With the share of calls that were harmed among those that could be, over all turns."""
    for harm in ("lost", "repeated"):
        hit, could = cell.get(f"{_HITS}{harm}"), cell.get(f"{_HITS}{harm}_of")
        if isinstance(hit, Measured) and isinstance(could, Measured):
            found[f"{harm}_share"] = _share(hit.value, could.value)
    return found


def _share(hit: float, could: float) -> Measured | Missing:
    if not could:
        return Missing(missing="no call was open that could be hit")
    return Measured(value=100 * hit / could, unit="%", beside=f"{hit:,.0f} of {could:,.0f} calls")
