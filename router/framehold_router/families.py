"""The shapes in which a process shows Prometheus what it has counted: one for routers and nodes.

The law: each registry is one part's own, never the process's, so that several nodes or routers in one process don't
clash, and an author's metrics stay the author's. A family's name gets the prefix here.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from .tallies import Tally

Counts = Iterable[tuple[tuple[str, ...], int]]
"""Each with the values of its labels."""


def registry(collector: Collector) -> CollectorRegistry:
    """What `collector` tells, and what there is to tell of the process."""
    made = CollectorRegistry()
    made.register(collector)
    for kind in (ProcessCollector, PlatformCollector, GCCollector):
        kind(registry=made)
    return made


@cache
def build() -> Metric:
    """What runs here: files are read for it, once."""
    family = GaugeMetricFamily("framehold_build_info", "What runs here; always 1.", labels=("version", "python", "mcp"))
    family.add_metric((metadata.version("framehold"), platform.python_version(), metadata.version("mcp")), 1)
    return family


def counts(name: str, said: str, labels: tuple[str, ...], found: Counts) -> Metric:
    """A counter by several labels, or by none."""
    family = CounterMetricFamily(f"framehold_{name}", said, labels=labels)
    for values, count in found:
        family.add_metric(values, count)
    return family


def count(name: str, said: str, value: int) -> Metric:
    """A counter."""
    return CounterMetricFamily(f"framehold_{name}", said, value)


def counts_by(label: str, name: str, said: str, found: Mapping[str, int]) -> Metric:
    """A counter by one label."""
    return counts(name, said, (label,), (((value,), number) for value, number in found.items()))


def gauge(name: str, said: str, value: float) -> Metric:
    """A gauge."""
    return GaugeMetricFamily(f"framehold_{name}", said, value)


def gauges_by(label: str, name: str, said: str, found: Mapping[str, float]) -> Metric:
    """A gauge by one label."""
    family = GaugeMetricFamily(f"framehold_{name}", said, labels=(label,))
    for value, number in found.items():
        family.add_metric((value,), number)
    return family


def histogram(name: str, said: str, tally: Tally) -> Metric:
    """A histogram."""
    return HistogramMetricFamily(f"framehold_{name}", said, buckets=tally.buckets(), sum_value=tally.total)


def histograms_by(label: str, name: str, said: str, tallies: Mapping[str, Tally]) -> Metric:
    """A histogram by one label."""
    family = HistogramMetricFamily(f"framehold_{name}", said, labels=(label,))
    for value, tally in tallies.items():
        family.add_metric((value,), tally.buckets(), tally.total)
    return family
