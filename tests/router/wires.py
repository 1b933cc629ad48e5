"""A router between raw sockets: nodes that say what a test tells them to, clients that send any bytes."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from framehold_core.ids import Boot, CallId, NodeId
from framehold_fleet.headers import Header
from framehold_fleet.http_client.node_connection import LinkFailure
from framehold_fleet.http_client.response_head import ResponseHead
from framehold_fleet.http_client.upstream import Upstream
from framehold_fleet.http_server.server import HttpServer, close_server, serve
from framehold_fleet.identity.statements import HELLO, Role
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import Address, Receiver
from framehold_router.config import RouterSettings
from framehold_router.routing.placement import Placement
from framehold_router.routing.refused_hosts import RefusedHosts
from framehold_router.routing.relay import RequestRelay
from framehold_router.routing.request_facts import Facts, read
from framehold_store.system_clock import system_clock
from tests.kit.proofs import BOOT, answered

KEY = "k" * 32
TRUST = Trust([KEY.encode()])
DEADLINE = 10.0
"""Seconds after which a test has hung."""
CALL = CallId("0123456789abcdef0123456789abcdef")

both_loops = pytest.fixture(
    lambda request: ("asyncio", {"use_uvloop": request.param}), params=[False, True], ids=["asyncio", "uvloop"]
)
"""For a module's `anyio_backend`: production runs on uvloop, whose transports differ in what they do when."""

MESSAGE = b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}'


def post(body: bytes = MESSAGE, *headers: str, target: str = "/mcp", version: str = "1.1") -> bytes:
    """A POST as bytes."""
    lines = [f"POST {target} HTTP/{version}", "Host: router.test", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def ok(body: bytes = b"fine", *headers: str, status: str = "200 OK") -> bytes:
    """A response as bytes."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass
class Reply:
    """A request or a response as it came."""

    first: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    raw: bytes = b""

    def all(self, name: bytes) -> list[bytes]:
        """The values of a header."""
        return [value for found, value in self.headers if found.lower() == name]

    def one(self, name: bytes) -> bytes | None:
        """The value of a header that is there once at most."""
        found = self.all(name)
        assert len(found) <= 1, found
        return found[0] if found else None

    @property
    def status(self) -> int:
        return int(self.first.split()[1])

    @property
    def error(self) -> Any:
        """The JSON-RPC error, its `id` put in."""
        message = json.loads(self.body)
        assert message["jsonrpc"] == "2.0"
        assert message["error"]["code"] == -32603
        return {**message["error"], "id": message["id"]}


async def head(reader: asyncio.StreamReader) -> Reply:
    """Read a head."""
    raw = await reader.readuntil(b"\r\n\r\n")
    first, *lines = raw[:-4].split(b"\r\n")
    headers = []
    for line in lines:
        name, colon, value = line.partition(b": ")
        assert colon, line
        headers.append((name, value))
    return Reply(first, headers, raw=raw)


async def chunk(reader: asyncio.StreamReader) -> bytes:
    """Read a chunk; the last one is empty."""
    size = int(await reader.readuntil(b"\r\n"), 16)
    data = await reader.readexactly(size + 2)
    assert data.endswith(b"\r\n")
    return data[:-2]


async def message(reader: asyncio.StreamReader, *, bodiless: bool = False) -> Reply:
    """Read a request or a response, by its length or its chunks; one that has neither has no body."""
    reply = await head(reader)
    if bodiless:
        return reply
    length, coding = reply.one(b"content-length"), reply.one(b"transfer-encoding")
    assert length is None or coding is None
    if length is not None:
        reply.body = await reader.readexactly(int(length))
    elif coding is not None:
        assert coding == b"chunked"
        while piece := await chunk(reader):
            reply.body += piece
    reply.raw += reply.body
    return reply


Answer = Callable[[Reply, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def saying(data: bytes) -> Answer:
    """Answer each request with these bytes."""

    async def answer(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


def closing(data: bytes) -> Answer:
    """Say this and close."""

    async def answer(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    return answer


async def silent(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say nothing."""


class Node:
    """A raw upstream. `received` is everything that came, by connection, but the question who listens, which it
    answers; `requests` what it was parsed to. Without a `boot` it has no key, and that question is a request too."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.received: list[bytearray] = []
        self.requests: list[Reply] = []
        self.arrived = asyncio.Event()
        self.closed: asyncio.Queue[int] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []
        self.address: Address = ("", 0)
        self.boot: str | None = BOOT
        self.key = KEY

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        mine = len(self.received)
        self.received.append(bytearray())
        self.writers.append(writer)
        try:
            while True:
                reply = await message(reader)
                if (hello := reply.one(HELLO)) is not None and self.boot is not None:
                    writer.write(answered(hello, writer.get_extra_info("peername"), self.key, self.boot))
                    continue
                self.received[mine] += reply.raw
                self.requests.append(reply)
                self.arrived.set()
                await self.answer(reply, reader, writer)
        except asyncio.IncompleteReadError as rest:
            self.received[mine] += rest.partial
        except ConnectionError:
            pass
        finally:
            self.closed.put_nowait(mine)
            writer.close()

    @property
    def bytes(self) -> bytes:
        """Everything that came, on whatever connection."""
        return b"".join(bytes(received) for received in self.received)


@asynccontextmanager
async def node(answer: Answer | bytes) -> AsyncIterator[Node]:
    """A raw upstream on a free port."""
    made = Node(saying(answer) if isinstance(answer, bytes) else answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.address = server.sockets[0].getsockname()[:2]
    try:
        yield made
    finally:
        await close_server(server)
        # From the accept of the last connection to the first line of `serve` it takes three turns of asyncio's loop.
        for _ in range(5):
            await asyncio.sleep(0)
        for writer in made.writers:
            writer.close()


class Conversed:
    """A conversation that records its calls, and checks their order."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[Header] = []
        self.length: bytes | None = None
        self.pieces: list[bytes] = []
        self.failure: LinkFailure | None = None
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

    def failed(self, why: LinkFailure) -> None:
        assert not self.over.is_set()
        self.failure = why
        self.over.set()

    def abandons(self) -> bool:
        return False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


def at(address: Address) -> Receiver:
    """The process of tests, at this address."""
    return Receiver(address, (BOOT,))


def parts(data: bytes) -> tuple[bytes, bytes]:
    """A request as `Upstream.send` takes it: its head without the empty line, and its body."""
    head, _, body = data.partition(b"\r\n\r\n")
    return head + b"\r\n", body


def nowhere() -> Address:
    """An address that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address: Address = taken.getsockname()[:2]
    return address


@dataclass
class Nodes:
    """A placer that takes nodes from a list in order, and counts the calls of its methods."""

    addresses: list[Address]
    mint: bool = False
    counts: Counter[NodeId] = field(default_factory=Counter)
    begun: int = 0
    unreached: list[NodeId] = field(default_factory=list)
    refusing: list[NodeId] = field(default_factory=list)
    boots: tuple[Boot, ...] = (BOOT,)
    """What the process at each address has to prove."""
    told: list[tuple[Placement, str]] = field(default_factory=list)
    fallen: set[NodeId] = field(default_factory=set)
    """Nodes without a lease."""
    refused_hosts: RefusedHosts = field(default_factory=lambda: RefusedHosts(time.monotonic))

    def place(self, facts: Facts, tried: Collection[NodeId]) -> Placement | None:
        for number, address in enumerate(self.addresses):
            name = NodeId(f"n{number}")
            if name not in tried:
                call = CallId(f"{CALL[:-1]}{number}") if self.mint else None
                return Placement(name, address, call, call, boots=self.boots)
        return None

    where = place

    def began(self, placement: Placement) -> None:
        self.begun += 1
        self.counts[placement.node] += 1

    def ended(self, placement: Placement) -> None:
        self.counts[placement.node] -= 1
        assert self.counts[placement.node] >= 0, "ended more often than began"

    def unreachable(self, placement: Placement) -> None:
        self.unreached.append(placement.node)

    def declined(self, placement: Placement) -> None:
        self.refusing.append(placement.node)

    def learned(self, placement: Placement, served_by: str) -> None:
        self.told.append((placement, served_by))

    def stands(self, placement: Placement) -> bool:
        return placement.node not in self.fallen


class Client:
    """A raw connection to the router."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def heard(self, *, bodiless: bool = False) -> Reply:
        """The next response."""
        return await message(self.reader, bodiless=bodiless)

    async def ask(self, data: bytes) -> Reply:
        """Send and read one response."""
        self.send(data)
        return await self.heard()

    async def rest(self) -> bytes:
        """All until the router closes."""
        return await self.reader.read()


@dataclass
class Router:
    """A front and its relay, on a port of their own."""

    front: HttpServer
    upstream: Upstream
    placer: Nodes
    port: int
    stack: AsyncExitStack

    async def client(self, *, receive_buffer: int | None = None) -> Client:
        """A new connection, closed with the router."""
        sock = socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        except OSError:
            sock.close()
            raise
        client = Client(*await asyncio.open_connection(sock=sock))
        self.stack.callback(client.writer.close)
        return client

    async def ask(self, data: bytes) -> Reply:
        """One request over a connection of its own."""
        return await (await self.client()).ask(data)

    async def all(self, data: bytes) -> bytes:
        """Everything that comes back for `data` until the router closes."""
        client = await self.client()
        client.send(data)
        return await client.rest()


@asynccontextmanager
async def router(
    *addresses: Address,
    pages: Address = "/nonexistent",
    mint: bool = False,
    relay: Callable[..., RequestRelay] = RequestRelay,
    deadline: float | None = DEADLINE,
    boots: tuple[Boot, ...] = (BOOT,),
    **settings: Any,
) -> AsyncIterator[Router]:
    """A router before `addresses`, where processes of these `boots` listen. At its end, what the placer was told has to
    add up, and nothing may be left open."""
    chosen = RouterSettings(keys=(KEY,), **settings)
    limits = {"connect_timeout": chosen.connect_timeout, "timeout": chosen.upstream_timeout}
    upstream = Upstream(TRUST, Role.ROUTER, system_clock(), **limits)
    placer = Nodes(list(addresses), mint, boots=boots)
    listening = socket.create_server(("127.0.0.1", 0))
    front = await serve(relay(placer, read, upstream, TRUST, chosen, pages), chosen.limits, listening)
    try:
        async with AsyncExitStack() as stack, asyncio.timeout(deadline):
            yield Router(front, upstream, placer, listening.getsockname()[1], stack)
    finally:
        await front.close(0.0)
        await upstream.close()
    assert not +placer.counts, f"still in flight: {placer.counts}"
    assert not front.connections.open


Door = Callable[..., AbstractAsyncContextManager[Router]]
"""What clients connect to, before the nodes at some addresses, with some settings: a router, or a node whose app passes
requests on."""
