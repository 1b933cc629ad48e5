"""The figures of a scenario: load and latency under its faults, resumes, affinity, frames and memory.

Law: a second without a sample is a gap in its line. Faults are numbered as in the page's table of faults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, PercentFormatter

from framehold_loadtest.report.arithmetic import bands, cumulative
from framehold_loadtest.report.data import Fault, Sampled, Scenario
from framehold_loadtest.report.theme import DASHES, FAULT, MARKERS, Look, colour, sheet, upright
from framehold_loadtest.report.words import seconds
from framehold_loadtest.stats import percentile

_MIB = 2**20
_MARKS_A_LINE = 8
_SCALE_SPREAD = 30


def load(scenario: Scenario) -> Figure:
    """Rate above, latency below, over the same seconds."""
    series = scenario.series
    figure, (above, below) = sheet(4.6, rows=2, share_x=True)
    above.plot(series.t, _gapped(series.rate), color=colour(0))
    above.set(title="Throughput, requests/s", ylim=(0, None))
    for place, (name, values) in enumerate({"p50": series.p50, "p99": series.p99}.items()):
        below.plot(series.t, _gapped(values), color=colour(place * 3), linestyle=DASHES[place], label=name)
    below.set(title="Latency, ms", xlabel="seconds since the run began")
    if upright(below, [value for value in [*series.p50, *series.p99] if value is not None], _SCALE_SPREAD):
        below.set_title("Latency, ms, logarithmic")
    _legend_above(below, 2)
    _mark_faults([above, below], scenario.faults)
    return figure


def affinity(scenario: Scenario) -> Figure:
    """The share of later rounds that reached the node which held their frame."""
    figure, (axes,) = sheet(2.5)
    known = [value for value in scenario.series.affinity if value is not None]
    axes.plot(scenario.series.t, _gapped(scenario.series.affinity), color=colour(4))
    low = min([*known, 0.99])
    axes.set(ylim=(max(0.0, low - (1 - low) * 0.1), 1 + (1 - low) * 0.08), xlabel="seconds since the run began")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    _mark_faults([axes], scenario.faults)
    return figure


def resumes(scenario: Scenario) -> Figure:
    """The distribution of resume latency before, during and after the faults."""
    figure, (axes,) = sheet(3.2)
    phases = scenario.resumes.phases
    for place, (phase, took) in enumerate(phases.items()):
        if took:
            when = phase if scenario.faults else "all"
            words = f"{when}: {len(took):,} resumes, p99 {seconds(percentile(took, 0.99))}"
            at, share = cumulative([one * 1e3 for one in took])
            axes.step(at, share, where="post", color=colour((0, 3, 4)[place]), linestyle=DASHES[place], label=words)
    axes.set(xscale="log", xlabel="milliseconds from the answer to the reply, logarithmic", ylim=(0, 1.02))
    axes.xaxis.set_major_formatter(LogFormatter())
    axes.xaxis.set_minor_formatter(LogFormatter())
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    _legend_above(axes, len(phases))
    return figure


def parked(scenario: Scenario) -> Figure:
    """Frames parked on each node."""
    return _lines(scenario, scenario.series.parked, 1, label="frames")


def memory(scenario: Scenario) -> Figure:
    """What each process has in memory."""
    return _lines(scenario, scenario.series.rss, _MIB, label="MiB")


def _lines(scenario: Scenario, named: Mapping[str, Sampled], unit: float, label: str) -> Figure:
    figure, (axes,) = sheet(3.0)
    times = scenario.series.t
    every = max(1, len(times) // _MARKS_A_LINE)
    for place, (name, values) in enumerate(named.items()):
        drawn = _gapped(values, unit)
        look: Look = {"color": colour(place), "linestyle": DASHES[place % len(DASHES)]}
        start = (place * every // max(1, len(named))) % every
        axes.plot(times, drawn, label=name, marker=MARKERS[place % len(MARKERS)], markevery=(start, every), **look)
    axes.set(xlabel="seconds since the run began", ylabel=label, ylim=(0, None))
    _mark_faults([axes], scenario.faults)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _legend_above(axes: Axes, columns: int) -> None:
    """Right over the panel, where no line can run."""
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, borderaxespad=0.2)


def _mark_faults(panels: Sequence[Axes], faults: Sequence[Fault]) -> None:
    """A wash while faults last, a line where one begins, and the faults' numbers over the first panel."""
    for band in bands(faults):
        for axes in panels:
            axes.axvspan(band.start, band.stop, color=FAULT, alpha=0.13, linewidth=0)
    for axes in panels:
        for at in {fault.at for fault in faults}:
            axes.axvline(at, color=FAULT, linewidth=1, linestyle=(0, (2, 2)))
    begun: dict[float, list[str]] = {}
    for number, fault in enumerate(faults, 1):
        begun.setdefault(fault.at, []).append(str(number))
    for at, numbers in begun.items():
        words = ", ".join(numbers)
        place: Look = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontweight": "bold"}
        panels[0].annotate(words, (at, 1), (3, -2), va="top", color=FAULT, fontsize=8, **place)


def _gapped(values: Sampled, unit: float = 1.0) -> list[float]:
    return [float("nan") if value is None else value / unit for value in values]
