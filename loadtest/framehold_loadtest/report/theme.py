"""The look of a figure: colours, lines and type.

Law: colour is never the only difference. Options differ by hatch and lines by dashes too, the series colours stay apart
for readers who see no red or no green, and each stands out from its ground.
"""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

Look = dict[Any, Any]
"""Keyword arguments of matplotlib, whose types name hundreds of settings one by one."""

WIDTH = 8.8
"""Inches; 880 CSS pixels at 100 to the inch, drawn at twice as many."""

DPI = 200

DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
HATCHES = ("", "////", "....", "xxxx", "----", "++", "\\\\\\\\", "oo")


INK, SOFT, LINE = "#17202c", "#556173", "#dde3eb"
FAULT, WASH, HEAT = "#b3261e", "#f4f6f9", "#c2410c"
SERIES = ("#1f3fd6", "#3f9be6", "#b58a00", "#8a3200", "#1b8072", "#8a2a8a", "#20262e")
mpl.rcParams.update({
    "font.size": 9, "axes.titlesize": 9, "axes.titlelocation": "left", "axes.titleweight": "bold",
    "xtick.labelsize": 8, "ytick.labelsize": 8, "xtick.color": SOFT, "ytick.color": SOFT, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": LINE, "grid.linewidth": 0.7, "hatch.color": "#ffffff", "hatch.linewidth": 0.8,
})  # fmt: skip


def colour(place: int) -> str:
    """The series colour of a place in a list; they come round again, where hatch or dashes tell the two apart."""
    return SERIES[place % len(SERIES)]


def sheet(height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure of the page's width, and its panels from left to right and down. No global state holds it."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [axes for row in figure.subplots(rows, columns, squeeze=False) for axes in row]


def png(figure: Figure) -> bytes:
    """The figure as PNG, at two pixels to a CSS pixel; the same bytes each time."""
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=DPI, metadata={"Software": None})
    return held.getvalue()
