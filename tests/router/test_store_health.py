"""What a router knows of the store: whether it answers, has room, how full it is, and that it lost something."""

from __future__ import annotations

import asyncio
from itertools import repeat

import pytest

from framehold_core.errors import StoreFull, StoreRefused, StoreUnavailable
from framehold_core.pauses import OPERATOR, Pause, Tools
from framehold_fleet.members.losses import Losses
from framehold_fleet.members.store_health import ANSWERS, FRESH, FULL, REFUSES, SILENT, StoreHealth, StoreLook
from framehold_fleet.models.events import EventKind, LogEntry
from framehold_store import StoreConfig
from framehold_store.base import MemoryUse
from framehold_store.memory import MemoryStore
from framehold_store.redis import RedisStore
from tests.kit.redis_server import RedisServer, running


class Scale(MemoryStore):
    """A store that says how full it is."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.use: MemoryUse | StoreUnavailable | None = None
        self.asked = 0

    async def memory(self) -> MemoryUse | None:
        self.asked += 1
        if isinstance(self.use, StoreUnavailable):
            raise self.use
        return self.use

    async def unsaved(self) -> str:
        return "aof_last_write_status:err"


Trouble = StoreUnavailable | None
NO_DISK = StoreRefused("refused", "MISCONF no disk")
ODD = StoreUnavailable("odd")
LOOKS: dict[str, tuple[Trouble, Trouble, MemoryUse | Trouble, StoreLook]] = {
    "no limit": (None, None, None, StoreLook(ANSWERS)),
    "full before anybody has written": (None, None, MemoryUse(11, 10), StoreLook(FULL, MemoryUse(11, 10))),
    "full, where the user may not ask": (None, StoreFull("no room"), None, StoreLook(FULL)),
    "another trouble of a write": (None, ODD, None, StoreLook(ANSWERS)),
    "a read refused": (NO_DISK, None, None, StoreLook(REFUSES, None, "MISCONF no disk")),
    "a write refused": (None, NO_DISK, None, StoreLook(REFUSES, None, "MISCONF no disk")),
    "a read refused, and a write failed": (NO_DISK, ODD, None, StoreLook(REFUSES, None, "MISCONF no disk")),
    "the question refused": (None, None, NO_DISK, StoreLook(REFUSES, None, "MISCONF no disk")),
    "the question not answered": (None, None, ODD, StoreLook(SILENT)),
    "a stale view": (ODD, None, None, StoreLook(SILENT)),
}


@pytest.mark.parametrize(("unread", "unwritten", "use", "look"), LOOKS.values(), ids=LOOKS)
async def test_how_a_store_is(
    store: Scale, unread: Trouble, unwritten: Trouble, use: MemoryUse | Trouble, look: StoreLook
) -> None:
    store.use = use
    found = await StoreHealth(store, repeat(unread).__next__, repeat(unwritten).__next__).look()
    assert found._replace(unsaved="") == look
    assert found.unsaved == ("aof_last_write_status:err" if look.state in (ANSWERS, FULL) and store.asked else "")
    assert look.state != SILENT or unread is None or not store.asked


@pytest.fixture
def store() -> Scale:
    return Scale()


async def test_a_store_is_asked_once_for_many_looks(store: Scale) -> None:
    now = [0.0]
    health = StoreHealth(store, lambda: None, lambda: None, lambda: now[0])
    store.use = MemoryUse(11, 10)
    assert {(await health.look()).state for _ in range(10)} == {FULL} and store.asked == 1
    store.use, now[0] = MemoryUse(9, 10), FRESH
    assert (await health.look())[:2] == (ANSWERS, MemoryUse(9, 10)) and store.asked == 2


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


async def test_a_bug_in_one_read_does_not_end_the_watch_for_losses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("framehold_fleet.members.losses.PAUSE", 0.0)
    store, read_again, reads = Scale(), asyncio.Event(), iter((ValueError("odd"), None))

    async def tools() -> Tools:
        if (error := next(reads)) is not None:
            raise error
        read_again.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(store, "tools", tools)
    task = asyncio.create_task(Losses(store, lambda entry: None).run())
    await asyncio.wait((task, asyncio.ensure_future(read_again.wait())), return_when=asyncio.FIRST_COMPLETED)
    assert read_again.is_set() and "a bug in reading the paused tools" in caplog.text
    task.cancel()
