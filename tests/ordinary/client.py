"""A server in this process and its client: whole ASGI requests in, whole responses out, with what differs from one run
to another masked."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import framehold
from framehold.config import Settings
from framehold.engine.eviction import COUNT
from framehold.http.app import Application
from framehold.http.ordinary_rounds import OrdinaryRounds
from framehold_core import events as ev
from tests.kit.processes import DEADLINE
from tests.ordinary.tools import server

_TOKEN = re.compile(r'"requestState":"((?:h1|s1)[^"]+)"')
_VARIES = {b"content-length": b"n", b"mcp-session-id": b"session"}
Headers = list[tuple[bytes, bytes]]


@dataclass
class Sent:
    """One request. It is sent in `pieces`, and its client leaves after `stays` seconds (None: it stays)."""

    data: bytes
    headers: Headers
    pieces: int = 1
    stays: float | None = None


class Seen(NamedTuple):
    """One response, as it is compared: without tokens, and without its length, which they change."""

    status: int | None
    headers: tuple[tuple[bytes, bytes], ...]
    body: str
    raised: str


@dataclass
class Party:
    """One app, and what it has replied last: its body, its token, and the keys of its questions."""

    app: Application
    message: dict[str, Any] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)

    @property
    def asked(self) -> list[str]:
        """The keys of the questions of the last reply; empty if it asks nothing."""
        result = self.message.get("result") or {}
        return list(result.get("inputRequests") or {}) if isinstance(result, dict) else []

    async def give(self, sent: Sent, send: Any) -> None:
        arriving = [{"type": "http.request", "body": sent.data, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if arriving:
                return arriving.pop()
            await asyncio.Event().wait()
            return {}

        await self.app(_scope([*sent.headers, (b"content-length", b"%d" % len(sent.data))]), receive, send)

    async def send(self, sent: Sent) -> Seen:
        size, count = len(sent.data), sent.pieces
        parts = [sent.data[size * part // count : size * (part + 1) // count] for part in range(count)]
        arriving = [
            {"type": "http.request", "body": part, "more_body": place < count} for place, part in enumerate(parts, 1)
        ]
        left, status, headers, body = asyncio.Event(), None, (), b""

        async def receive() -> dict[str, Any]:
            if arriving:
                return arriving.pop(0)
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal status, headers, body
            if message["type"] == "http.response.start":
                status, headers = message["status"], tuple(message["headers"])
            body += message.get("body", b"")

        length = (b"content-length", b"%d" % size)
        serving = asyncio.ensure_future(self.app(_scope([*sent.headers, length]), receive, send))
        if sent.stays is not None:
            asyncio.get_running_loop().call_later(sent.stays, left.set)
        await asyncio.wait([serving], timeout=DEADLINE)
        left.set()
        failure = None if serving.cancelled() else serving.exception()
        return self._seen(status, headers, body, "" if failure is None else type(failure).__name__)

    def _seen(self, status: int | None, headers: Any, body: bytes, raised: str) -> Seen:
        text = body.decode("utf-8", "replace")
        try:
            self.message = json.loads(text)
        except ValueError:
            self.message = {}
        self.tokens += _TOKEN.findall(text)
        kept = tuple(sorted((name, _VARIES.get(name, value)) for name, value in headers))
        # A token of strategy replay has the journal, whose sealed values differ in length.
        return Seen(status, kept, _TOKEN.sub('"requestState":"token"', text), raised)

    async def evict(self) -> None:
        runtime = self.app.attached.runtime
        while (slot := runtime.table.pop_oldest_evictable()) is not None:
            runtime.feed(slot, ev.Evict(COUNT))
        while runtime.tasks.cancelling:
            await asyncio.sleep(0)

    def counted(self) -> dict[str, Any]:
        """What the node has counted. Results that no other write has taken along are left out: a timer decides."""
        metrics, runtime = self.app.attached.metrics, self.app.attached.runtime
        assert metrics is not None, "metrics are on"
        ops = {name: dict(op.results) for name, op in metrics.ops.items() if name not in ("result", "renew")}
        tools = {name: ({k: v for k, v in tool.ends.items() if v}, sum(tool.seconds.counts), sum(tool.parked.counts),
                        sum(tool.per_call.counts)) for name, tool in metrics.tools.items()}  # fmt: skip
        return {
            "tools": {name: found for name, found in tools.items() if found[0]},
            "rounds": metrics.rounds,
            "duplicates": metrics.duplicates,
            "journals": sum(metrics.journals.counts),
            "resumes": len(metrics.resumes._durations),
            "counts": {name: count for name, count in runtime.counts.items() if count},
            "ops": ops,
            "left": (len(runtime.table), runtime.table.frames, runtime.draining.unanswered),
        }


class Count:
    def __init__(self) -> None:
        self.taken = 0
        self._begun: Any = OrdinaryRounds._begun

    def __enter__(self) -> Count:
        def counted(*args: Any) -> Any:
            waiting = self._begun(*args)
            self.taken += waiting is not None
            return waiting

        setattr(OrdinaryRounds, "_begun", counted)  # noqa: B010 - mypy refuses the plain form
        return self

    def __exit__(self, *_: object) -> None:
        setattr(OrdinaryRounds, "_begun", self._begun)  # noqa: B010


@asynccontextmanager
async def party(
    middlewares: Iterable[Any] = (), make: Callable[[], Any] = server, **settings: Any
) -> AsyncIterator[Party]:
    """A fresh server, which `make` makes, with these settings and ASGI middlewares, from its start to its end."""
    app = framehold.asgi(make(), Settings(**{"node_id": "ordinary", **settings}))
    for middleware in middlewares:
        app.add_middleware(middleware)
    async with app.lifespan():
        yield Party(app)


def _scope(headers: Headers) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
