"""Who gives way when all connections of a router are taken, and the one that is accepted as its server ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from framehold_fleet.http_server import client_connection
from framehold_fleet.http_server.places import AT_ONCE, yielding
from framehold_fleet.members.address import Address
from tests.node.nodes import served
from tests.router.wires import DEADLINE, Reply, both_loops, head, node, ok, post, router, silent

anyio_backend = both_loops
LISTEN = post(b"{}", "Mcp-Method: subscriptions/listen")


@dataclass(eq=False)
class Held:
    """A connection: whose, and since when it may end."""

    peer: str
    since: float | None

    def yields_since(self, now: float) -> float | None:
        return self.since


def held(**by_peer: list[float | None]) -> list[Held]:
    return [Held(peer, since) for peer, times in by_peer.items() for since in times]


def test_the_longest_of_the_address_with_most_places_goes_first() -> None:
    """Not that of the address with few, though it may have waited longer."""
    connections = held(few=[1.0], many=[5.0, 3.0, 4.0], some=[2.0, 2.5])
    (gone,) = yielding(connections, "new", 10.0)
    assert (gone.peer, gone.since) == ("many", 3.0)


def test_an_address_takes_no_place_from_one_that_has_fewer() -> None:
    assert yielding(held(few=[1.0], many=[None, None]), "many", 10.0) == []
    (gone,) = yielding(held(few=[None], many=[1.0, None]), "few", 10.0)
    assert gone.peer == "many"
    (gone,) = yielding(held(alone=[None, 2.0]), "alone", 10.0)
    assert gone.since == 2.0


def test_where_all_are_at_work_nobody_gives_way() -> None:
    assert yielding(held(a=[None] * 5, b=[None]), "c", 10.0) == []


def test_some_places_are_made_free_at_once_and_evenly() -> None:
    """To look at all connections for each client that comes would be an attack by itself."""
    gone = yielding(held(a=[float(n) for n in range(AT_ONCE)], b=[float(n) for n in range(AT_ONCE)]), "c", 1000.0)
    assert sorted((one.peer, one.since) for one in gone) == [("a", 0.0), ("a", 1.0), ("b", 0.0)]


async def listening(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hold a subscription open, and answer the rest."""
    if reply.one(b"mcp-method") is None:
        writer.write(ok(reply.body))
        return
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n:\r\n")
    await reader.read()


async def test_a_call_gets_a_place_though_subscriptions_have_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription ends, which its client sees; a connection that has just come is left alone."""
    async with node(listening) as upstream, router(upstream.address, max_connections=2) as it:
        first, second = await it.client(), await it.client()
        for client in (first, second):
            client.send(LISTEN)
            assert (await head(client.reader)).status == 200
        refused = await it.all(post(b"early"))
        assert refused.startswith(b"HTTP/1.1 503 ") and b"FRAMEHOLD_MAX_CONNECTIONS" in refused
        monkeypatch.setattr(client_connection, "GRACE", -1.0)
        it.front._no_room_until = 0.0
        assert (await (await it.client()).ask(post(b"call"))).body == b"call"
        listens = [asyncio.ensure_future(client.reader.readuntil(b"never")) for client in (first, second)]
        (ended,), (_,) = await asyncio.wait(listens, return_when=asyncio.FIRST_COMPLETED)
        assert isinstance(ended.exception(), asyncio.IncompleteReadError | ConnectionResetError)
    await asyncio.gather(*listens, return_exceptions=True)


async def test_an_idle_connection_gives_way_and_a_call_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is under way may have begun: to break it off would leave its client in doubt."""
    gate = asyncio.Event()

    async def slow(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reply.body == b"slow":
            await gate.wait()
        writer.write(ok(reply.body))

    monkeypatch.setattr(client_connection, "GRACE", -1.0)
    async with node(slow) as upstream, router(upstream.address, max_connections=2) as it:
        busy, idle = await it.client(), await it.client()
        busy.send(post(b"slow"))
        await upstream.arrived.wait()
        assert (await idle.ask(post(b"one"))).body == b"one"
        assert (await (await it.client()).ask(post(b"two"))).body == b"two"
        assert await idle.reader.read() == b""
        gate.set()
        assert (await busy.heard()).body == b"slow"


anyio_backend = both_loops

TURNS = range(6)
"""Turns of the event loop between a connection and the end of the server: one of them hits the moment."""


@asynccontextmanager
async def front() -> AsyncIterator[Address]:
    """A router, which ends with its front."""
    async with router() as it:
        yield "127.0.0.1", it.port


@asynccontextmanager
async def raw() -> AsyncIterator[Address]:
    """The node of other tests."""
    async with node(silent) as it:
        yield it.address


@asynccontextmanager
async def app() -> AsyncIterator[Address]:
    """An app as other tests serve it."""

    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        while scope["type"] == "lifespan":
            await send({"type": f"{(await receive())['type']}.complete"})

    async with served(nothing) as url:
        host, _, port = url.split("/")[2].partition(":")
        yield host, int(port)


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("server", [front, raw, app])
async def test_the_connection_that_comes_last_is_closed(
    server: Callable[[], AbstractAsyncContextManager[Address]], turns: int
) -> None:
    with socket.socket() as late:
        late.setblocking(False)
        async with server() as address:
            late.connect_ex(address)
            for _ in range(turns):
                await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE):
            try:
                assert await asyncio.get_running_loop().sock_recv(late, 1) == b""
            except ConnectionError:
                pass
