"""What a router answers by itself: probes, the API under `/api/v1/`, and the dashboard.

The law: every request passes one check (`api.access`), and what is not listed as open or read is closed. The front
holds the public port and passes on what is not for the nodes, over a Unix socket; errors of the API are JSON, all
others a sentence.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from pydantic import SecretStr

from .api.about_nodes import ErrorView
from .api.access import Access
from .api.routes import need_of
from .api.serve import Api, in_json
from .api.sources import Sources
from .dashboard import Dashboard, assets
from .reader import MAX_HEAD, MAX_LINE

_log = logging.getLogger(__name__)

_API = "/api/"
_LONGEST = 9 * 1024 * 1024
"""Bytes of a body: a token to look up may have 8 MB. The front takes no more than FRAMEHOLD_MAX_BODY."""
_SHUTDOWN = 2.0
"""Seconds for which a request under way may go on when the pages close."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def pages(sources: Sources, token: SecretStr | None = None, metrics: Handler | None = None) -> web.Application:
    """The pages of one router, for those who show `token` where there is one; `metrics` answers `/metrics`.

    End its streams (`end_streams`) before waiting for requests under way.
    """
    app = _Pages(sources, token).app()
    if metrics is not None:
        app.router.add_get("/metrics", metrics)
    return app


@asynccontextmanager
async def serve_pages(app: web.Application, path: str) -> AsyncIterator[None]:
    """Serve `app` on a Unix socket for as long as the context is open.

    A socket that was left at `path` is replaced. Whoever may connect is served: put it in a folder of your own.

    Raises:
        OSError: nothing can be bound there.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=_SHUTDOWN,
        # Whatever the front lets through is read here: what the server itself refuses is logged with how it begins.
        max_line_size=2 * MAX_LINE,
        max_field_size=2 * MAX_HEAD,
        # Not even for those who may ask nothing: a megabyte of a body can hold the loop for a second.
        auto_decompress=False,
    )
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


_API_OF = web.AppKey("framehold_api", Api)


def end_streams(app: web.Application) -> None:
    """Those who read what changes would never leave by themselves."""
    app[_API_OF].stream.close()


class _Pages:
    def __init__(self, sources: Sources, token: SecretStr | None) -> None:
        self._sources, self._access = sources, Access(token.get_secret_value() if token is not None else None)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[_plain, self._checked], client_max_size=_LONGEST)
        app[_API_OF] = Api(self._sources, self._access)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        Dashboard(assets()).mount(app)
        app[_API_OF].mount(app)
        app.on_response_prepare.append(_told_to_browsers)
        app.on_shutdown.append(self._end)
        return app

    async def _end(self, app: web.Application) -> None:
        end_streams(app)

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The one door. What no route has is no secret: it is not there."""
        resource = request.match_info.route.resource
        if resource is None:
            return await handler(request)
        refusal = self._access.refusal(need_of(request.method, resource.canonical), request.headers)
        if refusal is None:
            return await handler(request)
        response = _error(request, refusal.status, refusal.text)
        for challenge in refusal.challenges:
            response.headers.add("WWW-Authenticate", challenge)
        return response

    async def _healthz(self, _: web.Request) -> web.Response:
        """An answer at all is what the probe is for: the event loop runs."""
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        live = len(self._sources.fleet().ring.nodes)
        if live:
            return web.Response(text=f"ready: {live} live nodes are known\n")
        text = "not ready: no live node is known; is the store reached, and does a node run in this namespace?\n"
        return web.Response(status=503, text=text)


@web.middleware
async def _plain(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors in the form of where they happened."""
    try:
        response = await handler(request)
    except web.HTTPRequestEntityTooLarge:
        response = _error(request, 413, f"the body is beyond {_LONGEST} bytes: nothing was told")
    except web.HTTPException as error:
        response = _error(request, error.status, f"{request.method} {request.path} is not served here")
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
    except Exception:
        # As its route spells it: the path of a call has its whole id.
        resource = request.match_info.route.resource
        _log.exception("a bug in %s; nothing but this page is harmed", resource.canonical if resource else "no page")
        response = _error(request, 500, "a bug in this page; the router's log has more")
    return response


async def _told_to_browsers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _error(request: web.Request, status: int, text: str) -> web.Response:
    if request.path.startswith(_API):
        return in_json(ErrorView(error=text), status)
    return web.Response(status=status, text=text + "\n")
