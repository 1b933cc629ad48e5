"""FastMCP servers beside the ordinary: sagas of them, calls that middleware makes, transformed tools, what is mounted
later, and what a call leaves behind."""

from __future__ import annotations

import asyncio
from types import FrameType, TracebackType
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.middleware import AuthMiddleware, Middleware, MiddlewareContext
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ArgTransform, forward
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent

import framehold
from framehold.config import Settings
from framehold.hosts.handlers import Handlers
from framehold.hosts.host_choice import host_of
from tests.kit.client import accepted
from tests.kit.cycles import cycles
from tests.kit.effects import each_way
from tests.kit.fastmcp_serving import hosted
from tests.kit.processes import until
from tests.kit.sagas import SagaClient, done, failed, steps

pytestmark = pytest.mark.anyio


def value(answer: Any) -> str:
    return str(answer.data)


async def ask(ctx: Context) -> str:
    return value(await ctx.elicit("a?", str))


@each_way
async def test_a_saga_of_fastmcps_hears_answers_and_failures_in_one_round(settings: dict[str, Any]) -> None:
    """FastMCP knows no failures; they reach the handler all the same, alone and beside an answer."""
    server: FastMCP[Any] = FastMCP("sagas")

    @server.tool
    @framehold.reentrant
    async def both(ctx: Context) -> str:
        two = await asyncio.gather(ctx.elicit("a?", str), ctx.elicit("b?", str), return_exceptions=True)
        result: list[Any] = [*two]
        try:
            await ctx.elicit("c?", str)
        except MCPError as error:
            result.append(error)
        return " ".join(str(item.error.code) if isinstance(item, MCPError) else value(item) for item in result)

    async with hosted(server, sagas=True, **settings) as wire:
        client = SagaClient(wire)
        reply = await client.call("both")
        left, right = steps(reply)
        reply = await client.resume(reply, failed(left, -7), done(right, accepted(value="b")))
        (last,) = steps(reply)
        assert (await client.resume(reply, failed(last, -8))).text == "-7 b -8"


async def test_what_middleware_calls_is_not_the_clients_call() -> None:
    """It is no round of it: it gets its own result, takes no answer and begins no call."""
    heard: list[str] = []
    server: FastMCP[Any] = FastMCP("audited")

    class Audits(Middleware):
        async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
            if context.message.name == "ask":
                called, read = await server.call_tool("helper"), await server.read_resource("help://all")
                rendered = await server.render_prompt("help")
                heard.append(f"{called.content[0]} {read.contents[0].content!r} {rendered.messages[0].content}")
            return await call_next(context)

    async def helper() -> str:
        return "helped"

    server.add_middleware(Audits())
    server.tool(ask), server.tool(helper), server.resource("help://all")(helper), server.prompt(helper, name="help")
    async with hosted(server) as caller:
        assert (await caller.tool("ask", "a")).text == "a"
        assert caller.runtime.counts["entered"] == 1
    assert [text.count("helped") for text in heard] == [3, 3]


class Footer(Middleware):
    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        result = await call_next(context)
        if result.content:
            result.content[0].text += "!"
            result.content.append(TextContent(type="text", text="edited"))
            result.structured_content["edits"] = result.structured_content.get("edits", 0) + 1
        return result

    async def on_get_prompt(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        result = await call_next(context)
        for message in result.messages:
            message.content.text += "!"
        return result


EDITED: dict[str, tuple[str, Any]] = {
    "tools/call": ("ask", ({"said": "a", "edits": 1}, ['{"said":"a"}!', "edited"])),
    "prompts/get": ("verse", "a!"),
}


@pytest.mark.parametrize("method", EDITED)
async def test_what_middleware_edits_is_its_own_requests_result(method: str) -> None:
    """The edit goes out, as it does without us; whoever joins the round, or comes late, is not told it twice."""
    gate = asyncio.Event()
    server: FastMCP[Any] = FastMCP("edits", middleware=[Footer()])

    @server.tool
    async def ask(ctx: Context) -> dict[str, Any]:
        answer = value(await ctx.elicit("a?", str))
        await gate.wait()
        return {"said": answer}

    @server.prompt
    async def verse(ctx: Context) -> str:
        answer = value(await ctx.elicit("a?", str))
        await gate.wait()
        return answer

    name, edited = EDITED[method]
    async with hosted(server) as caller:
        reply = await caller.send(method, {"name": name})
        again = {"name": name, "requestState": reply.token, "inputResponses": reply.accept(value="a")}
        joined = [asyncio.create_task(caller.send(method, again)) for _ in range(3)]
        await until(lambda: sum(len(slot.arrivals) for slot in caller.runtime.table) == 3, "all have joined")
        gate.set()
        result = [(await one).result for one in joined] + [(await caller.send(method, again)).result]
    assert result == [result[0]] * 4
    if method == "tools/call":
        assert (result[0]["structuredContent"], [block["text"] for block in result[0]["content"]]) == edited
    else:
        assert result[0]["messages"][0]["content"]["text"] == edited


class Bearer(TokenVerifier):
    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="app", subject="ann", scopes=[])


def versions(entered: list[str], *marked: str) -> FastMCP[Any]:
    """A server with two versions of a tool. Those of `marked` may be entered again."""
    server: FastMCP[Any] = FastMCP("versions")
    for version in ("1", "2"):

        async def ask(ctx: Context, own: str = version) -> str:
            entered.append(own)
            return f"{own}: {value(await ctx.elicit('a?', str))}"

        server.tool(name="ask", version=version)(framehold.reentrant(ask) if version in marked else ask)
    return server


OLD = {"fastmcp": {"version": "1"}}


@each_way
async def test_a_call_belongs_to_the_version_that_it_asked_for(settings: dict[str, Any]) -> None:
    """A retry that asks for another one, or for any, is refused; whoever asks for the same goes on. The resume of a
    saga need not say it again."""
    entered: list[str] = []
    async with hosted(versions(entered, "1", "2"), sagas=True, **settings) as caller:
        reply = await caller.call("ask", meta=OLD)
        for meta in ({}, {"fastmcp": {"version": "2"}}):
            result = await caller.retry("ask", reply.token, reply.accept(value="a"), meta=meta)
            assert result.text == "Invalid or expired requestState"
        assert (await caller.retry("ask", reply.token, reply.accept(value="a"), meta=OLD)).text == "1: a"
        assert (await caller.tool("ask", "a")).text == "2: a"
        entered.clear()
        reply = await caller.send("tools/callSaga", {"name": "ask", "arguments": {}}, has={}, meta=OLD)
        client = SagaClient(caller, "ask")
        assert (await client.resume(reply, done(steps(reply)[0], accepted(value="a")))).text == "1: a"
        assert {*entered} == {"1"}


async def test_a_version_has_its_own_marks() -> None:
    entered: list[str] = []
    async with hosted(versions(entered, "1"), rehearse=True) as caller:
        assert (await caller.tool("ask", "x")).text == "2: x"
        assert (await caller.tool("ask", "x", meta=OLD)).text == "1: x"
    assert entered == ["2", "1", "1", "1"]


async def test_who_guards_a_mounted_server_is_asked_each_round() -> None:
    """Its guard stands in the frame and is left once; a user whose right is gone since resumes nothing."""

    def may(context: Any) -> bool:
        return context.token is not None and context.token.token == "good"

    async def read(x: str, ctx: Context) -> str:
        return await ask(ctx)

    inner: FastMCP[Any] = FastMCP("inner", middleware=[AuthMiddleware(auth=may)])
    middle, outer = FastMCP[Any]("middle"), FastMCP[Any]("outer", auth=Bearer())
    inner.tool(ask), inner.prompt(ask), inner.resource("a://{x}")(read)
    middle.mount(inner, namespace="in")
    outer.mount(middle, namespace="mid")
    good, bad = ({"headers": {"authorization": f"Bearer {token}"}} for token in ("good", "bad"))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {"name": "mid_in_ask"}),
        ("prompts/get", {"name": "mid_in_ask"}),
        ("resources/read", {"uri": "a://mid/in/x"}),
    ]
    async with hosted(outer) as caller:
        for number, (method, params) in enumerate(calls):
            reply = await caller.send(method, params, **good)
            again = {**params, "requestState": reply.token, "inputResponses": reply.accept(value="b")}
            result = await caller.send(method, again, **bad)
            assert "uthorization failed" in str(result.message), result.message
            assert caller.runtime.counts["resumed"] == number
            assert "'b'" in str((await caller.send(method, again, **good)).result)


async def test_servers_may_share_a_policy_for_their_states() -> None:
    policy = RequestStateSecurity.ephemeral()
    servers = [FastMCP[Any](name, request_state_security=policy) for name in ("one", "two")]
    for server in servers:
        server.tool(ask)
    async with hosted(servers[0]) as one, hosted(servers[1]) as two:
        reply = await one.call("ask")
        assert reply.token.count("h1.") == 1
        assert (await two.retry("ask", reply.token, reply.accept(value="a"))).code == -32602
        assert (await one.retry("ask", reply.token, reply.accept(value="a"))).text == "a"


def transformed(first: Any, second: Any) -> FastMCP[Any]:
    """A server with `first` as a tool and `second` as what stands before it; another that only renames it."""
    server: FastMCP[Any] = FastMCP("transformed")
    server.tool(first, name="inner")
    inner = Tool.from_function(first, name="inner")
    server.add_tool(Tool.from_tool(inner, name="outer", transform_fn=second))
    server.add_tool(Tool.from_tool(inner, name="renamed", transform_args={"n": ArgTransform(name="m")}))
    return server


@pytest.mark.parametrize("marked", ["neither", "inner", "outer", "both"])
async def test_a_transformed_tool_is_entered_again_only_if_all_of_it_may_be(marked: str) -> None:
    """The function that stands before a tool makes no promise by what it stands before, nor the other way round."""
    entered: list[str] = []

    async def inner(ctx: Context, n: int = 0) -> str:
        entered.append("inner")
        return await ask(ctx)

    async def outer(n: int = 0) -> Any:
        entered.append("outer")
        return await forward(n=n)

    if marked in ("inner", "both"):
        framehold.reentrant(inner)
    if marked in ("outer", "both"):
        framehold.reentrant(outer)
    server = transformed(inner, outer)
    async with hosted(server, rehearse=True) as caller:
        assert (await caller.tool("outer", "a")).text == "a"
        assert entered == ["outer", "inner"] * (3 if marked == "both" else 1), "for each round, and once more"
        entered.clear()
        assert (await caller.tool("renamed", "a")).text == "a"
        assert len(entered) == (3 if marked in ("inner", "both") else 1)
    assert ('tool "outer"' in Handlers(host_of(server)).unmarked()) is (marked != "both")


async def test_what_is_mounted_later_is_checked_as_without_us_again() -> None:
    """A proxy's tools are in no walk: their schemas are FastMCP's to look up, where it does so, else the SDK lists
    them."""
    server: FastMCP[Any] = FastMCP("later")
    inner: FastMCP[Any] = FastMCP("inner")

    @server.tool
    async def near(n: int) -> str:
        return str(n)

    alone = server._mcp_server.get_tool_input_schema
    attached = framehold.attach(server, Settings(node_id="later"))
    known = attached.server.get_tool_input_schema
    assert known is not None and known("near") is not None
    server.mount(create_proxy(inner), namespace="far")
    assert known("far_tool") is None and attached.server.get_tool_input_schema is alone


async def test_what_a_component_raises_leaves_no_cycle_behind() -> None:
    """At once and after a question, from tools and prompts. (FastMCP makes a schema for each question, which leaves
    cycles of its own: without frames and tracebacks in them.)"""
    server: FastMCP[Any] = FastMCP("raises")

    async def raises(ctx: Context, asks: bool = True) -> str:
        if asks:
            await ctx.elicit("a?", str)
        raise LookupError("no")

    server.tool(raises), server.prompt(raises)

    async with hosted(server) as caller:
        with cycles() as found:
            for _ in range(3):
                assert (await caller.tool("raises", arguments={"asks": False})).result["isError"]
                assert (await caller.tool("raises", "a")).result["isError"]
                assert (await caller.answered("prompts/get", {"name": "raises"}, "a")).code == -32603
            assert found(FrameType, TracebackType) == []
