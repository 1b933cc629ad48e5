"""Requests of 2025-era clients that a node cuts off when it ends: each gets an error that says what is not known."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from framehold.http.session_response import SessionResponse
from tests.node.nodes import entries, node
from tests.processes import until
from tests.store.server import RedisServer

pytestmark = pytest.mark.anyio

TARGET = "tests/node/draining_server.py"
REQUEST = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "long", "arguments": {"name": "Al"}}}
_OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
_HEADERS = {"accept": "application/json, text/event-stream"}


async def session_of(http: httpx2.AsyncClient, url: str) -> dict[str, str]:
    """Open a session; the headers of its requests."""
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _OPENING}
    opened = await http.post(url, headers=_HEADERS, json=opening)
    headers = {**_HEADERS, "mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
    await http.post(url, headers=headers, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
    return headers


def check_error(error: Any) -> None:
    assert error["code"] == -32603 and error["data"]["retryAfter"] >= 1
    assert "whether the request was run is not known" in error["message"] and "session" in error["message"]


async def test_a_stream_that_is_cut_off_ends_with_an_error(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has begun with status 200, so the error is its last event. The response is whole."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    settings = {"store_url": redis.url, "namespace": tmp_path.name, "drain_timeout": "0.5"}
    async with node(TARGET, tmp_path, **settings) as only, httpx2.AsyncClient(timeout=60) as http:
        headers = await session_of(http, only.url)
        calling = asyncio.create_task(http.post(only.url, headers=headers, json=REQUEST))
        await until(lambda: "long-Al" in entries(tmp_path / "entries"), "the handler's begin")
        only.terminate()
        reply = await calling
        assert (reply.status_code, reply.headers["content-type"]) == (200, "text/event-stream")
        message = json.loads(reply.text.strip().splitlines()[-1].removeprefix("data: "))
        assert message["id"] == 7
        check_error(message["error"])


class Cut:
    """One request that is served by `app` and cut off once `app` is `under_way`."""

    def __init__(self, body: bytes = b"") -> None:
        self.sent: list[Message] = []
        self.under_way = asyncio.Event()
        whole = body or json.dumps(REQUEST).encode()
        pieces = [(whole[:20], True), (whole[20:], False)]
        self._bodies = [{"type": "http.request", "body": body, "more_body": more} for body, more in pieces]

    async def receive(self) -> Message:
        return self._bodies.pop(0)

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def served(self, app: ASGIApp) -> None:
        response = SessionResponse(self.receive, self.send)
        serving = asyncio.create_task(response.serve(app, {"type": "http"}, retry_after=3))
        await self.under_way.wait()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        assert serving.cancelled()


def serving(cut: Cut, *messages: Message) -> ASGIApp:
    """An app that reads the request, sends `messages`, and never ends."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        for message in messages:
            await send(message)
        cut.under_way.set()
        await asyncio.Event().wait()

    return app


async def test_a_response_that_has_not_begun_is_a_503() -> None:
    cut = Cut()
    await cut.served(serving(cut))
    start, body = cut.sent
    assert start["status"] == 503 and dict(start["headers"])[b"retry-after"] == b"3"
    message = json.loads(body["body"])
    assert message["id"] == 7 and not body.get("more_body", False)
    check_error(message["error"])


@pytest.mark.parametrize("body", [b"[1]", b"{", b'{"jsonrpc":"2.0","method":"notifications/initialized"}'])
async def test_a_request_without_an_id_gets_an_error_without_one(body: bytes) -> None:
    cut = Cut(body)
    await cut.served(serving(cut))
    assert cut.sent[0]["status"] == 503 and json.loads(cut.sent[1]["body"])["id"] is None


def started(kind: bytes) -> Message:
    return {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]}


@pytest.mark.parametrize(
    "messages",
    [
        (started(b"application/json"), {"type": "http.response.body", "body": b"{", "more_body": True}),
        (started(b"text/event-stream"), {"type": "http.response.body", "body": b"data: {}\r\n\r\n"}),
    ],
    ids=["JSON that has begun", "a stream that has ended"],
)
async def test_nothing_is_added_to_other_responses(messages: tuple[Message, ...]) -> None:
    cut = Cut()
    await cut.served(serving(cut, *messages))
    assert cut.sent == list(messages)
