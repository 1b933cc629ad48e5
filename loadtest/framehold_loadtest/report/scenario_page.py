"""The page of a scenario in Markdown, with its plots as PNG beside it.

Law: a plot that has nothing to show keeps its place and says so. Faults are numbered in the plots as in their table.
Lines differ by dashes and not by colour alone, and the colours stay apart for readers who see no red or no green.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, PercentFormatter

from framehold_loadtest.report.data import Scenario, facts
from framehold_loadtest.report.series import Fault
from framehold_loadtest.stats import percentile
from framehold_loadtest.table import NONE, Table, markdown, number

PAGE = "report.md"
_MIB = 2**20
_WIDTH, _DPI = 8.8, 200  # inches, and twice as many dots as CSS pixels
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
_COLOURS = ("#1f3fd6", "#b58a00", "#8a3200", "#3f9be6", "#1b8072", "#8a2a8a", "#20262e")
_FAULT = "#b3261e"
mpl.rcParams.update({
    "font.size": 9, "axes.titlesize": 9, "axes.titlelocation": "left", "axes.titleweight": "bold",
    "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.frameon": False, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True, "grid.color": "#dde3eb",
})  # fmt: skip


def write(found: Scenario, folder: Path) -> Path:
    """Write the page and its plots into the folder of the run; the page's path."""
    tables = [verdicts(found), resumes(found), *([faults(found)] if found.faults else [])]
    parts = [
        f"# {found.scenario}: {'passed' if found.passed else 'FAILED'}",
        *(table.markdown(heading=True) for table in tables),
    ]
    for name, (title, draw) in _PLOTS.items():
        figure = draw(found)
        parts.append(f"### {title}\n\n" + (f"![{title}]({name}.png)" if figure else "Nothing was sampled."))
        if figure:
            figure.savefig(folder / f"{name}.png", dpi=_DPI, metadata={"Software": None})
    page = folder / PAGE
    page.write_text("\n\n".join([*parts, "### Measured with", markdown(("", ""), facts(found)), ""]), encoding="utf-8")
    return page


def verdicts(found: Scenario) -> Table:
    """The pass rules, those that failed first."""
    rules = sorted(found.verdicts, key=lambda rule: rule.passed)
    lines = [[rule.name, "passed" if rule.passed else "FAILED", rule.wanted, rule.seen] for rule in rules]
    return Table("Rules", [["rule", "verdict", "wanted", "seen"], *lines])


def resumes(found: Scenario) -> Table:
    """Resume latency by phase."""
    lines = [["when", "count", "p50", "p99", "longest"]]
    for phase, took in found.resumes.items():
        shown = [percentile(took, 0.5), percentile(took, 0.99), max(took)] if took else [None] * 3
        lines.append([phase, f"{len(took):,}", *map(_seconds, shown)])
    return Table("Resumes around the faults", lines)


def faults(found: Scenario) -> Table:
    """What was done, and when."""
    lines = [[str(place), fault.what, fault.target, f"{fault.at:.1f} s", f"{fault.until:.1f} s"]
             for place, fault in enumerate(found.faults, 1)]  # fmt: skip
    return Table("Faults", [["", "what", "target", "at", "until"], *lines])


def _seconds(figure: float | None) -> str:
    """Seconds in milliseconds where they are few, or a dash for none."""
    if figure is None:
        return NONE
    return f"{number(figure * 1e3)} ms" if 0 < figure < 1 else f"{number(figure)} s"


def _sheet(height: float, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure of the page's width, and its panels from above. No global state holds it."""
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    return figure, list(figure.subplots(rows, 1, squeeze=False)[:, 0])


def _load(found: Scenario) -> Figure | None:
    """Rate above, latency below, over the same seconds."""
    series = found.series
    if not any(series.rate):
        return None
    figure, (above, below) = _sheet(4.6, rows=2)
    above.plot(series.t, series.rate, color=_COLOURS[0])
    above.set(title="Throughput, requests/s", ylim=(0, None))
    for place, (name, values) in enumerate({"p50": series.p50, "p99": series.p99}.items()):
        gapped = [np.nan if value is None else value for value in values]
        below.plot(series.t, gapped, color=_COLOURS[place * 2], linestyle=_DASHES[place], label=name)
    below.set(title="Latency, ms, logarithmic", xlabel="seconds since the run began", yscale="log")
    below.yaxis.set_major_formatter(LogFormatter())
    below.yaxis.set_minor_formatter(LogFormatter())
    below.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    _mark_faults([above, below], found.faults)
    return figure


def _resumes(found: Scenario) -> Figure | None:
    """The distribution of resume latency before, during and after the faults."""
    known = {phase: took for phase, took in found.resumes.items() if took}
    if not known:
        return None
    figure, (axes,) = _sheet(3.2)
    for place, (phase, took) in enumerate(known.items()):
        words = f"{phase}: {len(took):,} resumes, p99 {_seconds(percentile(took, 0.99))}"
        axes.ecdf([one * 1e3 for one in took], color=_COLOURS[place * 2], linestyle=_DASHES[place], label=words)
    axes.set(xscale="log", xlabel="milliseconds from the answer to the reply, logarithmic", ylim=(0, 1.02))
    axes.xaxis.set_major_formatter(LogFormatter())
    axes.xaxis.set_minor_formatter(LogFormatter())
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.legend(loc="lower right")
    return figure


def _memory(found: Scenario) -> Figure | None:
    """What each process has in memory; a gap is a second in which it was gone."""
    if not found.series.rss:
        return None
    figure, (axes,) = _sheet(3.0)
    for place, (name, values) in enumerate(found.series.rss.items()):
        drawn = [np.nan if value is None else value / _MIB for value in values]
        axes.plot(
            found.series.t,
            drawn,
            label=name,
            color=_COLOURS[place % len(_COLOURS)],
            linestyle=_DASHES[place % len(_DASHES)],
        )
    axes.set(xlabel="seconds since the run began", ylabel="MiB", ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    _mark_faults([axes], found.faults)
    return figure


_PLOTS = {
    "load": ("Throughput and latency", _load),
    "resumes": ("The share of resumes that took at most so long", _resumes),
    "memory": ("Resident memory of each process", _memory),
}


def _mark_faults(panels: Sequence[Axes], made: Sequence[Fault]) -> None:
    """A wash while each fault lasted, and its number over the first panel."""
    for place, fault in enumerate(made, 1):
        for axes in panels:
            axes.axvspan(fault.at, fault.until, color=_FAULT, alpha=0.13)
        panels[0].annotate(str(place), (fault.at, 1), xycoords=("data", "axes fraction"), va="top", color=_FAULT)
