"""FastMCP's tools, prompts and resources suspend at `await ctx.elicit(...)`, wherever FastMCP finds them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
import pytest
from fastmcp import Context, FastMCP
from fastmcp.exceptions import PromptError, ToolError
from fastmcp.server.elicitation import AcceptedElicitation
from fastmcp.server.middleware import Middleware
from fastmcp.tools import Tool
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse

import framehold
import framehold.testing
from examples import fastmcp_booking
from framehold.config import Settings
from framehold_core.errors import ConfigError
from tests.node.fastmcp_stage import hosted
from tests.node.stage import Word, said

pytestmark = pytest.mark.anyio


async def test_a_tool_asks_three_times_and_is_entered_once() -> None:
    """The example's tool, whose three questions are of three kinds."""
    async with hosted(fastmcp_booking.app) as caller:
        before = caller.runtime.counts.copy()  # Other tests of this process have called the example's app.
        reply = await caller.tool("book", arguments={"trip": "Rome"})
        assert reply.messages == ["Which seat to Rome?"]
        reply = await caller.retry("book", reply.token, reply.accept(row=3, window=True), arguments={"trip": "Rome"})
        assert reply.messages == ["Which fare for 3A?"]
        reply = await caller.retry("book", reply.token, reply.accept(value="flex"), arguments={"trip": "Rome"})
        assert reply.messages == ["Buy 3A, flex?"]
        reply = await caller.retry("book", reply.token, reply.accept(value=True), arguments={"trip": "Rome"})
        assert reply.text == "Rome: ticket 3A, flex"
        assert reply.result["structuredContent"] == {"result": reply.text}
        counts = caller.runtime.counts
        assert counts["entered"] - before["entered"] == 1
        assert counts["rebuilt"] == before["rebuilt"]


async def test_a_prompt_and_a_resource_template_suspend() -> None:
    """Both of the example's."""
    async with hosted(fastmcp_booking.app) as caller:
        reply = await caller.answered("prompts/get", {"name": "postcard"}, "Oslo")
        assert reply.result["messages"][0]["content"]["text"] == "Write a postcard from Oslo."
        reply = await caller.answered("resources/read", {"uri": "timetable://ghent"}, "Monday")
        assert reply.result["contents"][0]["text"] == "ghent, Monday: 10:15"


async def test_a_mounted_tool_suspends_under_its_namespaced_name() -> None:
    """One level down, and two; its own name is nobody's."""
    async with hosted(fastmcp_booking.app) as caller:
        assert (await caller.tool("kitchen_order", "soup")).text == "one soup"
        reply = await caller.tool("order")
        assert reply.result["isError"] and reply.text == "Unknown tool: 'order'"

    outer = FastMCP("outer")
    outer.mount(fastmcp_booking.mcp, namespace="trips")
    async with hosted(outer) as caller:
        assert (await caller.tool("trips_kitchen_order", "salad")).text == "one salad"
        reply = await caller.answered("resources/read", {"uri": "timetable://trips/ghent"}, "Monday")
        assert reply.result["contents"][0]["text"] == "ghent, Monday: 10:15"
        reply = await caller.answered("prompts/get", {"name": "trips_postcard"}, "Oslo")
        assert reply.result["messages"][0]["content"]["text"] == "Write a postcard from Oslo."
        assert caller.runtime.counts["entered"] == 3


SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


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
        """Ask for one thing."""
        answer = await ctx.elicit("what?", kind)
        return repr(answer.data) if isinstance(answer, AcceptedElicitation) else answer.action

    return server


async def test_an_empty_form_is_refused_as_fastmcp_refuses_it() -> None:
    """FastMCP 4.1 asks for no `None`; nothing is sent."""
    async with hosted(asks(None)) as caller:
        reply = await caller.tool("ask")
        assert reply.result["isError"] and "requires a response_type" in reply.text


@pytest.mark.parametrize("kind", KINDS)
async def test_each_type_of_response_is_what_it_is_on_2025(kind: str) -> None:
    """Accepted, declined, cancelled, and content that doesn't fit."""
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
    """Two questions round an effect."""
    entered.append(name)
    one = value(await ctx.elicit("one?", str))
    await framehold.once("effect", effects.append, name)
    return f"{one} {value(await ctx.elicit('two?', str))}"


@framehold.reentrant
async def verse(ctx: Context) -> str:
    """One question."""
    entered.append("verse")
    return value(await ctx.elicit("verse?", str))


@framehold.reentrant
async def named(name: str, ctx: Context) -> str:
    """One question."""
    entered.append(name)
    return f"{name} {value(await ctx.elicit('named?', str))}"


async def plain(ctx: Context) -> str:
    """One question, and no promise."""
    entered.append("plain")
    return value(await ctx.elicit("plain?", str))


def marked(*more: Any) -> FastMCP[Any]:
    """Re-entrant components of each kind, on a mounted server too, and a tool under another name."""
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
    """Held, replayed and rebuilt it says the same; the server need not be attached."""
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


async def test_a_name_that_stands_for_two_versions_has_the_marks_of_the_one_that_runs() -> None:
    """The highest, unless the request names another."""
    server: FastMCP[Any] = FastMCP("versions")
    server.tool(name="tell", version="1")(framehold.reentrant(_version("1")))
    server.tool(name="tell", version="2")(_version("2"))
    async with hosted(server, rehearse=True) as caller:
        entered.clear()
        assert (await caller.tool("tell", "x")).text == "2 x"
        assert entered == ["2"]
        meta = {"fastmcp": {"version": "1"}}
        assert (await caller.tool("tell", "x", meta=meta)).text == "1 x"
        assert entered == ["2", "1", "1", "1"]


def _version(number: str) -> Any:
    async def tell(ctx: Context) -> str:
        """Tell the version."""
        entered.append(number)
        return f"{number} {value(await ctx.elicit('what?', str))}"

    return tell


async def test_hold_and_ask_are_for_fastmcp_too() -> None:
    """`options(ttl=)` sets a question's life, `ask` a key; two keyed questions leave in one round."""
    server: FastMCP[Any] = FastMCP("keyed")

    @server.tool
    @framehold.options(ttl=1e-6)
    async def brief(ctx: Context) -> str:
        """Ask for a moment."""
        return value(await ctx.elicit("now?", str))

    @server.tool
    async def keyed(ctx: Context) -> str:
        """Ask two things together that read the same."""
        both = await asyncio.gather(*(framehold.ask(key, "which?", Word) for key in ("left", "right")))
        return " ".join(map(said, both))

    async with hosted(server) as caller:
        reply = await caller.tool("brief", "x")
        assert (reply.status, reply.code) == (400, -32602)
        reply = await caller.tool("keyed")
        assert list(reply.asked) == ["left", "right"]
        answers = {key: {"action": "accept", "content": {"word": key[0]}} for key in reply.asked}
        assert (await caller.retry("keyed", reply.token, answers)).text == "l r"


async def test_sampling_and_roots_suspend_through_the_session() -> None:
    """FastMCP 4 has no methods of its own for them; each answer is read as its own kind."""
    server: FastMCP[Any] = FastMCP("kinds")

    @server.tool
    async def both(ctx: Context) -> str:
        """Ask for a text and for the roots."""
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
    """What a tool raises after its question is an error result, masked where FastMCP masks it. A prompt's error has
    the text of a prompt's that asks nothing. A retry that is sent twice is answered twice."""
    server: FastMCP[Any] = FastMCP("errors", mask_error_details=True)

    @server.tool
    async def fails(ctx: Context, how: str) -> str:
        """Fail after a question."""
        await ctx.elicit("so?", str)
        raise ToolError("as said") if how == "said" else RuntimeError("secret")

    @server.prompt
    async def broken(ctx: Context) -> str:
        """Likewise."""
        await ctx.elicit("so?", str)
        raise RuntimeError("secret")

    alone: FastMCP[Any] = FastMCP("alone", mask_error_details=True)

    @alone.prompt(name="broken")
    async def at_once() -> str:
        """Fail."""
        raise RuntimeError("secret")

    with pytest.raises(PromptError) as error:
        await alone.render_prompt("broken")
    async with hosted(server) as caller:
        for how, shown in (("said", "as said"), ("masked", "Error calling tool 'fails'")):
            reply = await caller.tool("fails", arguments={"how": how})
            for _ in range(2):
                result = await caller.retry("fails", reply.token, reply.accept(value="x"), arguments={"how": how})
                assert result.result["isError"] and result.text == shown
        reply = await caller.send("prompts/get", {"name": "broken"})
        retry = {"name": "broken", "requestState": reply.token, "inputResponses": reply.accept(value="x")}
        for _ in range(2):
            result = await caller.send("prompts/get", retry)
            assert (result.code, result.text) == (-32603, str(error.value))


async def test_a_client_without_the_capability_is_told_so() -> None:
    """The protocol's error from the wrapper: the tool's own `except` can't swallow it."""
    server: FastMCP[Any] = FastMCP("capable")

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask, whatever comes of it."""
        try:
            return value(await ctx.elicit("what?", str))
        except Exception:
            return "swallowed"

    async with hosted(server, has={"sampling": {}}) as caller:
        reply = await caller.tool("ask")
        assert (reply.status, reply.code) == (400, -32021)


async def test_limits_are_the_nodes() -> None:
    """Beyond MAX_PARKED a new call is refused with 503; a body beyond MAX_BODY with 413."""
    async with hosted(marked(plain), max_parked=1, max_body=10_000) as caller:
        await caller.tool("plain")
        reply = await caller.tool("plain")
        assert reply.status == 503 and "FRAMEHOLD_MAX_PARKED" in reply.text
        envelope = caller.envelope("tools/call", {"name": "twice", "arguments": {"name": "x" * 20_000}})
        response = await httpx_post(caller.url, envelope.body, envelope.headers)
        assert response == 413


async def httpx_post(url: str, body: dict[str, Any], headers: dict[str, str]) -> int:
    async with httpx2.AsyncClient() as http:
        return (await http.post(url, json=body, headers=headers)).status_code


async def test_answers_that_a_handler_asks_for_by_hand_go_on_as_fastmcp_has_it() -> None:
    """A guard that returns its questions, sealed and tagged as its author's, with what it learned."""
    server: FastMCP[Any] = FastMCP("guard")
    effects.clear()

    @server.tool
    async def guard(ctx: Context) -> str | InputRequiredResult:
        """Ask by returning."""
        await framehold.once("effect", effects.append, "guard")
        if ctx.input_responses is None:
            form = ElicitRequestFormParams(message="by hand?", requested_schema=SCHEMA)
            asked = {"word": ElicitRequest(params=form)}
            return InputRequiredResult(input_requests=asked, request_state="h1.mine")
        answer = ctx.input_responses["word"]
        assert isinstance(answer, ElicitResult)
        return f"{(answer.content or {})['word']} {ctx.request_state}"

    async with hosted(server) as caller:
        assert (await caller.tool("guard", {"word": "w"})).text == "w h1.mine"
    assert effects == ["guard"]


async def test_routes_of_the_authors_own_still_answer() -> None:
    """Those of a mounted server too, and the node's probes beside them."""
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


async def test_hosts_and_origins_are_checked_as_fastmcp_checks_them() -> None:
    """On a loopback address foreign names are refused, also for what our entry serves; settings allow more."""
    cases: tuple[tuple[dict[str, Any], str, int], ...] = (
        ({}, "evil.example", 421),
        ({"allowed_hosts": ("good.example",)}, "good.example", 200),
        ({"allowed_origins": ("https://good.example",)}, "127.0.0.1", 200),
    )
    for settings, host, status in cases:
        async with hosted(marked(), **settings) as caller:
            envelope = caller.envelope("tools/call", {"name": "twice", "arguments": {}}, headers={"host": host})
            assert await httpx_post(caller.url, envelope.body, envelope.headers) == status
            headers = {"origin": "https://evil.example"}
            envelope = caller.envelope("tools/call", {"name": "twice", "arguments": {}}, headers=headers)
            assert await httpx_post(caller.url, envelope.body, envelope.headers) == 403


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
    """FastMCP makes up a name per process, and tokens are sealed for it."""
    with pytest.raises(ConfigError, match=r'has no name.*nothing was started; write FastMCP\("name"\)'):
        framehold.asgi(FastMCP(), Settings(node_id="n", keys="k" * 32))
    assert framehold.asgi(FastMCP(), Settings(node_id="n")).attached.settings.node_id == "n"


async def test_attaching_twice_wraps_once() -> None:
    """A server, or the SDK's inside it."""
    server = marked()
    first = framehold.attach(server, Settings(node_id="n"))
    chain = server._dispatch_component_middleware
    assert framehold.attach(server, Settings(node_id="n")) is first
    assert framehold.attach(server._mcp_server, Settings(node_id="n")) is first
    assert server._dispatch_component_middleware is chain
