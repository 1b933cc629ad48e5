"""The figures of the series: what changes with one thing of the load, a line for each option.

Law: an option has the colour and the marker that it has everywhere. The places on the lower axis are those that were
measured, at equal distances. Where the highest value would flatten the others, the upright axis is logarithmic, and the
title says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from framehold_loadtest.report.data import Measured, Missing, Tradeoff
from framehold_loadtest.report.respects import BY_NAME, Value, value
from framehold_loadtest.report.theme import Look, line_look, sheet, upright
from framehold_loadtest.report.words import number, scaled
from framehold_loadtest.stats import Spread

_SHOWN = {
    "rounds": ("rounds of a call", ("cpu_us", "wire_bytes", "store_ops")),
    "state": ("size of the state, bytes", ("cpu_us", "wire_bytes", "bytes_per_parked_call")),
    "load": ("% of the calls per second of users who answer at once", ("cpu_us", "wait_p50_ms")),
}
"""The lower axis of each series, and its respects."""
_LOGARITHMIC = 50.0
"""How many times as high as the lowest the highest value may be before the axis is logarithmic."""
Points = dict[str, dict[str, Mapping[str, Measured | Missing]]]


def points(tradeoff: Tradeoff, name: str) -> Points:
    """What was measured, by place and by option; nothing if the run did not look."""
    found: Points = {}
    for sweep in (sweep for sweep in tradeoff.series if sweep.name == name):
        for point in sweep.points:
            found.setdefault(number(point.x), {})[point.option] = point.metrics
    return found


def drawing(name: str) -> Callable[[Tradeoff], Figure]:
    """What draws a series."""
    return lambda tradeoff: _lines(tradeoff, points(tradeoff, name), *_SHOWN[name])


def _lines(tradeoff: Tradeoff, found: Points, axis: str, names: tuple[str, ...]) -> Figure:
    figure, panels = sheet(3.1, columns=len(names))
    for axes, respect in zip(panels, (BY_NAME[name] for name in names), strict=True):
        lines = {option: {at: one for at, by in enumerate(found.values()) if option in by
                          and isinstance(one := value(by[option], respect), Value)}
                 for option in tradeoff.options}  # fmt: skip
        values = [one for line in lines.values() for one in line.values()]
        unit = next((one.unit for one in values), "")
        size, unit = scaled(unit, max((one.number for one in values), default=0.0))
        for place, (option, line) in enumerate(lines.items()):
            if line:
                look: Look = line_look(place) | {"capsize": 2}
                heights = [one.number / size for one in line.values()]
                axes.errorbar(list(line), heights, yerr=_errors(list(line.values()), size), label=option, **look)
        axes.set_xticks(range(len(found)), list(found))
        shown = f", {unit}" if unit in ("µs", "ms", "bytes", "KiB", "MiB") else ""
        shown += " (log)" if upright(axes, [one.number for one in values], _LOGARITHMIC) else ""
        axes.set(title=f"{respect.label}{shown}", xlabel=axis)
        axes.margins(x=0.12)
    most = max((axes.get_legend_handles_labels() for axes in panels), key=lambda found: len(found[1]))
    panels[-1].legend(*most, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _errors(known: list[Value], size: float) -> list[list[float]]:
    """From each median down and up to its quartiles, divided by `size`."""
    spreads = [Spread.of(one.turns or [one.number]) for one in known]
    below = [(spread.middle - spread.low) / size for spread in spreads]
    return [below, [(spread.high - spread.middle) / size for spread in spreads]]
