"""Calls whose node is gone are marked by whoever looks, and taken over by nobody until their clients come back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framehold.engine.heartbeat import Alone
from framehold.engine.orphan_scan import PAUSE, OrphanCounts, OrphanScan
from framehold_core.clock import Clock
from framehold_core.lease import NodeRecord, Renewal
from framehold_core.requests import Evidence, Seen
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_store.memory import MemoryStore
from tests.kit.leases import lease
from tests.store.calls import PLAIN, TTL, Story

pytestmark = pytest.mark.anyio

SEALS = LeaseSeal(Trust([b"k" * 32]), "ns")


async def joined(store: MemoryStore, node: str, boot: str) -> NodeRecord:
    record = SEALS.seal(lease(node, f"i-{boot}", boot, expires=store._clock() + 60.0))
    assert (await store.register(record, 60.0)).result is Renewal.RENEWED
    return record


def stopped(at: float) -> Clock:
    """A clock that stands still."""
    return Clock(lambda: at, lambda: at, bytes)


def look(store: MemoryStore, node: str) -> OrphanScan:
    return OrphanScan(store, Alone(node, stopped(0.0)), SEALS, pace=(0.0, PAUSE))


async def told(store: MemoryStore, *requests: Any) -> None:
    for request in requests:
        await store.run(request)


async def test_what_nobody_runs_is_marked_and_left_as_it_is() -> None:
    store = MemoryStore(lambda: 0.0)
    orphan, unmarked, parked, released, done = Story(), Story(PLAIN), Story(), Story(), Story()
    await told(store, orphan.ask, unmarked.ask, parked.ask, parked.claims(Seen(1, "node-1", "inc-1"), Evidence.GONE))
    await told(store, released.ask, released.release, done.ask, done.finish)
    await joined(store, "node-2", "boot-9")
    before = [await store.run(story.read) for story in (orphan, unmarked)]
    marked = await look(store, "node-2").walk()
    assert (marked.looked, marked.orphaned, marked.lost, marked.handed_off, marked.stuck) == (5, 1, 1, 1, 0)
    assert {item.call for item in marked.calls} == {orphan.call, unmarked.call}
    assert [await store.run(story.read) for story in (orphan, unmarked)] == before
    await joined(store, "node-1", "boot-1")
    assert (await look(store, "node-1").walk()).orphaned == 0


async def test_what_a_living_node_has_handed_off_is_in_its_own_figures() -> None:
    """It counts once in the account of open calls: the scan counts it as soon as the node is gone."""
    store = MemoryStore(lambda: 0.0)
    released = Story()
    await told(store, released.ask, released.release)
    drained = await joined(store, "node-1", "boot-1")
    await joined(store, "a", "boot-9")
    assert (await look(store, "a").walk()).handed_off == 0
    await store.unregister(drained)
    assert (await look(store, "a").walk()).handed_off == 1


async def test_what_no_client_can_come_back_for_is_not_marked() -> None:
    """Its token has expired, though its record is kept for longer; or it has asked nothing yet."""
    store = MemoryStore(lambda: 0.0)
    await told(store, Story().ask, Story().first_intent)
    await joined(store, "a", "boot-a")
    for now, orphaned in ((0.0, 1), (TTL - 61.0, 1), (TTL - 60.0, 0)):
        looking = OrphanScan(store, Alone("a", stopped(now)), SEALS, outlives=60.0, pace=(0.0, PAUSE))
        marked = await looking.walk()
        assert (marked.looked, marked.orphaned) == (2, orphaned)


async def test_one_node_looks_and_when_it_goes_the_next_one_does() -> None:
    store = MemoryStore(lambda: 0.0)
    await told(store, Story().ask)
    first = await joined(store, "a", "boot-a")
    await joined(store, "b", "boot-b")
    assert ((await look(store, "a").walk()).looked, (await look(store, "b").walk()).looked) == (1, 0)
    await store.unregister(first)
    assert ((await look(store, "a").walk()).looked, (await look(store, "b").walk()).looked) == (0, 1)


async def test_who_stands_far_behind_looks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at whose turn it is reads all leases: of a thousand nodes nearly all would look in vain. The next in
    line looks as often as ever."""
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 2:
            raise asyncio.CancelledError

    store = MemoryStore(lambda: 0.0)
    for number in range(100):
        await joined(store, f"n{number:02}", "boot")
    monkeypatch.setattr("framehold.engine.orphan_scan.asyncio.sleep", rest)
    found = {}
    for node in ("n00", "n01", "n07", "n99"):
        rests.clear()
        with pytest.raises(asyncio.CancelledError):
            await OrphanScan(store, Alone(node, stopped(0.0)), SEALS, pace=(0.0, 10.0)).run()
        found[node] = rests[-1]
    assert found == {"n00": 1.0, "n01": 10.0, "n07": 70.0, "n99": 300.0}


async def test_a_walk_goes_over_everything_a_portion_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framehold.engine.orphan_scan.PORTION", 7)
    monkeypatch.setattr("framehold.engine.orphan_scan.MAX_NAMED_CALLS", 3)
    store = MemoryStore(lambda: 0.0)
    await told(store, *(Story().ask for _ in range(40)))
    await joined(store, "a", "boot-a")
    marked = await look(store, "a").walk()
    assert (marked.looked, marked.orphaned, len(marked.calls)) == (40, 40, 3)


async def test_a_walk_that_meets_a_bug_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore(lambda: 0.0)
    await told(store, Story().ask)
    await joined(store, "a", "boot-a")
    looking, walk = OrphanScan(store, Alone("a", stopped(0.0)), SEALS, pace=(0.0, 0.0)), OrphanScan.walk
    walks: list[int] = []

    async def stumbles() -> OrphanCounts:
        walks.append(1)
        if len(walks) == 1:
            raise RuntimeError("a bug")
        return await walk(looking)

    looking.walk = stumbles
    running = asyncio.create_task(looking.run())
    async with asyncio.timeout(5):
        while not looking.marked.orphaned:
            await asyncio.sleep(0)
    running.cancel()
    assert "a bug in the scan for orphaned calls" in caplog.text
