"""The side that connects to nodes: which connection serves, what a response may look like, and what a failure says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from framehold_core.clock import Clock
from framehold_fleet.http_client import node_connection
from framehold_fleet.http_client.node_connection import LinkFailure
from framehold_fleet.http_client.upstream import NotReached, Upstream
from framehold_fleet.http_server.server import close_server
from framehold_fleet.identity.plane import PROOF
from framehold_fleet.identity.statements import HELLO, Role
from framehold_fleet.members.address import Address, TlsAddress, printed
from framehold_store.system_clock import system_clock
from tests.kit.proofs import BOOT, answered
from tests.router.wires import (
    DEADLINE,
    KEY,
    TRUST,
    Answer,
    Conversed,
    Reply,
    at,
    both_loops,
    closing,
    message,
    node,
    nowhere,
    ok,
    parts,
    post,
    silent,
)

anyio_backend = both_loops

HEAD = b"HTTP/1.1 200 OK\r\n"


def joined(connect_timeout: float = 1.0, upstream_timeout: float = 30.0) -> Upstream:
    limits = {"connect_timeout": connect_timeout, "timeout": upstream_timeout}
    return Upstream(TRUST, Role.ROUTER, system_clock(), **limits)


@asynccontextmanager
async def upstream(**settings: Any) -> AsyncIterator[Upstream]:
    made = joined(**settings)
    try:
        async with asyncio.timeout(DEADLINE):
            yield made
    finally:
        await made.close()
    assert not made._openings


async def ask(side: Upstream, address: Address, data: bytes | None = None, *, mute: bool = False) -> Conversed:
    talk = Conversed()
    side.send(address if isinstance(address, str) else at(address), *parts(data or post()), talk, mute=mute)
    await talk.over.wait()
    return talk


async def gone(side: Upstream) -> None:
    while side.connections.open:
        await asyncio.sleep(0)


async def test_the_connection_that_was_used_last_serves_first() -> None:
    """So that the others grow old and are closed."""
    async with node(ok()) as it, upstream() as side:
        await asyncio.gather(*[ask(side, it.address) for _ in range(3)])
        assert len(it.received) == 3
        idle = side._idle[at(it.address)]
        last = idle[-1]
        for _ in range(3):
            await ask(side, it.address)
            assert idle[-1] is last
        assert len(it.received) == 3


async def test_addresses_do_not_share_connections() -> None:
    async with node(ok(b"a")) as one, node(ok(b"b")) as two, upstream() as side:
        assert [(await ask(side, it.address)).body for it in (one, two, one, two)] == [b"a", b"b", b"a", b"b"]


@pytest.mark.parametrize("heard", [True, False], ids=["closed", "being closed"])
async def test_an_idle_connection_that_is_closed_is_not_used(heard: bool) -> None:
    """Its loss is heard of only on the next turn of the loop."""
    async with node(closing(ok()) if heard else ok()) as it, upstream() as side:
        await ask(side, it.address)
        if heard:
            await gone(side)
            assert side._idle[at(it.address)] == []
        else:
            next(iter(side.connections.open)).close()
        assert (await ask(side, it.address)).body == b"fine"
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


def proof(request: Reply) -> bytes:
    found = request.one(PROOF)
    assert found is not None
    return found


async def test_a_statement_is_made_once_for_each_connection_and_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000.0
    async with node(ok()) as it, upstream() as side:
        side._clock = Clock(lambda: now, lambda: now, os.urandom)
        for _ in range(3):
            await ask(side, it.address)
        await asyncio.gather(*[ask(side, it.address) for _ in range(2)])
        first, other = (found for found in dict.fromkeys(map(proof, it.requests)))
        assert first.split(b".")[:3] == other.split(b".")[:3] == [b"v1", b"router", b"1700000000"]
        now += 31
        for link in side.connections.open:
            link._renewed -= 31
        await asyncio.gather(*[ask(side, it.address) for _ in range(2)])
        assert {proof(request).split(b".")[2] for request in it.requests[-2:]} == {b"1700000031"}


async def test_a_sender_states_anew_after_a_403() -> None:
    """Each time, also where the answer repeats: the node may have seen that the store's clock was set before it did."""
    now = 1_700_000_000.0
    async with node(ok(status="403 Forbidden")) as it, upstream() as side:
        side._clock = Clock(lambda: now, lambda: now, os.urandom)
        for _ in range(4):
            await ask(side, it.address)
            now += 1
        assert [proof(request).split(b".")[2] for request in it.requests] == [b"%d" % (now - 4 + n) for n in range(4)]


@pytest.mark.parametrize(
    "answer",
    [
        ok(),
        ok(status="404 Not Found"),
        ok(b"", "framehold-proof: v1.00.boot-of-tests.127.0.0.1:1", status="204 No Content"),
        answered(b"nonce.boot-of-tests", ("127.0.0.1", 1), KEY),
        HEAD + b"content-length: 100000\r\n\r\n",
        b"220 smtp.example ready\r\n",
    ],
    ids=["fine", "404", "a proof that is none", "an old proof", "a body without end", "no HTTP"],
)
async def test_a_stranger_gets_nothing(answer: bytes) -> None:
    """At the address of a process that has gone: neither the token nor the body, and no statement that it could show
    elsewhere. The request may go to another node."""
    secret = post(b'{"secret": 1}', "Authorization: Bearer secret", target="/secret/mcp?secret=1")
    async with node(answer) as it, upstream() as side:
        it.boot = None
        talk = await ask(side, it.address, secret)
        assert talk.failure is LinkFailure.NOT_SENT
        await gone(side)
    assert b'"secret"' not in it.bytes and b"Bearer" not in it.bytes and b"=1" not in it.bytes
    assert b"framehold-proof" not in it.bytes
    assert {request.first.split()[1] for request in it.requests} <= {b"/mcp", b"/secret/mcp"}


async def test_the_process_is_the_one_that_the_lease_names(caplog: pytest.LogCaptureFixture) -> None:
    """Another process of the fleet at its address gets nothing either; the log says what may be wrong. Whether a node
    is back is asked in the same way, and what was opened is kept."""
    async with node(ok()) as it, upstream() as side:
        it.boot = "another"
        assert (await ask(side, it.address)).failure is LinkFailure.NOT_SENT
        assert not await side.reaches(at(it.address)) and not await side.reaches(at(nowhere()))
        assert it.requests == []
        it.boot = BOOT
        assert await side.reaches(at(it.address))
        opened = len(it.received)
        assert (await ask(side, it.address)).body == b"fine" and len(it.received) == opened
        it.boot = None
        assert not await side.reaches(at(it.address)._replace(boots=()))
    said = f"{printed(it.address)} did not prove that it is the process that the lease names: nothing was sent"
    assert said in caplog.text


async def test_the_authorities_of_the_machine_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read them takes tens of milliseconds, in which no other request goes on."""
    reads = Mock(wraps=ssl.create_default_context)
    monkeypatch.setattr(ssl, "create_default_context", reads)
    async with node(closing(ok())) as it, upstream(connect_timeout=0.1) as side:
        for _ in range(3):
            assert (await ask(side, TlsAddress(*it.address[:2]))).failure is LinkFailure.NOT_SENT
    assert reads.call_count == 1


async def test_a_process_that_is_busy_is_waited_for() -> None:
    """Its connection is accepted before it can say who it is: that is no node out of reach. A sender who would rather
    ask elsewhere has sent nothing."""
    begins = asyncio.Event()

    async def slow(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await begins.wait()
        hello = reply.one(HELLO)
        writer.write(ok() if hello is None else answered(hello, writer.get_extra_info("peername"), KEY))

    class Impatient(Conversed):
        def abandons(self) -> bool:
            return True

    async with node(slow) as it, upstream(connect_timeout=0.05, upstream_timeout=0.4) as side:
        it.boot = None
        patient, impatient = Conversed(), Impatient()
        for talk in (patient, impatient):
            side.send(at(it.address), *parts(post()), talk)
        await impatient.over.wait()
        assert impatient.failure is LinkFailure.NOT_SENT and not patient.over.is_set()
        begins.set()
        await patient.over.wait()
        assert patient.body == b"fine"


async def test_a_node_is_asked_under_the_path_by_which_it_is_reached() -> None:
    """An author's app may have mounted Framehold's anywhere. The path that was answered is remembered."""

    async def mounted(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = reply.one(HELLO)
        if hello is not None and reply.first.startswith(b"GET /sub/mcp "):
            writer.write(answered(hello, writer.get_extra_info("peername"), KEY))
        else:
            writer.write(ok() if hello is None else ok(status="404 Not Found"))

    async with node(mounted) as it, upstream() as side:
        it.boot = None
        assert (await ask(side, it.address, post(target="/other"))).failure is LinkFailure.NOT_SENT
        assert (await ask(side, it.address, post(target="/sub/mcp?a=b"))).body == b"fine"
        for link in tuple(side.connections.open):
            link.close()
        await gone(side)
        assert (await ask(side, it.address, post(target="/other"))).body == b"fine"
        assert [request.first.split()[1] for request in it.requests if request.one(HELLO)] == [
            *(b"/mcp", b"/other", b"/mcp", b"/sub/mcp", b"/sub/mcp")
        ]


def given(talk: Conversed) -> tuple[object, ...]:
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
    """And processes that have gone are forgotten."""
    monkeypatch.setattr(node_connection, "IDLE", 0.05)
    async with upstream(upstream_timeout=0.2) as side:
        async with node(ok()) as it:
            await ask(side, it.address)
            assert await it.closed.get() == 0
            await gone(side)
            assert side._idle == {at(it.address): []}
        while side._idle:
            await asyncio.sleep(0.01)


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

    async def answer(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for begin in range(0, len(data), 7 if split else len(data)):
            writer.write(data[begin : begin + (7 if split else len(data))])
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


@pytest.mark.parametrize("before", [0, 2], ids=["the first", "after a head like it"])
async def test_the_response_to_head_has_no_body(before: int) -> None:
    data = HEAD + (b"Content-Length: 0\r\n\r\n" if before else b"Content-Length: 5\r\n\r\n")
    async with node(data) as it, upstream() as side:
        for _ in range(before):
            assert (await ask(side, it.address)).body == b""
        talk = await ask(side, it.address, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", mute=True)
        assert (talk.status, talk.body, talk.failure) == (200, b"", None)
        assert await it.closed.get() == 0


BROKEN: dict[str, Answer | bytes] = {
    "nothing": closing(b""),
    "part of a head": closing(HEAD),
    "part of a body": closing(HEAD + b"Content-Length: 5\r\n\r\nabc"),
    "part of the chunks": closing(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
    "part of the last chunk": closing(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"),
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
"""Bytes after which the node closes, and others that no response begins with."""


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
async def test_a_response_that_is_not_whole_is_broken_and_its_connection_closed(answer: Answer | bytes) -> None:
    async with node(answer) as it, upstream() as side:
        assert (await ask(side, it.address)).failure is LinkFailure.BROKEN
        assert await it.closed.get() == 0


async def test_an_address_that_can_not_be_reached_was_sent_nothing() -> None:
    """For some names IDNA has no form, which Python says with a ValueError."""
    names = ("a..b", "x" * 64 + ".svc", ".", "y" * 300)
    async with upstream() as side:
        for address in (nowhere(), "/nonexistent", *((name, 80) for name in names)):
            assert (await ask(side, address)).failure is LinkFailure.NOT_SENT, address


@pytest.mark.parametrize("resets", [False, True], ids=["closed", "reset"])
async def test_a_request_ends_at_whatever_byte_its_connection_is_lost(resets: bool) -> None:
    """Of the answer who listens, or of the response: nothing waits for what does not come."""
    left = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        if resets:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while left > 0:
                hello = (await message(reader)).one(HELLO)
                said = HEAD + b"Content-Length: 4\r\n\r\nfine"
                if hello is not None:
                    said = answered(hello, writer.get_extra_info("peername"), KEY)
                writer.write(said[:left])
                left -= len(said)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ends: list[LinkFailure | None] = []
    async with upstream() as side:
        while not ends or ends[-1] is not None:
            left = len(ends)
            ends.append((await ask(side, server.sockets[0].getsockname()[:2])).failure)
    await close_server(server)
    assert LinkFailure.BROKEN in ends
    sent = ends.index(LinkFailure.BROKEN)
    assert sent > 100 and set(ends[:sent]) == {LinkFailure.NOT_SENT}


class LosesConnections:
    """The loop of a side whose connections are lost as soon as they are made, before anything is sent on them: the
    kernel accepted them for a process that was killed meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, *args: Any, **given: Any) -> Any:
        transport, protocol = await self._loop.create_connection(*args, **given)
        transport.abort()
        await asyncio.sleep(0)
        return transport, protocol


@pytest.mark.parametrize("asked", [True, False], ids=["asked who it is", "an address of this process"])
async def test_a_connection_that_is_lost_before_anything_is_sent_was_sent_nothing(asked: bool) -> None:
    """Its request goes elsewhere at once: it waits for no response."""
    async with node(ok()) as it, upstream() as side:
        side.loop = LosesConnections(side.loop)  # type: ignore[assignment]
        talk = Conversed()
        side.send(at(it.address) if asked else it.address, *parts(post()), talk)
        await talk.over.wait()
        assert talk.failure is LinkFailure.NOT_SENT
        assert not asked or not await side.reaches(at(it.address))
        assert it.requests == []


async def test_a_process_that_closes_as_it_says_who_it_is_was_sent_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is the process that the lease names: the log does not say that another one listens there."""

    async def leaves(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = answered(reply.one(HELLO) or b"", writer.get_extra_info("peername"), KEY)
        writer.write(said.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))

    async with node(leaves) as it, upstream() as side:
        it.boot = None
        talk = Conversed()
        opening = side.send(at(it.address), *parts(post()), talk)
        await talk.over.wait()
        trouble = getattr(opening, "trouble", None)
        assert talk.failure is LinkFailure.NOT_SENT and isinstance(trouble, NotReached) and not trouble.absent
    assert "did not prove" not in caplog.text


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
            assert (await ask(side, address)).failure is LinkFailure.NOT_SENT
        for caller in callers:
            caller.close()


@pytest.mark.parametrize(("said", "failure"), [(0, LinkFailure.SILENT), (8, None)])
async def test_a_silent_node_is_given_up_and_one_that_says_something_now_and_then_is_not(
    said: int, failure: LinkFailure | None
) -> None:
    async def slow(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if said:
            writer.write(HEAD + b"Content-Length: 8\r\n\r\n")
        for _ in range(said):
            await asyncio.sleep(0.05)
            writer.write(b"a")

    async with node(slow) as it, upstream(upstream_timeout=0.2) as side:
        talk = await ask(side, it.address)
        assert (talk.body, talk.failure) == (b"a" * said, failure)
        assert not failure or await it.closed.get() == 0


@pytest.mark.parametrize("connected", [True, False], ids=["connected", "before there is a connection"])
async def test_a_paused_connection_is_neither_read_nor_silent(connected: bool) -> None:
    async with node(ok(bytes(4 << 20))) as it, upstream(upstream_timeout=0.1) as side:
        if connected:
            await ask(side, it.address)  # the next one has its connection at once
        talk = Conversed()
        hold = side.send(at(it.address), *parts(post()), talk)
        hold.pause()
        await asyncio.sleep(0.4)  # the silence that is looked for has no event
        assert (talk.status, talk.failure) == (0, None)
        hold.resume()
        await talk.over.wait()
        assert len(talk.body) == 4 << 20


async def test_an_aborted_request_ends_its_connection_and_hears_no_more() -> None:
    async with node(silent) as it, upstream() as side:
        talk = Conversed()
        hold = side.send(at(it.address), *parts(post()), talk)
        await it.arrived.wait()
        hold.abort()
        assert await it.closed.get() == 0
        await gone(side)
        assert (talk.status, talk.failure) == (0, None)


async def test_a_connection_that_nobody_waits_for_any_more_serves_the_next_request() -> None:
    """A hold that is over touches no later one: an abort while the connection is idle leaves it alone."""
    async with node(ok()) as it, upstream() as side:
        talk = Conversed()
        side.send(at(it.address), *parts(post(b"never")), talk).abort()
        while not side._idle[at(it.address)]:
            await asyncio.sleep(0)
        heard = Conversed()
        hold = side.send(at(it.address), *parts(post()), heard)
        await heard.over.wait()
        hold.pause()
        hold.abort()
        assert (await ask(side, it.address)).body == heard.body == b"fine"
        assert len(it.received) == 1
        assert b"never" not in it.bytes
        assert not talk.over.is_set()


async def test_the_end_breaks_off_what_is_under_way() -> None:
    async with node(silent) as it:
        side = joined()
        sent, waiting = Conversed(), Conversed()
        side.send(at(it.address), *parts(post()), sent)
        await it.arrived.wait()
        side.send(at(it.address), *parts(post()), waiting)
        await side.close()
        await asyncio.wait_for(sent.over.wait(), DEADLINE)
        await asyncio.wait_for(waiting.over.wait(), DEADLINE)
        assert (sent.failure, waiting.failure) == (LinkFailure.BROKEN, LinkFailure.NOT_SENT)
        assert (await ask(side, it.address)).failure is LinkFailure.NOT_SENT
        await gone(side)
