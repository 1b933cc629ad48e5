"""Who gives way when all connections of a router are taken: never a request that may have begun."""

from __future__ import annotations

import asyncio

import pytest

from framehold_fleet.http_server import client_connection
from framehold_fleet.http_server.places import AT_ONCE, yielding
from tests.router.wires import Reply, both_loops, head, node, ok, post, router

anyio_backend = both_loops
LISTEN = post(b"{}", "Mcp-Method: subscriptions/listen")


Held = tuple[str, float | None]
"""A connection: whose, and since when it may end."""


def ending(newcomer: str, **by_peer: list[float | None]) -> list[Held]:
    """The connections that end for `newcomer`."""
    held = [(peer, since) for peer, times in by_peer.items() for since in times]
    return yielding((((peer, since), peer, since) for peer, since in held), newcomer)


def test_the_longest_of_the_address_with_most_places_goes_first() -> None:
    """Not that of the address with few, though it may have waited longer."""
    assert ending("new", few=[1.0], many=[5.0, 3.0, 4.0], some=[2.0, 2.5]) == [("many", 3.0)]


def test_an_address_takes_no_place_from_one_that_has_fewer() -> None:
    """Whoever holds most can't drive others out."""
    assert ending("many", few=[1.0], many=[None, None]) == []
    assert ending("few", few=[None], many=[1.0, None]) == [("many", 1.0)]
    assert ending("alone", alone=[None, 2.0]) == [("alone", 2.0)]


def test_where_all_are_at_work_nobody_gives_way() -> None:
    assert ending("c", a=[None] * 5, b=[None]) == []


def test_some_places_are_made_free_at_once_and_evenly() -> None:
    """To look at all connections for each client that comes would be an attack by itself."""
    times: list[float | None] = [float(number) for number in range(AT_ONCE)]
    assert sorted(ending("c", a=times, b=times)) == [("a", 0.0), ("a", 1.0), ("b", 0.0)]


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
