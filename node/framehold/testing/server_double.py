"""A double of an author's server, for a rehearsal: a node in this process with the same handlers, lifespan and
middleware, and a client to it. The author's own server is only read, whether it is attached or not.

A double differs from its original in two ways: all its calls have the strategy of the rehearsal, and its tokens are
sealed with the key of the rehearsal, not by the author's policy. These tokens don't expire: its time stands still."""

from __future__ import annotations

import inspect
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import FunctionType
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

from framehold_core.clock import Clock
from framehold_core.ids import CallId
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_store.base import Store
from framehold_store.system_clock import system_clock

from ..app import build
from ..code.authors import Authors
from ..code.codes import Codes, Registered
from ..config import Settings, load
from ..engine.peers import Peers
from ..engine.runtime import Runtime
from ..hosts.attached import Attached
from ..hosts.connections import connection_of
from ..hosts.handlers import Handlers
from ..hosts.host import Host
from ..hosts.host_choice import host_of
from ..sdk import form_schemas
from ..sdk.form_content import listed
from ..sdk.marks import reentrant
from ..sdk.seam import Seam
from ..sdk.state_codec import PrefixCodec
from ..sdk.wrapped_handler import FoundHandler, Handler
from ..wires.legacy_session import LegacyCalls
from .kept_code import KeptCode
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
    """The author's server, and the key (32 bytes or more) with which all its doubles seal their tokens.
    `assume_reentrant`: its doubles treat every handler as re-entrant."""

    server: Any
    key: str
    assume_reentrant: bool


class Node(NamedTuple):
    """A node to open: a double of `original` over `store`, which serves `method`. `mint` makes the ids of its calls.
    `code` keeps the code of handlers; None: nothing does."""

    original: Original
    method: str
    strategy: Strategy
    store: Store
    mint: Callable[[], CallId]
    code: KeptCode | None


_KINDS = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}
_NEVER = 1e12
"""A time that does not come, in seconds since 1970."""


class HandlerSearch(Handlers):
    """The author's handlers, to find one by name."""

    async def missing(self, method: str, kind: str, name: str) -> str | None:
        """An error text if there is no handler of this name; None if there is one."""
        if await self._has(method, kind, name):
            return None
        names = await self.host.listed(kind)
        there = f"the server has no handler of {method}" if names is None else f"there are {listed(names)}"
        return f"there is no {kind} {name!r} here; nothing was run; {there}{await self._other_kind(kind, name)}"

    async def _other_kind(self, wrong: str, name: str) -> str:
        """A hint that the name is that of another kind of handler; empty if it is not."""
        if not self.host.knows_each_function:
            return ""
        for method, kind in _KINDS.items():
            if kind != wrong and await self._has(method, kind, name):
                say = f'leave out kind="{wrong}"' if kind == "tool" else f'say kind="{kind}"'
                return f"; there is a {kind} {name!r}: {say}"
        return ""

    async def _has(self, method: str, kind: str, name: str) -> bool:
        if self.host.function(method, {"name": name, "uri": name}) is not None:
            return True
        return name in (await self.host.listed(kind) or ())


class DoubleHandlers(Handlers):
    """The author's handlers as a double serves them: each has the given strategy."""

    def __init__(self, host: Host, strategy: Strategy, codes: Codes, assume_reentrant: bool) -> None:
        super().__init__(host, codes)
        self._strategy, self._assume = strategy, assume_reentrant

    def find(self, method: str, params: Mapping[str, Any]) -> FoundHandler:
        """See `Handlers.find`."""
        found = super().find(method, params)
        marks = replace(found.marks, reentrant=found.marks.reentrant or self._assume, strategy=self._strategy)

        def kept(registered: Registered) -> Handler | None:
            if self._assume:
                reentrant(registered.function)
            handler = found.kept(registered)
            return None if handler is None else observed(handler)

        return replace(found, marks=marks, kept=kept, obstacle=partial(self._obstacle, method, params))

    def _obstacle(self, method: str, params: Mapping[str, Any]) -> str:
        name = f'{_KINDS.get(method)} "{params.get("name") or params.get("uri")}"'
        return next((item.obstacle for item in self.host.registrations() if item.name == name), "")


class LastingTokens(PrefixCodec):
    """A codec whose tokens don't expire."""

    def unseal(self, wire: str) -> bytes:
        """See `PrefixCodec.unseal`."""
        return json.dumps({**json.loads(super().unseal(wire)), "exp": _NEVER}).encode()


class NoPeers(Peers):
    """The peers of a node that has none. `mint` makes its call ids, which are the same in all ways."""

    def __init__(self, node: str, clock: Clock, mint: Callable[[], CallId]) -> None:
        super().__init__(node, trust := Trust(()), LeaseSeal(trust, ""), None, clock)
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


def settings_of(server: Any) -> Settings:
    """The settings of the author's server: those it is attached with, else those of the environment."""
    attached = _attached(host_of(server))
    return load() if attached is None else attached.settings


def digest_of(server: Any, method: str, params: Mapping[str, Any]) -> str:
    """The digest of the code that serves a request; empty if there is none. It says nothing about the marks."""
    return Handlers(host_of(server), _codes(server)).find(method, params).code()


def require_imported(server: Any, method: str, params: Mapping[str, Any]) -> None:
    """Raise ValueError if the module of the function behind a request is not the imported one of its name any more: its
    code can't be kept then as its own process keeps it."""
    fn = inspect.unwrap(host_of(server).function(method, params))
    fn = getattr(fn, "__func__", fn)
    if not isinstance(fn, FunctionType) or vars(sys.modules.get(fn.__module__, object)) is fn.__globals__:
        return
    raise ValueError(
        f"the module {fn.__module__!r} of the earlier release is not imported under this name any more; nothing was "
        "played; import it under a name of its own, or give a recording, which `record` makes in the earlier release"
    )


def _codes(server: Any) -> Codes:
    return Codes(Authors(settings_of(server).code_modules))


def _attached(host: Host) -> Attached | None:
    found = getattr(host.lowlevel.lifespan, "__self__", None)
    return found if isinstance(found, Attached) else None


@asynccontextmanager
async def opened(node: Node, name: str) -> AsyncIterator[Send]:
    """A node of this name while it is open. It closes like a node that stops: its frames are dropped, and it waits for
    effects that run."""
    original = node.original
    own = {"node_id": name, "store_url": None, "namespace": "rehearsal", "keys": (original.key,)}
    # The process of the tests may be larger than one in production.
    rehearsal = {"strategy": "hold", "rehearse": False, "memory_limit": None}
    settings = settings_of(original.server).model_copy(update={**own, **rehearsal})
    clock = system_clock()
    runtime = build(settings, settings.token_ttl, clock, node.store, node.code)
    runtime.peers = NoPeers(name, clock, node.mint)
    host = host_of(original.server)
    # The lifespan of an attached server would open that server's own runtime.
    attached = _attached(host)
    lifespan = host.lowlevel.lifespan if attached is None else attached.lifespan
    server = _copied(host.lowlevel, settings, clock)
    handlers = DoubleHandlers(host, node.strategy, _codes(original.server), original.assume_reentrant)
    _wrap(server, runtime, handlers)
    form_schemas.keep()
    async with lifespan(server) as state:
        await runtime.open()
        try:
            yield _sender(server, state, node.method)
        finally:
            await runtime.close()


def _copied(inner: Server[Any], settings: Settings, clock: Clock) -> Server[Any]:
    server: Server[Any] = Server(inner.name, version=inner.version, title=inner.title, instructions=inner.instructions)
    server.cache_hints = inner.cache_hints
    security = RequestStateSecurity(codec=LastingTokens(AESGCMRequestStateCodec(settings.secrets()), clock))
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
            seam = Seam(handler, method, params_type, runtime, connection_of, handlers.find, earlier)
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
