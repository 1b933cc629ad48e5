"""The metrics of a router, as Prometheus reads them.

The law: what happens is counted where it happens (`meter`), what is so is looked up when somebody asks. No label holds
a call, a token or a user. The names of nodes are those that the fleet's own leases have, of tools those that nodes say.
Each router has a registry of its own, so that several in one process do not mix.
"""

from __future__ import annotations

import asyncio
import platform
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from importlib import metadata

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from framehold_core.ids import NodeId, is_node_id

from .advertised import Says, follow
from .counted import counted
from .departures import Departures
from .membership import DRAINING, LIVE, STRANGE, Membership
from .meter import LABELS, Meter
from .tallies import Tally

OFF = "metrics are off (FRAMEHOLD_METRICS=false): nothing is counted here\n"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATES = (LIVE, DRAINING, STRANGE)


class Metrics(Collector):
    """All metrics of one router."""

    def __init__(self, meter: Meter, membership: Membership, departures: Departures) -> None:
        self.meter = meter
        self.to_node = counted(meter)
        """What a relay makes of a request to a node, so that it is counted."""
        self._membership, self._departures = membership, departures
        self._registry = CollectorRegistry()
        self._registry.register(self)
        for kind in (ProcessCollector, PlatformCollector, GCCollector):
            kind(registry=self._registry)

    def text(self) -> bytes:
        """All of them now."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._ring()
        yield from self._nodes()
        build = GaugeMetricFamily(
            "framehold_build_info", "What runs here; always 1", labels=("version", "python", "mcp")
        )
        build.add_metric((_version("framehold"), platform.python_version(), _version("mcp")), 1)
        yield build

    def _requests(self) -> Iterator[Metric]:
        meter = self.meter
        requests = CounterMetricFamily(
            "framehold_router_requests", "Requests for nodes, by what became of them", labels=LABELS
        )
        for labels, count in meter.requests.items():
            requests.add_metric(labels, count)
        yield requests
        yield _histogram("framehold_router_route_duration_seconds", "Choosing a node for one request", meter.placing)
        yield _histogram(
            "framehold_upstream_duration_seconds", "From a request sent to its response's head", meter.upstream
        )
        affinity = CounterMetricFamily(
            "framehold_affinity", "Retries that the node which was sent to served (hit), or another", labels=("result",)
        )
        affinity.add_metric(("hit",), meter.hits)
        affinity.add_metric(("miss",), meter.misses)
        yield affinity
        yield _histogram(
            "framehold_failover_duration_seconds",
            "From a node's last heartbeat until its lease was found gone",
            meter.detected,
            phase="detect",
        )

    def _ring(self) -> Iterator[Metric]:
        ring, change = self._membership.fleet.ring, self._membership.change
        shares = ring.shares()
        owned = _by_node("framehold_ring_ownership_ratio", "A node's part of the ring, as a ratio to an equal part")
        for node in _printable(shares):
            owned.add_metric((node,), shares[node] * len(ring.nodes))
        yield owned
        yield CounterMetricFamily("framehold_ring_moves", "Changes of the ring", value=self._membership.changes)
        yield GaugeMetricFamily(
            "framehold_ring_moved_ratio",
            "The part of all calls that the last change of the ring gave another node",
            value=change.moved if change is not None else 0.0,
        )

    def _nodes(self) -> Iterator[Metric]:
        members = self._membership.fleet.members.values()
        found = Counter(member.state if member.state in _STATES else STRANGE for member in members)
        states = GaugeMetricFamily("framehold_nodes", "Nodes that have a lease", labels=("state",))
        for state in _STATES:
            states.add_metric((state,), found[state])
        yield states
        ages = self._departures.ages()
        seen = _by_node(
            "framehold_node_last_seen_seconds", "Seconds since the last heartbeat that this router knows of"
        )
        for node in _printable(ages):
            seen.add_metric((node,), ages[node])
        yield seen


def page(metrics: Metrics | None) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """What answers `/metrics`; None where nothing is counted."""

    async def answer(_: web.Request) -> web.StreamResponse:
        if metrics is None:
            return web.Response(status=404, text=OFF)
        return web.Response(body=metrics.text(), headers={"Content-Type": _TYPE})

    return answer


@asynccontextmanager
async def counting(
    membership: Membership, departures: Departures, ask: Callable[[], Awaitable[Iterable[Says]]]
) -> AsyncIterator[Metrics]:
    """The metrics of a router for as long as the context is open; `ask` asks all nodes what they say of themselves."""
    metrics = Metrics(Meter(), membership, departures)
    departures.on_detected = metrics.meter.detected.observe
    task = asyncio.create_task(follow(membership, ask, metrics.meter.tell_apart), name="framehold names of tools")
    try:
        yield metrics
    finally:
        task.cancel()
        await asyncio.wait((task,))


def _histogram(name: str, text: str, tally: Tally, **labels: str) -> Metric:
    family = HistogramMetricFamily(name, text, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), tally.buckets(), tally.total)
    return family


def _by_node(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=("node",))


def _printable(nodes: Iterable[NodeId]) -> list[NodeId]:
    """The names that a node may have, in order: a store believes anybody where a fleet has no keys."""
    return sorted(node for node in nodes if is_node_id(node))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
