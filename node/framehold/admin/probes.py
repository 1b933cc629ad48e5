"""The probes of a node: HTTP endpoints for orchestrators, routers and Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from framehold_fleet.identity.plane import PROOF
from framehold_fleet.members.store_health import says_of, state_of
from framehold_fleet.models.fields import printable
from framehold_fleet.models.nodes import (
    FailingView,
    HandlerView,
    KeptCodeView,
    NodeStatus,
    NotKeptView,
    RefusedView,
    StallView,
)

from ..engine import memory
from ..engine.heartbeat import Alone
from ..hosts.attached import Attached
from ..hosts.handlers import HandlerCode, MarkedHandler
from ..telemetry.metrics import CallMetrics
from ..telemetry.prometheus import heartbeat_age, state
from ..telemetry.stalls import Stall
from .tool_list import pause_views

MAX_HANDLERS = 100
"""How many handlers the status names of those whose code is kept, and of those whose code is not."""
MAX_MARKED = 200
"""How many handlers the status names with their marks."""
MAX_FAILING = 10
"""How many tools the status names that failed lately."""
_UNCOUNTED = "nothing is counted here: FRAMEHOLD_METRICS is false; start this node without it, or with true\n"


def healthz(attached: Attached, request: Request) -> Response:
    """Status 200: the event loop runs."""
    return PlainTextResponse("ok\n")


def readyz(attached: Attached, request: Request) -> Response:
    """Status 200 if this node takes new calls, else 503. A load balancer that sends a nonce gets the proof that this is
    the node: then it may serve the requests of its calls to their end, also if it takes no new ones."""
    peers, why = attached.runtime.peers, attached.runtime.draining.unready()
    proof = peers.trust.plane_answer(request.query_params.get("nonce", ""), peers.node)
    headers = {} if proof is None else {PROOF.decode(): proof.decode()}
    if why is None:
        return PlainTextResponse("ready\n", headers=headers)
    return PlainTextResponse(f"not ready: {why}\n", 503, headers)


def metrics(attached: Attached, request: Request) -> Response:
    """The metrics, for Prometheus. They need no access token: they name no call and no user."""
    if attached.exposition is None:
        return PlainTextResponse(_UNCOUNTED, 404)
    text, kind = attached.exposition.text(request.headers.get("accept", ""))
    return Response(text, headers={"content-type": kind})


_OF_LEASE = (
    *("pid", "parked", "in_flight", "version", "server", "tools_digest", "prefix", "round_trip", "longest_round_trip"),
    *("descriptors", "descriptors_limit", "kept", "bound", "asleep", "released"),
)
"""The figures that the node's lease has too."""


def node_state(attached: Attached) -> NodeStatus:
    """The present state of the node. Values that come from metrics are None if metrics are off."""
    runtime, metrics, model = attached.runtime, attached.metrics, attached.runtime.eviction.footprint
    held, stats, marked = runtime.heartbeat.lease, runtime.stats(), runtime.orphan_scan.marked
    return NodeStatus(
        node_id=held.node,
        incarnation=held.incarnation,
        boot=held.boot,
        state=state(runtime),
        **{name: getattr(stats, name) for name in _OF_LEASE},
        frames=runtime.table.frames,
        slow_heartbeats=runtime.heartbeat.round_trips.slow,
        lost_here=runtime.table.lost_last_hour(),
        max_parked=runtime.settings.max_parked,
        store=None if isinstance(runtime.heartbeat, Alone) else state_of(runtime.heartbeat.trouble),
        store_says=says_of(runtime.heartbeat.trouble) or None,
        frame_bytes=None if model is None or model.measured is None else round(model.measured),
        at=runtime.clock.time(),
        scan=marked.view,
        orphaned=marked.orphaned,
        stuck=marked.stuck,
        **(_measured(metrics) if metrics else {}),
        last_stall=_stall_view(attached.stalls.last),
        heartbeat_age=heartbeat_age(runtime),
        clock_offset=None if isinstance(runtime.heartbeat, Alone) else stats.clock_offset,
        rss=memory.resident(),
        memory_limit=None if model is None else model.limit,
        errors=runtime.counts["broken"] + (metrics.errors() if metrics else 0),
        refused=tuple(
            RefusedView(limit=limit, of_one=of_one, count=count, at=at)
            for (limit, of_one), (count, at) in runtime.table.met.items()
        ),
        handed_off=runtime.draining.released if runtime.draining.begun else None,
        store_loss=runtime.door.pauses.loss,
        paused=pause_views(runtime),
        tools=tuple(attached.names),
        handlers=_handler_views(attached.marked[:MAX_MARKED]),
        **_code_views(attached.code),
    )


def _measured(metrics: CallMetrics) -> dict[str, Any]:
    """The fields of the status that come from metrics alone."""
    return {
        "loop_busy": metrics.busy(),
        "rounds_per_second": metrics.answered_rounds.per_second(),
        "rounds": metrics.rounds,
        "resume_p50": metrics.resumes.quantile(0.5),
        "resume_p99": metrics.resumes.quantile(0.99),
        "store_seconds": metrics.writes.quantile(0.5),
        "loop_lag_p99": metrics.lags.quantile(0.99),
        "fenced": metrics.fenced,
        **failures(metrics),
    }


@lru_cache(maxsize=8)
def _handler_views(marked: tuple[MarkedHandler, ...]) -> tuple[HandlerView, ...]:
    """Handlers with their marks. Cached: routers ask for the status again and again."""
    return tuple(
        HandlerView(handler=printable(item.name), asks=item.asks, reentrant=item.reentrant, strategy=item.strategy)
        for item in marked
    )


def _code_views(code: Sequence[HandlerCode] | None) -> dict[str, Any]:
    """The fields of the status about the code of handlers: what is kept, and what can't be."""
    if code is None:
        return {}
    kept = [item for item in code if not item.problem][:MAX_HANDLERS]
    not_kept = [item for item in code if item.problem][:MAX_HANDLERS]
    return {
        "kept_code": tuple(
            KeptCodeView(handler=printable(item.name), digest=item.digest, bytes=item.size) for item in kept
        ),
        "not_kept": tuple(NotKeptView(handler=printable(item.name), why=printable(item.problem)) for item in not_kept),
    }


def failures(metrics: CallMetrics) -> dict[str, Any]:
    """The fields of the status about calls that ended and failed, since the start and in the last ten minutes, and of
    rounds whose clients left."""
    counted = [(name, *tool.calls.counts()) for name, tool in metrics.tools.items()]
    failing = sorted((item for item in counted if item[2]), key=lambda item: -item[2])[:MAX_FAILING]
    rounds = [(name, *tool.rounds.counts()) for name, tool in metrics.tools.items()]
    leaving = sorted((item for item in rounds if item[2]), key=lambda item: -item[2])
    return {
        "calls_ended": sum(tool.calls.ended for tool in metrics.tools.values()),
        "calls_failed": sum(tool.calls.failed for tool in metrics.tools.values()),
        "ended": sum(ended for _, ended, _ in counted),
        "failed": sum(failed for _, _, failed in counted),
        "failing": tuple(FailingView(tool=name, ended=ended, failed=failed) for name, ended, failed in failing),
        "recent_rounds": sum(ended for _, ended, _ in rounds),
        "recent_left": sum(left for *_, left in leaving),
        "leaving": leaving[0][0] if leaving else None,
    }


def _stall_view(stall: Stall | None) -> StallView | None:
    if stall is None:
        return None
    return StallView(
        at=stall.at,
        seconds=stall.seconds,
        tool=printable(stall.tool) or None,
        where=stall.where or None,
        stack=stall.stack,
    )


Probe = Callable[[Attached, Request], Response]

PROBES: dict[str, Probe] = {
    "/healthz": healthz,
    "/readyz": readyz,
    "/metrics": metrics,
}
