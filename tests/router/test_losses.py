"""A store that is emptied while no node lives: a router that has read the paused tools writes them again, and tells."""

from __future__ import annotations

import pytest

from framehold_core.pauses import OPERATOR, Pause
from framehold_fleet.members.losses import Losses
from framehold_fleet.models.events import EventKind, LogEntry
from framehold_store import StoreConfig
from framehold_store.redis import RedisStore
from tests.store.server import RedisServer, running

pytestmark = pytest.mark.anyio
BOOK = Pause("book", 1.5, OPERATOR, "it bills twice")


async def test_a_router_writes_pauses_again_and_tells_of_the_loss_once() -> None:
    told: list[LogEntry] = []
    with running(RedisServer()) as server, server.client() as client:
        store, other = RedisStore(StoreConfig(server.url)), RedisStore(StoreConfig(server.url))
        losses, second = Losses(store, told.append), Losses(other, told.append)
        await store.pause(BOOK)
        for one in (losses, second):
            await one.look()
        assert losses.last is None and not told
        client.flushall()
        for one in (losses, second, losses):
            await one.look()
        assert losses.last is not None and losses.last.pauses == 1 and losses.last.emptied
        assert second.last == losses.last.model_copy(update={"pauses": 0})
        assert (await other.tools()).paused == (BOOK,)
        [event] = [entry.event for entry in told]
        assert event is not None and event.kind == EventKind.STORE_EMPTIED and "written again: 1." in event.text
        with server.paused():
            await losses.look()
        assert losses.last is not None, "what is known stands"
        await store.close()
        await other.close()
