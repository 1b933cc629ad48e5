"""The history of a fleet: one sample for each slot of time, which the first router keeps, and which ends by itself."""

from __future__ import annotations

import pytest

from framehold_core.errors import StoreFull
from framehold_store import Store, StoreConfig
from framehold_store.memory import MemoryStore
from framehold_store.redis import RedisStore
from framehold_store.samples import READ
from tests.kit.redis_server import RedisServer, running

pytestmark = pytest.mark.anyio


async def test_the_first_sample_of_a_slot_stays(store: Store) -> None:
    await store.keep_sample(10, 7, b"first", 60.0)
    await store.keep_sample(10, 7, b"second", 60.0)
    await store.keep_sample(60, 7, b"another step", 60.0)
    assert await store.samples(10, [6, 7, 8]) == (None, b"first", None)
    assert await store.samples(60, [7]) == (b"another step",)
    assert await store.samples(10, []) == ()


async def test_many_samples_are_read_in_their_order(store: Store) -> None:
    slots = range(2 * READ + 5)
    for slot in slots[::2]:
        await store.keep_sample(10, slot, b"%d" % slot, 60.0)
    found = await store.samples(10, slots)
    assert found == tuple(None if slot % 2 else b"%d" % slot for slot in slots)


async def test_a_sample_ends_in_memory() -> None:
    now = [0.0]
    store = MemoryStore(lambda: now[0])
    await store.keep_sample(60, 1, b"for a day", 86_400.0)
    await store.keep_sample(10, 1, b"for an hour", 3600.0)
    now[0] = 3600.0
    assert await store.samples(10, [1]) == (None,)
    assert await store.samples(60, [1]) == (b"for a day",)
    await store.keep_sample(10, 1, b"anew", 3600.0)
    assert await store.samples(10, [1]) == (b"anew",)


async def test_a_sample_ends_in_redis() -> None:
    with running(RedisServer(options=("--maxmemory-policy", "noeviction"))) as server:
        store = RedisStore(StoreConfig(server.url))
        await store.keep_sample(10, 7, b"x", 3600.0)
        with server.client() as client:
            (key,) = client.keys("fh:default:*")
            assert key == b"fh:default:{history}:10:7" and 0 < client.pttl(key) <= 3_600_000
            client.config_set("maxmemory", "1")
        with pytest.raises(StoreFull):
            await store.keep_sample(10, 8, b"y", 3600.0)
        await store.close()
