"""The side that clients connect to: order, limits, time, and what becomes of a client that leaves or doesn't read."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from framehold_fleet.http_client.node_connection import NodeConnection
from framehold_fleet.http_server import client_connection
from tests.router.wires import DEADLINE, Door, Reply, Router, both_loops, head, node, ok, post, router, silent

anyio_backend = both_loops
door = pytest.fixture(lambda: router)
"""The tests that take it run before a node, too (tests/node/http/test_client_side.py)."""

GET = b"GET /mcp HTTP/1.1\r\nHost: router.test\r\n\r\n"


async def echo(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(ok(reply.body))


class Gate:
    """Answers as `echo` does, each request once it is let through."""

    def __init__(self) -> None:
        self.open = asyncio.Semaphore(0)

    async def __call__(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.open.acquire()
        await echo(reply, reader, writer)


async def endless(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send until nobody takes it."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
        await writer.drain()


async def asks_and_reads_nothing(at: Router) -> None:
    """A client whose response fills what is between."""
    client = await at.client(receive_buffer=4096)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads
    client.send(GET)


async def test_pipelined_requests_are_answered_one_at_a_time_and_in_order(door: Door) -> None:
    gate = Gate()
    async with node(gate) as upstream, door(upstream.address) as it:
        client, last = await it.client(), post(b"three")
        client.send(post(b"one") + post(b"two") + last[:20])
        for number, body in enumerate((b"one", b"two", b"three")):
            if body == b"three":
                client.send(last[20:])
            await upstream.arrived.wait()
            upstream.arrived.clear()
            assert len(upstream.requests) == number + 1, "a later request was relayed before its turn"
            gate.open.release()
            assert (await client.heard()).body == body


async def test_requests_with_one_head_are_relayed_alike(door: Door) -> None:
    """With bodies of any length, and without one; a client that is idle is forgotten, and read as before."""
    bodies = [b"one", b"one", b"two of eleven", b"", b"x" * 100_000, b"one"]
    async with node(echo) as upstream, door(upstream.address) as it:
        client = await it.client()
        for body in bodies:
            assert (await client.ask(post(body, "Connection: keep-alive", "X-A: b"))).body == body
        (connection,) = it.front.connections.open
        assert isinstance(connection, client_connection.ClientConnection)
        assert connection._reader._repeated._heads
        connection.sweep(it.front.loop.time() + client_connection.REMEMBERED / 2)
        assert connection._reader._repeated._heads
        connection.sweep(it.front.loop.time() + client_connection.REMEMBERED + 1)
        assert not connection._reader._repeated._heads
        assert (await client.ask(post(b"one", "X-A: b"))).body == b"one"
        assert [reply.body for reply in upstream.requests] == [*bodies, b"one"]
        assert (
            len({tuple(item for item in reply.headers if item[0] != b"content-length") for reply in upstream.requests})
            == 1
        )


async def test_many_pipelined_refusals_do_not_nest() -> None:
    """Each is answered on a turn of its own: a thousand would not fit on the stack."""
    async with router() as it:
        client = await it.client()
        client.send(post() * 1500)
        for _ in range(1500):
            assert (await client.heard()).status == 503


@pytest.mark.parametrize(
    ("version", "stays", "ends"), [("1.1", (), ("Connection: close",)), ("1.0", ("Connection: keep-alive",), ())]
)
async def test_a_connection_serves_until_the_client_wants_it_closed(
    door: Door, version: str, stays: tuple[str, ...], ends: tuple[str, ...]
) -> None:
    async with node(echo) as upstream, door(upstream.address) as it:
        client = await it.client()
        for body in (b"one", b"two"):
            kept = await client.ask(post(body, *stays, version=version))
            assert (kept.one(b"connection"), kept.body) == (b"keep-alive" if stays else None, body)
        client.send(post(b"three", *ends, version=version) + post(b"four"))
        text = await client.rest()
        assert b"connection: close" in text and text.endswith(b"three")
        assert len(upstream.requests) == 3


async def test_a_body_without_a_length_is_chunked_or_ends_with_an_http_1_0_connection(door: Door) -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: a\r\n\r\n"
    async with node(data) as upstream, door(upstream.address) as it:
        client = await it.client()
        for _ in range(2):
            reply = await client.ask(GET)
            assert (reply.one(b"transfer-encoding"), reply.body) == (b"chunked", b"abcde")
        text = await it.all(GET.replace(b"1.1", b"1.0").replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n"))
        assert text.endswith(b"\r\n\r\nabcde")
        assert b"transfer-encoding" not in text
        assert b"connection: close\r\n" in text


@pytest.mark.parametrize(
    ("method", "data", "length"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"5"),
        (b"HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", None),
        (b"GET", ok(b"", status="204 No Content"), None),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"5"),
    ],
)
async def test_a_response_without_a_body_leaves_the_connection_usable(
    door: Door, method: bytes, data: bytes, length: bytes | None
) -> None:
    async with node(data) as upstream, door(upstream.address) as it:
        client = await it.client()
        for _ in range(2):
            client.send(GET.replace(b"GET", method))
            reply = await client.heard(bodiless=True)
            assert reply.first == data.partition(b"\r\n")[0]
            assert (reply.one(b"transfer-encoding"), reply.one(b"content-length")) == (None, length)


async def test_a_client_that_waits_for_permission_gets_it(door: Door) -> None:
    waiting = post(b"", "Expect: 100-continue").replace(b"Content-Length: 0", b"Content-Length: 5")
    async with node(echo) as upstream, door(upstream.address) as it:
        client = await it.client()
        client.send(waiting)
        assert (await head(client.reader)).first == b"HTTP/1.1 100 Continue"
        assert (await client.ask(b"hello")).body == b"hello"
        assert upstream.requests[0].one(b"expect") is None
    async with node(echo) as upstream, door(upstream.address, max_body=4) as it:
        assert (await it.all(waiting)).startswith(b"HTTP/1.1 413 ")


async def test_a_body_beyond_the_limit_is_refused(door: Door) -> None:
    async with node(echo) as upstream, door(upstream.address, max_body=1000) as it:
        head, chunks = GET.replace(b"GET", b"POST")[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\nab\r\n"
        assert (await it.ask(head + chunks * 500 + b"0\r\n\r\n")).status == 200
        declared = post(bytes(5 << 20))
        for data in (head + chunks * 501, declared[:200], declared):
            text = await it.all(data)
            assert text.startswith(b"HTTP/1.1 413 ") and b"connection: close" in text
            assert b"1000 bytes (FRAMEHOLD_MAX_BODY)" in text
        assert len(upstream.requests) == 1


def announced(size: int, sent: int) -> bytes:
    request = post(b"x" * size)
    return request[: len(request) - size + sent]


async def holding(it: Router, size: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while it.front.connections.buffered != size:
            await asyncio.sleep(0)


async def test_bodies_that_are_on_their_way_are_bounded_together() -> None:
    """Beyond the limit the largest that is still being sent is told to come again, and the others go on. What left is
    no longer counted."""
    async with node(echo) as upstream, router(upstream.address, max_buffered=25_000) as it:
        large, middle, small = [await it.client() for _ in range(3)]
        large.send(announced(20_000, 15_000))
        middle.send(announced(10_000, 9000))
        await holding(it, 24_000)
        middle.send(b"x" * 999)
        await holding(it, 24_999)
        small.send(announced(6000, 5000))
        text = await large.rest()
        assert text.startswith(b"HTTP/1.1 503 ") and b"FRAMEHOLD_MAX_BUFFERED" in text
        await holding(it, 9999 + 5000)
        assert (await small.ask(b"x" * 1000)).status == 200
        middle.writer.close()
        await holding(it, 0)
        large = await it.client()
        large.send(announced(30_000, 26_000))
        assert (await head(large.reader)).status == 503, "one alone can be too large"
        await holding(it, 0)
        assert not any(len(connection._reader._body) for connection in it.front.connections.open)


async def test_a_large_body_is_held_once_while_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to the node as it was read: a copy with the head in front would count for nothing and take as much."""
    take = NodeConnection.take

    def taken(link: Any, head: bytes, body: bytes, *rest: Any) -> bool:
        with monkeypatch.context() as patched:
            patched.setattr(link, "_transport", noting := Mock(wraps=link._transport))
            sent = take(link, head, body, *rest)
        assert any(call.args[0] is body for call in noting.write.call_args_list) is (len(body) >= 5000)
        return sent

    monkeypatch.setattr(NodeConnection, "take", taken)
    async with node(echo) as upstream, router(upstream.address) as it:
        client = await it.client()
        for size in (5000, 100_000, 100):
            assert (await client.ask(post(b"x" * size))).body == b"x" * size


async def test_small_requests_pass_though_all_is_held(door: Door) -> None:
    async with node(echo) as upstream, door(upstream.address, max_buffered=8000) as it:
        hog, client = await it.client(), await it.client()
        hog.send(announced(9000, 7999))
        await holding(it, 7999)
        for size in (1, 4000):
            client.send(announced(size, size // 2))
            assert (await client.ask(b"x" * (size - size // 2))).status == 200
        assert (await client.ask(post(b"x" * 4096))).status == 200
        await holding(it, 7999)


async def test_a_complete_body_counts_until_its_response_begins(door: Door) -> None:
    """It may have to be sent again until then. A call that is slow, or a stream that stays open, is not for free."""
    begins = asyncio.Event()

    async def slow(asked: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await begins.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    async with node(slow) as upstream, door(upstream.address, max_buffered=25_000) as it:
        clients = [await it.client() for _ in range(3)]
        for client in clients[:2]:
            client.send(post(b"x" * 10_000))
        await holding(it, 20_000)
        refused = await clients[2].ask(post(b"x" * 10_000))
        assert refused.status == 503 and b"nothing was started" in refused.body
        begins.set()
        for client in clients[:2]:
            await head(client.reader)
        await holding(it, 0)


async def test_an_unfinished_head_counts_and_ends_with_one_header_too_many(door: Door) -> None:
    async with node(echo) as upstream, door(upstream.address, max_headers=20) as it:
        client = await it.client()
        client.send(b"GET /mcp HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 19)
        await holding(it, 19 + 9 + 19 * 5)
        client.send(b"a:b\r\nc")
        text = await client.rest()
        assert text.startswith(b"HTTP/1.1 431 ") and b"20 headers (FRAMEHOLD_MAX_HEADERS)" in text
        await holding(it, 0)


def with_headers(*lines: bytes) -> bytes:
    return GET[:-2] + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


@pytest.mark.parametrize(
    ("status", "data"),
    [
        (414, GET.replace(b"/mcp", b"/mcp?" + b"a" * 8192)),
        (414, b"GET /" + b"a" * 9000),
        (431, with_headers(b"x: " + b"a" * 33_000)),
        (431, with_headers(b"x: " + b"a" * 300_000)),
        (431, GET[:-2] + b"x: " + b"a" * 33_000),
        (431, with_headers(*[b"x: a"] * 100)),
        (431, b"\r\n" * 20_000),
        (431, GET[:-2] + b"Transfer-Encoding: chunked\r\n\r\n5;" + b"a" * 40_000),
        (431, GET[:-2] + b"Transfer-Encoding: chunked\r\n\r\n0\r\nx: " + b"a" * 40_000),
    ],
    ids=["target", "part of a target", "head", "large head", "part of a head", "headers", "empty", "chunk", "trailer"],
)
async def test_a_head_beyond_a_limit_is_refused(door: Door, status: int, data: bytes) -> None:
    async with node(echo) as upstream, door(upstream.address) as it:
        assert (await it.all(data)).startswith(b"HTTP/1.1 %d " % status)
        assert upstream.bytes == b""


@pytest.mark.parametrize(
    ("settings", "lines", "named"),
    [
        ({"max_head": 5000}, [b"x: " + b"a" * 4900, b"y: " + b"a" * 200], b"FRAMEHOLD_MAX_HEAD)"),
        ({"max_headers": 30}, [b"x: a"] * 30, b"FRAMEHOLD_MAX_HEADERS)"),
    ],
    ids=["bytes", "headers"],
)
async def test_the_limits_of_a_head_are_settings(
    door: Door, settings: dict[str, Any], lines: list[bytes], named: bytes
) -> None:
    async with node(echo) as upstream, door(upstream.address, **settings) as it:
        refused = await it.all(with_headers(*lines))
        assert refused.startswith(b"HTTP/1.1 431 ") and named in refused
        assert (await it.ask(with_headers(*lines[1:]))).status == 200
    async with node(echo) as upstream, door(upstream.address, max_head=100_000, max_headers=300) as it:
        assert (await it.ask(with_headers(b"y: " + b"a" * 50_000, *[b"x: a"] * 200))).status == 200


@pytest.mark.parametrize("sent", [1, 40, len(post()) - 1], ids=["line", "head", "body"])
async def test_a_request_that_never_ends_is_given_up(door: Door, sent: int) -> None:
    async with node(echo) as upstream, door(upstream.address, client_timeout=0.3) as it:
        client = await it.client()
        data = post(bytes(400))
        dribble = asyncio.create_task(_dribble(client.writer, data, sent))
        text = await client.rest()
        assert text.startswith(b"HTTP/1.1 408 ")
        assert b"FRAMEHOLD_CLIENT_TIMEOUT" in text
        assert upstream.bytes == b""
        dribble.cancel()


async def _dribble(writer: asyncio.StreamWriter, data: bytes, first: int) -> None:
    writer.write(data[:first])
    for at in range(first, len(data) - 1):
        await asyncio.sleep(0.05)
        writer.write(data[at : at + 1])


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not(door: Door) -> None:
    gate = Gate()
    async with node(gate) as upstream, door(upstream.address, keep_alive=0.2) as it:
        busy, idle = await it.client(), await it.client()
        busy.send(post(b"one"))
        assert await idle.rest() == b""
        gate.open.release()
        assert (await busy.heard()).body == b"one"
        assert await busy.rest() == b""


@pytest.mark.parametrize("at_once", [b"", b"\r\n", b"\r\n\r"])
async def test_empty_lines_behind_a_request_leave_the_connection_idle(door: Door, at_once: bytes) -> None:
    """Nothing is refused for want of the rest, no drain waits for it, and the lines count for nothing."""
    async with node(echo) as upstream, door(upstream.address, keep_alive=60.0) as it:
        client = await it.client()
        assert (await client.ask(post(b"one"))).status == 200
        (connection,) = it.front.connections.open
        for lines in (b"\n\r\n", b"\r\n" * 1000):
            assert (await client.ask(post(b"one") + at_once)).status == 200
            connection.data_received(lines)
            assert it.front.connections.buffered == 0
            connection.sweep(asyncio.get_running_loop().time() + 40.0)
        assert (await client.ask(post(b"two"))).body == b"two"
        connection.data_received(b"\r\n")
        await it.front.close(60.0)
        assert await client.rest() == b""
    async with node(echo) as upstream, door(upstream.address, keep_alive=60.0) as it:
        client = await it.client()
        assert (await client.ask(post(b"one") + at_once)).status == 200
        (connection,) = it.front.connections.open
        connection.data_received(b"\r\n")
        connection.sweep(asyncio.get_running_loop().time() + 61.0)
        assert await client.rest() == b"", "nor do they keep it open"


async def test_a_client_that_reads_slowly_slows_the_node_down() -> None:
    """What the node couldn't send stays with the node: the router keeps a few reads' worth."""
    size = 64 << 20
    done = asyncio.Event()

    async def much(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size >> 16):
            writer.write(bytes(1 << 16))
            await writer.drain()
        done.set()

    async with node(much) as upstream, router(upstream.address) as it:
        client = await it.client(receive_buffer=1 << 16)
        client.send(GET)
        await upstream.arrived.wait()
        (connection,) = it.front.connections.open
        while not connection._client_paused:
            await asyncio.sleep(0)
        (link,) = it.upstream.connections.open
        assert link._paused
        assert connection._transport.get_write_buffer_size() < 1 << 20
        assert not done.is_set()
        reply = await head(client.reader)
        assert reply.one(b"content-length") == b"%d" % size
        left = size
        while left:
            left -= len(await client.reader.read(1 << 20))
        await done.wait()


async def test_a_client_that_does_not_read_is_given_up(door: Door) -> None:
    async with node(endless) as upstream, door(upstream.address, client_timeout=0.2) as it:
        await asks_and_reads_nothing(it)
        await upstream.closed.get()
        assert not it.front.connections.open


async def test_a_client_that_reads_slowly_has_its_time_anew_with_what_it_reads(door: Door) -> None:
    async with node(endless) as upstream, door(upstream.address, client_timeout=100.0) as it:
        await asks_and_reads_nothing(it)
        await upstream.arrived.wait()
        (connection,) = it.front.connections.open
        while not connection._client_paused:
            await asyncio.sleep(0)
        paused = connection._since
        connection._unread = 1 << 30  # it has read since
        connection.sweep(paused + 90.0)
        connection.sweep(paused + 180.0)
        assert not connection._transport.is_closing()
        connection.sweep(paused + 191.0)
        assert connection._transport.is_closing()


@pytest.mark.parametrize("behind", [b"", post(b"waits"), bytes(60_000)], ids=["alone", "a request waits", "bytes wait"])
async def test_a_client_that_leaves_ends_its_request_at_the_node(door: Door, behind: bytes) -> None:
    async with node(silent) as upstream, door(upstream.address) as it:
        client = await it.client()
        client.send(post() + behind)
        await upstream.arrived.wait()
        client.writer.close()
        assert await upstream.closed.get() == 0
        assert not +it.placer.counts


async def test_what_waits_behind_a_request_is_bounded(door: Door) -> None:
    gate = Gate()
    async with node(gate) as upstream, door(upstream.address) as it:
        client = await it.client()
        client.send(post(b"one"))
        await upstream.arrived.wait()
        (connection,) = it.front.connections.open
        requests = post(bytes(10_000)) * 100
        client.send(requests)
        while not connection._reading_paused:
            await asyncio.sleep(0)
        assert 64 * 1024 < len(connection._rest) < 512 * 1024
        for _ in range(101):
            gate.open.release()
            assert (await client.heard()).status == 200


@pytest.mark.parametrize("ends", ["answered", "gone", "drained"])
async def test_what_waits_behind_requests_is_bounded_together(ends: str) -> None:
    """Beyond the limit the most that waits on one connection is dropped, and the others go on."""
    gate, behind = Gate(), post(bytes(20_000))
    async with node(gate) as upstream, router(upstream.address, max_buffered=4 * len(behind) - 1) as it:
        clients = [await it.client() for _ in range(3)]
        for number, client in enumerate(clients, 1):
            client.send(post(b"one"))
            while len(upstream.requests) < number:
                await asyncio.sleep(0)
        first, most, last = clients
        for client, held in ((first, 1), (most, 2), (most, 3), (last, 2)):
            client.send(behind)
            await holding(it, held * len(behind))
        most.send(behind)
        closing = asyncio.create_task(it.front.close(5.0)) if ends == "drained" else None
        for client in clients if ends == "gone" else ():
            client.writer.transport.abort()
        for _ in range(5):
            gate.open.release()
        if ends == "answered":
            assert (reply := await most.heard()).status == 200 and reply.one(b"connection") == b"close"
            assert await most.rest() == b""
            for client in (first, last) * 2:
                assert (await client.heard()).status == 200
            assert len(upstream.requests) == 5
        await holding(it, 0)
        for client in clients:
            client.writer.close()
        if closing is not None:
            await closing


async def test_a_drain_closes_what_is_idle_and_lets_the_rest_end() -> None:
    """Until its deadline."""
    gate = Gate()
    async with node(gate) as upstream, router(upstream.address) as it:
        idle, busy = await it.client(), await it.client()
        busy.send(post(b"one") + post(b"two"))
        await upstream.arrived.wait()
        closing = asyncio.create_task(it.front.close(5.0))
        assert await idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await it.client()
        gate.open.release()
        reply = await busy.heard()
        assert (reply.body, reply.one(b"connection")) == (b"one", b"close")
        assert await busy.rest() == b""
        busy.writer.close()
        await closing
        assert len(upstream.requests) == 1
    async with node(silent) as upstream, router(upstream.address) as it:
        (await it.client()).send(post())
        await upstream.arrived.wait()
        await it.front.close(0.05)
        assert await upstream.closed.get() == 0


async def test_a_router_that_leaves_answers_once_more_on_an_idle_connection() -> None:
    """A request that is on its way when the order to end comes is not met by a closed connection. Those that stay idle
    are left to the drain after a while."""
    async with node(echo) as upstream, router(upstream.address) as it:
        gone, idle, other = await it.client(), await it.client(), await it.client()
        leaving = asyncio.create_task(it.front.leave(DEADLINE))
        while not it.front.connections.draining:
            await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):
            await it.client()
        other.send(post(b"one"))
        reply = await other.heard()
        assert (reply.body, reply.one(b"connection")) == (b"one", b"close")
        assert await other.rest() == b""
        gone.writer.close()
        assert not leaving.done(), "the other one may still bring a request"
        await it.front.leave(0.05)
        await it.front.close(DEADLINE)
        assert await idle.rest() == b""
        await leaving


async def test_a_handler_that_raises_costs_its_own_connection_only() -> None:
    async with node(echo) as upstream, router(upstream.address) as it:
        other = await it.client()
        assert (await other.ask(post(b"one"))).body == b"one"
        placer, it.placer.place = it.placer.place, None  # type: ignore[assignment]  # so that it raises
        client = await it.client()
        client.send(post())
        with pytest.raises(ConnectionResetError):
            await client.rest()
        it.placer.place = placer
        assert (await other.ask(post(b"two"))).body == b"two"
