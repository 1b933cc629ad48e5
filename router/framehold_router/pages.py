"""What a router answers by itself: probes, the API under `/api/v1/`, and the dashboard.

The law: it only reads, and nothing here touches a call. The front holds the public port and passes on what is not for
the nodes, over a Unix socket; errors of the API are JSON, all others a sentence.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from pydantic import BaseModel

from .api_models import ErrorView, NodesView, RingNodeView, RingView
from .dashboard import POLICY, page
from .internal import Trust
from .membership import Fleet
from .survey import Survey

_log = logging.getLogger(__name__)

_API = "/api/"
_SHUTDOWN = 2.0
"""Seconds for which a request under way may go on when the pages close."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def pages(fleet: Callable[[], Fleet], trust: Trust) -> web.Application:
    """The pages of one router; `fleet` gives the newest view, `trust` the secret by which nodes believe it."""
    return _Pages(fleet, Survey(fleet, trust)).app()


@asynccontextmanager
async def serve_pages(app: web.Application, path: str) -> AsyncIterator[None]:
    """Serve `app` on a Unix socket for as long as the context is open.

    A socket that was left at `path` is replaced. Whoever may connect is served: put it in a folder of your own.

    Raises:
        OSError: nothing can be bound there.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN)
    await runner.setup()
    try:
        await web.UnixSite(runner, path).start()
        yield
    finally:
        await runner.cleanup()
        try:
            os.unlink(path)
        except OSError:
            pass


class _Pages:
    def __init__(self, fleet: Callable[[], Fleet], survey: Survey) -> None:
        self._fleet, self._survey = fleet, survey

    def app(self) -> web.Application:
        app = web.Application(middlewares=[_plain])
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/api/v1/nodes", self._nodes)
        app.router.add_get("/api/v1/ring", self._ring)
        app.router.add_get("/dashboard", self._dashboard)
        app.on_cleanup.append(self._close)
        return app

    async def _close(self, _: web.Application) -> None:
        await self._survey.close()

    async def _healthz(self, _: web.Request) -> web.Response:
        """An answer at all is what the probe is for: the event loop runs."""
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        live = len(self._fleet().ring.nodes)
        if live:
            return web.Response(text=f"ready: {live} live nodes are known\n")
        text = "not ready: no live node is known; is the store reached, and does a node run in this namespace?\n"
        return web.Response(status=503, text=text)

    async def _nodes(self, _: web.Request) -> web.Response:
        return _json(NodesView(nodes=await self._survey.nodes()))

    async def _ring(self, _: web.Request) -> web.Response:
        return _json(ring_view(self._fleet()))

    async def _dashboard(self, _: web.Request) -> web.Response:
        text = page(await self._survey.nodes(), ring_view(self._fleet()))
        return web.Response(text=text, content_type="text/html", headers={"Content-Security-Policy": POLICY})


def ring_view(fleet: Fleet) -> RingView:
    """Each node's part of the ring; those that are not on it have none."""
    ring = fleet.ring
    shares, points = ring.shares(), ring.points_of()
    return RingView(
        nodes=[
            RingNodeView(
                node_id=name,
                state=member.state,
                ideal_share=1 / len(ring.nodes) if name in ring.nodes else 0.0,
                share=shares.get(name, 0.0),
                points=points.get(name, 0),
            )
            for name, member in sorted(fleet.members.items())
        ],
        points=ring.points,
    )


def _json(view: BaseModel, status: int = 200) -> web.Response:
    return web.Response(status=status, text=view.model_dump_json(), content_type="application/json")


@web.middleware
async def _plain(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors in the form of where they happened, and on everything what browsers are told."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        response = _error(request, error.status, f"{request.method} {request.path} is not served here")
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
    except Exception:
        _log.exception("a bug in %s; nothing but this page is harmed", request.path)
        response = _error(request, 500, "a bug in this page; the router's log has more")
    response.headers.update(_HEADERS)
    return response


def _error(request: web.Request, status: int, text: str) -> web.Response:
    if request.path.startswith(_API):
        return _json(ErrorView(error=text), status)
    return web.Response(status=status, text=text + "\n")
