"""What requests and sessions hold of a node's memory: it is counted as it comes, and refused before it is built."""

from __future__ import annotations

import asyncio
import json
import math
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.server.mcpserver import Context
from starlette.types import Message

from framehold import json_text
from framehold.config import Settings
from framehold.engine import eviction, memory
from framehold.engine.memory import LOW, SESSION_BYTES, sessions
from framehold.engine.runtime import Runtime
from framehold.hosts import sdk_app
from framehold.http.body import Body, Reception
from framehold.http.intake import HEAVIEST, LIGHT, MAX_LISTEN, SMALL, Crowded, Held, Intake, TooLarge
from framehold.sdk.hop import Hop
from tests.kit.beside_sdk import RawRequest, TwinClient, raw, send, twins
from tests.kit.serving import Word, said, server_of, serving
from tests.node.http.test_relay import ACCEPT, INITIALIZE

pytestmark = pytest.mark.anyio


MIB = 1 << 20
ITEMS = {
    "lists": "[]",
    "objects": "{}",
    "objects of one": '{"a":1}',
    "objects of many": '{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}',
    "objects in objects": '{"a":{}}',
    "lists in lists": "[[]]",
    "numbers": "1",
    "large numbers": "123456789",
    "fractions": "1.25",
    "nothing": "null",
    "texts": '"ab"',
    "long texts": '"abcdefghijabcdefghijabcdefghij"',
    "wide texts": '"abcdefghijabcdefghij\U0001f600"',
    "escaped texts": '"abcdefghijabcdefghij\\ud83d\\ude00"',
}


def taken(text: bytes) -> int:
    """Bytes that the value of a JSON text takes."""
    tracemalloc.start()
    try:
        value = json.loads(text)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del value
    return size


@pytest.mark.parametrize("name", ITEMS)
async def test_a_value_takes_no_more_than_its_weight(name: str) -> None:
    text = ("[" + ",".join([ITEMS[name]] * 5_000) + "]").encode()
    assert taken(text) <= sum(json_text.weight(text, 1 << 40))


async def test_an_object_of_many_keys_takes_no_more_than_its_weight() -> None:
    for count in (1_000, 43_691):
        text = json.dumps({f"key {number}": number for number in range(count)}).encode()
        assert taken(text) <= sum(json_text.weight(text, 1 << 40))


VALUES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=100)
@given(VALUES, st.booleans())
def test_the_weight_outside_of_strings_is_never_too_low(value: Any, escaped: bool) -> None:
    data = json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")

    def least(of: Any) -> int:
        if isinstance(of, list):
            return 72 * max(1, len(of)) + sum(map(least, of))
        if isinstance(of, dict):
            return 128 + 72 * max(0, 2 * len(of) - 1) + sum(map(least, of.values()))
        return 0

    assert json_text.weight(data, least(value) - 1).structure >= least(value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_what_stands_in_a_string_is_no_structure(encoding: str) -> None:
    """A document that is sent as a string weighs what its characters take. In another encoding than UTF-8 too much is
    counted, never too little."""
    document = json.dumps([{"a": [1, 2, {"b": "c\\"}], "d": '"[[[{{{'}] * 5_000)
    data = json.dumps({"document": document}).encode(encoding)
    weight = sum(json_text.weight(data, MIB))
    assert weight >= len(data)
    assert encoding != "utf-8" or weight < len(data) + 1000


class Room:
    """An intake of 100 KiB, with requests that wait for their bodies."""

    def __init__(self) -> None:
        self.free: float | None = None
        self.intake = Intake(lambda: 100 << 10, lambda: self.free)
        self.refused: list[str] = []
        self.ends = asyncio.Event()

    async def waits(self, name: str, size: int, began: asyncio.Event) -> None:
        """A request of which `size` bytes have come, and no more come."""
        with self.intake.request() as held:
            try:
                held.receives(size)
                began.set()
                await self.ends.wait()
            except asyncio.CancelledError:
                assert held.was_refused()
                self.refused.append(name)
            except Crowded:
                began.set()
                self.refused.append(name)

    async def begins(self, **sizes: int) -> list[asyncio.Task[None]]:
        tasks = []
        for name, size in sizes.items():
            tasks.append(asyncio.create_task(self.waits(name, size, began := asyncio.Event())))
            await began.wait()
            # The refused ones run.
            await asyncio.sleep(0)
        return tasks

    async def end(self, tasks: list[asyncio.Task[None]]) -> None:
        self.ends.set()
        await asyncio.gather(*tasks)


async def test_the_largest_that_is_being_received_goes_first() -> None:
    room = Room()
    tasks = await room.begins(a=50 << 10, b=45 << 10, c=20 << 10)
    assert room.refused == ["a"] and room.intake.held == 65 << 10
    tasks += await room.begins(d=60 << 10, e=SMALL)
    assert room.refused == ["a", "d"]
    await room.end(tasks)
    assert room.intake.held == 0


@pytest.mark.parametrize(
    ("free", "sizes", "refused"),
    [
        # Else no request of that size could ever be.
        (None, {"a": 200 << 10}, []),
        # Nobody is kept out by what others hold.
        (0, {"a": SMALL, "b": SMALL, "c": SMALL + 1}, ["c"]),
    ],
    ids=["one that is alone is served however large", "small ones pass though no room is left"],
)
async def test_whom_there_is_room_for(free: float | None, sizes: dict[str, int], refused: list[str]) -> None:
    room = Room()
    room.free = free
    tasks = await room.begins(**sizes)
    assert room.refused == refused
    await room.end(tasks)


async def test_what_is_whole_is_not_refused_for_another() -> None:
    """It is being served: its effects may run already."""
    room = Room()
    with room.intake.request() as served:
        served.receives(80 << 10)
        served.received()
        tasks = await room.begins(a=30 << 10)
        assert room.refused == ["a"]
        await room.end(tasks)


# At a node


def asking(name: str, junk: bytes, **arguments: Any) -> Callable[[TwinClient], RawRequest]:
    """A call of a tool with an argument that it does not have, of this JSON."""

    def make(client: TwinClient) -> RawRequest:
        request = raw(client.envelope("tools/call", {"name": name, "arguments": {**arguments, "junk": "@"}}))
        return request.saying(request.body.replace(b'"@"', junk))

    return make


@asynccontextmanager
async def crowd(**settings: Any) -> AsyncIterator[TwinClient]:
    async with twins(compared=False, **settings) as client:
        yield client


async def test_a_body_whose_value_is_too_heavy_is_refused_unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By each method, each revision and each way that a body comes; a body of the same size that is light is served."""
    parsed: list[int] = []
    read = json_text.read

    def counted(data: bytes | str) -> Any:
        parsed.append(len(data))
        return read(data)

    monkeypatch.setattr(json_text, "read", counted)
    async with crowd(max_body=MIB) as client:
        bomb = asking("echo", b"[" + b"[]," * 340_000 + b"[]]")(client)
        listing = raw(client.envelope("tools/list", {}))
        old = RawRequest((("accept", "application/json, text/event-stream"), ("content-type", "application/json")), b"")
        for request in (
            bomb,
            RawRequest(bomb.headers, bomb.body, chunked=True),
            listing.saying(listing.body[:-1] + b',"junk":' + b"[" + b"{}," * 340_000 + b"{}]}"),
            old.saying(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":[' + b"[]," * 340_000 + b"[]]}"),
        ):
            refused = await send(client.url, request)
            assert refused.status == 413, request.body[:80]
            assert f"{HEAVIEST * MIB} bytes of memory" in refused.body.decode()
        assert not parsed and client.runtime.counts["entered"] == 0
        light = await send(client.url, asking("echo", b'"' + b"[]," * 340_000 + b'"')(client))
        assert light.verdict == (200, "result")


async def test_a_subscription_is_small() -> None:
    """It stays for as long as its client listens, so it may hold little."""
    async with crowd() as client:
        listen = raw(client.envelope("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        refused = await send(client.url, listen.params(junk="x" * MAX_LISTEN))
        assert refused.status == 413 and f"{MAX_LISTEN} bytes of memory (a subscription)" in refused.body.decode()


async def test_a_parked_call_keeps_no_argument_that_its_tool_does_not_have() -> None:
    """Nor its parsed arguments: the context has them as they came."""

    async def waits(ctx: Context, kept: Any = None) -> str:
        said(await ctx.elicit("Which word?", Word))
        return json.dumps((ctx.request_context.params or {}).get("arguments"))

    async with twins(lambda server: server.tool()(waits), compared=False) as client:
        junk = b"[" + b"[]," * 50_000 + b"[]]"
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            parked = await send(client.url, asking("waits", junk, kept=[1, 2])(client))
            asked, state = parked.message["result"]["inputRequests"], parked.message["result"]["requestState"]
            del parked
            held = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert held < MIB
        answers = {key: {"action": "accept", "content": {"word": "aye"}} for key in asked}
        retry = {"name": "waits", "requestState": state, "inputResponses": answers}
        done = await send(client.url, asking("waits", junk, kept=[1, 2])(client).params(**retry))
        assert done.verdict == (200, "result"), done.body
        assert json.loads(done.message["result"]["content"][0]["text"]) == {"kept": [1, 2]}


async def test_a_node_near_its_limit_takes_no_large_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is admitted by what it may take, not by what the last reading of the memory was: below the mark from
    which new calls are refused, some large ones together could still take more than there is."""
    held = [100 * MIB]
    monkeypatch.setattr(eviction, "READING_AGE", 0.0)
    monkeypatch.setattr(memory, "resident", lambda: held[0])
    async with crowd(memory_limit=200 * MIB, max_body=16 * MIB) as client:
        _, retry = await client.parked()
        held[0] = 178 * MIB
        large = raw(client.envelope("tools/call", {"name": "echo", "arguments": {"value": ["x" * 10] * 300_000}}))
        refused = await send(client.url, large)
        assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
        assert "FRAMEHOLD_MEMORY_LIMIT" in refused.body.decode()
        assert (await client.call("echo", arguments={"text": "small"})).text
        held[0] = 100 * MIB
        assert (await send(client.url, large)).verdict == (200, "result")
        await client.completes(retry)


async def test_light_requests_are_not_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    def weight(data: bytes, limit: int) -> json_text.Weight:
        raise AssertionError("a light request was weighed")

    monkeypatch.setattr(json_text, "weight", weight)
    with Intake(lambda: 1, lambda: None).request() as held:
        assert held.weigh(b"x" * LIGHT, MIB, False) == 0
    assert isinstance(held, Held)


async def test_a_large_request_that_is_alone_is_received_whatever_the_limit() -> None:
    """All requests together are limited, and one alone by the largest body: otherwise it would be refused for ever."""
    async with crowd(max_buffered=8192) as client:
        assert (await client.call("echo", arguments={"text": "x" * 30_000})).text


INTAKE = Intake(lambda: math.inf, lambda: None)
"""It has room for all."""


class Pieces:
    """A `receive` that gives so many bytes one by one, then the end of the connection."""

    def __init__(self, count: int) -> None:
        self.left = count

    async def __call__(self) -> Message:
        self.left -= 1
        if self.left < 0:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"x", "more_body": self.left > 0}


async def test_a_body_that_comes_byte_by_byte_takes_little_more_than_its_bytes() -> None:
    """It is replayed as one message; then what follows it."""
    count = 20_000
    with INTAKE.request() as held:
        body = Body(Pieces(count), count, held)
        tracemalloc.start()
        try:
            assert await body.whole() == b"x" * count
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 5 * count
    assert await body.replay() == {"type": "http.request", "body": b"x" * count, "more_body": False}
    assert (await body.replay())["type"] == "http.disconnect"


async def test_a_body_ends_at_the_limit_or_with_its_client() -> None:
    pieces = Pieces(10)
    with INTAKE.request() as held, pytest.raises(TooLarge):
        await Body(pieces, 4, held).whole()
    assert pieces.left == 5

    messages: list[Message] = [{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return messages.pop(0)

    with INTAKE.request() as held:
        assert await Body(receive, 4, held).whole() is None


REFUSED = {
    "too long": ([b"x" * 6_000, b"x" * 6_000], None, 413),
    "too heavy": ([b"[" + b"[]," * 3_000 + b"[]]"], None, 413),
    "no room": ([b"x" * 6_000], 0.0, 503),
}


@pytest.mark.parametrize(("pieces", "room", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_refused_body_holds_nothing_while_its_rest_is_thrown_away(
    pieces: list[bytes], room: float | None, status: int
) -> None:
    """A client may go on sending for some seconds. Nor is it refused once more, for the room of another."""
    limits = SimpleNamespace(intake=math.inf, room=lambda: room, crowded_out=lambda: None)
    runtime = SimpleNamespace(settings=SimpleNamespace(max_body=10_000), eviction=limits, retry_after=1)
    reception, left, sent = Reception(cast(Runtime, runtime)), [*pieces], list[tuple[Message, int, int]]()

    async def receive() -> Message:
        return {"type": "http.request", "body": left.pop(0) if left else b"", "more_body": bool(left)}

    async def noted(message: Message) -> None:
        sent.append((message, reception.intake.held, len(reception.intake.receiving)))

    scope = {"type": "http", "headers": [], "framehold": Hop("node", False)}
    with reception.intake.request() as held:
        body = Body(receive, reception.limit, held)
        assert await reception.whole(body, held, scope, receive, noted) is None
    assert sent[0][0]["status"] == status and {(size, count) for _, size, count in sent} == {(0, 0)}
    assert reception.intake.held == 0


async def one(ctx: Context) -> str:
    return said(await ctx.elicit("Which word?", Word))


async def test_a_session_too_many_is_refused_and_parked_calls_go_on() -> None:
    async with serving(one, max_sessions=2) as client, httpx2.AsyncClient(headers=ACCEPT) as http:
        held = await client.call("one")
        opened = [await http.post(client.url, json=INITIALIZE) for _ in range(3)]
        assert [item.status_code for item in opened] == [200, 200, 503]
        assert (await client.retry("one", held.token, held.accept(word="w"))).text == "w"
        assert (await client.call("one")).messages == ["Which word?"]
        ending = {"mcp-session-id": opened[0].headers["mcp-session-id"]}
        assert (await http.delete(client.url, headers=ending)).status_code == 200
        assert (await http.post(client.url, json=INITIALIZE)).status_code == 200


@pytest.mark.parametrize(
    ("limit", "resident", "fit"),
    [
        (None, 1 << 27, 10_000),
        (1 << 30, None, 10_000),
        (1 << 30, 100 << 20, int(((1 << 30) * LOW - (100 << 20)) / 2 / SESSION_BYTES)),
        (1 << 40, 100 << 20, 10_000),
        (100 << 20, 100 << 20, 100),
    ],
)
def test_sessions_leave_half_of_the_memory_to_frames(limit: int | None, resident: int | None, fit: int) -> None:
    """At most 10,000, and some however little memory there is."""
    assert sessions(10_000, 100, limit, resident) == fit


def test_the_memory_limit_bounds_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framehold.engine.memory.resident", lambda: 100 << 20)
    found: list[Any] = []
    for limits in (Settings(memory_limit=300 << 20), Settings(memory_limit=300 << 20, max_sessions=7)):
        server = server_of("bounded", one)
        sdk_app.sdk_app(server, limits, "/mcp")
        found.append(server.session_manager.max_sessions)
    assert found == [int((300 * LOW - 100) * 1024 / 2 / 40), 7]
