"""Nodes that are not what their leases say, and routers that don't know what others do: each request ends with a clear
status within a bounded time, and what can be served is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_store import StoreConfig
from framehold_store.redis import RedisStore
from tests.kit.client import Caller
from tests.kit.fleet import Fleet, fleet
from tests.kit.leases import lease
from tests.kit.nodes import KEY, NodeProcess
from tests.kit.redis_server import RedisServer, Wire

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]


@asynccontextmanager
async def ghost(redis: RedisServer, made: Fleet, address: str) -> AsyncIterator[None]:
    """A lease in the registry without a node behind it, which routers know, and have put on the ring."""
    store = RedisStore(StoreConfig(redis.url, made.folder.name))
    seals = LeaseSeal(Trust([KEY.encode()]), made.folder.name)
    record = seals.seal(lease("ghost", address=address, ttl=120.0))
    await store.register(record, 120.0)
    try:
        for router in made.routers:
            async with asyncio.timeout(10):
                while ("ghost", address) not in [(node["node_id"], node["address"]) for node in await router.nodes()]:
                    continue
            await router.knows(*made.nodes, "ghost")
        yield
    finally:
        await store.unregister(record)
        await store.close()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def pair(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """Two nodes behind a router."""
    async with fleet(tmp_path_factory.mktemp("pair"), redis, "node-1", "node-2") as made:
        await made.add_router()
        yield made


async def test_a_node_with_other_keys(pair: Fleet) -> None:
    """It shares the store and the name of the fleet, and is not believed: the router says so, and serves by the
    others."""
    [router] = pair.routers
    environment = {"FRAMEHOLD_NODE_ID": "stranger", "FRAMEHOLD_KEYS": "k" * 32}
    stranger = NodeProcess(pair.target, pair.folder / "stranger.log", 0, **{**pair.common, **environment})
    try:
        await stranger.start()
        async with asyncio.timeout(10):
            while "stranger" not in (states := {node["node_id"]: node["state"] for node in await router.nodes()}):
                continue
        async with Caller(router.url) as caller:
            result = await asyncio.gather(*(caller.call("never", arguments={"name": "n"}) for _ in range(20)))
        assert {reply.headers["framehold-node"] for reply in result} <= pair.nodes.keys()
        assert states == {**dict.fromkeys(pair.nodes, "live"), "stranger": "other keys"}
        assert "one of this fleet's keys" in router.log()
    finally:
        stranger.stop()


async def test_a_relay_that_would_loop(redis: RedisServer, tmp_path: Path) -> None:
    """A node that says that it is reached at the router: 503 at once, since a router does not prove to be a node, and
    the log says what to look at."""
    async with fleet(tmp_path, redis) as empty:
        router = await empty.add_router()
        async with ghost(redis, empty, router.root), Caller(router.url) as caller, asyncio.timeout(5):
            result = await caller.call("never", arguments={"name": "n"})
    assert result.status == 503 and "nothing was started" in result.text
    assert "FRAMEHOLD_ADVERTISE_URL" in router.log()


# Last, as it adds a node to the fleet.
async def test_two_routers_with_different_views(redis: RedisServer, pair: Fleet) -> None:
    """One has lost the store and doesn't know the third node: what it sends to another is relayed there."""
    [new] = pair.routers
    async with Wire(redis.port) as wire:
        old = await pair.add_router(store_url=f"redis://127.0.0.1:{wire.port}")
        pair.routers.remove(old)
        try:
            await wire.__aexit__()
            await pair.add_nodes("node-3")
            await _talks_through(new.url, old.url, pair)
        finally:
            old.stop()


async def _talks_through(new: str, old: str, made: Fleet) -> None:
    names = [f"viewed{number}" for number in range(60)]
    async with Caller(new) as at_new, Caller(old) as at_old:
        response = [await at_new.call("three", arguments={"name": name}) for name in names]
        homes = [reply.headers["framehold-node"] for reply in response]
        assert set(homes) == {"node-1", "node-2", "node-3"}
        for turn in range(3):
            response = [
                await at_old.retry("three", reply.token, reply.accept(word="w"), arguments={"name": name})
                for name, reply in zip(names, response, strict=True)
            ]
            assert [reply.headers["framehold-node"] for reply in response] == homes
            relayed = sum(reply.headers["framehold-route"] == "lease" for reply in response)
            # It never hears of node-3, so it can't learn to send there: those are relayed each time.
            assert relayed == homes.count("node-3"), (turn, relayed)
    assert [reply.text for reply in response] == [f"{name}: w w w" for name in names]
    entered = made.entries()
    assert {name: entered[name] for name in names} == dict.fromkeys(names, 1)
