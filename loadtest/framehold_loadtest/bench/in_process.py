"""A Framehold server in this process, without sockets: the real ASGI app, given the requests of `weather`.

The argument of its one tool is three numbers, `EFFECTS QUESTIONS DIRECT`. The tool runs that many effects under `once`,
asks that many questions in a row, and runs the same effect that many times without `once`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from framehold.http.app import Application
from framehold_loadtest.bench import weather
from framehold_loadtest.client.connection import Response
from framehold_loadtest.client.rounds import Asked
from framehold_loadtest.served.weather import TOOL_NAME, Units, bare, expected_text

ANSWER = "an answer of 20 char"
PORT = 80
"""The port in the Host header; nobody listens there."""
UNASKED = "none"
_NO_CALL = frozenset({"register", "renew", "leave", "read"})
_QUESTION = "Question {:>3} of many?"  # its number 1 to 999: 21 characters


async def nothing() -> None:
    """The effect: it does nothing, so that what surrounds it is what is measured."""


def server() -> MCPServer:
    """A server with the tool, marked re-entrant."""
    made = bare()

    @made.tool(name=TOOL_NAME)
    @framehold.reentrant
    async def script(location: str, ctx: Context) -> str:
        """Do what the three numbers of `location` say."""
        effects, questions, direct = map(int, location.split())
        units = UNASKED
        for number in range(effects):
            await framehold.once(f"effect {number}", nothing)
        for number in range(1, questions + 1):
            answer = await ctx.elicit(_QUESTION.format(number), Units)
            units = answer.data.units if answer.action == "accept" else answer.action
        for _ in range(direct):
            await nothing()
        return expected_text(location, units)

    return made


def scripted(effects: int, questions: int, direct: int = 0) -> weather.Call:
    """A call of the tool."""
    return weather.Call(1, f"{effects} {questions} {direct}", ANSWER if questions else UNASKED)


class Local:
    """The app, open, and its client."""

    def __init__(self, app: Application) -> None:
        self._app = app

    @property
    def runtime(self) -> Runtime:
        """What holds its calls."""
        return self._app.attached.runtime

    @property
    def writes(self) -> int:
        """How many writes its calls have sent to the store: no reads, and none of a node lease's own."""
        return sum(number for name, number in self.runtime.store.request_counts.items() if name not in _NO_CALL)

    async def request(self, data: bytes) -> Response:
        """Give the app one request."""
        head, _, body = data.partition(b"\r\n\r\n")
        _, *lines = head.split(b"\r\n")
        pairs = [line.partition(b": ") for line in lines]
        headers = [(name.lower(), value) for name, _, value in pairs]
        return await self.handle(headers, body)

    async def handle(self, headers: list[tuple[bytes, bytes]], body: bytes) -> Response:
        """The same, as an ASGI server has parsed it."""
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": "/mcp",
                 "raw_path": b"/mcp", "root_path": "", "query_string": b"", "scheme": "http", "headers": headers,
                 "client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT)}  # fmt: skip
        arriving: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
        left = asyncio.get_running_loop().create_future()
        parts: list[bytes] = []
        status = 0

        async def receive() -> dict[str, Any]:
            if not arriving:
                await asyncio.shield(left)
            return arriving.pop() if arriving else {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = int(message.get("status", status))
            parts.append(message.get("body", b""))

        await self._app(scope, receive, send)
        left.cancel()
        return Response(status, b"".join(parts))

    async def asked(self, call: weather.Call, rounds: int) -> Asked:
        """Start a call and answer until it has asked `rounds` times; its last question."""
        question = weather.read_question(await self.request(weather.first_round(PORT, call)))
        for _ in range(rounds - 1):
            question = await self.answered(call, question)
        return question

    async def answered(self, call: weather.Call, question: Asked) -> Asked:
        """Answer a question; the next one."""
        return weather.read_question(await self.request(weather.second_round(PORT, call, question)))


@contextlib.asynccontextmanager
async def local(**settings: Any) -> AsyncIterator[Local]:
    """A fresh server with these settings, from its start to its shutdown."""
    app = framehold.asgi(server(), Settings(node_id="bench", **settings))
    to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    to_us: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    # As a server opens it: what the app learns of its own place then takes a step of each round.
    running = asyncio.create_task(app({"type": "lifespan"}, to_app.get, to_us.put))
    await to_app.put({"type": "lifespan.startup"})
    started = await to_us.get()
    if started["type"] != "lifespan.startup.complete":
        raise RuntimeError(f"the server did not start: {started.get('message')}")
    try:
        yield Local(app)
    finally:
        await to_app.put({"type": "lifespan.shutdown"})
        await running
