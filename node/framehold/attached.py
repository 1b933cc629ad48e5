"""A server whose handlers suspend, while it runs: its lifespan with the runtime inside it, and what of its requests
outlives them.

Of the SDK's private parts these are touched; a test names the release:

- `RequestStateBoundary._security`: who seals this server's request states
- `ServerSession._connection`: a frame needs a connection of its own, with the same outbound channel
- `ServerSession._request_outbound`: a saga's request has a session whose client can do what sagas have steps for
- `StreamableHTTPSessionManager._server_instances`: how many sessions there are
- `ListenHandler._bus`: its events are told to the other nodes
"""

from __future__ import annotations

import copy
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ClientCapabilities

from framehold_core.errors import ConfigError
from framehold_store.seal import Sealer

from . import lag, tracing
from .app import counted
from .bus import FleetBus
from .config import Settings
from .handlers import Handlers
from .metrics import Metrics
from .names import Names
from .notices import notices
from .runtime import Runtime
from .session import Ctx

logger = logging.getLogger(__name__)


class Attached:
    """A server whose handlers suspend. `lifespan_state` is what its lifespan yielded, while it runs."""

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
        """What seals and verifies this server's request states."""
        self.security: RequestStateSecurity = boundary._security
        self.said: dict[str, Any] = {}
        """What its author decided in code, whatever settings it is attached with again."""
        self.lifespan_state: Any = None
        self.over_http = False
        """Whether an app of ours has started it."""
        self.names = Names(handlers.names)
        """By which its metrics are told."""
        self.exposition = counted(runtime, self.names)
        self._users = 0
        self._bus = _joined(server, runtime, settings)
        self.lifespan = server.lifespan
        """The author's own."""
        server.lifespan = self._run

    @property
    def metrics(self) -> Metrics | None:
        """What was counted, if anything is."""
        return None if self.exposition is None else self.exposition.metrics

    def sessions(self) -> int | None:
        """How many sessions of earlier revisions live here; None where the server's own app doesn't keep them."""
        try:
            found = getattr(self.server.session_manager, "_server_instances", None)
        except RuntimeError:
            # Served by an app of another make, or over no HTTP.
            return None
        return None if found is None else len(found)

    def check(self) -> None:
        """Refuse what can't be served as it is marked. Called at each start, when the server's lifespan may have
        registered its own; whoever starts one calls it before that, to have nothing to undo.

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
                f'pure or under once, else with @framehold.hold(strategy="hold"){setting}'
            )

    @asynccontextmanager
    async def _run(self, server: Server[Any]) -> AsyncIterator[Any]:
        """The server's lifespan with the runtime inside it: opened by the first that enters, closed by the last that
        leaves."""
        async with self.lifespan(server) as state:
            self.lifespan_state = state
            if not self._users:
                self.check()
                for line in notices(self.settings, self.handlers, self.runtime.heartbeat.address, self.over_http):
                    logger.warning(line)
            self._users += 1
            try:
                if self._users == 1:
                    await self.runtime.open()
                    if self.metrics is not None:
                        self.runtime.tasks.spawn(lag.watch(self.metrics.late))
                    if self._bus is not None:
                        self._bus.open()
                yield state
            finally:
                self._users -= 1
                if self._users == 0:
                    await self.runtime.close()
                    await tracing.flush()


def _joined(server: Server[Any], runtime: Runtime, settings: Settings) -> FleetBus | None:
    """The server's bus, joined to those of the other nodes. A bus of the author's own is the author's."""
    entry = server.get_request_handler("subscriptions/listen")
    bus = getattr(entry.handler, "_bus", None) if entry is not None else None
    if type(bus) is not InMemorySubscriptionBus or settings.store_url is None:
        return None
    sealer = Sealer(settings.secrets(), settings.namespace)
    return FleetBus(bus, runtime.store, sealer, runtime.heartbeat.lease.boot, runtime.tasks)


def connection_of(ctx: Ctx) -> Connection:
    """The connection that a frame begins under: an identity and a protocol version, nothing that ends with its
    round."""
    connection: Connection = ctx.session._connection
    return connection


def session_of(ctx: Ctx, has: ClientCapabilities) -> ServerSession:
    """The session of a request whose wire declares no capabilities: its client has these.

    Raises:
        MCPError: no handshake was made, on a revision that has one.
    """
    own = connection_of(ctx)
    if not own.initialize_accepted:
        # As the SDK says it.
        raise MCPError(INVALID_PARAMS, "Invalid request parameters", "")
    connection = copy.copy(own)
    connection.client_capabilities = has
    return ServerSession(ctx.session._request_outbound, connection, request_meta=ctx.meta)
