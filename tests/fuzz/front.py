"""Streams of requests at a router with a strict server behind it, and what others read in the same bytes."""

from __future__ import annotations

import array
import asyncio
import fcntl
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from framehold_fleet.http_server.client_connection import ClientConnection
from framehold_fleet.http_server.message import Request
from framehold_fleet.http_server.response import Response
from framehold_fleet.identity.statements import HELLO
from framehold_router.routing.relay import RequestRelay
from tests.kit.processes import DEADLINE
from tests.router.wires import Router, router

from . import streams
from .complaints import Complaints, complaints
from .others import Uvicorn
from .part import Outcome, played
from .strict import NUMBER, Meaning, Strict, strict

_ANSWERED_ALONE = frozenset((b"admin", b"healthz", b"readyz", b"dashboard", b"metrics"))
"""The first segments of paths that no router sends on. Nor does it send on what asks who it is."""


class _Noting(RequestRelay):
    """Notes each request that the router accepts, and whether it goes on to a node; and each that has two framings, or
    one that a node would not know of."""

    accepted: list[tuple[Meaning, bool]]
    misframed: list[bytes]

    def __call__(self, request: Request, reply: Response) -> None:
        head = request.head
        codings = [value.strip().lower() for name, value in head.headers if name == b"transfer-encoding"]
        self.misframed += [coding for coding in codings if codings != [b"chunked"]]
        is_alone = head.segment in _ANSWERED_ALONE or any(name == HELLO for name, _ in head.headers)
        self.accepted.append((Meaning(head.method, head.target, request.body), not is_alone))
        super().__call__(request, reply)


class Front:
    """A router with a strict server behind it, and the others who read the same streams."""

    def __init__(self, made: Router, relay: _Noting, behind: Strict, heard: Complaints) -> None:
        self._router, self._relay, self._behind, self._heard = made, relay, behind, heard
        self._others = [Uvicorn("h11"), Uvicorn("node")]
        self.shapes = set[tuple[Any, ...]]()
        """What streams have led to: statuses, requests, and how many of them each reader found."""

    def _connection_of(self, writer: asyncio.StreamWriter) -> ClientConnection | None:
        """The router's end of a client's connection, if it has been accepted."""
        own, all_of_them = writer.get_extra_info("sockname"), self._router.front.connections.open
        return next((one for one in all_of_them if one._transport.get_extra_info("peername") == own), None)

    def _is_settled(self, connection: ClientConnection, writer: asyncio.StreamWriter) -> bool:
        """Whether the router has read all that a client has sent, and answers nothing any more; or has closed."""
        if connection not in self._router.front.connections.open:
            return True
        has_all = not (writer.transport.get_write_buffer_size() or _unread(connection) or connection._rest)
        return has_all and connection._response is None

    async def _sent(self, pieces: Sequence[bytes]) -> bytes | None:
        """All that a client of the router gets for a stream; None if its connection was reset, so that it can't tell:
        what was refused was not read to its end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._router.port, limit=1 << 22)
        try:
            while (connection := self._connection_of(writer)) is None:
                await asyncio.sleep(0)
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            while not self._is_settled(connection, writer):
                await asyncio.sleep(0)
            # More would have come before it had settled, so what follows can only be the end.
            writer.write_eof()
            return await reader.read()
        except OSError:
            return None
        except RuntimeError:
            # uvloop says so of what is written to a connection that was reset before.
            if not writer.transport.is_closing():
                raise
            return None
        finally:
            writer.close()

    async def wrong(self, pieces: Sequence[bytes]) -> str | None:
        """What is wrong with what a stream led to; None if nothing is."""
        self._behind.begin()
        self._relay.accepted, self._relay.misframed, self._heard.said = [], [], []
        try:
            async with asyncio.timeout(DEADLINE):
                got = await self._sent(pieces)
        except TimeoutError:
            return f"no end within {DEADLINE:g} s"
        read = {other.name: await other.read(pieces) for other in self._others}
        accepted = [meaning for meaning, _ in self._relay.accepted]
        passed = [meaning for meaning, goes_on in self._relay.accepted if goes_on]
        lines = (got or b"").split(b"\r\n")
        statuses = tuple(line.split(b" ")[1] for line in lines if line.startswith(b"HTTP/1.1 "))
        self.shapes.add((*statuses, len(passed), *map(len, read.values())))
        bad = [*self._behind.violations, *self._heard.said, *self._relay.misframed]
        if bad or self._router.placer.counts.total():
            return f"{bad}, in flight: {self._router.placer.counts}"
        if b"500" in statuses or b"502" in statuses or b"504" in statuses:
            return f"a client was answered {statuses!r}"
        if self._behind.requests != passed:
            return f"the server behind got {self._behind.requests!r}, the router took {passed!r}"
        if got is not None and [int(number) for number in NUMBER.findall(got)] != [*range(len(passed))]:
            return f"{len(passed)} requests were passed on, and the client got {got[:2000]!r}"
        if raised := [error for other in self._others if other.name == "node" for error in other.raised]:
            return f"the protocol of a node raised {raised}"
        wrong = (difference("the router", accepted, name, found) for name, found in read.items())
        return next(filter(None, wrong), None)


def difference(one: str, found: Sequence[Meaning], other: str, others: Sequence[Meaning]) -> str | None:
    """Where two who read the same stream, and both accept a request, take it for different ones; None if nowhere."""
    for ours, theirs in zip(found, others, strict=False):
        if ours != theirs:
            return f"{one} takes {str(ours)[:900]}, {other} takes {str(theirs)[:900]}"
    return None


def _unread(connection: ClientConnection) -> int:
    """Bytes that have arrived at a connection and were not read."""
    size = array.array("i", [0])
    descriptor = connection._transport.get_extra_info("socket").fileno()
    if descriptor >= 0:
        fcntl.ioctl(descriptor, termios.FIONREAD, size)
    return size[0]


@asynccontextmanager
async def fronted() -> AsyncIterator[Front]:
    """A router and what stands behind it, in this process."""
    relays = list[_Noting]()

    def relay(*parts: Any) -> RequestRelay:
        relays.append(_Noting(*parts))
        return relays[-1]

    async with strict() as behind, router(behind.address, mint=True, relay=relay, deadline=None) as made:
        # What uvicorn says of its streams is of no interest.
        with complaints("uvicorn.error", "h11_impl.py") as heard:
            yield Front(made, relays[0], behind, heard)


def run(seed: int, seconds: float) -> Outcome:
    """Send the streams of the seeds that begin with `seed`, for some seconds, on the loop of production."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(seed, seconds))


async def _run(seed: int, seconds: float) -> Outcome:
    async with fronted() as front:
        done = await played(seed, seconds, lambda number: shown(front.wrong, number))
        return done._replace(seen=f"{len(front.shapes)} kinds of outcome")


async def shown(wrong: Callable[[Sequence[bytes]], Awaitable[str | None]], number: int) -> str | None:
    """What is wrong with what the stream of a seed led to, and the stream."""
    text = await wrong(pieces := streams.drawn(number))
    return None if text is None else f"{text[:3000]}\n  {[*pieces]!r:.3000}"
