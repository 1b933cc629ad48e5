"""Which metrics there are, with their labels and, where these come from a closed set, their values: as the code of
nodes and routers exposes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

import framehold
from framehold.config import Settings
from framehold.telemetry import metrics as of_node
from framehold.telemetry.prometheus import Exposition
from framehold.telemetry.tool_labels import ToolLabels
from framehold_core.ids import NodeId
from framehold_core.requests import Verdict
from framehold_fleet.members.membership import Membership
from framehold_fleet.members.ring import Ring
from framehold_router import metrics as of_router
from framehold_router.collect.departures import Departures
from framehold_router.telemetry.counters import Meter
from framehold_store.system_clock import system_clock
from tests.kit.serving import server_of

TARGET = {"namespace", "job", "instance"}
"""Labels that Prometheus gives each series."""
_OTHERS = {
    "up": set[str](),
    "ALERTS": {"alertname", "alertstate", "severity", "tool", "node", "phase"},
    "haproxy_frontend_http_responses_total": {"proxy", "code"},
}
"""What Prometheus adds by itself, and what HAProxy exposes in front of a fleet."""
_PLAIN = ("_total", "_bucket", "_count", "_sum")
_OPEN: dict[tuple[str, str], Iterable[str]] = {
    ("framehold_lease_ops", "op"): of_node.OPS,
    ("framehold_lease_ops", "result"): (*Verdict, "error"),
}
"""Values of labels whose series come into being when they are first counted."""


class Series(NamedTuple):
    """One metric as it is written in an expression. `values` has what a label may be, where that is known."""

    labels: set[str]
    values: dict[str, set[str]]


@cache
def known() -> dict[str, Series]:
    """All metrics by their names; of the two kinds of processes that have one in common, both values."""
    found = {name: Series(set(labels), {}) for name, labels in _OTHERS.items()}
    for family in (*_nodes(), *_routers(), *_process()):
        labels = set(cast("Any", family)._labelnames) if hasattr(family, "_labelnames") else set()
        for name, more in _names(family):
            series = found.setdefault(name, Series(labels | more, {}))
            for label in labels:
                seen = {str(sample.labels[label]) for sample in family.samples if label in sample.labels}
                series.values.setdefault(label, set()).update(seen, _OPEN.get((family.name, label), ()))
    return found


def families() -> set[str]:
    """Names of Framehold's own metrics, without the endings that their kinds give them."""
    return {family.name for family in (*_nodes(), *_routers())}


def _names(family: Metric) -> Iterator[tuple[str, set[str]]]:
    if family.type == "counter":
        yield f"{family.name}_total", set()
    elif family.type == "histogram":
        yield from ((f"{family.name}_bucket", {"le"}), (f"{family.name}_count", set()), (f"{family.name}_sum", set()))
    else:
        yield family.name, set()


@cache
def _nodes() -> tuple[Metric, ...]:
    runtime = framehold.asgi(server_of("known"), Settings(node_id="known")).attached.runtime
    return tuple(Exposition(runtime, of_node.CallMetrics(ToolLabels(lambda: ()))).collect())


@cache
def _routers() -> tuple[Metric, ...]:
    fleet = SimpleNamespace(ring=Ring([NodeId("known")]), members={})
    membership = cast("Membership", SimpleNamespace(fleet=fleet, change=None, changes=0))
    meter = Meter()
    for status in (200, 400, 503):
        meter.refused(status)
    return tuple(of_router.RouterMetrics(meter, membership, Departures(), Counter(), system_clock()).collect())


@cache
def _process() -> tuple[Metric, ...]:
    return tuple(ProcessCollector(registry=CollectorRegistry()).collect())
