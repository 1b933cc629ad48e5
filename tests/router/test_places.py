"""Who gives way when all connections of a router are taken, and the one that is accepted as its server ends."""

from __future__ import annotations

import asyncio
import socket

import pytest

from framehold_fleet.http_server import client_connection
from framehold_fleet.http_server.client_connection import GRACE
from framehold_fleet.http_server.places import AT_ONCE, yielding
from tests.router.wires import DEADLINE, Reply, both_loops, head, node, ok, post, router, silent

anyio_backend = both_loops
LISTEN = post(b"{}", "Mcp-Method: subscriptions/listen")


GIVING_WAY: dict[str, tuple[dict[str, list[float | None]], str, list[tuple[str, float]]]] = {
    "the longest of the address with most": (
        {"few": [1.0], "many": [5.0, 3.0, 4.0], "some": [2.0, 2.5]}, "new", [("many", 3.0)],
    ),
    "none for who has most": ({"few": [1.0], "many": [None, None]}, "many", []),
    "one of who has more": ({"few": [None], "many": [1.0, None]}, "few", [("many", 1.0)]),
    "its own": ({"alone": [None, 2.0]}, "alone", [("alone", 2.0)]),
    "all are at work": ({"a": [None] * 5, "b": [None]}, "c", []),
    # To look at all connections for each client that comes would be an attack by itself.
    "some at once, and evenly": (
        {"a": [float(n) for n in range(AT_ONCE)], "b": [float(n) for n in range(AT_ONCE)]}, "c",
        [("a", 0.0), ("a", 1.0), ("b", 0.0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("by_peer", "new", "gone"), GIVING_WAY.values(), ids=GIVING_WAY)
def test_the_longest_of_the_address_with_most_places_goes_first(
    by_peer: dict[str, list[float | None]], new: str, gone: list[tuple[str, float]]
) -> None:
    """Whoever holds most can't drive others out."""
    held = [(peer, since) for peer, times in by_peer.items() for since in times]
    assert sorted(yielding((((peer, since), peer, since) for peer, since in held), new)) == gone


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_as_its_server_ends_is_closed(turns: int) -> None:
    """One of these numbers of turns of the event loop, between the connection and the end, hits the moment."""
    with socket.socket() as late:
        late.setblocking(False)
        async with router() as it:
            late.connect_ex(("127.0.0.1", it.port))
            for _ in range(turns):
                await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE):
            try:
                assert await asyncio.get_running_loop().sock_recv(late, 1) == b""
            except ConnectionError:
                pass


async def listening(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        it.front.connections._no_room_until = 0.0
        assert (await (await it.client()).ask(post(b"call"))).body == b"call"
        listens = [asyncio.ensure_future(client.reader.readuntil(b"never")) for client in (first, second)]
        (ended,), (_,) = await asyncio.wait(listens, return_when=asyncio.FIRST_COMPLETED)
        assert isinstance(ended.exception(), asyncio.IncompleteReadError | ConnectionResetError)
    await asyncio.gather(*listens, return_exceptions=True)


STREAM = b"GET /mcp HTTP/1.1\r\nHost: a\r\nAccept: application/json, Text/Event-Stream\r\n\r\n"
MAY_END = {
    "a subscription": (LISTEN, True),
    "a GET of a stream": (STREAM, True),
    "a GET of a page": (STREAM.replace(b"Text/Event-Stream", b"text/html"), False),
    "a GET of anything": (b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n", False),
    "a call": (post(b"{}", "Accept: application/json, text/event-stream"), False),
}


@pytest.mark.parametrize(("data", "listens"), MAY_END.values(), ids=MAY_END)
async def test_only_who_listens_gives_way_and_not_at_once(data: bytes, listens: bool) -> None:
    """On a connection that was idle for long, too: what counts is when its request began."""
    async with node(ok()) as upstream, router(upstream.address) as it:
        client = await it.client()
        await client.ask(post())
        [connection] = it.front.connections.open
        connection._since -= 60.0
        upstream.answer, now = silent, it.upstream.loop.time()
        assert connection.yields_since(now) == connection._since
        client.send(data)
        while len(upstream.requests) < 2:
            await asyncio.sleep(0)
        assert connection.yields_since(now + GRACE) is None
        assert (connection.yields_since(now + DEADLINE) is not None) is listens


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
