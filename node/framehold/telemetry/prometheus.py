"""The metrics that `/metrics` of a node shows: the counts of `metrics`, and the present state of the node.

The law: nothing is stored for it. Counts are shown as they are, and everything else is read at the time of the request.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from framehold_core import lease
from framehold_core.pauses import FRAMEHOLD, OPERATOR
from framehold_fleet.guard.guesses import WRONG_TOKENS
from framehold_fleet.members.losses import LOSS_SHOWN
from framehold_fleet.members.membership import LIVE
from framehold_fleet.telemetry import families
from framehold_fleet.telemetry.histogram import Tally

from ..engine.runtime import Runtime
from .metrics import CallMetrics, Tool
from .tool_labels import OTHER

STATES = ("live", "draining", "lapsed", "lost")


class Exposition(Collector):
    """The metrics of one node."""

    def __init__(self, runtime: Runtime, metrics: CallMetrics) -> None:
        self._runtime, self.metrics = runtime, metrics
        self._registry = families.registry(self)

    def text(self, accept: str) -> tuple[bytes, str]:
        """All metrics as bytes, in the format that the `Accept` header `accept` asks for, and their content type."""
        try:
            encode, kind = choose_encoder(accept)
        except (TypeError, ValueError):
            # The library raises these for a malformed version in the header.
            encode, kind = choose_encoder("")
        return encode(self._registry), kind

    def collect(self) -> Iterator[Metric]:
        """All families, with and without samples."""
        yield from self._rounds()
        yield self._paused()
        yield from self._frames()
        yield from self._store()
        yield from self._failovers()
        yield from self._node()

    def _rounds(self) -> Iterator[Metric]:
        tools = self.metrics.named_tools()
        ends = (((name, end), count) for name, tool in tools.items() for end, count in tool.ends.items())
        yield families.counts(
            "rounds", "Rounds that came to an end, by tool and by what came of them.", ("tool", "outcome"), ends
        )
        yield _by_tool("round_duration_seconds", "From a request to its reply.", tools, lambda tool: tool.seconds)
        yield _by_tool("rounds_per_call", "Rounds of a call that has ended.", tools, lambda tool: tool.per_call)
        duplicates = self.metrics.duplicates
        yield families.counts_by(
            "result", "duplicate_rounds", "Retries of rounds that were answered before.", duplicates
        )

    def _paused(self) -> Metric:
        tools = (*self.metrics.labels, OTHER)
        found: dict[tuple[str, ...], float] = {(tool, by): 0.0 for tool in tools for by in (OPERATOR, FRAMEHOLD)}
        for pause in self._runtime.door.pauses.known.values():
            by = FRAMEHOLD if pause.by == FRAMEHOLD else OPERATOR
            found[pause.tool if (pause.tool, by) in found else OTHER, by] = 1.0
        return families.gauges(
            "tool_paused", "1 for a paused tool, by who paused it: it takes no new call.", ("tool", "by"), found
        )

    def _frames(self) -> Iterator[Metric]:
        runtime, metrics = self._runtime, self.metrics
        parked_by_tool, running = runtime.table.load_by_tool()
        parked = parked_by_tool.total()
        marked, model = runtime.orphan_scan.marked, runtime.eviction.footprint
        yield families.gauge("parked_frames", "Calls that wait for answers here.", parked)
        yield families.gauges_by(
            "tool", "parked_calls", "Calls that wait for answers here, by tool.", self._labelled(parked_by_tool)
        )
        yield families.gauge("inflight_rounds", "Calls that run here, or wait for the store.", running)
        yield families.gauge("max_parked", "The limit on frames, FRAMEHOLD_MAX_PARKED.", runtime.settings.max_parked)
        measured, limit = (None, 0) if model is None else (model.measured, model.limit)
        yield families.gauge("frame_bytes", "What one frame weighs; absent until it was measured.", measured)
        yield families.gauge("memory_limit_bytes", "The limit on this process's memory; 0 where there is none.", limit)
        tools = metrics.tools
        yield _by_tool("park_duration_seconds", "From a question to its answer.", tools, lambda tool: tool.parked)
        evictions = metrics.evictions
        yield families.counts_by(
            "reason", "frame_evictions", "Frames that were dropped while their calls live on.", evictions
        )
        leases = {"parked": parked, "running": running, "orphaned": marked.orphaned, "stuck": marked.stuck}
        yield families.gauges_by(
            "state", "leases", "Calls of this node; orphaned and stuck ones as the one node found that looks.", leases
        )

    def _labelled(self, by_tool: Counter[str]) -> Counter[str]:
        """The counts by label: names that are no label are counted as `other`."""
        labelled = Counter[str]()
        for name, count in by_tool.items():
            labelled[name if self.metrics.labels.known(name, asks=True) else OTHER] += count
        return labelled

    def _store(self) -> Iterator[Metric]:
        metrics = self.metrics
        ops = metrics.ops.items()
        results = (((op, str(result)), count) for op, counts in ops for result, count in counts.results.items())
        yield families.counts("lease_ops", "Requests to the store, by what it made of them.", ("op", "result"), results)
        errors = {op: counts.results.get("error", 0) for op, counts in ops}
        yield families.counts_by("op", "store_errors", "Requests that the store did not answer.", errors)
        spent = {op: counts.seconds for op, counts in ops}
        yield families.histograms_by("op", "store_op_duration_seconds", "From a request to the store's answer.", spent)
        spoilt = {"record": self._runtime.orphan_scan.marked.unreadable, "lease": self._runtime.store.unreadable_leases}
        text = "Entries of the store that can't be read; records as the one node found that looks."
        yield families.gauges_by("kind", "store_unreadable", text, spoilt)
        yield families.count("fenced_writes", "Writes that the store refused as another's.", metrics.fenced)
        yield families.histogram("journal_bytes", "The journal of a call when it parks.", metrics.journals)
        yield families.histogram("journal_append_duration_seconds", "Writes that carry entries.", metrics.appends)

    def _failovers(self) -> Iterator[Metric]:
        metrics = self.metrics
        failovers = metrics.failovers
        yield families.counts_by("reason", "failovers", "Claims that were granted, by why they were wanted.", failovers)
        yield families.histograms_by(
            "phase", "failover_duration_seconds", "Steps of carrying on another process's call.", metrics.failing
        )
        tools = metrics.tools
        replays = {name: tool.replays for name, tool in tools.items()}
        yield families.counts_by("tool", "replay", "Handlers that were entered again with their journals.", replays)
        kept = {name: tool.kept_code for name, tool in tools.items()}
        yield families.counts_by("tool", "replay_kept_code", "Replays of the code that the call began with.", kept)
        yield _by_tool("replay_duration_seconds", "From a claim to its frame.", tools, lambda tool: tool.replayed)
        diverged = {name: tool.diverged for name, tool in tools.items()}
        yield families.counts_by("tool", "replay_divergence", "Replays that went another way than recorded.", diverged)

    def _node(self) -> Iterator[Metric]:
        runtime = self._runtime
        yield families.histogram("event_loop_lag_seconds", "How late the event loop is.", self.metrics.lag)
        # The page is made on the thread of the event loop: its processor time is read here.
        yield families.count("event_loop_busy_seconds", "Processor time of the event loop.", time.thread_time())
        age = heartbeat_age(runtime) or 0.0
        yield families.gauge(
            "node_heartbeat_age_seconds", "Since the node lease was last renewed; 0 without a store.", age
        )
        yield families.clock_offset(runtime.clock)
        trips = runtime.heartbeat.round_trips
        yield families.gauge(
            "store_round_trip_ratio",
            "Time of a heartbeat as a part of the longest with which this node works.",
            (trips.usual or 0.0) / trips.longest,
        )
        loss = runtime.door.pauses.loss
        is_recent = loss is not None and runtime.clock.time() - loss.at < LOSS_SHOWN
        text = "1 for an hour after the store has lost what it had acknowledged."
        yield families.gauge("store_emptied", text, float(is_recent))
        now = state(runtime)
        yield families.gauges_by(
            "state", "node_state", "What this node is: one of them is 1.", {name: name == now for name in STATES}
        )
        cut = runtime.counts["deadline"]
        yield families.count("drain_deadline_hits", "Drains that ended with calls lost or rounds cut.", cut)
        wrong = runtime.counts[WRONG_TOKENS]
        yield families.count("wrong_tokens", "Wrong tokens that were shown for the admin API.", wrong)
        yield families.build()


def heartbeat_age(runtime: Runtime) -> float | None:
    """Seconds since the node lease was last renewed; None if there is none to renew."""
    renewed = runtime.heartbeat.renewed_at
    return None if renewed is None else max(0.0, runtime.clock.now() - renewed)


def state(runtime: Runtime) -> str:
    """The node's state, one of STATES. If several apply: lost comes before lapsed, and lapsed before draining."""
    heartbeat = runtime.heartbeat
    if heartbeat.lost.is_set():
        return "lost"
    if not lease.is_open(heartbeat.lease, runtime.clock.now()):
        return "lapsed"
    return "live" if heartbeat.state == LIVE and not runtime.draining.begun else "draining"


def _by_tool(name: str, description: str, tools: Mapping[str, Tool], part: Callable[[Tool], Tally]) -> Metric:
    found = {tool: part(counts) for tool, counts in tools.items()}
    # Each bucket is a line: empty histograms are left out, or the page of many tools would block the loop too long.
    return families.histograms_by(
        "tool", name, description, {tool: tally for tool, tally in found.items() if any(tally.counts)}
    )
