"""A double of an author's server, for a rehearsal: a node in this process that has the same handlers, lifespan and
middleware, and a client to it. The author's own server is read and never changed, whether it is attached or not.

Other than its original, a double takes every handler for re-entrant, and seals its tokens with the rehearsal's key in
the place of the author's policy."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.request_state import AESGCMRequestStateCodec, RequestStateBoundary, RequestStateSecurity
from mcp.server.runner import modern_error_data, modern_on_request
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.transport_context import TransportContext
from mcp_types.methods import INPUT_REQUIRED_METHODS, SPEC_CLIENT_METHODS
from mcp_types.version import LATEST_MODERN_VERSION

from framehold_core.ids import CallId
from framehold_router.internal import Trust
from framehold_store.base import Store

from ..app import build
from ..attach import lowlevel
from ..attached import Attached, connection_of
from ..config import Settings
from ..handlers import Behind, Handlers
from ..marks import Marks
from ..peers import Peers
from ..prefix import PrefixCodec
from ..runtime import Runtime
from ..seam import Seam
from .mistakes import watched
from .script import listed

Strategy = Literal["hold", "replay"]
Reply = dict[str, Any] | types.ErrorData
"""A result as JSON, or an error."""
Send = Callable[[dict[str, Any]], Awaitable[Reply]]
"""Sends one request's parameters."""

_CLIENT = {
    types.PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
    types.CLIENT_INFO_META_KEY: {"name": "rehearsal", "version": "1"},
    types.CLIENT_CAPABILITIES_META_KEY: {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}, "context": {}},
        "roots": {},
    },
}


class Original(NamedTuple):
    """What is doubled: the author's server, and the secret (32 bytes or more) that all its doubles have."""

    server: Any
    key: str


class There(Handlers):
    """The author's handlers, to look one up."""

    def __init__(self, server: Any) -> None:
        self._server = server if isinstance(server, MCPServer) else lowlevel(server)
        super().__init__(self._server)

    async def missing(self, method: str, kind: str, name: str) -> str | None:
        """That there is no such handler, in words; None if there is."""
        params = {"name": name, "uri": name}
        if self.asks(method, params) or self.marks(method, params).code:
            return None
        names: list[str] | None = None
        if isinstance(self._server, MCPServer):
            names = await _names(self._server, kind)
            if name in names:
                return None
        there = f"the server has no handler of {method}" if names is None else f"there are {listed(names)}"
        return f"there is no {kind} {name!r} here; nothing was run; {there}"


async def _names(server: MCPServer[Any], kind: str) -> list[str]:
    if kind == "tool":
        return [tool.name for tool in await server.list_tools()]
    if kind == "prompt":
        return [prompt.name for prompt in await server.list_prompts()]
    templates = [template.uri_template for template in await server.list_resource_templates()]
    return [str(resource.uri) for resource in await server.list_resources()] + templates


class Willing(Handlers):
    """The marks of the author's handlers, as if each were re-entrant and of one strategy."""

    def __init__(self, server: Any, strategy: Strategy) -> None:
        super().__init__(server)
        self._strategy = strategy

    def marks(self, method: str, params: Mapping[str, Any]) -> Marks:
        """See `Handlers.marks`."""
        return replace(super().marks(method, params), reentrant=True, strategy=self._strategy)


class Alike(Peers):
    """The peers of a node that has none. Its call ids are those of all rehearsals of this call."""

    def __init__(self, node: str, mint: Callable[[], CallId]) -> None:
        super().__init__(node, Trust(()), None)
        self._next = mint

    def mint(self) -> CallId:
        """The next id."""
        return self._next()


class Letter:
    """One request, as the SDK's kernel takes it (`DispatchContext`). Notifications and progress go nowhere."""

    transport = TransportContext(kind="rehearsal", can_send_request=False)
    can_send_request = False
    message_metadata = None

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self.cancel_requested = anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refuse: a server of this revision has no channel back."""
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Nobody listens."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Nobody listens."""


@asynccontextmanager
async def opened(
    original: Original, method: str, strategy: Strategy, node: str, store: Store, mint: Callable[[], CallId]
) -> AsyncIterator[Send]:
    """A double that serves `method` as node `node` over `store`, whose call ids are minted by `mint`. It is closed as a
    node that stops is: its frames are dropped, effects that run come to their end."""
    settings = Settings(
        node_id=node, store_url=None, namespace="rehearsal", keys=(original.key,), strategy="hold", rehearse=False
    )
    runtime = build(settings, settings.token_ttl, store)
    runtime.peers = Alike(node, mint)
    inner = lowlevel(original.server)
    # The lifespan of a server that is attached opens the runtime of its own.
    attached = getattr(inner.lifespan, "__self__", None)
    lifespan = attached.lifespan if isinstance(attached, Attached) else inner.lifespan
    server = _copied(inner, settings)
    _wrap(server, runtime, Willing(original.server, strategy))
    async with lifespan(server) as state:
        await runtime.open()
        try:
            yield _sender(server, state, method)
        finally:
            await runtime.close()


def _copied(inner: Server[Any], settings: Settings) -> Server[Any]:
    server: Server[Any] = Server(inner.name, version=inner.version, title=inner.title, instructions=inner.instructions)
    server.cache_hints = inner.cache_hints
    security = RequestStateSecurity(codec=PrefixCodec(AESGCMRequestStateCodec(settings.secrets())))
    boundary = RequestStateBoundary(security, default_audience=inner.name)
    chain: list[Any] = [boundary if isinstance(item, RequestStateBoundary) else item for item in inner.middleware]
    server.middleware[:] = chain if boundary in chain else [*chain, boundary]
    for method in sorted(SPEC_CLIENT_METHODS):
        entry = inner.get_request_handler(method)
        if entry is not None:
            handler = entry.handler.handler if isinstance(entry.handler, Seam) else entry.handler
            server.add_request_handler(method, entry.params_type, handler)
    return server


def _wrap(server: Server[Any], runtime: Runtime, handlers: Handlers) -> None:
    for method in sorted(INPUT_REQUIRED_METHODS):
        entry = server.get_request_handler(method)
        if entry is not None:
            seam = Seam(watched(entry.handler), method, runtime, connection_of, Behind(handlers, entry.params_type))
            server.add_request_handler(method, entry.params_type, seam)


def _sender(server: Server[Any], state: Any, method: str) -> Send:
    """Sends as a client would that can answer every kind of question."""
    serve, ids = modern_on_request(server, state), itertools.count(1)

    async def send(params: dict[str, Any]) -> Reply:
        try:
            return await serve(Letter(next(ids)), method, {**params, "_meta": _CLIENT})
        except Exception as error:
            return modern_error_data(error)

    return send
