"""Messages of one node to all nodes, in all three stores."""

import asyncio
import secrets

import pytest
from redis.asyncio import ConnectionPool

from framehold_cli.local.ports import free as free_port
from framehold_store import Store, StoreConfig, channels
from framehold_store.channels import follow
from framehold_store.connections import open_pool
from framehold_store.redis import RedisStore
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio

SOON = 10.0


async def tell_until(store: Store, reply: "asyncio.Queue[bytes]") -> bytes:
    """Nothing is kept for who listens late: speak until somebody has heard."""
    text = set()
    async with asyncio.timeout(SOON):
        while True:
            text.add(message := secrets.token_bytes(8))
            await store.publish(message)
            try:
                while (found := await asyncio.wait_for(reply.get(), 0.05)) not in text:
                    continue
                return found
            except TimeoutError:
                continue


async def test_what_is_told_is_heard(store: Store) -> None:
    """The publisher receives the messages too: unchanged bytes, in the order of publishing."""
    await store.publish(b"into the void")
    reply: asyncio.Queue[bytes] = asyncio.Queue()
    store.subscribe(reply.put_nowait)
    assert await tell_until(store, reply) != b"into the void", "nothing is kept for who listens late"
    for message in (b"", b"\x00\xff\r\n", b"x" * 100_000):
        await store.publish(message)
    async with asyncio.timeout(SOON):
        while await reply.get() != b"":
            continue
        assert [await reply.get(), await reply.get()] == [b"\x00\xff\r\n", b"x" * 100_000]


@pytest.fixture
def configs(shared_server: RedisServer, namespace: str) -> list[StoreConfig]:
    return [StoreConfig(shared_server.url, f"{namespace}-{name}", op_timeout=5.0) for name in ("a", "a", "b")]


async def test_every_node_of_the_namespace_hears_and_no_other(configs: list[StoreConfig]) -> None:
    """Fleets that share a Redis don't receive messages of each other."""
    one, two, other = stores = [RedisStore(config) for config in configs]
    queues: list[asyncio.Queue[bytes]] = [asyncio.Queue() for _ in stores]
    for store, queue in zip(stores, queues, strict=True):
        store.subscribe(queue.put_nowait)
        await tell_until(store, queue)
    await one.publish(b"for a")
    await other.publish(b"for b")
    async with asyncio.timeout(SOON):
        while await queues[1].get() != b"for a":
            continue
        text = []
        while b"for b" not in text:
            text.append(await queues[2].get())
    assert b"for a" not in text
    for store in stores:
        await store.close()
    assert two.request_counts == {}


async def test_a_server_that_hangs_is_left_for_another(shared_server: RedisServer, server: RedisServer) -> None:
    """Also when it takes the connection and then says nothing: the next subscription may lead elsewhere."""
    pools = [open_pool(StoreConfig(one.url, op_timeout=0.1)) for one in (server, shared_server)]
    asked: asyncio.Queue[int] = asyncio.Queue()
    reply: asyncio.Queue[bytes | None] = asyncio.Queue()
    here = 0

    def pool() -> ConnectionPool:
        asked.put_nowait(here)
        return pools[here]

    channel = secrets.token_hex(8)
    task = asyncio.create_task(follow(pool, channel, reply.put_nowait, 0.1))
    async with asyncio.timeout(SOON):
        assert (await asked.get(), await reply.get()) == (0, None)
        server.pause()
        assert await asked.get() == 0
        here = 1
        assert (await asked.get(), await reply.get()) == (1, None)
        with shared_server.client() as client:
            client.publish(channel, b"there")
        assert await reply.get() == b"there"
    task.cancel()
    await asyncio.wait((task,))
    server.resume()
    for one in pools:
        await one.aclose()


async def test_a_server_is_looked_for_as_long_as_it_takes(
    shared_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "_BACKOFF", (0.0,) * len(channels._BACKOFF))
    there, nowhere = (open_pool(StoreConfig(url)) for url in (shared_server.url, f"redis://127.0.0.1:{free_port()}"))
    pools = [*[nowhere] * 3 * len(channels._BACKOFF), there]
    reply: asyncio.Queue[bytes | None] = asyncio.Queue()
    following = asyncio.create_task(follow(lambda: pools.pop(0), secrets.token_hex(8), reply.put_nowait, 0.1))
    async with asyncio.timeout(SOON):
        assert await reply.get() is None and not pools
    following.cancel()
    await asyncio.wait((following,))
    for pool in (there, nowhere):
        await pool.aclose()
