"""An ASGI app on the HTTP server of the fleet (`framehold_fleet`), in a process that uvicorn runs.

    uvicorn          the process: sockets, lifespan, signals, the order of an end
    framehold_fleet  the connections: what a request is, and what its client may hold
    this module      between both: each request is a task of the app, with its `receive` and `send`

The law: an app gets each request whole, so it can't begin to reply before its client has sent all of it. An upload that
is larger than FRAMEHOLD_MAX_BODY is refused before the app sees it, and there are no WebSockets: `needs_uvicorn` names
the apps that may want them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from urllib.parse import unquote

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Scope
from uvicorn.config import Config
from uvicorn.server import ServerState

from framehold_fleet.headers import CALL_ID
from framehold_fleet.http_server.client_connection import ClientConnection
from framehold_fleet.http_server.message import Request
from framehold_fleet.http_server.request_head import RequestHead
from framehold_fleet.http_server.response import Response
from framehold_fleet.http_server.server import HttpServer
from framehold_fleet.limits import Limits

from ..sdk.replies import crowded
from .intake import Crowded

_log = logging.getLogger(__name__)

_METADATA, _OAUTH = "/.well-known/", frozenset(("/authorize", "/token", "/register", "/revoke"))
"""The paths under which the SDK serves OAuth: what some begin with, and the others whole."""
_LENGTH, _CONNECTION = b"content-length", b"connection"
_HOP_BY_HOP = frozenset((_CONNECTION, b"transfer-encoding", b"keep-alive"))
_START, _BODY = "http.response.start", "http.response.body"
_BROKEN = b"Internal Server Error"
_RETRY_AFTER = 1
"""Seconds after which a client may send a request again that had no room."""


def needs_uvicorn(routes: Iterable[BaseRoute], endpoint: str) -> bool:
    """Whether an app has a route of its author's, beside MCP at `endpoint` and what the SDK serves: it may take uploads
    of any size, or a WebSocket."""
    return any(
        not isinstance(route, Route)
        or (route.path != endpoint and route.path not in _OAUTH and not route.path.startswith(_METADATA))
        for route in routes
    )


class AppRequest:
    """One request as the app sees it, and the listener of its client. `transport` is that of its connection; `common`
    gives the lines of the headers that each response gets."""

    __slots__ = ("_begun", "_body", "_common", "_gone", "_is_cut", "_left", "_over", "_reply", "_resumed", "transport")

    def __init__(self, body: bytes, reply: Response, common: Callable[[], bytes], is_cut: bool = False) -> None:
        """`is_cut`: the body was not read to its end, for want of room."""
        self._body: bytes | None = body
        self._is_cut = is_cut
        self._reply, self._common = reply, common
        self.transport = reply.transport
        self._begun = self._over = False
        self._left: int | None = None
        """Bytes of the announced body that are still to come; None if no length was announced."""
        self._gone: asyncio.Future[None] | None = None
        self._resumed: asyncio.Event | None = None
        reply.listener = self

    # ---- the listener of the client

    def gone(self) -> None:
        """The client has left."""
        self._over = True
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        self.resume()

    def pause(self) -> None:
        """The client reads too slowly."""
        self._resumed = asyncio.Event()

    def resume(self) -> None:
        """The client has read enough."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    # ---- ASGI

    async def receive(self) -> Message:
        """The request once; then, when the client has left or the response has ended, that.

        Raises:
            Crowded: the rest of the body is not read, for want of room.
        """
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": self._is_cut}
        if self._is_cut:
            # Once: whoever refuses the request receives the rest, and throws it away.
            self._is_cut, self._body = False, b""
            raise Crowded
        if not self._over:
            if self._gone is None or self._gone.done():
                self._gone = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._gone)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send the head of the response, or a piece of its body.

        Raises:
            RuntimeError: the response has no head yet, has one already, has a header that would end its line, or its
                body is not as long as announced; what was begun is broken off then.
        """
        if self._over:
            return
        kind = message["type"]
        if kind == _START and not self._begun:
            self._begin(message["status"], message.get("headers", ()))
        elif kind == _BODY and self._begun:
            await self._go_on(message.get("body", b""), bool(message.get("more_body")))
        else:
            raise RuntimeError(f"the app sent {kind!r}, which can't come here; its response is broken off")

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        left: int | None = None
        lines: list[bytes] = []
        count = 0
        for name, value in headers:
            lower = name.lower()
            if lower == _LENGTH:
                left = int(value)
            elif lower == _CONNECTION and b"close" in value.lower():
                self._reply.close_after()
            elif lower not in _HOP_BY_HOP:
                lines += (name, b": ", value, b"\r\n")
                count += 1
        block = b"".join(lines)
        if block.count(b"\n") != count or block.count(b"\r") != count or b"\0" in block:
            raise RuntimeError("a header of the app's response has a line end or a zero byte; the response isn't sent")
        self._begun, self._left = True, left
        self._reply.begin(status, self._common() + block, None if left is None else b"%d" % left)
        if left is None:
            # A stream: its first event may be long in coming, and its client waits for the head.
            self._reply.write(b"")

    async def _go_on(self, data: bytes, more: bool) -> None:
        if self._left is not None and not self._reply.is_mute:
            self._left -= len(data)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError(
                    "the app sent a body of another length than it announced; its response is broken off"
                )
        if more:
            self._reply.write(data)
            if (resumed := self._resumed) is not None:
                await resumed.wait()
            return
        self.end(data)

    def end(self, data: bytes = b"") -> None:
        """Send the last piece of the response."""
        self._reply.end(data)
        self.gone()

    @property
    def is_begun(self) -> bool:
        """Whether the response has begun."""
        return self._begun

    def fail(self) -> None:
        """The app has raised, or has ended without a whole response: say so, or break off what was begun."""
        if self._over:
            return
        if self._begun:
            self._reply.abort()
            self.gone()
        else:
            lines = self._common() + b"content-type: text/plain; charset=utf-8\r\n"
            self._reply.begin(500, lines, b"%d" % len(_BROKEN))
            self.end(_BROKEN)


class AppConnection(ClientConnection):
    """A connection of a client, as uvicorn ends it."""

    __slots__ = ()

    def is_crowded(self) -> bool:
        """Whether all clients together hold more than they may. One alone is limited by the largest body: it would be
        refused for ever, though it can be served."""
        return self.connections.buffered > self.held and super().is_crowded()

    def shutdown(self) -> None:
        """End when what is under way has its response."""
        self.connections.draining = True
        self.drain()


class AppServer:
    """Serves the requests of one uvicorn server. `limits` is asked when the first client connects: then the process
    knows how much memory it has. `refused` is called with the status of each request that is refused before the app
    gets it."""

    def __init__(self, limits: Callable[[], Limits], refused: Callable[[int], None] = lambda status: None) -> None:
        self._limits, self._refused = limits, refused
        self._server: HttpServer | None = None
        self._app: ASGIApp | None = None
        self._state: ServerState | None = None
        self._app_state: dict[str, Any] = {}
        self._common: tuple[Any, bytes] = (None, b"")

    def connection(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None
    ) -> AppConnection:
        """A new connection: what uvicorn makes of the class of its HTTP protocol."""
        if self._server is None:
            self._app, self._state, self._app_state = config.loaded_app, server_state, app_state
            self._server = HttpServer(self._handle, self._limits())
            connections = self._server.connections
            connections.refused, connections.crowded = self._refused, partial(self._handle, is_cut=True)
            # uvicorn ends these connections, and waits until there is none.
            connections.open = server_state.connections  # type: ignore[assignment]
        return AppConnection(self._server.connections)

    def _handle(self, request: Request, reply: Response, is_cut: bool = False) -> None:
        assert self._state is not None, "a connection of the fleet's server replies"
        served = AppRequest(request.body, reply, self._lines, is_cut)
        scope = scope_of(request, reply, self._app_state)
        task = asyncio.get_running_loop().create_task(self._run(scope, served), name="framehold-request")
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    def _lines(self) -> bytes:
        """The headers that each response gets: uvicorn makes them anew once a second, for the date."""
        assert self._state is not None, "a connection was made before"
        if (headers := self._state.default_headers) is not self._common[0]:
            self._common = headers, b"".join([name + b": " + value + b"\r\n" for name, value in headers])
        return self._common[1]

    async def _run(self, scope: Scope, served: AppRequest) -> None:
        assert self._app is not None, "a connection was made before"
        try:
            await self._app(scope, served.receive, served.send)
        except Crowded:
            self._refused(503)
            if not served.is_begun:
                await crowded(_RETRY_AFTER, served.receive, served.send)
            served.fail()
        except BaseException as error:
            # As uvicorn does: whatever the author's code raises ends its request and nothing else.
            served.fail()
            if not isinstance(error, asyncio.CancelledError):
                _log.error("the app raised; a response that is not whole is a 500, or breaks off", exc_info=error)
        else:
            served.fail()


def scope_of(request: Request, reply: Response, state: dict[str, Any]) -> Scope:
    """The ASGI scope of a request."""
    head = request.head
    if head.kept is None:
        head.kept = _kept(head, reply)
    headers = [*head.headers, (_LENGTH, b"%d" % len(request.body))] if request.body else list(head.headers)
    if request.call:
        headers.append((CALL_ID, request.call))
    # What an app may change is made anew: a change would show in later requests of the connection.
    return {**head.kept, "asgi": {"version": "3.0", "spec_version": "2.3"}, "headers": headers, "state": state.copy()}


def _kept(head: RequestHead, reply: Response) -> Scope:
    """The parts of a scope that all requests with this head have, none of which can be changed: they come on one
    connection."""
    transport = reply.transport
    path, _, query = head.target.partition(b"?")
    client, server = (transport.get_extra_info(name) for name in ("peername", "sockname"))
    return {
        "type": "http",
        "http_version": reply.version,
        "method": head.method.decode("ascii"),
        "path": unquote(path.decode("ascii")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "scheme": "http",
        "client": tuple(client[:2]) if isinstance(client, tuple) else None,
        "server": tuple(server[:2]) if isinstance(server, tuple) else None,
    }
