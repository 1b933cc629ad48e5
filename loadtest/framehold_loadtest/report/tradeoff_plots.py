"""The figures of the trade-off: what an option costs, and what each fault costs.

Law: an option that was not measured is named as missing in a bar or a grid. An option has one colour everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from framehold_loadtest.report.data import Missing, Tradeoff
from framehold_loadtest.report.respects import BY_NAME, Respect, Value, value
from framehold_loadtest.report.theme import HATCHES, HEAT, INK, SOFT, WASH, Look, colour, sheet
from framehold_loadtest.report.winners import HARM
from framehold_loadtest.report.words import label, number
from framehold_loadtest.stats import Spread

_FAINT, _STRONG = 0.14, 0.62


def overview(tradeoff: Tradeoff) -> Figure:
    """What a call costs, what a waiting call holds, and what share of calls the worst condition harms, by option."""
    figure, panels = sheet(1.1 + 0.34 * len(tradeoff.options), columns=3)
    steady = tradeoff.conditions[0]
    costs = [[value(tradeoff.metrics(option, steady), BY_NAME[name]) for option in tradeoff.options]
             for name in ("cpu_us", "bytes_per_parked_call")]  # fmt: skip
    costs[1] = [_in_kib(seen) for seen in costs[1]]
    titles = ("CPU per call, µs", "memory per parked call, KiB", "calls lost or repeated, worst case, %")
    for axes, found, title in zip(panels, [*costs, [_worst(tradeoff, one) for one in tradeoff.options]], titles,
                                  strict=True):  # fmt: skip
        lengths = [seen.number if isinstance(seen, Value) else 0.0 for seen in found]
        _bars(axes, tradeoff, lengths)
        _whiskers(axes, found)
        _bar_ends(axes, found, lengths, room=1.3)
        axes.set_title(title)
        axes.xaxis.set_major_locator(MaxNLocator(4))
    panels[-1].set(xticks=(0, 50, 100), xlim=(0, 215))
    for axes in panels[1:]:
        axes.set_yticklabels([])
    return figure


def _in_kib(found: Value | Missing) -> Value | Missing:
    """Bytes as KiB."""
    if isinstance(found, Missing):
        return found
    return replace(found, number=found.number / 1024, unit="KiB", turns=tuple(one / 1024 for one in found.turns))


def _worst(tradeoff: Tradeoff, option: str) -> Value | Missing:
    """The largest share of calls that a condition harmed, with that condition beside it; missing where no condition was
    counted."""
    worst: dict[str, Value] = {}
    for condition in tradeoff.conditions:
        seen = [value(tradeoff.metrics(option, condition), respect) for respect in HARM]
        known = [one for one in seen if isinstance(one, Value)]
        worst |= {condition: max(known, key=lambda one: one.number)} if known else {}
    if not worst:
        return Missing(missing="not counted")
    name = max(worst, key=lambda condition: worst[condition].number)
    always = len({one.number for one in worst.values()}) == 1
    return replace(worst[name], beside="always" if always else name)


def _bars(axes: Axes, tradeoff: Tradeoff, lengths: Sequence[float]) -> None:
    """A bar for each option, with its colour and its hatch."""
    colours = [colour(place) for place in range(len(lengths))]
    hatches = [HATCHES[place % len(HATCHES)] for place in range(len(lengths))]
    axes.barh(tradeoff.options, lengths, color=colours, hatch=hatches, height=0.62)


def _whiskers(axes: Axes, found: Sequence[object]) -> None:
    """The quartiles of the turns over each bar's end."""
    for row, seen in enumerate(found):
        if isinstance(seen, Value) and seen.turns:
            spread = Spread.of(seen.turns)
            axes.plot([spread.low, spread.high], [row, row], color=INK, linewidth=1.2, marker="|", markersize=6)


def faults(tradeoff: Tradeoff) -> Figure:
    """Four grids of option by condition: what a fault costs."""
    names = ("lost_share", "repeated_share", "wait_longest_ms", "seconds_to_recover")
    figure, panels = sheet(1.4 + 0.56 * len(tradeoff.options), rows=2, columns=2)
    for axes, name in zip(panels, names, strict=True):
        _grid(axes, tradeoff, BY_NAME[name])
    return figure


def _grid(axes: Axes, tradeoff: Tradeoff, respect: Respect) -> None:
    """A number in each cell, over a wash as strong as the number is high among the others."""
    options, conditions = tradeoff.options, tradeoff.conditions
    cells = {
        (row, column): value(tradeoff.metrics(option, condition), respect)
        for row, option in enumerate(options)
        for column, condition in enumerate(conditions)
    }
    highest = max((seen.number for seen in cells.values() if isinstance(seen, Value)), default=0.0)
    for (row, column), seen in cells.items():
        known = isinstance(seen, Value)
        strength = _FAINT + (_STRONG - _FAINT) * seen.number / highest if isinstance(seen, Value) and seen.number else 0
        box: Look = {
            "facecolor": HEAT if known else WASH,
            "alpha": strength if known else 1,
            "linewidth": 0,
        }
        axes.add_patch(Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, **box))
        parts = number(seen.number) if isinstance(seen, Value) else "n/a"
        look: Look = {"color": INK if known else SOFT, "fontsize": 8, "ha": "center", "va": "center"}
        axes.text(column, row, parts, fontweight="bold" if known and parts != "0" else "normal", **look)
    axes.set(xlim=(-0.5, len(conditions) - 0.5), ylim=(len(options) - 0.5, -0.5), title=label(tradeoff, respect))
    axes.set_xticks(range(len(conditions)), [condition.replace(" ", "\n") for condition in conditions], fontsize=7)
    axes.set_yticks(range(len(options)), options)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _bar_ends(axes: Axes, found: Sequence[object], ends: Sequence[float], room: float = 1.15) -> None:
    """Each bar's number at its end, or that it has none. The axis is `room` times as long as the longest bar."""
    longest = 1.0
    for row, (seen, end) in enumerate(zip(found, ends, strict=True)):
        shown = _shown(seen) if isinstance(seen, Value) else "not available"
        high = max(end, Spread.of(seen.turns).high if isinstance(seen, Value) and seen.turns else end)
        axes.annotate(shown, (high, row), (5, 0), textcoords="offset points", va="center", fontsize=8)
        longest = max(longest, high)
    axes.set_xlim(0, longest * room)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def _shown(seen: Value) -> str:
    """A value's number, with what stands beside it if it is a name and not the count."""
    return f"{number(seen.number)}, {seen.beside}" if seen.number and seen.beside else number(seen.number)
