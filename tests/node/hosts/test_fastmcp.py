"""FastMCP's tools, prompts and resources suspend at `await ctx.elicit(...)`, wherever FastMCP finds them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
import pytest
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.elicitation import AcceptedElicitation
from fastmcp.server.middleware import Middleware
from fastmcp.tools import Tool
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse

import framehold
import framehold.testing
from examples import fastmcp_booking
from framehold.config import Settings
from framehold_core.errors import ConfigError
from tests.kit.effects import raise_first_from_last
from tests.kit.fastmcp_serving import hosted

pytestmark = pytest.mark.anyio


async def test_what_is_mounted_suspends_under_its_namespaced_name() -> None:
    outer = FastMCP("outer")
    outer.mount(fastmcp_booking.mcp, namespace="trips")
    async with hosted(outer) as caller:
        assert (await caller.tool("trips_kitchen_order", "salad")).text == "one salad"
        reply = await caller.answered("resources/read", {"uri": "timetable://trips/ghent"}, "Monday")
        assert reply.result["contents"][0]["text"] == "ghent, Monday: 10:15"
        reply = await caller.answered("prompts/get", {"name": "trips_postcard"}, "Oslo")
        assert reply.result["messages"][0]["content"]["text"] == "Write a postcard from Oslo."
        assert caller.runtime.counts["entered"] == 3
        reply = await caller.tool("order")
        assert reply.result["isError"] and reply.text == "Unknown tool: 'order'"


class Trip(BaseModel):
    place: str
    days: int = 1


@dataclass
class Seat:
    row: int


KINDS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a text": (str, {"value": "x"}, "'x'"),
    "a number": (int, {"value": 3}, "3"),
    "a yes or no": (bool, {"value": True}, "True"),
    "choices": (["a", "b"], {"value": "b"}, "'b'"),
    "titled choices": ({"a": {"title": "First"}}, {"value": "a"}, "'a'"),
    "several choices": ([["a", "b"]], {"value": ["a", "b"]}, "['a', 'b']"),
    "a literal": (Literal["a", "b"], {"value": "a"}, "'a'"),
    "a dataclass": (Seat, {"row": 4}, "Seat(row=4)"),
    "a model": (Trip, {"place": "Rome"}, "Trip(place='Rome', days=1)"),
}


def asks(kind: Any) -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("kinds")

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("what?", kind)
        return repr(answer.data) if isinstance(answer, AcceptedElicitation) else answer.action

    return server


@pytest.mark.parametrize("kind", KINDS)
async def test_each_type_of_response_is_what_it_is_on_2025(kind: str) -> None:
    response_type, content, shown = KINDS[kind]
    async with hosted(asks(response_type)) as caller:
        reply = await caller.tool("ask")
        for action in ("decline", "cancel"):
            answers = {key: {"action": action} for key in reply.asked}
            assert (await caller.retry("ask", reply.token, answers)).text == action
            reply = await caller.tool("ask")
        assert (await caller.retry("ask", reply.token, reply.accept(**content))).text == shown
        if response_type is not str:
            reply = await caller.tool("ask", {"value": "zz", "row": "zz", "place": 1})
            assert reply.result["isError"]


entered: list[str] = []
"""The functions below, as they were entered."""
effects: list[str] = []


def value(answer: Any) -> str:
    return str(answer.data)


@framehold.reentrant
async def twice(ctx: Context, name: str = "t") -> str:
    entered.append(name)
    one = value(await ctx.elicit("one?", str))
    await framehold.once("effect", effects.append, name)
    return f"{one} {value(await ctx.elicit('two?', str))}"


@framehold.reentrant
async def verse(ctx: Context) -> str:
    entered.append("verse")
    return value(await ctx.elicit("verse?", str))


@framehold.reentrant
async def named(name: str, ctx: Context) -> str:
    entered.append(name)
    return f"{name} {value(await ctx.elicit('named?', str))}"


async def plain(ctx: Context) -> str:
    entered.append("plain")
    return value(await ctx.elicit("plain?", str))


def marked(*more: Any) -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("marked")
    child: FastMCP[Any] = FastMCP("child")
    server.mount(child, namespace="child")
    for owner in (server, child):
        owner.prompt(verse)
        owner.resource("verses://all")(verse)
        owner.resource("verses://{name}/one")(named)
        for tool in (twice, *more):
            owner.tool(tool)
    server.add_tool(Tool.from_tool(Tool.from_function(twice), name="renamed"))
    return server


CALLS: dict[str, tuple[str, dict[str, Any], tuple[str, ...], str]] = {
    "a tool": ("tools/call", {"name": "twice", "arguments": {"name": "tool"}}, ("a", "b"), "a b"),
    "a mounted tool": ("tools/call", {"name": "child_twice", "arguments": {"name": "mounted"}}, ("a", "b"), "a b"),
    "a tool under another name": ("tools/call", {"name": "renamed", "arguments": {"name": "new"}}, ("a", "b"), "a b"),
    "a prompt": ("prompts/get", {"name": "verse"}, ("v",), "v"),
    "a mounted prompt": ("prompts/get", {"name": "child_verse"}, ("v",), "v"),
    "a resource": ("resources/read", {"uri": "verses://all"}, ("v",), "v"),
    "a mounted resource": ("resources/read", {"uri": "verses://child/all"}, ("v",), "v"),
    "a template": ("resources/read", {"uri": "verses://x/one"}, ("v",), "x v"),
    "a mounted template": ("resources/read", {"uri": "verses://child/x/one"}, ("v",), "x v"),
}


@pytest.mark.parametrize("settings", [{"rehearse": True}, {"strategy": "replay"}], ids=["rehearse", "replay"])
async def test_marks_are_found_so_each_answer_replays_and_once_holds(settings: dict[str, Any]) -> None:
    """Components of every kind, local or mounted: each is entered once a round, its effect runs once. A rehearsal
    enters it once more at the end."""
    effects.clear()
    async with hosted(marked(), **settings) as caller:
        for what, (method, params, values, shown) in CALLS.items():
            entered.clear()
            reply = await caller.answered(method, params, *values)
            assert f"'text': '{shown}'" in str(reply.result), what
            assert len(entered) == len(values) + 1 + ("rehearse" in settings), what
    assert effects == ["tool", "mounted", "new"]


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_can_be_rehearsed_in_its_authors_tests(call: str) -> None:
    method, params, values, shown = CALLS[call]
    kind: Any = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}[method]
    name, arguments = params.get("name") or params["uri"], params.get("arguments")
    answers = [{"value": one} for one in values]
    result = await framehold.testing.rehearsed(marked(), name, arguments, answers=answers, kind=kind)
    assert result.text == shown


async def test_what_is_not_marked_is_never_entered_again() -> None:
    """Where frames are dropped it keeps its own; where calls are replayed the server does not start, and says which."""
    entered.clear()
    async with hosted(marked(plain), rehearse=True) as caller:
        assert (await caller.tool("child_plain", "a")).text == "a"
    assert entered == ["plain"]
    app = framehold.asgi(marked(plain), Settings(node_id="replays", strategy="replay"))
    with pytest.raises(
        ConfigError, match='not marked re-entrant: tool "plain", tool "child_plain"; nothing was started'
    ):
        app.attached.check()


async def test_sampling_and_roots_suspend_through_the_session() -> None:
    """FastMCP 4 has no methods of its own for them; each answer is read as its own kind."""
    server: FastMCP[Any] = FastMCP("kinds")

    @server.tool
    async def both(ctx: Context) -> str:
        message = SamplingMessage(role="user", content=TextContent(type="text", text="hi"))
        sampled = await ctx.session.create_message([message], max_tokens=5)
        roots = await ctx.session.list_roots()
        assert isinstance(sampled.content, TextContent)
        return f"{sampled.content.text} {roots.roots[0].uri}"

    async with hosted(server) as caller:
        reply = await caller.tool("both")
        (key,) = reply.asked
        text = {"role": "assistant", "content": {"type": "text", "text": "yo"}, "model": "m"}
        reply = await caller.retry("both", reply.token, {key: text})
        (key,) = reply.asked
        reply = await caller.retry("both", reply.token, {key: {"roots": [{"uri": "file:///r"}]}})
        assert reply.text == "yo file:///r"


async def test_errors_are_fastmcps_and_a_late_duplicate_hears_the_same() -> None:
    """What is raised after a question is masked where FastMCP masks it. A prompt's error has the text of a prompt's
    that asks nothing."""
    server: FastMCP[Any] = FastMCP("errors", mask_error_details=True)

    @server.tool
    async def fails(ctx: Context, how: str) -> str:
        await ctx.elicit("so?", str)
        raise ToolError("as said") if how == "said" else RuntimeError("secret")

    @server.prompt
    async def broken(ctx: Context) -> str:
        await ctx.elicit("so?", str)
        raise RuntimeError("secret")

    @server.prompt
    async def at_once() -> str:
        raise RuntimeError("secret")

    async with hosted(server) as caller:
        for how, shown in (("said", "as said"), ("masked", "Error calling tool 'fails'")):
            reply = await caller.tool("fails", arguments={"how": how})
            for _ in range(2):
                result = await caller.retry("fails", reply.token, reply.accept(value="x"), arguments={"how": how})
                assert result.result["isError"] and result.text == shown
        alone = (await caller.send("prompts/get", {"name": "at_once"})).text.replace("at_once", "broken")
        reply = await caller.send("prompts/get", {"name": "broken"})
        retry = {"name": "broken", "requestState": reply.token, "inputResponses": reply.accept(value="x")}
        for _ in range(2):
            result = await caller.send("prompts/get", retry)
            assert (result.code, result.text) == (-32603, alone) and "secret" not in alone


@pytest.mark.timeout(20)
@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
async def test_a_ring_of_causes_does_not_stop_the_node(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that raises its first error again, from its last one, makes one."""
    # rich, with which FastMCP shows a traceback, follows a ring for ever, too.
    monkeypatch.setattr(logging.getLogger("fastmcp"), "handlers", [])
    server: FastMCP[Any] = FastMCP("ring")

    @server.tool
    @server.prompt
    @server.resource("note://ring")
    async def ring() -> str:
        raise_first_from_last()

    target = {"uri": "note://ring"} if method == "resources/read" else {"name": "ring"}
    async with hosted(server) as caller:
        assert "first try" in (await caller.send(method, target)).text


async def test_routes_of_the_authors_own_still_answer() -> None:
    server: FastMCP[Any] = FastMCP("routes")
    child: FastMCP[Any] = FastMCP("child")
    server.mount(child)

    @server.custom_route("/about", methods=["GET"])
    async def about(request: Request) -> PlainTextResponse:
        return PlainTextResponse("a booking server")

    @child.custom_route("/kitchen", methods=["GET"])
    async def kitchen(request: Request) -> PlainTextResponse:
        return PlainTextResponse("its kitchen")

    async with hosted(server) as caller, httpx2.AsyncClient() as http:
        root = caller.url.removesuffix("/mcp")
        result = [(await http.get(f"{root}/{path}")).text for path in ("about", "kitchen")]
        assert result == ["a booking server", "its kitchen"]
        assert (await http.get(f"{root}/healthz")).status_code == 200


async def test_calls_with_arguments_list_no_tools() -> None:
    """The schema that headers are checked against is looked up by name."""
    listed: list[str] = []

    class Watching(Middleware):
        async def on_list_tools(self, context: Any, call_next: Any) -> Any:
            listed.append("listed")
            return await call_next(context)

    server = marked()
    server.add_middleware(Watching())
    async with hosted(server) as caller:
        assert (await caller.tool("child_twice", "a", "b", arguments={"name": "x"})).text == "a b"
        assert listed == []
        await caller.send("tools/list", {})
        assert listed == ["listed"]


async def test_a_server_without_a_name_is_refused_where_keys_are_shared() -> None:
    with pytest.raises(ConfigError, match=r'has no name.*nothing was started; write FastMCP\("name"\)'):
        framehold.asgi(FastMCP(), Settings(node_id="n", keys="k" * 32))
    framehold.asgi(FastMCP(), Settings(node_id="n"))


async def test_attaching_twice_wraps_once() -> None:
    server = marked()
    first = framehold.attach(server, Settings(node_id="n"))
    chain = server._dispatch_component_middleware
    assert framehold.attach(server, Settings(node_id="n")) is first
    assert framehold.attach(server._mcp_server, Settings(node_id="n")) is first
    assert server._dispatch_component_middleware is chain
