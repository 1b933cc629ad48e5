"""Which figures a report has, and each of them drawn, or the reason why it can't be drawn.

Law: a report has its whole list of figures. One that has nothing to show keeps its title and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from matplotlib.figure import Figure

from framehold_loadtest.report import scenario_plots, series_plots, tradeoff_plots
from framehold_loadtest.report.data import Report, Scenario, Tradeoff
from framehold_loadtest.report.theme import png, worn

_R = TypeVar("_R", Scenario, Tradeoff)


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure of a page: a PNG, which is empty where `absent` says why."""

    name: str
    title: str
    caption: str
    image: bytes
    absent: str


@dataclass(frozen=True, slots=True)
class _Drawing(Generic[_R]):
    """A figure to be drawn: `lacks` gives the reason why there is nothing to draw, or an empty string."""

    name: str
    title: str
    caption: str
    draw: Callable[[_R], Figure]
    lacks: Callable[[_R], str] = lambda _: ""


_SCENARIO: tuple[_Drawing[Scenario], ...] = (
    _Drawing("load", "Throughput and latency", "Washes are faults while they last, numbered as in the table of faults.",
          scenario_plots.load, lambda run: "" if run.series.t else "the run was not sampled"),
    _Drawing("resumes", "Resume latency before, during and after the faults",
          "The share of resumes that took at most so long.",
          scenario_plots.resumes, lambda run: "" if any(run.resumes.phases.values()) else "no call was resumed"),
    _Drawing("affinity", "Affinity", "The share of later rounds that reached the node which held the frame.",
          scenario_plots.affinity, lambda run: "" if any(_known(run.series.affinity)) else "affinity was not sampled"),
    _Drawing("parked", "Parked frames per node", "A gap is a second in which the node gave no answer.",
          scenario_plots.parked, lambda run: "" if run.series.parked else "parked frames were not sampled"),
    _Drawing("memory", "Memory per process, MiB", "Resident memory. A gap is a second in which the process was gone.",
          scenario_plots.memory, lambda run: "" if run.series.rss else "memory was not sampled"),
)  # fmt: skip


def _series(name: str, title: str, caption: str) -> _Drawing[Tradeoff]:
    """The figure of a series."""

    def lacks(tradeoff: Tradeoff) -> str:
        return "" if series_plots.points(tradeoff, name) else "this run did not measure it"

    return _Drawing(f"series-{name}", title, caption, series_plots.drawing(name), lacks)


_TRADEOFF: tuple[_Drawing[Tradeoff], ...] = (
    _Drawing("overview", "What each option costs and harms",
          "CPU and memory undisturbed, with quartiles. Right: the largest share of calls that a condition harmed.",
          tradeoff_plots.overview),
    _Drawing("faults", "What each condition costs",
          "The share of calls lost, and with a repeated effect, of those that could be hit; how long a client waited."
          " The darker a field, the nearer its value to the highest of the grid.",
          tradeoff_plots.faults),
    _series("rounds", "By the number of rounds", "Calls of one round ask nothing."),
    _series("state", "By the size of the state", "What a tool keeps between its rounds, and must not fetch again."),
    _series("load", "By the load", "Calls offered, as a part of those that a few users make who answer at once."),
)  # fmt: skip


def drawn(report: Report) -> list[Picture]:
    """The report's figures in the order of its page."""
    if isinstance(report, Scenario):
        return [_picture(report, plan, plan.lacks(report)) for plan in _SCENARIO]
    return [_picture(report, plan, plan.lacks(report)) for plan in _TRADEOFF]


def titles() -> list[tuple[str, str, str]]:
    """Name, title and caption of each figure of a trade-off."""
    return [(plan.name, plan.title, plan.caption) for plan in _TRADEOFF]


def _picture(report: _R, plan: _Drawing[_R], lack: str) -> Picture:
    if lack:
        return Picture(plan.name, plan.title, plan.caption, b"", lack)
    with worn():
        return Picture(plan.name, plan.title, plan.caption, png(plan.draw(report)), "")


def _known(values: Sequence[float | None]) -> Iterator[bool]:
    return (value is not None for value in values)
