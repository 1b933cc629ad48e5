"""What a node says of itself over HTTP: to whoever starts and stops it, to its routers, and to what counts."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from framehold_router.api.about_nodes import ErrorView, Said

from . import access, memory
from . import hop as hops
from .attached import Attached
from .exposition import heartbeat_age

_UNCOUNTED = "nothing is counted here: FRAMEHOLD_METRICS is false; start this node without it, or with true\n"


def healthz(attached: Attached, request: Request) -> Response:
    """Whether the event loop runs: it answers."""
    return PlainTextResponse("ok\n")


def readyz(attached: Attached, request: Request) -> Response:
    """Whether this node takes new calls. One that doesn't says so with 503, or with 404 to whoever asks for it by
    `?unready=404`: HAProxy knows by it a node that lives, and may end what it has begun."""
    why = attached.runtime.leaving.unready()
    if why is None:
        return PlainTextResponse("ready\n")
    return PlainTextResponse(f"not ready: {why}\n", 404 if request.query_params.get("unready") == "404" else 503)


def metrics(attached: Attached, request: Request) -> Response:
    """What was counted, for Prometheus. Whoever reaches the node may read it: it tells of no call and no user."""
    if attached.exposition is None:
        return PlainTextResponse(_UNCOUNTED, 404)
    text, kind = attached.exposition.text(request.headers.get("accept", ""))
    return Response(text, headers={"content-type": kind})


def admin_node(attached: Attached, request: Request) -> Response:
    """The node as it stands now, for routers of its fleet and for operators."""
    hop, settings = hops.of(request), attached.runtime.settings
    if hop is None or not access.allowed(hop, request.scope, settings):
        told = ErrorView(error=access.refusal(settings))
        return JSONResponse(told.model_dump(), 403)
    return Response(said(attached).model_dump_json(), media_type="application/json")


def said(attached: Attached) -> Said:
    """The node as it stands now. What is only counted is None where nothing is."""
    runtime, metrics, model = attached.runtime, attached.metrics, attached.runtime.eviction.footprint
    held, stats, marked = runtime.heartbeat.lease, runtime.stats(), runtime.orphans.marked
    return Said(
        node_id=held.node,
        incarnation=held.inc,
        boot=held.boot,
        state=runtime.heartbeat.state,
        pid=stats.pid,
        parked=stats.parked,
        in_flight=stats.in_flight,
        version=stats.version,
        frames=runtime.table.frames,
        orphaned=marked.orphaned,
        stuck=marked.stuck,
        rounds=metrics and metrics.rounds,
        resume_p50=metrics and metrics.resumes.quantile(0.5),
        resume_p99=metrics and metrics.resumes.quantile(0.99),
        store_seconds=metrics and metrics.writes.quantile(0.5),
        loop_lag_p99=metrics and metrics.lags.quantile(0.99),
        heartbeat_age=heartbeat_age(runtime),
        rss=memory.resident(),
        memory_limit=None if model is None else model.limit,
        errors=runtime.counts["broken"] + (metrics.errors() if metrics else 0),
        handed_off=runtime.leaving.released if runtime.leaving.begun else None,
        tools=tuple(attached.names),
    )


Probe = Callable[[Attached, Request], Response]

PROBES: dict[str, Probe] = {
    "/healthz": healthz,
    "/readyz": readyz,
    "/metrics": metrics,
    "/admin/node": admin_node,
}
