"""Whole rounds at three nodes, in all positions of a client, beside what a server of the SDK alone makes of the same
bytes."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

from framehold_cli.local.ports import free as free_port
from tests.kit.beside_sdk import RawRequest, RawResponse, send
from tests.kit.fleet import Fleet, haproxy
from tests.kit.nodes import NodeProcess, served
from tests.kit.processes import ROOT
from tests.kit.redis_server import RedisServer, running

from .bodies import META, REVISION, TEXTS, Writer, plainly, spoiled, value
from .part import Outcome, played
from .server import plain, said

TARGET = "tests/fuzz/server.py:mcp"
HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": REVISION,
    "mcp-method": "tools/call",
}
KINDS = ("application/json", "application/json; charset=utf-8", "application/json; charset=utf-16")
NAMES = {"ask": ("ask", "=?base64?YXNr?="), "replayed": ("replayed", "=?base64?cmVwbGF5ZWQ=?=")}
"""The tools, and how their names may stand in a header."""
NO_OFFER: dict[str, str] = {}
OFFERS = (
    {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAEAAEAAAAIAAAAB"},
    {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-key": "AAAA", "sec-websocket-version": "13"},
    {"connection": "upgrade", "upgrade": "TLS/1.0, foo/2"},
    *[NO_OFFER] * 9,
)
PATIENCE = 30
"""Seconds after which a call has hung."""
WORKERS = 4
"""Rounds at the same time."""


class Uvicorn(NodeProcess):
    """`uvicorn server:app --http h11` as a node."""

    def __init__(self, log: Path, **environment: str) -> None:
        port = free_port()
        super().__init__(TARGET, log, port, **environment, FRAMEHOLD_ADVERTISE_URL=f"http://127.0.0.1:{port}")
        # Whatever the app is, this server takes each offer of `websocket`, unless it is told not to.
        options = ["--http", "h11", "--ws", "none", "--port", str(port)]
        self._command = [sys.executable, "-m", "uvicorn", "tests.fuzz.server:app", *options]
        self._announces = False
        self.url = f"http://127.0.0.1:{port}/mcp"

    async def start(self) -> None:
        """Start, and return when it serves."""
        self.launch()
        await self.until(lambda: "Application startup complete" in self.log(), "its start")


@asynccontextmanager
async def positions(folder: Path, redis: RedisServer) -> AsyncIterator[dict[str, str]]:
    """Where a client may send: behind the router, behind HAProxy, to each of the three nodes; and `SDK`, a server
    without Framehold."""
    fleet = Fleet(folder, redis, TARGET, lease_ttl="10")
    async with AsyncExitStack() as stack:
        stack.callback(fleet.stop)
        settings = {**fleet.common, "FRAMEHOLD_NODE_ID": "uvicorn", "FRAMEHOLD_LOG_LEVEL": "info"}
        fleet.nodes["uvicorn"] = uvicorn = Uvicorn(folder / "uvicorn.log", **settings)
        await asyncio.gather(fleet.start_nodes("node-1", "node-2"), uvicorn.start())
        router = await fleet.add_router()
        nodes = {name: node.url for name, node in fleet.nodes.items()}
        balanced = await stack.enter_async_context(haproxy(folder, ROOT / "examples/haproxy.cfg", fleet.nodes))
        sdk = await stack.enter_async_context(served(plain.streamable_http_app()))
        yield {"router": router.url, "haproxy": balanced, **nodes, "SDK": sdk}


def meaning(response: RawResponse) -> tuple[int, Any, Any]:
    """What two servers' responses are compared by: status; the text of a result or a question, or the error's code;
    and the id."""
    message = response.message
    if not isinstance(message, dict) or "result" not in message:
        return *response.verdict, message and message.get("id")
    result, request_id = message["result"], message["id"]
    if result["resultType"] == "input_required":
        return response.status, next(iter(result["inputRequests"].values()))["params"]["message"], request_id
    return response.status, "isError" if result["isError"] else result["content"][0]["text"], request_id


class Round:
    """One call by one client; `draw` decides what it sends, in which form, and where."""

    def __init__(self, draw: Random, at: dict[str, str]) -> None:
        self._draw, self._at = draw, at
        self._tool = draw.choice([*NAMES])
        self._params: dict[str, Any] = {"name": self._tool, "arguments": {"value": value(draw)}}
        self.sent: list[str] = []

    def _wire(self, params: dict[str, Any], fault: float) -> tuple[RawRequest, bool]:
        """A request, whose body has a fault with the probability `fault`; and whether it says something else then."""
        draw = self._draw
        request_id = draw.choice([1, -5, 2**70, "", *TEXTS])
        more = draw.choice([{}, {}, {"progressToken": draw.choice([1, *TEXTS])}, {draw.choice(TEXTS): value(draw, 1)}])
        params = {**params, "_meta": {**META, **more}}
        body = Writer(draw).encoded({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params})
        chosen = {"content-type": draw.choice(KINDS), "mcp-name": draw.choice(NAMES[self._tool])}
        path, chunked = draw.choice(["/mcp"] * 4 + ["http://{host}/mcp"]), draw.random() < 0.2
        wire = RawRequest(tuple({**HEADERS, **chosen, **draw.choice(OFFERS)}.items()), body, path=path, chunked=chunked)
        if draw.random() < fault:
            wire = wire.saying(spoiled(draw, body))
        return wire, _says_else(wire, params)

    async def _both(self, wire: RawRequest) -> tuple[RawResponse, RawResponse]:
        """What Framehold answers at some position, and what the SDK does."""
        place = self._draw.choice([name for name in self._at if name != "SDK"])
        self.sent.append(f"{place}: {wire!r}"[:20_000])
        ours, sdk = [await send(url, _absolute(url, wire)) for url in (self._at[place], self._at["SDK"])]
        return ours, sdk

    async def difference(self) -> str | None:
        """What differs between the first request's two answers, or between those of the retries; None if nothing."""
        wire, has_changed = self._wire(self._params, fault=0.2)
        ours, sdk = await self._both(wire)
        # The SDK's server asks nothing, so it needs no capability.
        lacking = has_changed and meaning(ours)[1] == MISSING_REQUIRED_CLIENT_CAPABILITY
        if meaning(ours) != meaning(sdk) and not lacking:
            return f"the first request: {meaning(ours)!r}, the SDK {meaning(sdk)!r}: {ours.body!r}"
        if has_changed or ours.verdict != (200, "result"):
            return None
        result = ours.message["result"]
        if result["resultType"] != "input_required":
            return f"nothing was asked: {ours.body!r}"
        content = {"word": self._draw.choice(TEXTS), "n": self._draw.choice([0, 1.0, -2, 0.5, 1e300])}
        action = self._draw.choice(["accept"] * 4 + ["decline", "cancel"])
        answer = {"action": action, "content": content} if action == "accept" else {"action": action}
        answers = dict.fromkeys(result["inputRequests"], answer)
        return await self._retried({**self._params, "requestState": result["requestState"], "inputResponses": answers})

    def _same(self, params: dict[str, Any]) -> dict[str, Any]:
        """A retry that says the same: what is not accepted has content or none, and `_meta` says nothing."""
        more: Any = self._draw.choice([{}, {"_meta": None}, {"_meta": {"a": value(self._draw, 1)}}, {"content": None}])
        return {**params, "inputResponses": {key: {**more, **one} for key, one in params["inputResponses"].items()}}

    async def _retried(self, params: dict[str, Any]) -> str | None:
        """Answer, maybe with a fault. What was refused consumed nothing: a good answer after it counts. After a good
        one the same answer gets the same result."""
        wire, has_changed = self._wire(self._same(params), fault=0.4)
        ours, sdk = await self._both(wire)
        if meaning(ours) != meaning(sdk) and (ours.status >= 500 or not has_changed):
            return f"the answer: {meaning(ours)!r}, the SDK {meaning(sdk)!r}: {ours.body!r}"
        if has_changed and ours.verdict == (200, "result") and ours.message["result"]["resultType"] == "complete":
            return None
        wire, _ = self._wire(self._same(params), fault=0)
        ours, sdk = await self._both(wire)
        if meaning(ours) != meaning(sdk):
            return f"the good answer after another: {meaning(ours)!r}, the SDK {meaning(sdk)!r}: {ours.body!r}"
        return None


def _absolute(url: str, wire: RawRequest) -> RawRequest:
    """The request with the host in its target, if it has one there."""
    return replace(wire, path=wire.path.format(host=urlsplit(url).netloc))


def _says_else(wire: RawRequest, params: dict[str, Any]) -> bool:
    """Whether a body with a fault is a request that says something else than `params`."""
    try:
        found = json.loads(wire.body)["params"]
        return any(said(found.get(name)) != said(json.loads(plainly(params[name]))) for name in params)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return False


async def play(seed: int, seconds: float, at: dict[str, str]) -> Outcome:
    """Play rounds from the seeds that begin with `seed`, some at the same time."""
    numbers = itertools.count(seed)

    async def wrong(_: int) -> str | None:
        one = Round(Random(number := next(numbers)), at)
        try:
            async with asyncio.timeout(PATIENCE):
                what = await one.difference()
        except Exception as error:
            what = f"no answer ({error!r})"
        return None if what is None else "\n  ".join([f"round {number}: {what[:2000]}", *one.sent])

    done = await asyncio.gather(*(played(seed, seconds, wrong) for _ in range(WORKERS)))
    return Outcome(sum(one.tried for one in done), [text for one in done for text in one.found])


async def _run(seed: int, seconds: float) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, running(RedisServer()) as redis:
        async with positions(Path(folder), redis) as at:
            return await play(seed, seconds, at)


def run(seed: int, seconds: float) -> Outcome:
    """Start all positions, and play rounds."""
    return asyncio.run(_run(seed, seconds))
