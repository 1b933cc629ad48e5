"""Every kind of server and of handler that may ask, and every way to serve it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp.types as types
import pytest
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings
from framehold.engine import runtime
from framehold.sdk.seam import Seam
from framehold_core.errors import NotInCall
from tests.kit.client import Caller, Reply
from tests.kit.nodes import served
from tests.kit.serving import Word, said

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
Ctx = ServerRequestContext[Any, Any]


async def word_of(ctx: Ctx, message: str) -> str:
    answer = await ctx.session.elicit_form(message, SCHEMA)
    assert isinstance(answer, types.ElicitResult)
    return str((answer.content or {}).get("word", answer.action))


async def list_tools(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="ask", description="Ask.", input_schema={"type": "object"})])


async def call_tool(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    words = [await word_of(ctx, f"{params.name} {number}?") for number in (1, 2)]
    return types.CallToolResult(content=[types.TextContent(type="text", text=" ".join(words))])


async def get_prompt(ctx: Ctx, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    text = await word_of(ctx, f"{params.name}?")
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))]
    )


async def read_resource(ctx: Ctx, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    text = await word_of(ctx, f"{params.uri}?")
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])


def low() -> Server[Any]:
    return Server(
        "low",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_get_prompt=get_prompt,
        on_read_resource=read_resource,
    )


def high() -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("high")

    @server.tool()
    async def ask(ctx: Context) -> str:
        return f"{said(await ctx.elicit('ask 1?', Word))} {said(await ctx.elicit('ask 2?', Word))}"

    @server.prompt()
    async def poem(ctx: Context) -> str:
        return said(await ctx.elicit("poem?", Word))

    @server.resource("poems://{name}")
    async def poems(name: str, ctx: Context) -> str:
        return said(await framehold.ask("text", f"poems://{name}?", Word))

    return server


@asynccontextmanager
async def talk(server: Any) -> AsyncIterator[Caller]:
    async with served(framehold.asgi(server, Settings(node_id="n"))) as url, Caller(url) as caller:
        yield caller


async def again(caller: Caller, method: str, params: dict[str, Any], reply: Reply, word: str) -> Reply:
    answers = {"requestState": reply.token, "inputResponses": reply.accept(word=word)}
    return await caller.send(method, {**params, **answers})


@pytest.mark.parametrize("server", [low, high])
async def test_each_kind_of_handler_suspends(server: Any) -> None:
    calls: list[tuple[str, dict[str, Any], list[str], str]] = [
        ("tools/call", {"name": "ask", "arguments": {}}, ["ask 1?", "ask 2?"], "w0 w1"),
        ("prompts/get", {"name": "poem"}, ["poem?"], "w0"),
        ("resources/read", {"uri": "poems://spring"}, ["poems://spring?"], "w0"),
    ]
    async with talk(server()) as caller:
        for method, params, questions, text in calls:
            reply = await caller.send(method, params)
            for number, question in enumerate(questions):
                assert reply.messages == [question]
                reply = await again(caller, method, params, reply, f"w{number}")
            assert f"'text': '{text}'" in str(reply.result)


@pytest.mark.parametrize("server", [low, high])
async def test_a_token_is_good_for_its_own_method_and_resource(server: Any) -> None:
    async with talk(server()) as caller:
        prompt = await caller.send("prompts/get", {"name": "poem"})
        resource = await caller.send("resources/read", {"uri": "poems://spring"})
        wrong = [
            await caller.retry("poem", prompt.token, prompt.accept(word="x")),
            await again(caller, "prompts/get", {"name": "poem", "arguments": {"a": "b"}}, prompt, "x"),
            await again(caller, "resources/read", {"uri": "poems://autumn"}, resource, "x"),
            await again(caller, "resources/read", {"uri": "poems://spring"}, prompt, "x"),
        ]
        assert [(reply.status, reply.code) for reply in wrong] == [(400, -32602)] * len(wrong)
        done = await again(caller, "resources/read", {"uri": "poems://spring"}, resource, "thaw")
        assert done.result["contents"][0]["text"] == "thaw"


async def test_a_refusal_of_a_prompt_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tool's caller gets as a result, a prompt's and a resource's gets as the protocol's error."""
    monkeypatch.setattr(runtime, "SWEEP", 0.02)
    server: Server[Any] = Server("slow", on_get_prompt=_hang)
    async with served(framehold.asgi(server, Settings(node_id="n", max_round=0.2))) as url, Caller(url) as caller:
        result = await caller.send("prompts/get", {"name": "poem"})
        assert (result.status, result.code) == (200, -32603)
        assert "FRAMEHOLD_MAX_ROUND" in result.text


async def _hang(ctx: Ctx, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("never")


async def test_attaching_twice_wraps_once() -> None:
    server: Server[Any] = Server("late", on_call_tool=call_tool, on_list_tools=list_tools)
    settings = Settings(node_id="n")
    first = framehold.attach(server, settings)
    entry = server.get_request_handler("tools/call")
    assert entry is not None and isinstance(entry.handler, Seam)
    middleware = list(server.middleware)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)
    app = framehold.asgi(server, settings)
    assert app.attached is first
    assert server.get_request_handler("tools/call") is entry and server.middleware == middleware
    async with served(app) as url, Caller(url) as caller:
        reply = await caller.send("prompts/get", {"name": "poem"})
        done = await again(caller, "prompts/get", {"name": "poem"}, reply, "ode")
        assert done.result["messages"][0]["content"]["text"] == "ode"
    outer = high()
    assert framehold.attach(outer, settings) is framehold.attach(outer._lowlevel_server, settings)


async def test_a_lifespan_that_fails_is_told_to_every_request() -> None:
    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    app = framehold.asgi(MCPServer("life", lifespan=lifespan), Settings(node_id="n"))
    scope = {"type": "http", "method": "GET", "path": "/mcp", "headers": [], "query_string": b""}
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no database"):
            await asyncio.wait_for(app(dict(scope), None, None), 5)  # type: ignore[arg-type]  # neither is reached


async def test_ask_outside_a_call() -> None:
    with pytest.raises(NotInCall, match="nothing was asked"):
        await framehold.ask("key", "Which word?", Word)
