"""An attached server: its handlers suspend. Its lifespan opens and closes the runtime of this node.

Private parts of the SDK that are touched here; a test names the release:

- `RequestStateBoundary._security`: the policy that seals this server's request states
- `StreamableHTTPSessionManager._server_instances`: the number of sessions
- `StreamableHTTPSessionManager._has_started`: whether the SDK's own app has been started
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus

from framehold_core.errors import ConfigError
from framehold_core.lease import code_names
from framehold_fleet.members.event_writer import EventWriter
from framehold_fleet.models.events import LogEntry
from framehold_fleet.models.fields import printable
from framehold_store.seal import Sealer

from ..app import counted
from ..config import Settings
from ..engine.heartbeat import Heartbeat
from ..engine.runtime import Runtime
from ..sdk.present_call import current
from ..telemetry.ended_calls import EndedCall, EndedCallWriter
from ..telemetry.event_log import NodeEvents
from ..telemetry.metrics import CallMetrics
from ..telemetry.stacks import authors
from ..telemetry.stalls import StallWatch
from ..telemetry.tool_labels import ToolLabels
from .event_bus import FleetBus
from .handlers import HandlerCode, Handlers, MarkedHandler
from .lifetime import Lifetime
from .listeners import bus_of, share_listeners
from .startup_warnings import notices, refuse_workers

logger = logging.getLogger(__name__)

_RANDOM_NAME = re.compile("FastMCP-[0-9a-f]{4}")
_begins: contextvars.ContextVar[list[Server[Any]] | None] = contextvars.ContextVar("framehold_begins", default=None)
"""The server whose next lifespan in this context is that of a whole service, and not of one connection. It is taken off
the list, since tasks that begin meanwhile inherit the variable."""


class Attached:
    """A server whose handlers suspend. `lifespan_state` is the value that its lifespan has yielded to the service that
    Framehold runs of it, while that runs. Any other connection has a lifespan of its own."""

    marked: tuple[MarkedHandler, ...] = ()
    """The handlers that may ask, with their marks, as at the start; empty before it."""
    over_http = False
    """Whether Framehold's ASGI app has started this server."""
    _announced = False
    _address = ""
    """The URL of this process, as far as it is known."""

    def __init__(
        self,
        server: Server[Any],
        handlers: Handlers,
        runtime: Runtime,
        settings: Settings,
        boundary: RequestStateBoundary,
    ) -> None:
        self.server, self.handlers, self.runtime, self.settings = server, handlers, runtime, settings
        self.boundary = boundary
        """Seals and verifies this server's request states."""
        self.security: RequestStateSecurity = boundary._security
        self.set_in_code: dict[str, Any] = {}
        """The settings that the author gave in code, by name. They stay when the server is attached again."""
        self.lifespan_state: Any = None
        self.names = ToolLabels(handlers.names)
        """The names of tools that may be labels of metrics."""
        runtime.peers.identity = self._identity
        self.exposition = counted(runtime, self.names)
        self.code: tuple[HandlerCode, ...] | None = None
        """The code of the re-entrant handlers, as at the start; None if no code is kept, or the server has not been
        started."""
        self.event_writer = EventWriter(runtime.store, LogEntry.encoded)
        """Writes the events of this node to the event log of its fleet."""
        self._ended = EventWriter(runtime.store, EndedCall.encoded, "ended")
        self._failed = EventWriter(runtime.store, EndedCall.encoded, "failed")
        self._event_log = NodeEvents(runtime.heartbeat, self.event_writer.write)
        # A node alone has no fleet whose routers would read it.
        self._reports = isinstance(runtime.heartbeat, Heartbeat)
        if self._reports:
            runtime.observers.add(self._event_log)
            runtime.observers.add(EndedCallWriter(runtime.heartbeat, self._ended.write, self._failed.write))
        self.stalls = StallWatch(_tool, runtime.clock, None if self.metrics is None else self.metrics.late)
        self._bus = _joined(server, runtime, settings)
        self._lifetime = Lifetime(runtime, self._begin)
        self.lifespan = server.lifespan
        """The lifespan that the author gave the server."""
        server.lifespan = self._run

    @property
    def metrics(self) -> CallMetrics | None:
        """The metrics of this node; None if metrics are off."""
        return None if self.exposition is None else self.exposition.metrics

    def sessions(self) -> int | None:
        """The number of sessions of earlier revisions in this process; None if the server's own app doesn't keep
        them."""
        try:
            found = getattr(self.server.session_manager, "_server_instances", None)
        except RuntimeError:
            # Another app serves it, or it is not served over HTTP.
            return None
        return None if found is None else len(found)

    def _identity(self) -> tuple[str | None, str | None]:
        """The name of the server, None if FastMCP made it up at random, and the digest of the names of its tools."""
        name = printable(self.server.name)
        return None if _RANDOM_NAME.fullmatch(name) else name, self.names.digest

    def check(self) -> None:
        """Refuse a server whose handlers can't be served as they are marked. It is called at each start, inside the
        server's lifespan, which may have registered handlers. A program that starts a server calls it before the
        lifespan, so that there is nothing to undo.

        Raises:
            ConfigError: strategy replay would enter a handler again that isn't marked re-entrant.
        """
        chosen = self.settings.strategy
        named = self.handlers.replayed_unmarked(chosen)
        if named:
            setting = ", or leave all frames in memory with FRAMEHOLD_STRATEGY=hold" if chosen == "replay" else ""
            raise ConfigError(
                "strategy replay enters a handler again with each answer, and these are not marked re-entrant: "
                f"{', '.join(named)}; nothing was started; mark each with @framehold.reentrant if all its effects are "
                f'pure or under once, else with @framehold.options(strategy="hold"){setting}'
            )

    @asynccontextmanager
    async def _run(self, server: Server[Any]) -> AsyncIterator[Any]:
        """The server's lifespan with the runtime inside it.

        Raises:
            ConfigError: the program runs on trio, or the handlers can't be served as they are marked.
        """
        _require_asyncio()
        begun = _begins.get()
        is_service = begun is not None and server in begun
        if begun is not None and is_service:
            begun.remove(server)
        with self._lifetime.named():
            if not self._lifetime.is_open:
                self._choose_address()
            async with self.lifespan(server) as state:
                if is_service:
                    self.lifespan_state = state
                if not self._lifetime.is_open:
                    self.check()
                    if is_service:
                        refuse_workers(self.settings)
                    self._announce()
                opens = self.handlers.host.opens_resources(self.lifespan)
                async with self._lifetime.use(stays=not (is_service or opens or self._has_app_of_the_sdk())):
                    yield state

    def _announce(self) -> None:
        """Name the codes of the handlers in the node's lease, and log the warnings about the start, at the first start
        only: each connection may be a start."""
        if not self._announced:
            self._announced = True
            self.marked = tuple(self.handlers.marked(self.settings.strategy))
            # Every start reads the code of the handlers: the first call of a tool would hold up the event loop with it.
            codes = code_names(self.handlers.served_codes())
            if isinstance(self.runtime.heartbeat, Heartbeat):
                self.runtime.heartbeat.codes = codes
                if self.settings.keeps_code:
                    self.code = tuple(self.handlers.kept_code(self.settings.max_code))
            for line in notices(self.settings, self.handlers, self._address, self.over_http, self.code or ()):
                logger.warning(line)

    def _choose_address(self) -> None:
        """Give no address to the second node of a process if no app of Framehold's serves it: the address is that of
        the process, and leads to the first node."""
        heartbeat = self.runtime.heartbeat
        self._address = heartbeat.address or self._address
        second = self._lifetime.node != self.settings.node_id
        heartbeat.address = "" if second and not self.over_http else self._address

    def begin_service(self, over_http: bool = False) -> None:
        """The next lifespan of the server that is entered in this context is that of a whole service: the runtime ends
        with it."""
        self.over_http = self.over_http or over_http
        _begins.set([self.server])

    def _has_app_of_the_sdk(self) -> bool:
        """Whether the SDK's own app has been started: its end is that of a service, too."""
        try:
            return getattr(self.server.session_manager, "_has_started", False) is True
        except RuntimeError:
            return False

    def _begin(self) -> None:
        """Start what runs beside the runtime, which has just been opened."""
        self.runtime.tasks.spawn(self.stalls.watch(authors(self.handlers.asking())))
        if self._reports:
            for writer in (self.event_writer, self._ended, self._failed):
                self.runtime.tasks.spawn(writer.run())
            self.runtime.tasks.spawn(self._event_log.watch())
        if self._bus is not None:
            self._bus.open()


def _require_asyncio() -> None:
    """Raise ConfigError if the running event loop is not asyncio's. The SDK runs on trio, too; frames don't."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "an attached server runs on asyncio only, and this program runs it on trio; nothing was started; run it on "
            "asyncio (anyio.run(main) without backend='trio'), or serve it without Framehold"
        ) from None


def _tool(variables: contextvars.Context) -> str:
    """The tool of the call that the code with these context variables belongs to; empty if it belongs to none."""
    present = variables.get(current)
    return "" if present is None else present.tool


def _joined(server: Server[Any], runtime: Runtime, settings: Settings) -> FleetBus | None:
    """Have the server's users share its streams. Returns its bus, joined to those of the other nodes; None if there is
    no shared store, or the author made the bus."""
    share_listeners(server)
    bus = bus_of(server)
    if type(bus) is not InMemorySubscriptionBus or settings.store_url is None:
        return None
    sealer = Sealer(settings.secrets(), settings.namespace)
    return FleetBus(bus, runtime.store, sealer, runtime.heartbeat.lease.boot, runtime.tasks)
