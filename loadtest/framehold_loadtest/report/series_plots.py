"""The figures of the series: what changes with one thing of the load or the fleet, a line for each option.

Law: an option has the colour and the marker that it has everywhere. The places on the lower axis are those that were
measured, at equal distances. Where the highest value would flatten the others, the upright axis is logarithmic, and the
title says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from framehold_loadtest.report.data import Measured, Missing, Tradeoff
from framehold_loadtest.report.respects import BY_NAME, HELD, Respect, Value, value
from framehold_loadtest.report.theme import Look, Theme, line_look, sheet, upright
from framehold_loadtest.report.words import number, scaled
from framehold_loadtest.stats import Spread

STICKINESS = "stickiness"
SHOWN: Mapping[str, tuple[Respect, ...]] = {
    "think time": (HELD, BY_NAME["calls_per_second"]),
    "rounds": (BY_NAME["cpu_us"], BY_NAME["wire_bytes"], BY_NAME["store_ops"]),
    "state": (BY_NAME["cpu_us"], BY_NAME["wire_bytes"], BY_NAME["bytes_per_parked_call"]),
    "nodes": (BY_NAME["cpu_us"], BY_NAME["calls_per_second"]),
    "store": (BY_NAME["wait_p50_ms"], BY_NAME["cpu_us"]),
    "load": (BY_NAME["cpu_us"], BY_NAME["wait_p50_ms"]),
    STICKINESS: (BY_NAME["cpu_us"], BY_NAME["wait_p50_ms"]),
}
"""What each series shows. Stickiness is no series of its own: two conditions have it."""
_STEADY, _BY_TURNS = "steady", "no stickiness"
_AXES = {
    "think time": "think time, s",
    "rounds": "rounds of a call",
    "state": "size of the state, bytes",
    "nodes": "nodes, on the same cores",
    "store": "added to each round trip to the store, ms",
    "load": "% of the calls per second of users who answer at once",
    STICKINESS: "how requests are placed",
}
_LOGARITHMIC = 50.0
"""How many times as high as the lowest the highest value may be before the axis is logarithmic."""
Points = dict[str, dict[str, Mapping[str, Measured | Missing]]]


def points(tradeoff: Tradeoff, name: str) -> Points:
    """What was measured, by place and by option; nothing if the run did not look."""
    if name == STICKINESS:
        if {_STEADY, _BY_TURNS} - set(tradeoff.conditions):
            return {}
        both = {"sticky": _STEADY, "in turn": _BY_TURNS}
        return {at: {one: tradeoff.metrics(one, under) for one in tradeoff.options} for at, under in both.items()}
    found: Points = {}
    for sweep in (sweep for sweep in tradeoff.series if sweep.name == name):
        for point in sweep.points:
            found.setdefault(number(point.x), {})[point.option] = point.metrics
    return found


def drawing(name: str) -> Callable[[Tradeoff, Theme], Figure]:
    """What draws a series."""

    def draw(tradeoff: Tradeoff, theme: Theme) -> Figure:
        return _lines(tradeoff, points(tradeoff, name), SHOWN[name], _AXES[name], theme)

    return draw


def _lines(tradeoff: Tradeoff, found: Points, respects: tuple[Respect, ...], axis: str, theme: Theme) -> Figure:
    figure, panels = sheet(3.1, columns=len(respects))
    for axes, respect in zip(panels, respects, strict=True):
        lines = {option: _known(found, option, respect) for option in tradeoff.options}
        values = [one for line in lines.values() for one in line.values()]
        unit = next((one.unit for one in values), "")
        size, unit = scaled(unit, max((one.number for one in values), default=0.0))
        for place, (option, line) in enumerate(lines.items()):
            if line:
                look: Look = line_look(theme, place) | {"capsize": 2}
                heights = [one.number / size for one in line.values()]
                axes.errorbar(list(line), heights, yerr=_errors(line, size), label=option, **look)
        axes.set_xticks(range(len(found)), list(found))
        shown = f", {unit}" if unit in ("µs", "ms", "bytes", "KiB", "MiB") else ""
        shown += " (log)" if upright(axes, [one.number for one in values], _LOGARITHMIC) else ""
        axes.set(title=f"{respect.label}{shown}", xlabel=axis)
        axes.margins(x=0.12)
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _known(found: Points, option: str, respect: Respect) -> dict[int, Value]:
    """The values of an option, by their place on the lower axis."""
    seen = {at: value(by[option], respect) for at, by in enumerate(found.values()) if option in by}
    return {at: one for at, one in seen.items() if isinstance(one, Value)}


def _errors(known: Mapping[int, Value], size: float) -> list[list[float]]:
    """From each median down and up to its quartiles, divided by `size`."""
    spreads = [Spread.of(one.turns) if one.turns else Spread(one.number, one.number, one.number)
               for one in known.values()]  # fmt: skip
    below, above = (
        [spread.middle - spread.low for spread in spreads],
        [spread.high - spread.middle for spread in spreads],
    )
    return [[each / size for each in side] for side in (below, above)]
