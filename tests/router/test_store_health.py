"""What a router knows of the store: whether it answers, has room, and how full it is."""

from __future__ import annotations

from itertools import repeat

import pytest

from framehold_core.errors import StoreFull, StoreRefused, StoreUnavailable
from framehold_fleet.members.store_health import ANSWERS, FRESH, FULL, REFUSES, SILENT, StoreHealth, StoreLook
from framehold_store.base import MemoryUse
from framehold_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


def fine() -> StoreUnavailable | None:
    """The last write was taken."""
    return None


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


@pytest.fixture
def store() -> Scale:
    return Scale()


async def test_a_store_without_a_limit_answers(store: Scale) -> None:
    assert await StoreHealth(store, lambda: None, fine).look() == StoreLook(ANSWERS, None)


async def test_a_store_whose_memory_is_used_up_is_full(store: Scale) -> None:
    """Before anybody has written to it."""
    now = [0.0]
    health = StoreHealth(store, lambda: None, fine, lambda: now[0])
    store.use = MemoryUse(11, 10)
    assert (await health.look()).state == FULL
    store.use = MemoryUse(9, 10)
    now[0] = FRESH
    assert await health.look() == StoreLook(ANSWERS, MemoryUse(9, 10))


async def test_a_save_that_failed_is_told(store: Scale, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unsaved() -> str:
        return "aof_last_write_status:err"

    monkeypatch.setattr(store, "unsaved", unsaved)
    assert (await StoreHealth(store, lambda: None, fine).look()).unsaved == "aof_last_write_status:err"


async def test_the_store_is_asked_once_for_many_looks(store: Scale) -> None:
    now = [0.0]
    health = StoreHealth(store, lambda: None, fine, lambda: now[0])
    for _ in range(10):
        await health.look()
    assert store.asked == 1
    now[0] = FRESH
    await health.look()
    assert store.asked == 2


async def test_a_write_that_was_refused_says_what_memory_may_not(store: Scale) -> None:
    """The user may have no right to ask for it. Another trouble of a write says nothing while reads are answered."""
    for trouble, state in ((StoreFull("no room"), FULL), (StoreUnavailable("odd"), ANSWERS), (None, ANSWERS)):
        assert (await StoreHealth(store, lambda: None, repeat(trouble).__next__).look()).state == state


async def test_a_store_that_refuses_is_told_with_its_own_word(store: Scale) -> None:
    """Whether a write, a read of the leases or the question for its memory was refused."""
    refused = StoreRefused("refused", "MISCONF no disk")
    for unread, unwritten in ((refused, None), (None, refused), (refused, StoreUnavailable("odd"))):
        health = StoreHealth(store, repeat(unread).__next__, repeat(unwritten).__next__)
        assert await health.look() == StoreLook(REFUSES, None, "MISCONF no disk")
    store.use = refused
    assert await StoreHealth(store, lambda: None, fine).look() == StoreLook(REFUSES, None, "MISCONF no disk")


async def test_a_store_that_does_not_answer_is_silent(store: Scale) -> None:
    """A stale view is enough: it is not asked then, which would hold up whoever looks."""
    store.use = StoreUnavailable("no answer")
    assert (await StoreHealth(store, lambda: None, fine).look()).state == SILENT
    asked = store.asked
    assert (
        await StoreHealth(store, lambda: StoreUnavailable("no answer"), fine).look()
    ).state == SILENT and store.asked == asked
