"""Server events reach the listeners of every node: `subscriptions/listen` streams are where their clients are, changes
are published wherever a tool runs.

The SDK's bus in memory stays what it is; what is published on it is told to the other nodes as well, sealed. Delivery
is the SDK's: fire and forget. While the store is down an event reaches this node's listeners alone.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from framehold_core.errors import SealError, StoreUnavailable
from framehold_store.base import Store
from framehold_store.seal import Sealer

from .tasks import Tasks

logger = logging.getLogger(__name__)

_LISTS: dict[str, ServerEvent] = {
    type(event).__name__: event for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())
}


def end_streams(server: Server[Any]) -> None:
    """End every `subscriptions/listen` stream of this process in good order: each says what it still holds, and then
    that it is over, so that its client listens anew, elsewhere."""
    entry = server.get_request_handler("subscriptions/listen")
    if entry is not None and isinstance(entry.handler, ListenHandler):
        entry.handler.close()


class FleetBus:
    """Joins the bus of one server to those of the other nodes. `boot` names this process: what it told itself, it
    heard already."""

    def __init__(self, bus: InMemorySubscriptionBus, store: Store, sealer: Sealer, boot: str, tasks: Tasks) -> None:
        self._local, self._store, self._sealer, self._boot, self._tasks = bus.publish, store, sealer, boot, tasks
        # Whoever holds the bus publishes on all of them.
        bus.publish = self.publish  # type: ignore[method-assign]

    def open(self) -> None:
        """Hear what other nodes publish, until the store is closed."""
        self._store.listen(self._hear)

    async def publish(self, event: ServerEvent) -> None:
        """Deliver here, and tell the others."""
        await self._local(event)
        uri = event.uri if isinstance(event, ResourceUpdated) else ""
        told = json.dumps([self._boot, type(event).__name__, uri]).encode()
        try:
            await self._store.tell(self._sealer.seal("event", told, call="", n=0, kind="event", key=""))
        except StoreUnavailable as error:
            logger.warning("an event reached this node's listeners alone, those of others miss it: %s", error)

    def _hear(self, message: bytes) -> None:
        try:
            told = self._sealer.open("event", message, call="", n=0, kind="event", key="")
            boot, kind, uri = json.loads(told)
            event = ResourceUpdated(uri) if kind == ResourceUpdated.__name__ else _LISTS[kind]
        except (SealError, ValueError, TypeError, KeyError):
            logger.warning("an event of another node can't be read and was dropped: its key or its release is another")
            return
        if boot != self._boot:
            self._tasks.spawn(self._local(event))
