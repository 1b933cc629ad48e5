"""Server events reach the listeners of every node: a `subscriptions/listen` stream is open on one node, and a tool may
publish a change on another.

An event that is published on the SDK's in-memory bus is sent to the other nodes too, sealed. Delivery is not
guaranteed, as on the SDK's bus. While the store is down an event reaches only the listeners of this node.
"""

from __future__ import annotations

import json
import logging

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from framehold_core.errors import SealError, StoreUnavailable
from framehold_store.base import Store
from framehold_store.seal import Sealer

from ..engine.tasks import Tasks

logger = logging.getLogger(__name__)

_LISTS: dict[str, ServerEvent] = {
    type(event).__name__: event for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())
}


class FleetBus:
    """Joins the bus of one server to those of the other nodes. `boot` names this process: its own events come back from
    the store, and are dropped."""

    def __init__(self, bus: InMemorySubscriptionBus, store: Store, sealer: Sealer, boot: str, tasks: Tasks) -> None:
        self._local, self._store, self._sealer, self._boot, self._tasks = bus.publish, store, sealer, boot, tasks
        # Code that has a reference to the bus publishes through this method from now on.
        bus.publish = self.publish  # type: ignore[method-assign]

    def open(self) -> None:
        """Receive the events of other nodes, until the store is closed."""
        self._store.subscribe(self._receive)

    async def publish(self, event: ServerEvent) -> None:
        """Deliver an event to the listeners of this node, and send it to the other nodes."""
        await self._local(event)
        uri = event.uri if isinstance(event, ResourceUpdated) else ""
        message = json.dumps([self._boot, type(event).__name__, uri]).encode()
        try:
            await self._store.publish(self._sealer.seal("event", message, call="", n=0, kind="event", key=""))
        except StoreUnavailable as error:
            logger.warning("an event reached this node's listeners alone, those of others miss it: %s", error)

    def _receive(self, message: bytes) -> None:
        """Deliver an event of another node to the listeners of this one."""
        try:
            opened = self._sealer.open("event", message, call="", n=0, kind="event", key="")
            boot, kind, uri = json.loads(opened)
            event = ResourceUpdated(uri) if kind == ResourceUpdated.__name__ else _LISTS[kind]
        except (SealError, ValueError, TypeError, KeyError):
            logger.warning("an event of another node can't be read and was dropped: its key or its release is another")
            return
        if boot != self._boot:
            self._tasks.spawn(self._local(event))
