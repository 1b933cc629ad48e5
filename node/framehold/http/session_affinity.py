"""Sessions of 2025-era clients live in one process. The id of a session names its process.

1. the SDK opens a session: its id becomes `l1.<node>.<boot>.<id>`, for the SDK, the author's code and the client
2. a request of that session reaches this process: the SDK serves it
3. the request reaches another node: it is forwarded to its process while that process lives
4. the store does not answer, or the process can't be reached: 503, and the client tries again
5. the process is gone: the SDK doesn't know the id and replies 404; the client initializes anew

Private parts of the SDK that are touched here; a test names the release. Of `StreamableHTTPSessionManager`:
`_admit_session` opens a session, `_server_instances` and `_session_owners` have all of them by id.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from framehold_core.errors import ConfigError, StoreUnavailable
from framehold_fleet.members import session_ids

from ..engine.runtime import Runtime
from ..sdk.hop import Hop
from ..sdk.replies import not_held, session_cut_off
from .body import Body, Reception
from .foreign_response import ForeignResponse
from .forward import Forward, ForwardResult

_SESSION = b"mcp-session-id"
SESSIONLESS = {version.encode() for version in MODERN_PROTOCOL_VERSIONS}
"""The revisions that have no sessions, as a request names them in its header."""
_UNREACHED = "the node that holds this session can't be reached; nothing was sent; send the same request again\n"
_UNKNOWN = "the store can't be read, so where this session lives is not known; send the same request again\n"
_BROKEN = "the node that holds this session broke off; whether it served the request is not known\n"


def name_sessions(endpoint: Any, runtime: Runtime) -> None:
    """Let the ids of all sessions that `endpoint`, the SDK's, opens from now on name this process.

    Raises:
        ConfigError: this release of mcp opens sessions otherwise.
    """
    manager = getattr(endpoint, "session_manager", None)
    admit = getattr(manager, "_admit_session", None)
    if manager is None or admit is None:
        raise ConfigError("this release of mcp opens sessions elsewhere; nothing was started; use mcp 2.3")

    def admitted(requestor: Any) -> Any:
        transport = admit(requestor)
        if transport is not None:
            held, given = runtime.heartbeat.lease, transport.mcp_session_id
            transport.mcp_session_id = session_ids.wrap(held.node, held.boot, given)
            for sessions in (manager._server_instances, manager._session_owners):
                if given in sessions:
                    sessions[transport.mcp_session_id] = sessions.pop(given)
        return transport

    manager._admit_session = admitted


class SessionAffinity:
    """Serves sessions of this process by `app`, and forwards requests of other sessions to their processes. `modern`
    serves requests of a revision without sessions."""

    def __init__(self, app: ASGIApp, modern: ASGIApp, runtime: Runtime, forward: Forward, reception: Reception) -> None:
        self._app, self._modern, self._runtime = app, modern, runtime
        self._forward, self._reception = forward, reception

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve a request."""
        headers = dict(scope["headers"])
        modern = headers.get(b"mcp-protocol-version") in SESSIONLESS
        return (self._modern if modern else self._serve_counted)(scope, receive, send)

    async def _serve_counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; a node that drains waits for it."""
        if scope["method"] != "POST":
            # A GET opens a stream on which a client only listens, and which it keeps open: a drain does not wait.
            await self._serve(scope, receive, send)
            return
        with self._runtime.draining.visited():
            response = ForeignResponse(receive, send, session_cut_off)
            await response.serve(self._serve, scope, self._runtime.retry_after)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        header = next((value for name, value in scope["headers"] if name == _SESSION), None)
        session = None if header is None else session_ids.parse(header.decode("latin-1"))
        if session is not None:
            hop: Hop = scope["framehold"]
            held = self._runtime.heartbeat.lease
            if (session.node, session.boot) == (held.node, held.boot):
                hop.route = b"ring"
            elif hop.relayed:
                if session.node != held.node:
                    # This node can't say that the session is gone: the relaying node has a wrong address for its owner.
                    await not_held(scope, receive, send)
                    return
            elif await self._is_elsewhere(session, scope, receive, send):
                return
        await self._app(scope, receive, send)

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
        with self._reception.intake.request() as held:
            body = Body(receive, self._reception.limit, held)
            if (data := await self._reception.whole(body, held, scope, receive, send)) is not None:
                await self._pass_on(address, (scope, data), receive, send)

    async def _pass_on(self, address: str, request: tuple[Scope, bytes], receive: Receive, send: Send) -> None:
        scope = request[0]
        result = await self._forward.forward(address, request, receive, send)
        if result in (ForwardResult.BROKEN, ForwardResult.VANISHED):
            await PlainTextResponse(_BROKEN, 502)(scope, receive, send)
        elif result is not ForwardResult.ANSWERED:
            await PlainTextResponse(_UNREACHED, 503, {"retry-after": "1"})(scope, receive, send)
