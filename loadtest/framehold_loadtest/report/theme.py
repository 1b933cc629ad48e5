"""The look of a figure: colours, markers and type.

Law: colour is never the only difference. Options and nodes differ by marker, line or hatch too, the series colours stay
apart for readers who see no red or no green, and each stands out from its ground.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

Look = dict[Any, Any]
"""Keyword arguments of matplotlib, whose types name hundreds of settings one by one."""

WIDTH = 8.8
"""Inches; 880 CSS pixels at 100 to the inch, drawn at twice as many."""

DPI = 200

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
HATCHES = ("", "////", "....", "xxxx", "----", "++", "\\\\\\\\", "oo")


GROUND, INK, SOFT, LINE = "#ffffff", "#17202c", "#556173", "#dde3eb"
FAULT, WASH, HEAT = "#b3261e", "#f4f6f9", "#c2410c"
SERIES = ("#1f3fd6", "#3f9be6", "#b58a00", "#8a3200", "#1b8072", "#8a2a8a", "#20262e")


def colour(place: int) -> str:
    """The series colour of a place in a list; they come round again, where the marker tells the two apart."""
    return SERIES[place % len(SERIES)]


def line_look(place: int) -> Look:
    """The colour, marker and dashes of the option at a place in a list. Markers of later options are smaller, so that
    those below them can be seen."""
    return {
        "color": colour(place),
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": max(3.5, 8.5 - 0.8 * place),
        "linestyle": DASHES[place % len(DASHES)],
    }


def upright(axes: Axes, values: Sequence[float], spread: float) -> bool:
    """Let the upright axis of a finished panel begin at 0, or make it logarithmic where the highest value is more than
    `spread` times the lowest above 0 and would flatten the others. A logarithmic axis shows no 0. Returns whether it is
    one."""
    above = [one for one in values if one > 0]
    if not above or max(above) <= spread * min(above):
        axes.set_ylim(0, None)
        return False
    axes.set_yscale("log", nonpositive="mask")
    axes.yaxis.set_major_formatter(_Plain())
    axes.yaxis.set_minor_formatter(_Plain())
    return True


class _Plain(LogFormatter):
    """Labels the ticks that matplotlib would label, with 0.1 in place of 1e-01."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


@contextmanager
def worn() -> Iterator[None]:
    """While this lasts, what is drawn has this look."""
    settings: Look = {
        "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 8.5,
        "axes.titlelocation": "left", "axes.titleweight": "bold", "legend.fontsize": 8, "legend.frameon": False,
        "xtick.labelsize": 8, "ytick.labelsize": 8, "axes.spines.top": False, "axes.spines.right": False,
        "figure.facecolor": GROUND, "axes.facecolor": GROUND, "savefig.facecolor": GROUND,
        "text.color": INK, "axes.labelcolor": SOFT, "axes.edgecolor": SOFT,
        "axes.titlecolor": INK, "axes.prop_cycle": cycler(color=SERIES),
        "xtick.color": SOFT, "ytick.color": SOFT, "grid.color": LINE, "grid.linewidth": 0.7,
        "axes.grid": True, "axes.axisbelow": True, "lines.linewidth": 1.6,
        "lines.markersize": 5, "hatch.color": GROUND, "hatch.linewidth": 0.8, "legend.labelcolor": INK,
    }  # fmt: skip
    with mpl.rc_context(settings):
        yield


def sheet(height: float, rows: int = 1, columns: int = 1, *, share_x: bool = False) -> tuple[Figure, list[Axes]]:
    """An empty figure of the page's width, and its panels from left to right and down. No global state holds it."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False, sharex="all" if share_x else "none")
    return figure, [axes for row in panels for axes in row]


def png(figure: Figure) -> bytes:
    """The figure as PNG, at two pixels to a CSS pixel; the same bytes each time."""
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=DPI, metadata={"Software": None})
    return held.getvalue()
