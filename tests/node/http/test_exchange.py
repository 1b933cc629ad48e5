"""Parts of a node's HTTP by themselves: turns, responses, and requests that are forwarded or cut off."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from framehold.engine.peers import Peers
from framehold.engine.runtime import Runtime
from framehold.http.body import Reception
from framehold.http.exchange import Exchange, StreamRest, as_json
from framehold.http.foreign_response import ForeignResponse
from framehold.http.forward import Forward, ForwardResult
from framehold.http.pacing import Pacing
from framehold.http.session_affinity import SessionAffinity
from framehold.sdk.hop import Hop
from framehold.sdk.replies import session_cut_off
from framehold_core.ids import Boot
from framehold_fleet.http_server.server import close_server
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import Receiver
from framehold_store.system_clock import system_clock
from tests.kit.beside_sdk import RawResponse, raw, twins
from tests.kit.nodes import KEY, entries, node
from tests.kit.processes import until
from tests.kit.proofs import BOOT, introduced
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio


async def test_what_waits_behind_a_slow_client_is_not_sent_when_the_response_is_closed() -> None:
    """The response may have been passed on to another node, which writes the rest of it."""
    sent, client_reads = list[str](), asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message["type"])
        await client_reads.wait()

    async def receive() -> Any:
        raise AssertionError("nothing reads the body")

    exchange = Exchange({"type": "http", "headers": []}, receive, 1, None, send)
    first = asyncio.create_task(exchange.notify("notifications/message", {"data": "first"}))
    await until(lambda: sent == ["http.response.start"], "the head")
    second = asyncio.create_task(exchange.notify("notifications/message", {"data": "second"}))
    await asyncio.sleep(0)
    exchange.close()
    client_reads.set()
    await asyncio.gather(first, second)
    assert sent == ["http.response.start", "http.response.body"]


async def test_a_crowd_goes_through_a_few_at_a_time_and_in_order() -> None:
    """Between two portions the loop turns: a timer that is due is heard long before the crowd is through."""
    turns, through, seen = Pacing(per_turn=3), [], []

    async def request(number: int) -> None:
        await turns.mine()
        through.append(number)

    tasks = [asyncio.create_task(request(number)) for number in range(30)]

    async def heartbeat() -> None:
        while len(through) < 30:
            seen.append(len(through))
            await asyncio.sleep(0)

    await heartbeat()
    await asyncio.gather(*tasks)
    assert through == list(range(30))
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 3 and len(seen) >= 10


async def test_whoever_comes_alone_waits_for_nothing() -> None:
    turns = Pacing(per_turn=1)
    for _ in range(5):
        line = turns.mine()
        with pytest.raises(StopIteration):
            line.send(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_one_that_leaves_the_line_holds_up_nobody() -> None:
    turns = Pacing(per_turn=1)
    tasks = [asyncio.create_task(turns.mine()) for _ in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    done, left = await asyncio.wait(tasks, timeout=5)
    assert not left and [task.cancelled() for task in tasks] == [False, True, False, False] and len(done) == 4


TOLD = {
    ForwardResult.ANSWERED: None,
    ForwardResult.BROKEN: (502, "whether it served the request is not known"),
    ForwardResult.VANISHED: (502, "whether it served the request is not known"),
}
"""Everything else sent nothing."""


@pytest.mark.parametrize("result", ForwardResult)
async def test_who_may_send_a_request_again_is_told_so(result: ForwardResult) -> None:
    """503 and `send the same request again` only where nothing was sent: else an effect would run twice."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def nobody(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("this process does not have the session")

    class Forwarding:
        async def forward(self, *_: Any) -> ForwardResult:
            return result

    eviction = SimpleNamespace(intake=1000, room=lambda: None)
    runtime = cast(Runtime, SimpleNamespace(settings=SimpleNamespace(max_body=1000), eviction=eviction))
    affinity = SessionAffinity(nobody, nobody, runtime, cast(Forward, Forwarding()), Reception(runtime))
    scope = {"type": "http", "method": "POST", "headers": [], "framehold": Hop("node", False)}
    await affinity._forward_to("http://other", scope, receive, send)
    told = TOLD.get(result, (503, "nothing was sent; send the same request again"))
    if told is None:
        assert sent == []
    else:
        assert (sent[0]["status"], told[1] in sent[1]["body"].decode()) == (told[0], True)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 10\r\n\r\n"
PARTS = (b"first", b"other")


class Node:
    """A node that answers in parts, as it is told, and whose lease is gone when it is told."""

    def __init__(self) -> None:
        self.asked, self.begins, self.ends, self.gone = (asyncio.Event() for _ in range(4))
        self.heard: list[bytes] = []
        self.watched = 0
        """How many requests watch its lease."""
        self.trust, self.clock = Trust([KEY.encode()]), system_clock()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await introduced(reader, writer)
        await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        for event, part in zip((self.begins, self.ends), (HEAD + PARTS[0], PARTS[1]), strict=True):
            await event.wait()
            writer.write(part)
        writer.close()

    async def receiver(self, address: str) -> Receiver:
        return Receiver(("127.0.0.1", int(address.rpartition(":")[2])), (BOOT,))

    async def vanished(self, boots: tuple[Boot, ...]) -> None:
        assert boots == (BOOT,), "the processes that the request was sent to"
        self.watched += 1
        try:
            await self.gone.wait()
        finally:
            self.watched -= 1

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(self, message: Any) -> None:
        self.heard.append(message.get("body", b""))


@asynccontextmanager
async def forwarded() -> AsyncIterator[tuple[Node, asyncio.Task[ForwardResult]]]:
    """A node, and a request on its way there."""
    node, scope = Node(), {"method": "POST", "path": "/mcp", "headers": [], "framehold": Hop("a", False)}
    forward = Forward(cast(Peers, node))
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    sending = asyncio.create_task(forward.forward(address, (scope, b"{}"), node.receive, node.send))
    try:
        yield node, sending
    finally:
        for event in (node.begins, node.ends):
            event.set()
        await asyncio.wait((sending,))
        await until(lambda: not node.watched, "the end of the watch of a request that has ended")
        await forward.close()
        await close_server(server)


async def test_one_that_has_said_nothing_is_not_waited_for() -> None:
    async with forwarded() as (node, sending):
        await until(lambda: node.asked.is_set() or sending.done(), "the request")
        node.gone.set()
        assert await sending is ForwardResult.VANISHED and node.heard == []


async def test_a_request_that_was_answered_leaves_no_watch_behind() -> None:
    async with forwarded() as (node, sending):
        node.begins.set()
        node.ends.set()
        assert await sending is ForwardResult.ANSWERED


async def test_one_that_has_begun_its_response_may_end_it() -> None:
    """It lives, and only the store has lost it: the client gets the whole response, and the request is sent nowhere
    else."""
    async with forwarded() as (node, sending):
        node.begins.set()
        await until(lambda: b"".join(node.heard) == PARTS[0], "the first part")
        node.gone.set()
        for _ in range(50):
            await asyncio.sleep(0)
        assert not sending.done()
        node.ends.set()
        assert await sending is ForwardResult.ANSWERED and b"".join(node.heard) == b"".join(PARTS)


@pytest.mark.parametrize(
    ("headers", "body", "event"),
    [
        ({"content-type": "text/event-stream"}, b"data: 1\r\n\r\n", None),
        ({"content-type": "application/json"}, b'{"id":7,"result":{}}', {"id": 7, "result": {}}),
        (
            {"content-type": "application/json", "retry-after": "12"},
            b'{"id":7,"error":{"code":-32603,"message":"full","data":{"a":1}}}',
            {"id": 7, "error": {"code": -32603, "message": "full", "data": {"a": 1, "retryAfter": 12}}},
        ),
        (
            {"content-type": "application/json"},
            b'{"id":7,"error":{"code":-32603,"message":"full"}}',
            {"id": 7, "error": {"code": -32603, "message": "full"}},
        ),
        ({"content-type": "application/json"}, b"[]", "status 503 and no message"),
        ({"content-type": "text/html"}, b"<p>", "status 503 and no message"),
    ],
    ids=["events", "a result", "an error for a while", "an error", "no message", "a page"],
)
async def test_a_response_goes_on_in_a_stream_that_began(headers: dict[str, str], body: bytes, event: Any) -> None:
    """Another node's response: events as they are, all else as one event. What its head said of when to come again is
    in the error."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    rest = StreamRest(send, 7)
    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    await rest({"type": "http.response.start", "status": 503, "headers": named})
    await rest({"type": "http.response.body", "body": body[:5], "more_body": True})
    await rest({"type": "http.response.body", "body": body[5:]})
    told = b"".join(message["body"] for message in sent)
    assert not sent[-1]["more_body"] and all(message["type"] == "http.response.body" for message in sent)
    if event is None:
        assert told == body
        return
    found = json.loads(told.removeprefix(b"event: message\r\ndata: "))
    assert found == event or event in found["error"]["message"]


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
        response = ForeignResponse(self.receive, self.send, session_cut_off)
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


def no_json(name: str) -> Any:
    raise AssertionError(f"JSON has no {name}")


def unbounded(server: MCPServer[Any]) -> None:
    """Add a tool that sends numbers which JSON does not have, in each way."""

    @server.tool()
    async def measures(fails: bool, ctx: Context) -> CallToolResult:
        await ctx.report_progress(1, math.inf)
        await ctx.report_progress(-math.inf, math.nan)
        data = {"limit": math.inf, "value": math.nan}
        if fails:
            raise MCPError(-32000, "out of range", data)
        return CallToolResult(content=[], structured_content=data)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("meta", [{}, {"progressToken": 3}], ids=["JSON", "a stream"])
async def test_a_number_that_json_does_not_have_is_null_as_by_the_sdk(fails: bool, meta: dict[str, Any]) -> None:
    async with twins(unbounded) as client:
        params = {"name": "measures", "arguments": {"fails": fails}}
        for _ in range(2):
            one, other = await client.both(raw(client.envelope("tools/call", params, meta=meta)))
            told = [[json.loads(data, parse_constant=no_json) for data in messages(each)] for each in (one, other)]
            assert told[0] == told[1] and len(told[0]) == (3 if meta else 1)


def messages(response: RawResponse) -> list[bytes]:
    """The JSON-RPC messages in a response."""
    lines = response.body.splitlines()
    return [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")] or [response.body]


def test_such_a_number_is_null_beside_half_of_a_pair() -> None:
    assert as_json({"a": [math.nan, "\ud83d"]}) == b'{"a":[null,"\\ud83d"]}'
