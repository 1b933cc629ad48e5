"""Nodes that are not what their leases say, and routers that don't know what others do: each request ends with a clear
status within a bounded time, and what can be served is served."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_store import StoreConfig
from framehold_store.redis import RedisStore
from tests.fleet.fleet import Fleet, fleet
from tests.leases import lease
from tests.node.nodes import KEY, NodeProcess
from tests.proofs import introduced
from tests.store.server import RedisServer, Wire
from tests.wire import Caller

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def ghost(redis: RedisServer, made: Fleet, address: str, ringed: bool = True) -> AsyncIterator[None]:
    """A lease in the registry without a node behind it, which routers know, and have put on the ring if `ringed`."""
    store = RedisStore(StoreConfig(redis.url, made.folder.name))
    seals = LeaseSeal(Trust([KEY.encode()]), made.folder.name)
    record = seals.seal(lease("ghost", address=address, ttl=120.0))
    await store.register(record, 120.0)
    try:
        for router in made.routers:
            async with asyncio.timeout(10):
                while ("ghost", address) not in [(node["node_id"], node["address"]) for node in await router.nodes()]:
                    continue
            await router.knows(*made.nodes, *(["ghost"] if ringed else []))
        yield
    finally:
        await store.unregister(record)
        await store.close()


@asynccontextmanager
async def acting(script: Script) -> AsyncIterator[str]:
    """A server that behaves as `script` says with each connection; yields its address."""

    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await introduced(reader, writer)
                await script(reader, writer)
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            # A connection that is still served would be closed by the garbage collector, during some other test.
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads all, says nothing."""
    while await reader.read(65536):
        continue


async def dying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Breaks off in the middle of a response."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
    await writer.drain()


async def hanging_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads a request and leaves."""
    await reader.readuntil(b"\r\n\r\n")


async def garbled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Speaks something else."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"220 smtp.example ready\r\n")
    await writer.drain()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def empty(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """A router without a node, which waits a second for an answer."""
    async with fleet(tmp_path_factory.mktemp("empty"), redis) as made:
        await made.add_router(upstream_timeout="1")
        yield made


@pytest.fixture(scope="module")
async def pair(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """Two nodes behind a router."""
    async with fleet(tmp_path_factory.mktemp("pair"), redis, "node-1", "node-2") as made:
        await made.add_router()
        yield made


async def test_no_live_node(empty: Fleet) -> None:
    """503 with Retry-After at once, as a JSON-RPC error with the request's id; the router is not ready."""
    [router] = empty.routers
    async with Caller(router.url) as caller, asyncio.timeout(5):
        result = await caller.call("never", request_id="mine")
    async with httpx2.AsyncClient() as http:
        ready = await http.get(f"{router.root}/readyz")
        assert (await http.get(f"{router.root}/healthz")).status_code == 200
    assert (result.status, result.code, result.message["id"]) == (503, -32603, "mine")
    assert int(result.headers["retry-after"]) >= 1
    assert ready.status_code == 503 and "no live node" in ready.text


async def test_an_address_where_nobody_listens(redis: RedisServer, pair: Fleet) -> None:
    """Nothing was sent, so another node gets the request, under a new call id: no client notices."""
    async with ghost(redis, pair, "http://127.0.0.1:1"), Caller(pair.routers[0].url) as caller:
        names = [f"unheard{number}" for number in range(60)]
        result = await asyncio.gather(*(caller.call("one", arguments={"name": name}) for name in names))
        assert {reply.status for reply in result} == {200}
        done = await asyncio.gather(
            *(
                caller.retry("one", reply.token, reply.accept(word="w"), arguments={"name": name})
                for name, reply in zip(names, result, strict=True)
            )
        )
    assert [reply.text for reply in done] == [f"{name}: w" for name in names]
    entered = pair.entries()
    assert {name: entered[name] for name in names} == dict.fromkeys(names, 1)


async def test_an_address_that_is_none(redis: RedisServer, pair: Fleet) -> None:
    """That node is on no ring; the others serve."""
    [router] = pair.routers
    for address in ("", "not a url", "ftp://127.0.0.1:21", "http://127.0.0.1:0", "http://[::1"):
        async with ghost(redis, pair, address, ringed=False), Caller(router.url) as caller:
            result = await asyncio.gather(*(caller.call("never", arguments={"name": "n"}) for _ in range(10)))
        assert {reply.status for reply in result} == {200}
        assert {reply.headers["framehold-node"] for reply in result} <= pair.nodes.keys()
    assert router.log().count("nothing is sent to node 'ghost'") == 5


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


async def test_nodes_that_take_requests_and_do_not_answer(redis: RedisServer, empty: Fleet) -> None:
    """Whether they ran the request is not known: it is told so within the time limit, and sent to no other node."""
    for script, status in ((silent, 504), (hanging_up, 502), (garbled, 502)):
        async with acting(script) as address, ghost(redis, empty, address), Caller(empty.routers[0].url) as caller:
            async with asyncio.timeout(6):
                result = await caller.call("never", arguments={"name": "n"})
        assert (result.status, result.code) == (status, -32603), result.message
        assert "not known" in result.text


async def test_a_node_that_dies_within_its_response(redis: RedisServer, empty: Fleet) -> None:
    """The client sees that the response is not whole."""
    async with acting(dying) as address, ghost(redis, empty, address), Caller(empty.routers[0].url) as caller:
        with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
            await caller.call("never", arguments={"name": "n"})


async def test_a_relay_that_would_loop(redis: RedisServer, empty: Fleet) -> None:
    """A node that says that it is reached at the router: 503 at once, since a router does not prove to be a node, and
    the log says what to look at."""
    [router] = empty.routers
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
