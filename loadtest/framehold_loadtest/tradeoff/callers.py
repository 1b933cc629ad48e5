"""Clients: one of 2026-07-28, whose calls are rounds, and one of 2025-11-25, which is asked over its open stream.

Law: both are as patient as an official client. A refused round with a token is sent again for as long as `Patience`
says. A broken stream can't be resumed, because the servers keep no events: its call is lost once it has asked a
question. A call that was refused at its beginning is not lost.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from framehold_loadtest.client import rounds, trip
from framehold_loadtest.client.connection import Connection, post
from framehold_loadtest.client.patience import Patience
from framehold_loadtest.client.rounds import PLAIN_FIELDS, Asked, Refused, Reply
from framehold_loadtest.notes import LOST, UNBORN, Call
from framehold_loadtest.tradeoff.record import Turn

_BROKEN = (OSError, EOFError, TimeoutError, ValueError)
_OF_2025 = "2025-11-25"
_SESSION = "mcp-session-id"


@dataclass(frozen=True, slots=True)
class Aim:
    """Where a client calls, how many rounds its calls have, and for how many seconds it sends a round again."""

    port: int
    rounds: int
    patience: float
    turned: Callable[[Turn], None]
    think: Callable[[], Awaitable[None]]
    """What happens before each answer."""
    size: int = 0
    """How many bytes the tool keeps for each call between its rounds."""
    loses: bool = False
    """Whether the reply to the last round is lost on its way, once."""


class Modern:
    """A client of 2026-07-28."""

    def __init__(self, aim: Aim) -> None:
        self._aim = aim
        self._link: Connection | None = None

    async def call(self, name: str) -> Call:
        """Make a call; the ledger knows it by `name`."""
        began, number = time.time(), 1
        reply = await self._round(1, trip.begin(name, self._aim.rounds, self._aim.size))
        if isinstance(reply, Refused):
            return Call(name, began, time.time(), 1, UNBORN, reply.why)
        while isinstance(reply, Asked):
            await self._aim.think()
            number += 1
            reply = await self._round(number, trip.retry(number, name, self._aim.rounds, reply, self._aim.size))
        outcome, why = trip.outcome(reply, name, self._aim.rounds)
        return Call(name, began, time.time(), number, outcome, why)

    async def park(self, name: str) -> bool:
        """Begin a call and leave it at its first question, for good. Returns whether it came there."""
        return isinstance(await self._round(1, trip.begin(name, self._aim.rounds, self._aim.size)), Asked)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    async def _round(self, number: int, body: dict[str, Any]) -> Reply:
        """One round, sent again while there is patience."""
        start, patience, refused = time.perf_counter(), Patience(self._aim.patience), 0
        if self._aim.loses and number == self._aim.rounds:
            await self._try(body)
        while True:
            reply, sent, received, after = await self._try(body)
            gone = time.perf_counter() - start
            wait = patience.next(number, reply, gone, after)
            if wait is None:
                break
            refused += 1
            await asyncio.sleep(wait)
        token = len(reply.token) if isinstance(reply, Asked) else 0
        answered = not isinstance(reply, Refused)
        self._aim.turned(Turn(number, time.time(), gone, sent, received, token, answered, refused))
        return reply

    async def _try(self, body: dict[str, Any]) -> tuple[Reply, int, int, str]:
        """The reply, the bytes of both ways, and when it asks to be tried again."""
        try:
            async with asyncio.timeout(self._aim.patience):
                link = self._link = self._link or await Connection.open(self._aim.port)
                sent, received = link.sent, link.received
                found = await link.request(post(self._aim.port, trip.FIELDS, body))
        except _BROKEN:
            self.close()
            return rounds.read(0, "", b""), 0, 0, ""
        if found.fields.get("connection", "").lower() == "close":
            self.close()
        reply = rounds.read(found.status, found.fields.get("content-type", ""), found.body)
        return reply, link.sent - sent, link.received - received, found.fields.get("retry-after", "")


class OfSession:
    """A client of 2025-11-25. One session lasts for many calls; it has one link for the call and one for answers."""

    def __init__(self, aim: Aim) -> None:
        self._aim = aim
        self._numbers = itertools.count(1)
        self._session = ""
        self._links: list[Connection] = []
        self._held: list[Connection] = []
        """The open streams of parked calls."""

    async def call(self, name: str) -> Call:
        stream = _Stream(name, time.time())
        try:
            await self._patiently(self._begin(stream))
            while stream.asked is not None:
                await self._aim.think()
                await self._patiently(self._answer(stream))
        except _BROKEN as error:
            self._aim.turned(
                Turn(stream.number, time.time(), time.perf_counter() - stream.start, 0, 0, 0, answered=False)
            )
            self.close()
            outcome = LOST if stream.questions else UNBORN
            return Call(name, stream.began, time.time(), stream.number, outcome, str(error) or type(error).__name__)
        outcome, why = trip.outcome(stream.done, name, self._aim.rounds)
        return Call(name, stream.began, time.time(), stream.number, outcome, why)

    async def park(self, name: str) -> bool:
        stream = _Stream(name, time.time())
        try:
            await self._patiently(self._begin(stream))
        except _BROKEN:
            self.close()
            return False
        self._held.append(self._links[0])
        self._links[0] = await Connection.open(self._aim.port)
        return stream.asked is not None

    def close(self) -> None:
        for link in (*self._links, *self._held):
            link.close()
        self._links, self._held, self._session = [], [], ""

    async def _patiently(self, doing: Coroutine[Any, Any, None]) -> None:
        async with asyncio.timeout(self._aim.patience):
            await doing

    async def _begin(self, stream: _Stream) -> None:
        """The call's request, up to its first question or its end."""
        if not self._session:
            await self._initialize()
        stream.turn(1)
        calls, _ = self._links
        sent, received = calls.sent, calls.received
        body = trip.begin(stream.name, self._aim.rounds, self._aim.size) | {"id": next(self._numbers)}
        del body["params"]["_meta"]
        head = await calls.begin(post(self._aim.port, self._fields(), body))
        if head.status != 200 or not head.streams:
            raise ConnectionError(f"{head.status} {(await calls.body())[:120]!r}")
        await self._listen(stream)
        self._turned(stream, calls.sent - sent, calls.received - received)

    async def _answer(self, stream: _Stream) -> None:
        """The answer to the present question, up to the next one or the end."""
        stream.turn(stream.number + 1)
        calls, answers = self._links
        sent, received = answers.sent, answers.received + calls.received
        given = {"action": "accept", "content": {"choice": trip.choice(stream.number - 1)}}
        head = await answers.begin(
            post(self._aim.port, self._fields(), {"jsonrpc": "2.0", "id": stream.asked, "result": given})
        )
        if head.status != 202:
            raise ConnectionError(f"{head.status} {(await answers.body())[:120]!r}")
        await answers.body()
        await self._listen(stream)
        if self._aim.loses and stream.done is not None:
            raise ConnectionError("the stream broke before the result")
        self._turned(stream, answers.sent - sent, answers.received + calls.received - received)

    async def _listen(self, stream: _Stream) -> None:
        """Read on until a question, or the result."""
        calls = self._links[0]
        stream.asked = None
        while (message := await calls.event()) is not None:
            if message.get("method") == "elicitation/create":
                stream.asked = message["id"]
                stream.questions += 1
                return
            if "result" in message or "error" in message:
                stream.done = rounds.read(200, "application/json", json.dumps(message).encode())
                await calls.body()
                return
        raise ConnectionError("the stream ended without a result")

    async def _initialize(self) -> None:
        self._links = [await Connection.open(self._aim.port), await Connection.open(self._aim.port)]
        calls, _ = self._links
        client = {"name": "framehold-load", "version": "0"}
        params = {"protocolVersion": _OF_2025, "capabilities": {"elicitation": {}}, "clientInfo": client}
        head = await calls.begin(
            post(self._aim.port, PLAIN_FIELDS, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        )
        await calls.body()
        session = head.fields.get(_SESSION, "")
        if head.status != 200 or not session:
            raise ConnectionError(f"no session: {head.status}")
        self._session = session
        head = await calls.begin(
            post(self._aim.port, self._fields(), {"jsonrpc": "2.0", "method": "notifications/initialized"})
        )
        await calls.body()
        if head.status != 202:
            raise ConnectionError(f"the session is not known: {head.status}")

    def _fields(self) -> dict[str, str]:
        return {**PLAIN_FIELDS, "mcp-protocol-version": _OF_2025, _SESSION: self._session}

    def _turned(self, stream: _Stream, sent: int, received: int) -> None:
        gone = time.perf_counter() - stream.start
        self._aim.turned(Turn(stream.number, time.time(), gone, sent, received, 0, answered=True))


Caller = Modern | OfSession
Opened = Callable[[Aim], Caller]


@dataclass(slots=True)
class _Stream:
    """One call on its way over a session. `asked` is the id of the question that waits for its answer."""

    name: str
    began: float
    number: int = 1
    start: float = 0.0
    asked: Any = None
    questions: int = 0
    done: Reply | None = None

    def turn(self, number: int) -> None:
        """The next round begins."""
        self.number, self.start = number, time.perf_counter()
