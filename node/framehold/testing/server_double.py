"""A double of an author's server, for a rehearsal: a node in this process with the same handlers, lifespan and
middleware, and a client to it. The author's own server is only read, whether it is attached or not.

A double differs from its original in two ways: it treats every handler as re-entrant, and it seals its tokens with the
key of the rehearsal, not by the author's policy."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import AESGCMRequestStateCodec, RequestStateBoundary, RequestStateSecurity
from mcp.server.runner import modern_error_data, modern_on_request
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.transport_context import TransportContext
from mcp_types.methods import INPUT_REQUIRED_METHODS, SPEC_CLIENT_METHODS
from mcp_types.version import LATEST_MODERN_VERSION

from framehold_core.ids import CallId
from framehold_router.fleet.trust import Trust
from framehold_store.base import Store

from ..app import build
from ..config import Settings
from ..engine.peers import Peers
from ..engine.runtime import Runtime
from ..hosts.attached import Attached
from ..hosts.connections import connection_of
from ..hosts.handlers import Handlers
from ..hosts.host import Host
from ..hosts.host_choice import host_of
from ..sdk.marks import Marks
from ..sdk.seam import Seam
from ..sdk.state_codec import PrefixCodec
from ..wires.legacy_session import LegacyCalls
from .client_script import listed
from .mistakes import observed

Strategy = Literal["hold", "replay"]
Reply = dict[str, Any] | types.ErrorData
"""A result as JSON, or an error."""
Send = Callable[[dict[str, Any]], Awaitable[Reply]]
"""Sends a request with the given parameters, and returns the reply."""

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
    """The author's server, and the key (32 bytes or more) with which all its doubles seal their tokens."""

    server: Any
    key: str


class HandlerSearch(Handlers):
    """The author's handlers, to find one by name."""

    async def missing(self, method: str, kind: str, name: str) -> str | None:
        """An error text if there is no handler of this name; None if there is one."""
        params = {"name": name, "uri": name}
        if self.host.function(method, params) is not None:
            return None
        names = await self.host.listed(kind)
        if names is not None and name in names:
            return None
        there = f"the server has no handler of {method}" if names is None else f"there are {listed(names)}"
        return f"there is no {kind} {name!r} here; nothing was run; {there}"


class AllReentrant(Handlers):
    """The marks of the author's handlers, as if each were re-entrant and had the given strategy."""

    def __init__(self, host: Host, strategy: Strategy) -> None:
        super().__init__(host)
        self._strategy = strategy

    def marks(self, method: str, params: Mapping[str, Any]) -> Marks:
        """See `Handlers.marks`."""
        return replace(super().marks(method, params), reentrant=True, strategy=self._strategy)


class NoPeers(Peers):
    """The peers of a node that has none. `mint` makes its call ids, which are the same in all ways."""

    def __init__(self, node: str, mint: Callable[[], CallId]) -> None:
        super().__init__(node, Trust(()), None)
        self._next = mint

    def mint(self) -> CallId:
        """The next id."""
        return self._next()


class DoubleRequest:
    """One request, as the SDK's kernel takes it (`DispatchContext`). Notifications and progress are dropped."""

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
        """Drop it: the client of a rehearsal does not listen."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Drop it: the client of a rehearsal does not listen."""


@asynccontextmanager
async def opened(
    original: Original, method: str, strategy: Strategy, node: str, store: Store, mint: Callable[[], CallId]
) -> AsyncIterator[Send]:
    """A double of `original` while it is open: node `node` over `store`, which serves `method`. `mint` makes the ids of
    its calls. It closes like a node that stops: its frames are dropped, and it waits for effects that run."""
    settings = Settings(
        node_id=node, store_url=None, namespace="rehearsal", keys=(original.key,), strategy="hold", rehearse=False
    )
    runtime = build(settings, settings.token_ttl, store)
    runtime.peers = NoPeers(node, mint)
    host = host_of(original.server)
    inner = host.lowlevel
    # The lifespan of an attached server would open that server's own runtime.
    attached = getattr(inner.lifespan, "__self__", None)
    lifespan = attached.lifespan if isinstance(attached, Attached) else inner.lifespan
    server = _copied(inner, settings)
    _wrap(server, runtime, AllReentrant(host, strategy))
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
            handler, params_type = observed(entry.handler), entry.params_type
            earlier = LegacyCalls(handler, runtime)
            seam = Seam(handler, method, params_type, runtime, connection_of, handlers, earlier)
            server.add_request_handler(method, params_type, seam)


def _sender(server: Server[Any], state: Any, method: str) -> Send:
    """A function that sends requests like a client that can answer every kind of question."""
    serve, ids = modern_on_request(server, state), itertools.count(1)

    async def send(params: dict[str, Any]) -> Reply:
        try:
            return await serve(DoubleRequest(next(ids)), method, {**params, "_meta": _CLIENT})
        except Exception as error:
            return modern_error_data(error)

    return send
