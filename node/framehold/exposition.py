"""What `/metrics` of a node says: what was counted (`metrics`), and how things stand when somebody asks.

The law: each registry is one node's. Nothing is registered with the process's own, so that several nodes in one process
don't clash, and an author's metrics stay the author's.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from framehold_core import lease
from framehold_router.membership import LIVE
from framehold_router.tallies import Tally

from . import clock
from .about import VERSION
from .metrics import Metrics, Tool
from .runtime import Runtime

STATES = ("live", "draining", "lapsed", "lost")


class Exposition(Collector):
    """The metrics of one node."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        self._runtime, self.metrics = runtime, metrics
        self._registry = CollectorRegistry()
        for kind in (ProcessCollector, PlatformCollector, GCCollector):
            kind(registry=self._registry)
        self._registry.register(self)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Everything, in the form that `accept` (a header's value) asks for, and the name of that form."""
        try:
            encode, kind = choose_encoder(accept)
        except (TypeError, ValueError):
            # It chokes on a version that is none.
            encode, kind = choose_encoder("")
        return encode(self._registry), kind

    def collect(self) -> Iterator[Metric]:
        """All families, with and without samples."""
        yield from self._rounds()
        yield from self._frames()
        yield from self._store()
        yield from self._failovers()
        yield from self._node()

    def _rounds(self) -> Iterator[Metric]:
        tools = self.metrics.tools
        ends = (((name, end), count) for name, tool in tools.items() for end, count in tool.ends.items())
        yield _counts(
            "rounds", "Rounds that came to an end, by tool and by what came of them.", ("tool", "outcome"), ends
        )
        yield _by_tool("round_duration_seconds", "From a request to its reply.", tools, lambda tool: tool.seconds)
        yield _by_tool("rounds_per_call", "Rounds of a call that has ended.", tools, lambda tool: tool.per_call)
        duplicates = self.metrics.duplicates
        yield _counts_by("result", "duplicate_rounds", "Retries of rounds that were answered before.", duplicates)

    def _frames(self) -> Iterator[Metric]:
        runtime, metrics = self._runtime, self.metrics
        parked, running = runtime.table.load()
        marked, model = runtime.orphans.marked, runtime.eviction.footprint
        yield _gauge("parked_frames", "Calls that wait for answers here.", parked)
        yield _gauge("inflight_rounds", "Calls that run here, or wait for the store.", running)
        weight, limit = (0.0, 0) if model is None else (model.weight, model.limit)
        yield _gauge("frame_bytes", "What one frame weighs, as was learned; 0 without a limit on memory.", weight)
        yield _gauge("memory_limit_bytes", "The limit on this process's memory; 0 where there is none.", limit)
        tools = metrics.tools
        yield _by_tool("park_duration_seconds", "From a question to its answer.", tools, lambda tool: tool.parked)
        evictions = metrics.evictions
        yield _counts_by("reason", "frame_evictions", "Frames that were dropped while their calls live on.", evictions)
        leases = {"parked": parked, "running": running, "orphaned": marked.orphaned, "stuck": marked.stuck}
        yield _gauges(
            "leases", "Calls of this node; orphaned and stuck ones as the one node found that looks.", "state", leases
        )

    def _store(self) -> Iterator[Metric]:
        metrics = self.metrics
        ops = metrics.ops.items()
        results = (((op, str(result)), count) for op, counts in ops for result, count in counts.results.items())
        yield _counts("lease_ops", "Requests to the store, by what it made of them.", ("op", "result"), results)
        errors = {op: counts.results.get("error", 0) for op, counts in ops}
        yield _counts_by("op", "store_errors", "Requests that the store did not answer.", errors)
        spent = {op: counts.seconds for op, counts in ops}
        yield _histograms("store_op_duration_seconds", "From a request to the store's answer.", "op", spent)
        yield _counts("fenced_writes", "Writes that the store refused as another's.", (), [((), metrics.fenced)])
        yield _histogram("journal_bytes", "The journal of a call when it parks.", metrics.journals)
        yield _histogram("journal_append_duration_seconds", "Writes that carry entries.", metrics.appends)

    def _failovers(self) -> Iterator[Metric]:
        metrics = self.metrics
        failovers = metrics.failovers
        yield _counts_by("reason", "failovers", "Claims that were granted, by why they were wanted.", failovers)
        yield _histograms(
            "failover_duration_seconds", "Steps of carrying on another process's call.", "phase", metrics.failing
        )
        tools = metrics.tools
        replays = {name: tool.replays for name, tool in tools.items()}
        yield _counts_by("tool", "replay", "Handlers that were entered again with their journals.", replays)
        yield _by_tool("replay_duration_seconds", "From a claim to its frame.", tools, lambda tool: tool.replayed)
        diverged = {name: tool.diverged for name, tool in tools.items()}
        yield _counts_by("tool", "replay_divergence", "Replays that went another way than recorded.", diverged)

    def _node(self) -> Iterator[Metric]:
        runtime = self._runtime
        yield _histogram("event_loop_lag_seconds", "How late the event loop is.", self.metrics.lag)
        age = heartbeat_age(runtime) or 0.0
        yield _gauge("node_heartbeat_age_seconds", "Since the node lease was last renewed; 0 without a store.", age)
        now = state(runtime)
        yield _gauges(
            "node_state", "What this node is: one of them is 1.", "state", {name: name == now for name in STATES}
        )
        cut = runtime.counts["deadline"]
        yield _counts("drain_deadline_hits", "Drains that ended with calls lost or rounds cut.", (), [((), cut)])
        about = GaugeMetricFamily("framehold_build_info", "What runs here.", labels=("version", "python", "mcp"))
        about.add_metric((VERSION, platform.python_version(), metadata.version("mcp")), 1)
        yield about


def heartbeat_age(runtime: Runtime) -> float | None:
    """Seconds since the node lease was last renewed; None where there is none to renew."""
    renewed = runtime.heartbeat.renewed_at
    return None if renewed is None else max(0.0, clock.now() - renewed)


def state(runtime: Runtime) -> str:
    """One of STATES. A lease that is lost counts more than one that lapsed, and that more than a drain."""
    heartbeat = runtime.heartbeat
    if heartbeat.lost.is_set():
        return "lost"
    if not lease.is_open(heartbeat.lease, clock.now()):
        return "lapsed"
    return "live" if heartbeat.state == LIVE and not runtime.leaving.begun else "draining"


# ---- families


Counts = Iterable[tuple[tuple[str, ...], int]]
"""Each with the values of its labels."""


def _counts(name: str, said: str, labels: tuple[str, ...], counts: Counts) -> Metric:
    family = CounterMetricFamily(f"framehold_{name}", said, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


def _counts_by(label: str, name: str, said: str, counts: Mapping[str, int]) -> Metric:
    return _counts(name, said, (label,), (((value,), count) for value, count in counts.items()))


def _gauge(name: str, said: str, value: float) -> Metric:
    return GaugeMetricFamily(f"framehold_{name}", said, value)


def _gauges(name: str, said: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"framehold_{name}", said, labels=(label,))
    for value, number in values.items():
        family.add_metric((value,), number)
    return family


def _histogram(name: str, said: str, tally: Tally) -> Metric:
    return HistogramMetricFamily(f"framehold_{name}", said, buckets=tally.buckets(), sum_value=tally.total)


def _histograms(name: str, said: str, label: str, tallies: Mapping[str, Tally]) -> Metric:
    family = HistogramMetricFamily(f"framehold_{name}", said, labels=(label,))
    for value, tally in tallies.items():
        family.add_metric((value,), tally.buckets(), tally.total)
    return family


def _by_tool(name: str, said: str, tools: Mapping[str, Tool], part: Callable[[Tool], Tally]) -> Metric:
    found = {tool: part(counts) for tool, counts in tools.items()}
    # A line each bucket: what has counted nothing yet is left out, or a page of many tools takes the loop too long.
    return _histograms(name, said, "tool", {tool: tally for tool, tally in found.items() if any(tally.counts)})
