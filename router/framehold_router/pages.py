"""The pages of a router: probes, metrics, the API under `/api/v1/`, and the dashboard.

The law: every request passes a check of its `Host` (`guard.hosts`) and one access check (`api.access`), and a page that
is not listed there needs the admin token. A request that is signed with a token counts there as one that shows it. Who
shows or signs with a wrong token waits for the answer (`guard.guesses`). The server of the public port relays requests
for pages over a Unix socket. Errors of the API are JSON, other errors are one line of text.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import NamedTuple

from aiohttp import web

from framehold_fleet.guard.guesses import Guesses
from framehold_fleet.guard.hosts import REFUSAL, is_answered
from framehold_fleet.http_server.request_reader import MAX_LINE
from framehold_fleet.limits import Limits
from framehold_fleet.models.nodes import ErrorView
from framehold_fleet.telemetry.log_bursts import LogBursts

from .api.access import Access, Need
from .api.routes import BASE, need_of
from .api.serve import Api, in_json
from .api.signature import PROOF, Signatures
from .api.sources import Sources
from .dashboard import Dashboard, assets

_log = logging.getLogger(__name__)

_API = "/api/"
_MAX_BODY_BYTES = 9 * 1024 * 1024
"""Bytes of a body at most: a token to look up may have 8 MB. The public port takes no more than FRAMEHOLD_MAX_BODY."""
_SHUTDOWN = 2.0
"""Seconds for which a request under way may go on when the pages close."""
_ACCESS = f"{BASE}access"
"""An open page that says whether a token is right."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Guard(NamedTuple):
    """What lets requests in: their access, the names that pages answer to (FRAMEHOLD_ALLOWED_HOSTS), what slows down
    wrong tokens, and the store's clock, by which signatures are judged beside that of this machine, in seconds since
    1970."""

    access: Access
    hosts: Collection[str]
    guesses: Guesses
    clock: Callable[[], float] = time.time


def pages(sources: Sources, guard: Guard, metrics: Handler | None = None) -> web.Application:
    """The application of the pages of one router. `metrics` answers `/metrics`.

    Call `end_streams` before waiting for requests under way.
    """
    app = _Pages(sources, guard).app()
    if metrics is not None:
        app.router.add_get("/metrics", metrics)
    return app


@asynccontextmanager
async def serve_pages(app: web.Application, path: str, limits: Limits) -> AsyncIterator[None]:
    """Serve `app` on a Unix socket for as long as the context is open. `limits` are those of the public port.

    A socket that is left at `path` is replaced. Every process that can connect is served: use a private folder.

    Raises:
        OSError: the socket can't be bound at `path`.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=_SHUTDOWN,
        # Above the limits of the public port: aiohttp would log the first bytes of a request that it refuses.
        max_line_size=2 * MAX_LINE,
        max_field_size=2 * limits.max_head,
        max_headers=2 * limits.max_headers,
        # Decompressing a body of a megabyte can block the loop for a second, even before the access check.
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
    """End the event streams of the pages; their readers never leave by themselves."""
    app[_API_OF].stream.close()


class _Pages:
    def __init__(self, sources: Sources, guard: Guard) -> None:
        self._sources, self._guard = sources, guard
        self._signatures = Signatures(guard.access.tokens, guard.clock)
        self._bursts = LogBursts(_log)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[_plain, self._signed, self._checked], client_max_size=_MAX_BODY_BYTES)
        app[_API_OF] = Api(self._sources, self._guard.access)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        Dashboard(assets()).mount(app)
        app[_API_OF].mount(app)
        app.on_response_prepare.append(_add_headers)
        app.on_shutdown.append(self._end)
        return app

    async def _end(self, app: web.Application) -> None:
        end_streams(app)

    @web.middleware
    async def _signed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Put the token in place of a signature that was made with it, for the access check. The response gets the
        proof, but for a stream, which has begun."""
        shown = request.headers.get("Authorization", "")
        verified = self._signatures.read(request.method, request.raw_path, shown)
        if verified is None:
            return await handler(request)
        bearer = request.headers.copy()
        bearer["Authorization"] = f"Bearer {verified.token}"
        signed, fault = request.clone(headers=bearer), verified.fault
        if not fault and sha256(await signed.read()).hexdigest() != verified.digest:
            fault = "this body is another one than was signed"
        refused = _error(request, 401, f"{fault}; nothing was returned or done") if fault else None
        response = await _plain(signed, handler) if refused is None else refused
        if not response.prepared:
            response.headers[PROOF] = verified.proof
        return response

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The checks of every request. A path without a route needs no access: it gets a 404."""
        host = request.headers.get("Host", "")
        if not is_answered(host, self._guard.hosts):
            text = "a page was asked for by the Host %.100r and was refused; if it is one of yours, name it in %s"
            self._bursts.warning(text, host, "FRAMEHOLD_ALLOWED_HOSTS", extra={})
            return _error(request, 421, REFUSAL)
        resource = request.match_info.route.resource
        if resource is None:
            return await handler(request)
        need, access = need_of(request.method, resource.canonical), self._guard.access
        if (need is not Need.OPEN or resource.canonical == _ACCESS) and access.is_guess(request.headers):
            await self._guard.guesses.wrong(_peer(request))
        refusal = access.refusal(need, request.headers)
        if refusal is None:
            return await handler(request)
        response = _error(request, refusal.status, refusal.text)
        for challenge in refusal.challenges:
            response.headers.add("WWW-Authenticate", challenge)
        return response

    async def _healthz(self, _: web.Request) -> web.Response:
        """Always answer 200: the probe tests that the event loop runs."""
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        live = len(self._sources.fleet().ring.nodes)
        if live:
            return web.Response(text=f"ready: {live} live nodes are known\n")
        text = "not ready: no live node is known; is the store reached, and does a node run in this namespace?\n"
        return web.Response(status=503, text=text)


@web.middleware
async def _plain(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Write errors as JSON for the API and as text for other pages."""
    try:
        response = await handler(request)
    except web.HTTPRequestEntityTooLarge:
        response = _error(request, 413, f"the body is beyond {_MAX_BODY_BYTES} bytes: nothing was returned")
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


def _peer(request: web.Request) -> str:
    """The address of who sent a request to the public port, which appends it to those that were forwarded."""
    return request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _error(request: web.Request, status: int, text: str) -> web.Response:
    if request.path.startswith(_API):
        return in_json(ErrorView(error=text), status)
    return web.Response(status=status, text=text + "\n")
