"""The event log of a fleet: in order, from any place, and bounded by number and by age; and how full a server is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from framehold_core.errors import StoreFull, StoreUnavailable
from framehold_store import Store, StoreConfig
from framehold_store.base import MAX_EVENT_AGE, MAX_EVENTS, StreamName
from framehold_store.memory import MemoryStore
from framehold_store.redis import RedisStore
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer, running

pytestmark = pytest.mark.anyio


async def test_entries_are_read_in_order_from_any_place(store: Store) -> None:
    assert await store.events() == ()
    await store.append_events([b"1", b"2"])
    await store.append_events([b"3"])
    first = await store.events(count=2)
    assert [event.entry for event in first] == [b"1", b"2"] and first[0].place < first[1].place
    rest = await store.events(first[-1].place)
    assert [event.entry for event in rest] == [b"3"]
    assert await store.events(rest[-1].place) == ()
    await store.append_events([])
    assert await store.events(rest[-1].place) == ()


async def test_each_stream_has_its_own_entries_and_its_own_bound(store: Store) -> None:
    names: tuple[StreamName, ...] = ("log", "ended", "failed", "routers")
    for name in names:
        await store.append_events([name.encode()], name)
    assert [[event.entry for event in await store.events(of=name)] for name in names] == [
        [name.encode()] for name in names
    ]
    await store.append_events([b"x"] * MAX_EVENTS, "ended")
    assert [event.entry for event in await store.events(of="failed")] == [b"failed"]


async def test_no_more_than_the_last_entries_are_kept(store: Store) -> None:
    for start in range(0, MAX_EVENTS + 500, 500):
        await store.append_events([b"%d" % number for number in range(start, start + 500)])
    places, found = "", list[bytes]()
    while page := await store.events(places, 1000):
        places = page[-1].place
        found += [event.entry for event in page]
    assert len(found) == MAX_EVENTS and (found[0], found[-1]) == (b"500", b"5499")


async def test_an_entry_is_kept_for_a_day_in_memory() -> None:
    now = [0.0]
    store = MemoryStore(lambda: now[0])
    await store.append_events([b"old"])
    now[0] = MAX_EVENT_AGE["log"] + 1
    await store.append_events([b"new"])
    assert [event.entry for event in await store.events()] == [b"new"]


@pytest.mark.parametrize("last", [None, f"{2**64 - 1}-{2**64 - 1}"])
async def test_what_takes_no_entry_is_replaced(
    shared_server: RedisServer, namespace: str, last: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else has written another type there, or an entry at the last place that there is."""
    store, key = RedisStore(StoreConfig(shared_server.url, namespace)), f"fh:{namespace}:log"
    with shared_server.client() as client:
        client.xadd(key, {"e": "x"}, id=last) if last else client.set(key, "x")
    await store.append_events([b"1", b"2"])
    assert [event.entry for event in await store.events()] == [b"1", b"2"]
    assert f"what stood at {key} was none of this fleet's" in caplog.text
    await store.close()


@pytest.fixture
def roomy() -> Iterator[RedisServer]:
    """A server that has a limit and evicts nothing."""
    with running(RedisServer(options=("--maxmemory-policy", "noeviction"))) as built:
        yield built


async def test_an_entry_is_kept_for_a_day_in_redis(roomy: RedisServer) -> None:
    """By the server's clock; and the whole log ends a day after the last entry."""
    store = RedisStore(StoreConfig(roomy.url))
    with roomy.client() as client:
        client.xadd("fh:default:log", {"e": "of 1970"}, id="1-1")
        await store.append_events([b"new"])
        assert [event.entry for event in await store.events()] == [b"new"]
        assert 0 < client.pttl("fh:default:log") <= MAX_EVENT_AGE["log"] * 1000
    await store.close()


async def test_what_others_wrote_there_is_skipped_or_said(roomy: RedisServer) -> None:
    store = RedisStore(StoreConfig(roomy.url))
    with roomy.client() as client:
        client.xadd("fh:default:log", {"other": "x"})
        assert [event.entry for event in await store.events()] == [b""]
        client.delete("fh:default:log")
        client.set("fh:default:log", "x")
    with pytest.raises(StoreUnavailable, match="check who else writes there"):
        await store.events()
    await store.close()


async def test_a_store_without_room_says_that_it_is_full(roomy: RedisServer) -> None:
    store = RedisStore(StoreConfig(roomy.url))
    assert await store.memory() is None, "it has no limit"
    with roomy.client() as client:
        client.config_set("maxmemory", "64mb")
        use = await store.memory()
        assert use is not None and use.limit == 64 << 20 and 0 < use.used < use.limit
        client.config_set("maxmemory", "1")
        with pytest.raises(StoreFull):
            await store.append_events([b"1"])
        assert await store.events() == ()
    await store.close()


async def test_a_user_that_may_not_ask_is_told_no_figures(restricted: RedisServer, namespace: str) -> None:
    store = RedisStore(StoreConfig(restricted.url, namespace))
    assert await store.memory() is None and await store.unsaved() == ""
    await store.close()


async def test_a_store_that_can_not_save_says_so(roomy: RedisServer) -> None:
    store = RedisStore(StoreConfig(roomy.url))
    assert await store.unsaved() == ""
    with roomy.client() as client:
        client.config_set("stop-writes-on-bgsave-error", "no")
        folder = client.config_get("dir")["dir"]
        try:
            Path(folder, "dump.rdb").unlink(missing_ok=True)
            Path(folder, "dump.rdb").mkdir()
            client.bgsave()
            await until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", "the save to fail")
            assert await store.unsaved() == "rdb_last_bgsave_status:err"
        finally:
            Path(folder, "dump.rdb").rmdir()
    await store.close()
