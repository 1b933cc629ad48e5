"""Sessions of 2025-era clients live in one process: their ids say which.

1. the SDK names a new session: the client is told `l1.<node>.<boot>.<id>` instead
2. a request of that session reaches this process: the SDK sees its own id again
3. it reaches another node: it is passed on while that process lives
4. nobody knows whether it lives, or where: 503, the client tries again
5. that process is gone: the SDK meets an id that it doesn't know, and answers 404; the client initializes anew
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable

from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from framehold_core.errors import StoreUnavailable
from framehold_router import sessions

from .body import Body, TooLarge
from .forward import Passed
from .hop import Hop
from .replies import not_held, too_large
from .runtime import Runtime

_SESSION = b"mcp-session-id"
_SESSIONLESS = {version.encode() for version in MODERN_PROTOCOL_VERSIONS}
_UNREACHED = "the node that holds this session can't be reached; nothing was sent; send the same request again\n"
_UNKNOWN = "the store does not answer, so where this session lives is not known; send the same request again\n"
_BROKEN = "the node that holds this session broke off; whether it served the request is not known\n"


class Sticky:
    """Serves sessions of this process by `app`, and passes others on to theirs."""

    def __init__(self, app: ASGIApp, runtime: Runtime) -> None:
        self._app, self._runtime = app, runtime

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve a request; one of a revision that has no sessions goes straight on."""
        headers = dict(scope["headers"])
        modern = headers.get(b"mcp-protocol-version") in _SESSIONLESS
        return (self._app if modern else self._visited)(scope, receive, send)

    async def _visited(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A stream that a client only listens on, and keeps for good, is not waited for.
        visit = self._runtime.leaving.visited() if scope["method"] == "POST" else contextlib.nullcontext()
        with visit:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        said = next((value for name, value in scope["headers"] if name == _SESSION), None)
        session = None if said is None else sessions.parse(said.decode("latin-1"))
        if session is not None:
            hop: Hop = scope["framehold"]
            held = self._runtime.heartbeat.lease
            if (session.node, session.boot) == (held.node, held.boot):
                own = (_SESSION, session.session.encode())
                scope["headers"] = [own if item == (_SESSION, said) else item for item in scope["headers"]]
                hop.route = b"ring"
            elif hop.relayed:
                if session.node != held.node:
                    # Not for us to say that it is gone: whoever relayed has another address than that node's.
                    await not_held(scope, receive, send)
                    return
            elif await self._is_elsewhere(session, scope, receive, send):
                return
        await self._app(scope, receive, self._naming(send))

    async def _is_elsewhere(self, session: sessions.Session, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer for a session of another process; false where that process is gone."""
        try:
            address = await self._runtime.peers.address(session.node, session.boot)
        except StoreUnavailable:
            # A 404 would make the client throw its session away, which may well live on.
            await PlainTextResponse(_UNKNOWN, 503, {"retry-after": "1"})(scope, receive, send)
            return True
        if address is not None:
            await self._pass_on(address, scope, receive, send)
        return address is not None

    async def _pass_on(self, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self._runtime.settings.max_body
        body = Body(receive, limit)
        try:
            data = await body.whole()
        except TooLarge:
            await too_large(limit, receive, send)
            return
        if data is None:
            return
        passed = await self._runtime.peers.forward.pass_on(address, (scope, data), receive, send)
        if passed is Passed.BROKEN:
            await PlainTextResponse(_BROKEN, 502)(scope, receive, send)
        elif passed is not Passed.ANSWERED:
            await PlainTextResponse(_UNREACHED, 503, {"retry-after": "1"})(scope, receive, send)

    def _naming(self, send: Send) -> Send:
        """`send`, with the name of this process before a session's."""

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    (name, self._wrapped(value)) if name == _SESSION else (name, value)
                    for name, value in message.get("headers", ())
                ]
                message = {**message, "headers": headers}
            await send(message)

        return named

    def _wrapped(self, session: bytes) -> bytes:
        held = self._runtime.heartbeat.lease
        return sessions.wrap(held.node, held.boot, session.decode("latin-1")).encode("latin-1")
