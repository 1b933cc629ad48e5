"""The targets of the trade-off: what H-hold's calls cost beside E's, undisturbed, in the same run.

Law: a verdict is to E, which responds with JSON alone. The bounds are declared with all other targets of speed.
"""

from __future__ import annotations

from collections.abc import Mapping

from framehold_loadtest.bench.targets import TRADEOFF, Target
from framehold_loadtest.report.data import Measured, Missing, Tradeoff
from framehold_loadtest.report.respects import BY_NAME, value
from framehold_loadtest.table import NONE, Table
from framehold_loadtest.tradeoff.conditions import STEADY
from framehold_loadtest.tradeoff.options import BY_HAND, HELD

TITLE = "H-hold beside its targets"
_HEADS = ("what", "must", "stretch", "measured", "verdict")
_COUNTED = "store_ops"
_Metrics = Mapping[str, Measured | Missing]


def standing(tradeoff: Tradeoff) -> Table:
    """Each target beside what this run measured of it, or why it has no figure."""
    held, by_hand = (tradeoff.metrics(name, STEADY) for name in (HELD, BY_HAND))
    return Table("", [_HEADS, *(_line(name, target, held, by_hand) for name, target in TRADEOFF.items())])


def _line(name: str, target: Target, held: _Metrics, by_hand: _Metrics) -> list[str]:
    found = _number(held, name) if name == _COUNTED else _ratio(held, by_hand, name)
    if isinstance(found, str):
        return [*target.asked(), f"not measured: {found.removeprefix('not measured: ')}", NONE]
    return [*target.asked(), target.form.format(found), target.judge(found)]


def _ratio(held: _Metrics, other: _Metrics, name: str) -> float | str:
    """H-hold's number to the other's, or why there is none."""
    numbers = [_number(metrics, name) for metrics in (held, other)]
    for number in numbers:
        if isinstance(number, str):
            return number
    above, below = (float(number) for number in numbers)
    return above / below if below else "the other's is 0"


def _number(metrics: _Metrics, name: str) -> float | str:
    """What was measured. Operations are rounded to a tenth: heartbeats are among them, a few for each hundred calls."""
    found = value(metrics, BY_NAME[name])
    if isinstance(found, Missing):
        return found.missing
    return round(found.number, 1) if name == _COUNTED else found.number
