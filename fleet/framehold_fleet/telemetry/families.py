"""Builds Prometheus' metric families, for routers and nodes.

The law: each node or router has a registry of its own and never uses the registry of the process. So several of them in
one process don't clash, and the metrics of an author are not mixed with theirs. The prefix `framehold_` is added to the
name of a family here.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from framehold_core.clock import Clock

from .histogram import Tally

Counts = Iterable[tuple[tuple[str, ...], int]]
"""Pairs of the label values and the count."""


def registry(collector: Collector) -> CollectorRegistry:
    """A registry with the metrics of `collector`, and those of the process, the platform and the garbage collector."""
    made = CollectorRegistry()
    made.register(collector)
    for kind in (ProcessCollector, PlatformCollector, GCCollector):
        kind(registry=made)
    return made


def clock_offset(clock: Clock) -> Metric:
    """How far the wall clock of this machine is off."""
    text = "Seconds that the wall clock of this machine lacks to the store's; negative if it is fast."
    return gauge("clock_offset_seconds", text, clock.offset)


@cache
def build() -> Metric:
    """The versions of Framehold, Python and mcp. They are read from files, once."""
    family = GaugeMetricFamily("framehold_build_info", "What runs here; always 1.", labels=("version", "python", "mcp"))
    family.add_metric((metadata.version("framehold"), platform.python_version(), metadata.version("mcp")), 1)
    return family


def counts(name: str, help_text: str, labels: tuple[str, ...], found: Counts) -> Metric:
    """A counter by several labels, or by none."""
    family = CounterMetricFamily(f"framehold_{name}", help_text, labels=labels)
    for values, count in found:
        family.add_metric(values, count)
    return family


def count(name: str, help_text: str, value: float) -> Metric:
    """A counter."""
    return CounterMetricFamily(f"framehold_{name}", help_text, value)


def counts_by(label: str, name: str, help_text: str, found: Mapping[str, int]) -> Metric:
    """A counter by one label."""
    return counts(name, help_text, (label,), (((value,), number) for value, number in found.items()))


def gauge(name: str, help_text: str, value: float | None) -> Metric:
    """A gauge. It has no sample while its value is not known, which None stands for."""
    return GaugeMetricFamily(f"framehold_{name}", help_text, value)


def gauges(name: str, help_text: str, labels: tuple[str, ...], found: Mapping[tuple[str, ...], float]) -> Metric:
    """A gauge by several labels."""
    family = GaugeMetricFamily(f"framehold_{name}", help_text, labels=labels)
    for values, number in found.items():
        family.add_metric(values, number)
    return family


def gauges_by(label: str, name: str, help_text: str, found: Mapping[str, float]) -> Metric:
    """A gauge by one label."""
    return gauges(name, help_text, (label,), {(value,): number for value, number in found.items()})


def histogram(name: str, help_text: str, tally: Tally) -> Metric:
    """A histogram."""
    return HistogramMetricFamily(f"framehold_{name}", help_text, buckets=tally.buckets(), sum_value=tally.total)


def histograms_by(label: str, name: str, help_text: str, tallies: Mapping[str, Tally]) -> Metric:
    """A histogram by one label."""
    family = HistogramMetricFamily(f"framehold_{name}", help_text, labels=(label,))
    for value, tally in tallies.items():
        family.add_metric((value,), tally.buckets(), tally.total)
    return family
