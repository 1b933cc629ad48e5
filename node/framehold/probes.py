"""What a node says of itself over HTTP: to whoever starts and stops it, and to its routers."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import JSONResponse, PlainTextResponse, Response

from .hop import Hop
from .runtime import Runtime


def healthz(runtime: Runtime, hop: Hop) -> Response:
    """Whether the event loop runs: it answers."""
    return PlainTextResponse("ok\n")


def readyz(runtime: Runtime, hop: Hop) -> Response:
    """Whether this node takes new calls."""
    why = runtime.leaving.unready()
    return PlainTextResponse("ready\n") if why is None else PlainTextResponse(f"not ready: {why}\n", 503)


def admin_node(runtime: Runtime, hop: Hop) -> Response:
    """The node as it stands now, for a router of its fleet."""
    if not hop.inside:
        return PlainTextResponse("the fleet's secret is missing; nothing was told\n", 403)
    held, stats = runtime.heartbeat.lease, runtime.stats()
    told = {
        "node_id": held.node,
        "incarnation": held.inc,
        "boot": held.boot,
        "state": runtime.heartbeat.state,
        **stats._asdict(),
    }
    return JSONResponse(told)


PROBES: dict[str, Callable[[Runtime, Hop], Response]] = {
    "/healthz": healthz,
    "/readyz": readyz,
    "/admin/node": admin_node,
}
