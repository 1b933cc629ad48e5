"""Every kind of server and of handler that may ask, and every way to serve it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListToolsResult,
    PaginatedRequestParams,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
    Tool,
)
from starlette.applications import Starlette
from starlette.routing import Mount

import framehold
from framehold.config import Settings
from framehold.engine import runtime
from framehold.sdk.seam import Seam
from framehold_core.errors import NotInCall
from tests.node.nodes import served
from tests.node.stage import Word, said
from tests.wire import Caller, Reply

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
Ctx = ServerRequestContext[Any, Any]


async def word_of(ctx: Ctx, message: str) -> str:
    answer = await ctx.session.elicit_form(message, SCHEMA)
    assert isinstance(answer, ElicitResult)
    return str((answer.content or {}).get("word", answer.action))


async def list_tools(ctx: Ctx, params: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name="ask", description="Ask.", input_schema={"type": "object"})])


async def call_tool(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    words = [await word_of(ctx, f"{params.name} {number}?") for number in (1, 2)]
    return CallToolResult(content=[TextContent(type="text", text=" ".join(words))])


async def get_prompt(ctx: Ctx, params: GetPromptRequestParams) -> GetPromptResult:
    text = await word_of(ctx, f"{params.name}?")
    return GetPromptResult(messages=[PromptMessage(role="user", content=TextContent(type="text", text=text))])


async def read_resource(ctx: Ctx, params: ReadResourceRequestParams) -> ReadResourceResult:
    text = await word_of(ctx, f"{params.uri}?")
    return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text=text)])


def low() -> Server[Any]:
    """A low-level server whose three handlers ask."""
    return Server(
        "low",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_get_prompt=get_prompt,
        on_read_resource=read_resource,
    )


def high() -> MCPServer[Any]:
    """An MCPServer whose tool, prompt and resource template ask."""
    server: MCPServer[Any] = MCPServer("high")

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask twice."""
        return f"{said(await ctx.elicit('ask 1?', Word))} {said(await ctx.elicit('ask 2?', Word))}"

    @server.prompt()
    async def poem(ctx: Context) -> str:
        """Ask for the poem's word."""
        return said(await ctx.elicit("poem?", Word))

    @server.resource("poems://{name}")
    async def poems(name: str, ctx: Context) -> str:
        """Ask for the poem's text."""
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
    """Tools, prompts and resource templates, on both kinds of server."""
    async with talk(server()) as caller:
        reply = await caller.call("ask")
        assert reply.messages == ["ask 1?"]
        reply = await caller.retry("ask", reply.token, reply.accept(word="a"))
        assert reply.messages == ["ask 2?"]
        assert (await caller.retry("ask", reply.token, reply.accept(word="b"))).text == "a b"

        params: dict[str, Any] = {"name": "poem"}
        reply = await caller.send("prompts/get", params)
        assert reply.messages == ["poem?"]
        done = await again(caller, "prompts/get", params, reply, "ode")
        assert done.result["messages"][0]["content"]["text"] == "ode"

        params = {"uri": "poems://spring"}
        reply = await caller.send("resources/read", params)
        assert reply.messages == ["poems://spring?"]
        done = await again(caller, "resources/read", params, reply, "thaw")
        assert done.result["contents"][0]["text"] == "thaw"


@pytest.mark.parametrize("server", [low, high])
async def test_a_token_is_good_for_its_own_method_and_resource(server: Any) -> None:
    """A prompt's token opens no tool of the same name, a resource's no other resource."""
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


async def _hang(ctx: Ctx, params: GetPromptRequestParams) -> GetPromptResult:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("never")


async def test_attaching_twice_wraps_once() -> None:
    """It is idempotent, on a server as on the one inside it, and takes in handlers that were registered since."""
    server: Server[Any] = Server("late", on_call_tool=call_tool, on_list_tools=list_tools)
    settings = Settings(node_id="n")
    first = framehold.attach(server, settings)
    entry = server.get_request_handler("tools/call")
    assert entry is not None and isinstance(entry.handler, Seam)
    middleware = list(server.middleware)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)
    assert framehold.attach(server, settings) is first
    assert server.get_request_handler("tools/call") is entry
    assert server.middleware == middleware
    app = framehold.asgi(server, settings)
    assert app.attached is first
    async with served(app) as url, Caller(url) as caller:
        reply = await caller.send("prompts/get", {"name": "poem"})
        done = await again(caller, "prompts/get", {"name": "poem"}, reply, "ode")
        assert done.result["messages"][0]["content"]["text"] == "ode"
        reply = await caller.call("ask")
        reply = await caller.retry("ask", reply.token, reply.accept(word="a"))
        assert (await caller.retry("ask", reply.token, reply.accept(word="b"))).text == "a b"
    outer = high()
    assert framehold.attach(outer, settings) is framehold.attach(outer._lowlevel_server, settings)


@pytest.mark.parametrize("stranger", [None, object(), "server", MCPServer])
def test_what_is_no_server_is_refused(stranger: Any) -> None:
    """By its type, before anything is touched."""
    for face in (framehold.attach, framehold.asgi):
        with pytest.raises(TypeError, match=f"not {type(stranger).__name__}; nothing was attached"):
            face(stranger)


@pytest.mark.parametrize("prefix", ["", "/api"])
async def test_mounted_in_an_app_that_runs_no_lifespan_of_ours(prefix: str) -> None:
    """Starlette's Mount runs none: the app starts itself with its first requests, once, however many come at once."""
    app = framehold.asgi(high(), Settings(node_id="n"))
    parent = Starlette(routes=[Mount(prefix, app=app)])
    async with served(parent) as url, Caller(url.replace("/mcp", f"{prefix}/mcp")) as caller:
        parked = await asyncio.gather(*(caller.call("ask") for _ in range(5)))
        for reply in parked:
            reply = await caller.retry("ask", reply.token, reply.accept(word="a"))
            assert (await caller.retry("ask", reply.token, reply.accept(word="b"))).text == "a b"
        assert (await caller.send("tools/list", {})).result["tools"]
        assert app.attached.runtime.counts["entered"] == 5


async def test_a_lifespan_is_entered_once() -> None:
    """What the server's own lifespan yields reaches its handlers, on each round, and ends with the app."""
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[dict[str, str]]:
        seen.append("began")
        yield {"name": "state"}
        seen.append("ended")

    server: MCPServer[Any] = MCPServer("life", lifespan=lifespan)

    @server.tool()
    async def tell(ctx: Context) -> str:
        """Tell the lifespan's name before and after."""
        before = ctx.request_context.lifespan_context["name"]
        await ctx.elicit("word?", Word)
        return f"{before} {ctx.request_context.lifespan_context['name']}"

    async with talk(server) as caller:
        reply = await caller.call("tell")
        assert (await caller.retry("tell", reply.token, reply.accept(word="x"))).text == "state state"
        assert seen == ["began"]
    assert seen == ["began", "ended"]


async def test_a_lifespan_that_fails_is_told_to_every_request() -> None:
    """Mounted, there is nobody else to tell: each request gets an error of the server, none hangs."""

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    app = framehold.asgi(MCPServer("life", lifespan=lifespan), Settings(node_id="n"))
    scope = {"type": "http", "method": "GET", "path": "/mcp", "headers": [], "query_string": b""}
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no database"):
            await asyncio.wait_for(app(dict(scope), None, None), 5)  # type: ignore[arg-type]  # neither is reached


@pytest.mark.parametrize(
    "made",
    [framehold.asgi(high(), Settings(node_id="n")), high().streamable_http_app(), FastAPI()],
    ids=["an app of ours", "the SDK's app", "FastAPI"],
)
def test_an_app_is_not_taken_for_a_server(made: Any) -> None:
    """The error says which object is wanted instead."""
    for take in (framehold.asgi, framehold.attach):
        with pytest.raises(TypeError, match="nothing was attached; give the server itself, this is an app"):
            take(made)


async def test_ask_outside_a_call() -> None:
    """It says where it belongs."""
    with pytest.raises(NotInCall, match="nothing was asked"):
        await framehold.ask("key", "Which word?", Word)
