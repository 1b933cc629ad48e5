"""Sessions of 2025-era clients live in one process. The id of a session names its process.

1. the SDK gives a new session an id: the client gets `l1.<node>.<boot>.<id>` instead
2. a request of that session reaches this process: the SDK gets its own id again
3. the request reaches another node: it is forwarded to its process while that process lives
4. the store does not answer, or the process can't be reached: 503, and the client tries again
5. the process is gone: the SDK gets an id that it doesn't know and replies 404; the client initializes anew
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable

from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from framehold_core.errors import StoreUnavailable
from framehold_router.fleet import session_ids

from ..engine.runtime import Runtime
from ..sdk.hop import Hop
from ..sdk.replies import not_held, too_large
from .body import Body, TooLarge
from .forward import Forward, ForwardResult

_SESSION = b"mcp-session-id"
_SESSIONLESS = {version.encode() for version in MODERN_PROTOCOL_VERSIONS}
_UNREACHED = "the node that holds this session can't be reached; nothing was sent; send the same request again\n"
_UNKNOWN = "the store does not answer, so where this session lives is not known; send the same request again\n"
_BROKEN = "the node that holds this session broke off; whether it served the request is not known\n"


class SessionAffinity:
    """Serves sessions of this process by `app`, and forwards requests of other sessions to their processes."""

    def __init__(self, app: ASGIApp, runtime: Runtime, forward: Forward) -> None:
        self._app, self._runtime, self._forward = app, runtime, forward

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve a request. A request of a revision without sessions goes to `app` at once."""
        headers = dict(scope["headers"])
        modern = headers.get(b"mcp-protocol-version") in _SESSIONLESS
        return (self._app if modern else self._serve_counted)(scope, receive, send)

    async def _serve_counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; a node that drains waits for it."""
        # A GET opens a stream on which a client only listens, and which it keeps open: a drain does not wait for that.
        visit = self._runtime.draining.visited() if scope["method"] == "POST" else contextlib.nullcontext()
        with visit:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        header = next((value for name, value in scope["headers"] if name == _SESSION), None)
        session = None if header is None else session_ids.parse(header.decode("latin-1"))
        if session is not None:
            hop: Hop = scope["framehold"]
            held = self._runtime.heartbeat.lease
            if (session.node, session.boot) == (held.node, held.boot):
                own = (_SESSION, session.session.encode())
                scope["headers"] = [own if item == (_SESSION, header) else item for item in scope["headers"]]
                hop.route = b"ring"
            elif hop.relayed:
                if session.node != held.node:
                    # This node can't say that the session is gone: the relaying node has a wrong address for its owner.
                    await not_held(scope, receive, send)
                    return
            elif await self._is_elsewhere(session, scope, receive, send):
                return
        await self._app(scope, receive, self._wrapping_ids(send))

    async def _is_elsewhere(self, session: session_ids.Session, scope: Scope, receive: Receive, send: Send) -> bool:
        """Serve a request of another process's session. False: that process is gone, and nothing was sent."""
        try:
            address = await self._runtime.peers.address(session.node, session.boot)
        except StoreUnavailable:
            # After a 404 the client would give up its session, which may still live.
            await PlainTextResponse(_UNKNOWN, 503, {"retry-after": "1"})(scope, receive, send)
            return True
        if address is not None:
            await self._forward_to(address, scope, receive, send)
        return address is not None

    async def _forward_to(self, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self._runtime.settings.max_body
        body = Body(receive, limit)
        try:
            data = await body.whole()
        except TooLarge:
            await too_large(limit, receive, send)
            return
        if data is None:
            return
        result = await self._forward.forward(address, (scope, data), receive, send)
        if result in (ForwardResult.BROKEN, ForwardResult.VANISHED):
            await PlainTextResponse(_BROKEN, 502)(scope, receive, send)
        elif result is not ForwardResult.ANSWERED:
            await PlainTextResponse(_UNREACHED, 503, {"retry-after": "1"})(scope, receive, send)

    def _wrapping_ids(self, send: Send) -> Send:
        """Returns `send`, which also puts the name of this process before the session id of a response."""

        async def wrapped(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    (name, self._wrapped(value)) if name == _SESSION else (name, value)
                    for name, value in message.get("headers", ())
                ]
                message = {**message, "headers": headers}
            await send(message)

        return wrapped

    def _wrapped(self, session: bytes) -> bytes:
        held = self._runtime.heartbeat.lease
        return session_ids.wrap(held.node, held.boot, session.decode("latin-1")).encode("latin-1")
