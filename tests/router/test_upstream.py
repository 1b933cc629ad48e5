"""The side that connects to nodes: which connection serves, what a response may look like, and what a failure says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from framehold_router.config import RouterSettings
from framehold_router.fleet.address import Address
from framehold_router.fleet.trust import Header
from framehold_router.http import node_connection
from framehold_router.http.headers import ResponseHead
from framehold_router.http.node_connection import Failure
from framehold_router.http.upstream import Upstream
from tests.router.wires import DEADLINE, Reply, both_loops, closing, node, nowhere, ok, post, silent

anyio_backend = both_loops

HEAD = b"HTTP/1.1 200 OK\r\n"


class Talk:
    """A conversation that records its calls, and checks their order."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[Header] = []
        self.length: bytes | None = None
        self.pieces: list[bytes] = []
        self.failure: Failure | None = None
        self.over = asyncio.Event()
        self.changed = asyncio.Event()

    def began(self, head: ResponseHead, length: bytes | None) -> None:
        assert not self.status and not self.over.is_set()
        self.status, self.headers, self.length = head.status, list(head.headers), length
        self.changed.set()

    def data(self, piece: bytes) -> None:
        assert self.status and not self.over.is_set()
        self.pieces.append(piece)
        self.changed.set()

    def done(self, piece: bytes) -> None:
        self.data(piece)
        self.over.set()

    def failed(self, why: Failure) -> None:
        assert not self.over.is_set()
        self.failure = why
        self.over.set()

    def abandons(self) -> bool:
        return False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


@asynccontextmanager
async def upstream(**settings: Any) -> AsyncIterator[Upstream]:
    made = Upstream(RouterSettings(**settings))
    try:
        async with asyncio.timeout(DEADLINE):
            yield made
    finally:
        await made.close()
    assert not made._openings


async def ask(side: Upstream, address: Address, data: bytes | None = None, *, mute: bool = False) -> Talk:
    """One request and what comes of it."""
    talk = Talk()
    side.send(address, (data or post(),), talk, mute=mute)
    await talk.over.wait()
    return talk


async def gone(side: Upstream) -> None:
    """Wait until no connection is left."""
    while side.connections:
        await asyncio.sleep(0)


async def test_a_connection_serves_one_request_after_another() -> None:
    async with node(ok()) as it, upstream() as side:
        for _ in range(3):
            talk = await ask(side, it.address)
            assert (talk.status, talk.body, talk.failure) == (200, b"fine", None)
        assert len(it.received) == 1


async def test_the_connection_that_was_used_last_serves_first() -> None:
    """So that the others grow old and are closed."""
    async with node(ok()) as it, upstream() as side:
        await asyncio.gather(*[ask(side, it.address) for _ in range(3)])
        assert len(it.received) == 3
        idle = side._idle[it.address]
        last = idle[-1]
        for _ in range(3):
            await ask(side, it.address)
            assert idle[-1] is last
        assert len(it.received) == 3


async def test_addresses_do_not_share_connections() -> None:
    async with node(ok(b"a")) as one, node(ok(b"b")) as two, upstream() as side:
        assert [(await ask(side, it.address)).body for it in (one, two, one, two)] == [b"a", b"b", b"a", b"b"]


async def test_an_idle_connection_that_the_node_closes_is_not_used() -> None:
    async with node(closing(ok())) as it, upstream() as side:
        assert (await ask(side, it.address)).body == b"fine"
        await gone(side)
        assert side._idle[it.address] == []
        assert (await ask(side, it.address)).body == b"fine"


async def test_an_idle_connection_that_is_being_closed_is_not_used() -> None:
    """Its loss is heard of only on the next turn of the loop."""
    async with node(ok()) as it, upstream() as side:
        await ask(side, it.address)
        next(iter(side.connections)).close()
        assert (await ask(side, it.address)).failure is None
        assert len(it.received) == 2


async def test_an_idle_connection_that_says_something_is_closed() -> None:
    """Its bytes would be read as the response to the next request."""
    async with node(ok()) as it, upstream() as side:
        await ask(side, it.address)
        it.writers[0].write(ok(b"poison"))
        assert await it.closed.get() == 0
        await gone(side)
        assert (await ask(side, it.address)).body == b"fine"


ALIKE = {
    "the same": ok(),
    "another length": ok(b"of eleven b"),
    "no body": ok(b""),
    "zeros": ok().replace(b"4", b"04"),
    "another header": ok(b"fine", "X-A: b"),
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\n" + ok(),
    "304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n",
}


@pytest.mark.parametrize("data", ALIKE.values(), ids=ALIKE.keys())
async def test_a_repeated_head_is_read_as_the_parser_reads_it(data: bytes) -> None:
    """A response among others with one head, on one connection, is what it is on a connection of its own."""
    answers = [ok(), ok(), data, ok(), data, data, ok(), ok()]
    turns = iter(answers)

    async def answer(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(next(turns))

    async with node(answer) as it, upstream() as side:
        for sent in answers:
            talk = await ask(side, it.address)
            async with node(sent) as other, upstream() as fresh:
                alone = await ask(fresh, other.address)
            assert given(talk) == given(alone)
        assert len(it.received) == 1


async def test_a_response_to_head_is_read_after_a_head_like_it() -> None:
    """It has no body, whatever length it says; its connection is closed."""
    async with node(ok(b"")) as it, upstream() as side:
        assert (await ask(side, it.address)).body == (await ask(side, it.address)).body == b""
        assert (await ask(side, it.address, mute=True)).failure is None
        assert await it.closed.get() == 0


def given(talk: Talk) -> tuple[object, ...]:
    """What a conversation was given."""
    return talk.status, talk.headers, talk.length, talk.body, talk.failure


@pytest.mark.parametrize(
    "data",
    [
        ok() + ok(b"poison"),
        ok() + b"HTTP/1.1 20",
        ok() + b"junk",
        ok(b"fine", "Connection: close"),
        ok().replace(b"1.1", b"1.0"),
    ],
    ids=["another response", "part of another", "junk", "close", "HTTP/1.0"],
)
async def test_a_connection_whose_response_is_its_last_is_closed(data: bytes) -> None:
    async with node(data) as it, upstream() as side:
        for number in range(2):
            talk = await ask(side, it.address)
            assert (talk.body, talk.failure) == (b"fine", None)
            assert await it.closed.get() == number


async def test_an_idle_connection_grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_connection, "IDLE", 0.05)
    async with node(ok()) as it, upstream(upstream_timeout=0.2) as side:
        await ask(side, it.address)
        assert await it.closed.get() == 0
        await gone(side)
        assert side._idle[it.address] == []


BODIES = {
    "length": (ok(b"abc"), b"abc"),
    "no body": (ok(b""), b""),
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nX-T: a\r\n\r\n", b"abc"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", b""),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + ok(b"abc"), b"abc"),
}


@pytest.mark.parametrize(("data", "body"), BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("split", [False, True], ids=["at once", "in pieces"])
async def test_a_response_is_whole_where_its_framing_says_so(data: bytes, body: bytes, split: bool) -> None:
    """Headers of an interim response and of a trailer are not its headers."""

    async def answer(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for at in range(0, len(data), 7 if split else len(data)):
            writer.write(data[at : at + (7 if split else len(data))])
            await asyncio.sleep(0.001 if split else 0)

    async with node(answer) as it, upstream() as side:
        for _ in range(2):
            talk = await ask(side, it.address)
            assert (talk.failure, talk.body) == (None, body)
            assert talk.status in (200, 204, 304)
            assert not {b"link", b"x-t"} & {name for name, _ in talk.headers}
        assert len(it.received) == 1


async def test_a_response_without_a_length_ends_with_its_connection() -> None:
    async with node(closing(HEAD + b"\r\nabc")) as it, upstream() as side:
        talk = await ask(side, it.address)
        assert (talk.body, talk.failure) == (b"abc", None)


async def test_the_response_to_head_has_no_body() -> None:
    """Whatever length it announces, nothing is waited for; the connection isn't used again."""
    async with node(HEAD + b"Content-Length: 5\r\n\r\n") as it, upstream() as side:
        talk = await ask(side, it.address, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", mute=True)
        assert (talk.status, talk.body, talk.failure) == (200, b"", None)
        assert await it.closed.get() == 0


async def test_pieces_are_told_as_they_come() -> None:
    """The head too, before there is a body."""
    more: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await more.get():
            writer.write(piece)

    async with node(answer) as it, upstream() as side:
        talk = Talk()
        side.send(it.address, (post(),), talk)
        for piece, body in (
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b""),
            (b"1\r\na\r\n", b"a"),
            (b"1\r\nb", b"ab"),
        ):
            talk.changed.clear()
            more.put_nowait(piece)
            await talk.changed.wait()
            assert (talk.status, talk.body) == (200, body)
        more.put_nowait(b"\r\n0\r\n\r\n")
        await talk.over.wait()
        assert talk.failure is None
        more.put_nowait(b"")


BROKEN = {
    "nothing": b"",
    "part of a head": HEAD,
    "part of a body": HEAD + b"Content-Length: 5\r\n\r\nabc",
    "part of the chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "part of the last chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
}

MALFORMED = {
    "junk": b"SSH-2.0-OpenSSH\r\n",
    "a length and chunks": HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "another coding": HEAD + b"Transfer-Encoding: gzip\r\n\r\nabc",
    "another coding besides": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "no chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz",
    "lines ended by LF": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "switching protocols": b"HTTP/1.1 101 Yes\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "status 99": b"HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n",
    "a long head": HEAD + b"x: " + b"a" * 70_000,
    "interim without end": b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" * 2000,
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
async def test_a_response_that_breaks_off_is_not_whole(data: bytes) -> None:
    async with node(closing(data)) as it, upstream() as side:
        assert (await ask(side, it.address)).failure is Failure.BROKEN


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_malformed_response_is_broken_and_its_connection_closed(data: bytes) -> None:
    async with node(data) as it, upstream() as side:
        assert (await ask(side, it.address)).failure is Failure.BROKEN
        assert await it.closed.get() == 0


async def test_a_node_that_refuses_connections_was_sent_nothing() -> None:
    async with upstream() as side:
        assert (await ask(side, nowhere())).failure is Failure.NOT_SENT
        assert (await ask(side, "/nonexistent")).failure is Failure.NOT_SENT


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".svc", ".", "y" * 300])
async def test_a_name_that_no_host_can_have_was_sent_nothing(host: str) -> None:
    """IDNA has no form for it, which Python says with a ValueError: the conversation gets its failure all the same."""
    async with upstream() as side:
        assert (await ask(side, (host, 80))).failure is Failure.NOT_SENT


async def test_a_node_that_does_not_accept_in_time_was_sent_nothing() -> None:
    """A full backlog swallows connections."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address: Address = full.getsockname()[:2]
        callers = [socket.socket() for _ in range(3)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        async with upstream(connect_timeout=0.1) as side:
            assert (await ask(side, address)).failure is Failure.NOT_SENT
        for caller in callers:
            caller.close()


async def test_a_silent_node_is_given_up_and_its_connection_closed() -> None:
    async with node(silent) as it, upstream(upstream_timeout=0.1) as side:
        assert (await ask(side, it.address)).failure is Failure.SILENT
        assert await it.closed.get() == 0


async def test_a_node_that_says_something_now_and_then_is_not_silent() -> None:
    async def slow(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 8\r\n\r\n")
        for _ in range(8):
            await asyncio.sleep(0.05)
            writer.write(b"a")

    async with node(slow) as it, upstream(upstream_timeout=0.2) as side:
        assert (await ask(side, it.address)).body == b"a" * 8


async def test_a_paused_connection_is_neither_read_nor_silent() -> None:
    async with node(ok(bytes(4 << 20))) as it, upstream(upstream_timeout=0.1) as side:
        await ask(side, it.address)  # the next one has its connection at once
        talk = Talk()
        hold = side.send(it.address, (post(),), talk)
        hold.pause()
        await asyncio.sleep(0.4)  # the silence that is looked for has no event
        assert (talk.status, talk.failure) == (0, None)
        hold.resume()
        await talk.over.wait()
        assert len(talk.body) == 4 << 20


async def test_a_pause_before_there_is_a_connection_counts() -> None:
    async with node(ok()) as it, upstream(upstream_timeout=0.1) as side:
        talk = Talk()
        hold = side.send(it.address, (post(),), talk)
        hold.pause()
        await it.arrived.wait()
        await asyncio.sleep(0.3)
        assert (talk.status, talk.failure) == (0, None)
        hold.resume()
        await talk.over.wait()
        assert talk.body == b"fine"


async def test_an_aborted_request_ends_its_connection_and_hears_no_more() -> None:
    async with node(silent) as it, upstream() as side:
        talk = Talk()
        hold = side.send(it.address, (post(),), talk)
        await it.arrived.wait()
        hold.abort()
        assert await it.closed.get() == 0
        await gone(side)
        assert (talk.status, talk.failure) == (0, None)


async def test_a_connection_that_nobody_waits_for_any_more_serves_the_next_request() -> None:
    async with node(ok()) as it, upstream() as side:
        talk = Talk()
        side.send(it.address, (post(b"never"),), talk).abort()
        while not side._idle[it.address]:
            await asyncio.sleep(0)
        assert (await ask(side, it.address)).body == b"fine"
        assert len(it.received) == 1
        assert b"never" not in it.bytes
        assert not talk.over.is_set()


async def test_a_hold_that_is_over_touches_no_later_request() -> None:
    """An abort after the end, while the connection is idle, leaves it alone."""
    async with node(ok()) as it, upstream() as side:
        await ask(side, it.address)
        talk = Talk()
        hold = side.send(it.address, (post(),), talk)
        await talk.over.wait()
        hold.pause()
        hold.abort()
        assert (await ask(side, it.address)).body == b"fine"
        assert len(it.received) == 1


async def test_the_end_breaks_off_what_is_under_way() -> None:
    """Each conversation fails, also one that still waits for its connection."""
    async with node(silent) as it:
        side = Upstream(RouterSettings())
        sent, waiting = Talk(), Talk()
        side.send(it.address, (post(),), sent)
        await it.arrived.wait()
        side.send(it.address, (post(),), waiting)
        await side.close()
        await asyncio.wait_for(sent.over.wait(), DEADLINE)
        await asyncio.wait_for(waiting.over.wait(), DEADLINE)
        assert (sent.failure, waiting.failure) == (Failure.BROKEN, Failure.NOT_SENT)
        assert (await ask(side, it.address)).failure is Failure.NOT_SENT
        await gone(side)


async def test_a_unix_socket_is_an_address(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok())
        writer.close()

    path = str(tmp_path / "s")
    server = await asyncio.start_unix_server(serve, path)
    async with upstream() as side:
        assert (await ask(side, path)).body == b"fine"
    server.close()
