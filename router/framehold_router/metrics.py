"""The metrics of a router, as Prometheus reads them.

The law: events are counted when they happen (in `Meter`); states are read when `/metrics` is requested. No label holds
a call, a token or a user. Labels hold only names of nodes from the leases of the fleet, and names of tools that its
nodes report.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from framehold_core.clock import Clock
from framehold_core.ids import NodeId, is_node_id
from framehold_fleet.guard.guesses import WRONG_TOKENS
from framehold_fleet.members.membership import DRAINING, LIVE, STRANGE, Membership
from framehold_fleet.members.store_health import StoreHealth
from framehold_fleet.models.nodes import NodeStatus
from framehold_fleet.telemetry import families
from framehold_store.base import MemoryUse

from .collect.departures import Departures
from .collect.fleet_log import DIED, DRAIN_DEADLINE, FleetLog
from .telemetry.counters import LABELS, Meter
from .telemetry.tool_labels import follow

OFF = "metrics are off (FRAMEHOLD_METRICS=false): nothing is counted here\n"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATES = (LIVE, DRAINING, STRANGE)


class RouterMetrics(Collector):
    """All metrics of one router."""

    def __init__(
        self, meter: Meter, membership: Membership, departures: Departures, counts: Counter[str], clock: Clock
    ) -> None:
        self.meter, self._counts, self._clock = meter, counts, clock
        self._membership, self._departures = membership, departures
        self.store_memory: MemoryUse | None = None
        """The memory of the store; None if it has no limit, or if that is not known."""
        self.calls_lost: Mapping[str, int] = {DIED: 0, DRAIN_DEADLINE: 0}
        """Calls that were lost with their process while this router ran, by why."""
        self._registry = families.registry(self)

    def text(self) -> bytes:
        """All metrics with their present values, in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """All metrics of the router, for the registry."""
        yield from self._requests()
        yield from self._ring()
        yield from self._nodes()
        lost = "Calls that were lost with their process while this router ran, half a minute after that"
        yield families.counts_by("cause", "router_calls_lost", lost, self.calls_lost)
        memory = self.store_memory
        used, limit = (None, None) if memory is None else (memory.used, memory.limit)
        yield families.gauge("store_memory_bytes", "The memory that the store uses", used)
        yield families.gauge("store_memory_limit_bytes", "The memory that the store may use", limit)
        yield families.count(
            "router_wrong_tokens", "Wrong tokens that were shown for the API", self._counts[WRONG_TOKENS]
        )
        yield families.clock_offset(self._clock)
        yield families.build()

    def _requests(self) -> Iterator[Metric]:
        meter = self.meter
        requests = meter.requests.items()
        yield families.counts("router_requests", "Requests for nodes, by what became of them", LABELS, requests)
        yield families.histogram("router_route_duration_seconds", "Choosing a node for one request", meter.placing)
        yield families.histogram(
            "upstream_duration_seconds", "From a request sent to its response's head", meter.upstream
        )
        affinity = {"hit": meter.hits, "miss": meter.misses}
        yield families.counts_by(
            "result", "affinity", "Retries that the node which was sent to served (hit), or another", affinity
        )
        detected = {"detect": meter.detected}
        yield families.histograms_by(
            "phase",
            "failover_duration_seconds",
            "From a node's last heartbeat until its lease was found gone",
            detected,
        )

    def _ring(self) -> Iterator[Metric]:
        ring, change = self._membership.fleet.ring, self._membership.change
        owned = {node: share * len(ring.nodes) for node, share in _printable(ring.shares()).items()}
        yield families.gauges_by(
            "node", "ring_ownership_ratio", "A node's part of the ring, as a ratio to an equal part", owned
        )
        yield families.count("ring_moves", "Changes of the ring", self._membership.changes)
        yield families.gauge(
            "ring_moved_ratio",
            "The part of all calls that the last change of the ring gave another node",
            change.moved if change is not None else 0.0,
        )

    def _nodes(self) -> Iterator[Metric]:
        members = self._membership.fleet.members.values()
        found = Counter(member.state if member.state in _STATES else STRANGE for member in members)
        states = {state: found[state] for state in _STATES}
        yield families.gauges_by("state", "nodes", "Nodes that have a lease", states)
        servers = {member.stats.server for member in members if member.state != STRANGE} - {None}
        yield families.gauge("servers", "Servers by name that share this namespace of the store", len(servers))
        ages = _printable(self._departures.ages())
        yield families.gauges_by(
            "node", "node_last_seen_seconds", "Seconds since the last heartbeat that this router knows of", ages
        )


def page(
    metrics: RouterMetrics | None, store: StoreHealth, log: FleetLog
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of `/metrics`. Without `metrics` it answers 404 and names the setting."""

    async def answer(_: web.Request) -> web.StreamResponse:
        if metrics is None:
            return web.Response(status=404, text=OFF)
        metrics.store_memory = (await store.look()).memory
        await log.logged()
        metrics.calls_lost = log.lost
        return web.Response(body=metrics.text(), headers={"Content-Type": _TYPE})

    return answer


@asynccontextmanager
async def counting(
    membership: Membership,
    departures: Departures,
    nodes: Callable[[], Awaitable[Iterable[NodeStatus]]],
    counts: Counter[str],
    clock: Clock,
) -> AsyncIterator[RouterMetrics]:
    """The metrics of a router. They are kept up to date for as long as the context is open. `nodes` asks all nodes for
    their status; `counts` has the count of wrong tokens; `clock` is the clock of the router."""
    metrics = RouterMetrics(Meter(), membership, departures, counts, clock)
    departures.on_detected = metrics.meter.detected.observe
    task = asyncio.create_task(follow(membership, nodes, metrics.meter.set_tools), name="framehold names of tools")
    try:
        yield metrics
    finally:
        task.cancel()
        await asyncio.wait((task,))


def _printable(nodes: Mapping[NodeId, float]) -> dict[str, float]:
    """The values of nodes with valid names, in order of the names. In a fleet without keys anybody can write a lease
    with any name."""
    return {node: nodes[node] for node in sorted(nodes) if is_node_id(node)}
