"""What a handler of 2025 asks with, and its effects under `once`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import (
    CreateMessageResult,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

import framehold
from framehold_core.errors import (
    AskError,
    InDoubt,
    KeyReused,
    ResultNotKept,
)
from tests.kit.effects import Effects, Own, failure
from tests.kit.nodes import served
from tests.kit.questions import asking
from tests.kit.serving import Served, Word, said, serving
from tests.node.wires.official import hears

pytestmark = pytest.mark.anyio


MESSAGES = [SamplingMessage(role="user", content=TextContent(type="text", text="hm?"))]
ANSWERS = {
    "roots/list": {"roots": [{"uri": "file:///srv"}]},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "hm"}, "model": "m"},
    "elicitation/create": {"action": "accept", "content": {"word": "w"}},
    "ping": {},
}


async def _roots(ctx: Context) -> str:
    return str((await ctx.session.list_roots()).roots[0].uri)


async def _sampled(ctx: Context) -> str:
    result = await ctx.session.create_message(MESSAGES, max_tokens=5)
    assert isinstance(result.content, TextContent)
    return result.content.text


async def _elicited(ctx: Context) -> str:
    return str((await ctx.session.elicit_form("Which?", Word.model_json_schema())).content)


async def _pinged(ctx: Context) -> str:
    return type(await ctx.session.send_ping()).__name__


BARE = {
    "list_roots": (_roots, "file:///srv"),
    "create_message": (_sampled, "hm"),
    "elicit_form": (_elicited, "{'word': 'w'}"),
    "send_ping": (_pinged, "EmptyResult"),
}


Answer = Callable[[Any, int], dict[str, Any] | None]


def _each(message: Any, how_manieth: int) -> dict[str, Any]:
    return {"id": message["id"], "result": ANSWERS[message["method"]]}


@asynccontextmanager
async def posting(url: str) -> AsyncIterator[Callable[..., Awaitable[tuple[str, list[Any]]]]]:
    """A client of 2025 that never opens a stream of its own: what it may be asked comes on a call's response. A call
    gives what it was told in the end, and what it heard before."""
    accept = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(headers=accept, timeout=10) as http:

        def body(method: str, **rest: Any) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "method": method, **rest}

        who = {"name": "t", "version": "1"}
        can: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
        about = {"protocolVersion": "2025-11-25", "capabilities": can, "clientInfo": who}
        begun = await http.post(url, json=body("initialize", id=1, params=about))
        http.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
        await http.post(url, json=body("notifications/initialized"))

        async def call(tool: str, answer: Answer = _each) -> tuple[str, list[Any]]:
            request = body("tools/call", id=99, params={"name": tool, "arguments": {}})
            reply: list[Any] = []
            async with http.stream("POST", url, json=request) as response:
                async for line in response.aiter_lines():
                    if not line.startswith("data: {"):
                        continue
                    message = json.loads(line.removeprefix("data: "))
                    if message.get("id") == 99:
                        if "error" in message:
                            return str(message["error"]["message"]), reply
                        return str(message["result"]["content"][0]["text"]), reply
                    reply.append(message)
                    text = answer(message, len(reply)) if "id" in message else None
                    if text is not None:
                        await http.post(url, json={"jsonrpc": "2.0", **text})
            raise AssertionError("the call had no end")

        yield call


@pytest.mark.parametrize(("ask", "told"), BARE.values(), ids=BARE)
async def test_what_names_no_request_goes_out_on_that_of_the_call(ask: Any, told: str) -> None:
    """A client that listens on no other stream is asked all the same."""

    async def tool(ctx: Context) -> str:
        return str(await ask(ctx))

    async with asyncio.timeout(10), serving(tool) as caller, posting(caller.url) as call:
        assert (await call("tool"))[0] == told


async def test_where_responses_carry_no_question_the_other_stream_does() -> None:
    server: MCPServer[Any] = MCPServer("json")
    server.tool(name="tool", description="A tool of this test.")(_roots)
    framehold.attach(server)
    async with asyncio.timeout(10), served(server.streamable_http_app(json_response=True)) as url:
        assert await legacy(url, "tool") == "file:///srv"


async def test_questions_that_nobody_waits_for_any_more_are_withdrawn() -> None:
    """The shim asks two at once; one fails, which ends the call. The client need not keep the other one open."""

    async def two(ctx: Context) -> str | InputRequiredResult:
        return "done" if ctx.input_responses else asking(one="One?", two="Two?")

    def fails_last(message: Any, how_manieth: int) -> dict[str, Any] | None:
        return {"id": message["id"], "error": {"code": -1, "message": "no"}} if how_manieth == 2 else None

    async with asyncio.timeout(10), serving(two) as caller, posting(caller.url) as call:
        result, (first, _, withdrawn) = await call("two", fails_last)
    assert result == "elicitation/create failed at the client: no"
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", first["id"])


async def test_a_handler_that_breaks_off_takes_no_other_call_with_it() -> None:
    """One that awaits what was cancelled raises `CancelledError` though nobody cancelled it: its client is told so, and
    the session lives on. A call that its client cancels is cancelled."""
    ended = asyncio.Event()

    async def breaks(ctx: Context) -> str:
        raise asyncio.CancelledError

    async def waits(ctx: Context) -> str:
        try:
            await ctx.session.elicit_form("Which?", Word.model_json_schema(), ctx.request_id)
        finally:
            ended.set()
        return "heard"

    async with asyncio.timeout(10), serving(breaks, waits) as caller, posting(caller.url) as call:
        assert (await call("breaks"))[0].startswith("the handler broke off from within")
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 99}}
        result, _ = await call("waits", lambda message, how_manieth: cancelled)
        assert result == "Request cancelled"
        assert ended.is_set()


async def _by_context(ctx: Context) -> str:
    return said(await ctx.elicit("Which?", Word))


async def _by_key(ctx: Context) -> str:
    return said(await framehold.ask("key", "Which?", Word))


WITHIN = {"elicit": _by_context, "ask": _by_key, "list_roots": _roots, "create_message": _sampled}


async def legacy(url: str, tool: str) -> str:
    """What a client of 2025 is told that answers whatever it is asked."""

    async def elicit(_: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"word": "w"})

    async def sample(_: Any, params: Any) -> CreateMessageResult:
        return CreateMessageResult.model_validate(ANSWERS["sampling/createMessage"])

    async def folders(_: Any) -> ListRootsResult:
        return ListRootsResult.model_validate(ANSWERS["roots/list"])

    callbacks: dict[str, Any] = {
        "elicitation_callback": elicit,
        "sampling_callback": sample,
        "list_roots_callback": folders,
    }
    async with Client(url, mode="legacy", **callbacks) as old:
        result = await old.call_tool(tool, {})
    return " ".join(block.text for block in result.content if isinstance(block, TextContent))


@pytest.mark.parametrize("ask", WITHIN.values(), ids=WITHIN)
async def test_an_effect_may_not_ask_on_this_wire_either(ask: Any) -> None:
    """As on the present one, where replay would leave the question out; beside the effect it may be asked."""

    async def tool(ctx: Context) -> str:
        raised = await failure(framehold.once("k", ask, ctx))
        assert isinstance(raised, framehold.AskError), repr(raised)
        assert "inside the effect of once('k')" in str(raised)
        return str(await ask(ctx))

    async with asyncio.timeout(10), serving(tool) as caller:
        assert await legacy(caller.url, "tool") in ("w", "file:///srv", "hm")


async def test_an_effect_may_ping() -> None:
    async def pings(ctx: Context) -> str:
        return str(await framehold.once("k", _pinged, ctx))

    async with asyncio.timeout(10), serving(pings) as caller:
        assert await legacy(caller.url, "pings") == "EmptyResult"


async def test_what_outlives_its_call_asks_on_the_other_stream() -> None:
    """A task that its handler left behind has no response to ask on."""
    left = asyncio.Event()
    tasks: list[asyncio.Task[str]] = []

    async def leaves(ctx: Context) -> str:
        async def later() -> str:
            await left.wait()
            return await _roots(ctx)

        tasks.append(asyncio.create_task(later()))
        return "gone"

    async with asyncio.timeout(10), serving(leaves) as caller:
        reply = asyncio.create_task(_listening(caller, left, tasks))
        assert await reply == ["gone", "file:///srv"]


async def _listening(caller: Served, left: asyncio.Event, tasks: list[asyncio.Task[str]]) -> list[str]:
    async def folders(context: Any) -> ListRootsResult:
        return ListRootsResult.model_validate(ANSWERS["roots/list"])

    async with Client(caller.url, mode="legacy", list_roots_callback=folders) as old:
        result = await old.call_tool("leaves", {})
        left.set()
        (block,) = result.content
        assert isinstance(block, TextContent)
        return [block.text, await tasks[0]]


async def test_a_client_of_2025_is_served_alike() -> None:
    """once, now, uuid4, random, idempotency_key and their errors: as on the present wire."""
    effects = Effects()

    async def breaks_off() -> None:
        effects.ran.append("broke off")
        raise asyncio.CancelledError

    def fails() -> None:
        raise Own("no", code=7)

    async def nested() -> None:
        await framehold.once("below", effects.note, "below")

    @framehold.reentrant
    async def old(ctx: Context) -> str:
        one, two = await asyncio.gather(*(framehold.once("k", effects.note) for _ in range(2)))
        assert one == two == ["it"] and one is not two
        word = said(await ctx.elicit("well?", Word))
        assert isinstance(await failure(framehold.once("k", effects.note, "other")), KeyReused)
        for _ in range(2):
            error = await failure(framehold.once("f", fails))
            assert isinstance(error, Own) and error.code == 7
            assert isinstance(await failure(framehold.once("n", nested)), AskError)
            assert isinstance(await failure(framehold.once("l", threading.Lock)), ResultNotKept)
            error = await failure(framehold.once("doubt", breaks_off))
            assert type(error) is InDoubt, repr(error)
        assert framehold.uuid4("x") == framehold.uuid4("x") != framehold.uuid4() != framehold.uuid4()
        assert framehold.now("a") == framehold.now("a") <= framehold.now()
        assert 0 <= framehold.random() < 1 and framehold.now().tzinfo is not None
        assert framehold.idempotency_key("k") == framehold.idempotency_key("k") != framehold.idempotency_key("l")
        return word

    async with serving(old) as client:
        assert await asyncio.wait_for(hears(client.url, "legacy", "old"), 10) == "<well?>"
        assert client.runtime.store.request_counts.get("intent", 0) == 0
    assert effects.ran == ["it", "broke off"]
