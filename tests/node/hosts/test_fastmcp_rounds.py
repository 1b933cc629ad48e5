"""What surrounds a FastMCP handler belongs to a round: middleware, authorization, the present request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentContext, CurrentHeaders, Depends
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.dependencies import get_access_token, get_context, get_http_headers, get_http_request
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from fastmcp.tools.base import InputRequiredToolResult
from mcp_types import LOG_LEVEL_META_KEY

import framehold
from framehold.config import Settings
from framehold.sdk.replies import Unavailable
from tests.kit.client import Reply
from tests.kit.fastmcp_serving import Hosted, hosted
from tests.kit.nodes import served
from tests.kit.questions import asking
from tests.kit.serving import Word, said

pytestmark = pytest.mark.anyio


def value(answer: Any) -> str:
    return str(answer.data)


class Noting(Middleware):
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_message(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self.seen.append(str(context.method))
        return await call_next(context)

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        try:
            result = await call_next(context)
        except Exception as error:
            self.seen.append(type(error).__name__)
            raise
        self.seen.append("asks" if isinstance(result, InputRequiredToolResult) else "ends")
        return result


def watched(*middleware: Middleware) -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("watched", middleware=list(middleware))

    @server.tool
    async def ask(ctx: Context, fail: bool = False) -> str:
        words = [value(await ctx.elicit(f"{number}?", str)) for number in (1, 2)]
        if fail:
            raise LookupError("not found")
        return " ".join(words)

    return server


async def test_middleware_of_the_authors_runs_once_per_round() -> None:
    """It sees each round begin and end, those that ask as FastMCP has it see them. What a tool raises it sees as
    FastMCP's own exception, once."""
    noting = Noting()
    server = watched(noting)
    runtime = framehold.attach(server, Settings(node_id="attached")).runtime
    async with served(server.http_app(path="/mcp")) as url, Hosted(url) as caller:
        reply = await caller.tool("ask", "a")
        assert noting.seen == ["tools/call", "asks", "tools/call", "asks"]
        assert (await caller.retry("ask", reply.token, reply.accept(value="b"))).text == "a b"
        assert noting.seen[4:] == ["tools/call", "ends"]
        assert (runtime.counts["entered"], runtime.counts["resumed"]) == (1, 2)
        reply = await caller.tool("ask", "a", "b", arguments={"fail": True})
        assert reply.result["isError"] and reply.text == "Error calling tool 'ask': not found"
        assert noting.seen[-2:] == ["tools/call", "ToolError"]


async def test_middleware_may_change_what_is_called_on_each_round() -> None:
    """The tool and the arguments that it leaves are those that are entered and marked."""

    class Rename(Middleware):
        async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
            message = context.message.model_copy(update={"name": "ask"})
            return await call_next(context.copy(message=message))

    async with hosted(watched(Rename())) as caller:
        assert (await caller.tool("old", "a", "b")).text == "a b"


class ForAnn(Middleware):
    """Writes a text into the form that Ann is asked to fill in."""

    async def on_request(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        result = await call_next(context)
        if "ann" in str(context.message):
            [request] = result.input_required.input_requests.values()
            request.params.requested_schema["properties"]["word"]["title"] = "a text for Ann"
        return result


ASKED_OF: dict[str, Callable[[str], tuple[str, dict[str, Any]]]] = {
    "tool": lambda user: ("tools/call", {"name": "tool", "arguments": {"user": user}}),
    "prompt": lambda user: ("prompts/get", {"name": "prompt", "arguments": {"user": user}}),
    "resource": lambda user: ("resources/read", {"uri": f"ask://{user}"}),
    "tool that returns its question": lambda user: ("tools/call", {"name": "returns", "arguments": {"user": user}}),
}


@pytest.mark.parametrize("kind", ASKED_OF)
async def test_what_middleware_writes_into_a_question_only_the_client_of_its_round_reads(kind: str) -> None:
    """Calls that ask the same have one question in memory."""
    server: FastMCP[Any] = FastMCP("shared", middleware=[ForAnn()])
    same = asking(word="Which?")

    async def ask(user: str, ctx: Context) -> str:
        return said(await ctx.elicit("Which?", Word))

    @server.tool
    async def returns(user: str) -> InputRequiredToolResult:
        return InputRequiredToolResult(same)

    server.tool(name="tool")(ask)
    server.prompt(name="prompt")(ask)
    server.resource("ask://{user}")(ask)
    async with hosted(server) as caller:
        read = []
        for user in ("ben", "ann", "ben"):
            [question] = (await caller.send(*ASKED_OF[kind](user))).asked.values()
            read.append(question["params"]["requestedSchema"]["properties"]["word"].get("title"))
    assert read[1] == "a text for Ann" and read[0] == read[2] != read[1]


async def test_a_mounted_servers_middleware_surrounds_its_handler() -> None:
    outer, inner = Noting(), Noting()
    server: FastMCP[Any] = FastMCP("outer", middleware=[outer])
    server.mount(watched(inner), namespace="in")
    async with hosted(server) as caller:
        assert (await caller.tool("in_ask", "a", "b")).text == "a b"
    assert [what for what in outer.seen if what != "tools/call"] == ["asks", "asks", "ends"]
    assert inner.seen == ["tools/call", "ends"]


def seen() -> dict[str, str]:
    ctx, token = get_context(), get_access_token()
    return {
        "id": ctx.request_id,
        "round": get_http_headers()["x-round"],
        "request": get_http_request().headers["x-round"],
        "token": token.token if token else "none",
        "claims": str(token.claims.get("number")) if token else "none",
    }


class Verifier(TokenVerifier):
    """Knows tokens of the form `user/number`; the number changes when the user's token is renewed."""

    async def verify_token(self, token: str) -> AccessToken | None:
        user, _, number = token.partition("/")
        if user not in ("ann", "ben"):
            return None
        return AccessToken(token=token, client_id="app", subject=user, scopes=[], claims={"number": number})


revoked: set[str] = set()


def may(context: Any) -> bool:
    return context.token is not None and context.token.token not in revoked


def guarded() -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("guarded", auth=Verifier())

    def dependency() -> str:
        return get_http_headers()["x-round"]

    @server.tool(auth=may)
    async def watch(
        ctx: Context = CurrentContext(),  # noqa: B008 - FastMCP's own way
        headers: dict[str, str] = CurrentHeaders(),  # noqa: B008
        first: str = Depends(dependency),
    ) -> dict[str, Any]:
        await ctx.set_state("kept", "yes")
        await ctx.set_state("object", seen, serializable=False)
        looks = [seen()]

        async def child(name: str) -> dict[str, str]:
            await ctx.elicit(f"{name}?", str)
            return seen()

        async def waits(event: asyncio.Event) -> dict[str, str]:
            await event.wait()
            return seen()

        await ctx.elicit("first?", str)
        looks.append(seen())
        event = asyncio.Event()
        other = asyncio.create_task(waits(event))
        looks += await asyncio.gather(child("left"), child("right"))
        event.set()
        looks += [await other, seen()]
        assert get_context().request_context is ctx.request_context
        assert await get_context().get_state("kept") == await ctx.get_state("kept") == "yes"
        assert await get_context().get_state("object") is seen
        return {"looks": looks, "injected": [headers["x-round"], first], "same": ctx.request_id}

    return server


class Guarded(Hosted):
    """A client that brings a bearer token and the round's number with each request."""

    async def round(self, number: int, bearer: str, asked: Reply | None = None) -> Reply:
        headers = {"authorization": f"Bearer {bearer}", "x-round": str(number)}
        options: dict[str, Any] = {"headers": headers, "request_id": number * 10}
        if asked is None:
            return await self.call("watch", **options)
        return await self.retry("watch", asked.token, asked.accept(value="x"), **options)


@asynccontextmanager
async def guard(**settings: Any) -> AsyncIterator[Guarded]:
    app = framehold.asgi(guarded(), Settings(node_id="guarded", **settings))
    async with served(app) as url, Guarded(url) as client:
        client.runtime = app.attached.runtime
        yield client


@pytest.mark.parametrize("settings", [{}, {"keys": "k" * 32}])
async def test_what_a_handler_asks_about_its_request_is_the_present_rounds(settings: dict[str, Any]) -> None:
    """Id, headers, request, token and claims; in the handler, in children that ask and in one that only waits."""
    async with guard(**settings) as caller:
        reply = await caller.round(1, "ann/1")
        for number in (2, 3):
            reply = await caller.round(number, f"ann/{number}", reply)
        result = reply.result["structuredContent"]
    assert result["looks"] == [as_seen(number) for number in (1, 2, 3, 3, 3, 3)]
    # What was handed over as a value when the handler was entered stays what it was.
    assert result["injected"] == ["1", "1"] and result["same"] == "30"


def as_seen(number: int) -> dict[str, str]:
    one = str(number)
    return {"id": f"{one}0", "round": one, "request": one, "token": f"ann/{one}", "claims": one}


async def test_authorization_is_decided_anew_each_round() -> None:
    """Nobody's request is refused as FastMCP refuses it, and another user's retry finds no state. Whose right was taken
    away meanwhile is told what FastMCP tells them, and resumes nothing."""
    revoked.clear()
    async with guard() as caller, httpx2.AsyncClient() as http:
        envelope = caller.envelope("tools/call", {"name": "watch"})
        response = await http.post(caller.url, json=envelope.body, headers=envelope.headers)
        assert response.status_code == 401 and "www-authenticate" in response.headers
        reply = await caller.round(1, "ann/1")
        other = await caller.round(2, "ben/1", reply)
        assert (other.status, other.code, other.text) == (400, -32602, "Invalid or expired requestState")
        revoked.add("ann/2")
        result = await caller.round(2, "ann/2", reply)
        assert result.result["isError"] and result.text == "Unknown tool: 'watch'"
        assert caller.runtime.counts["resumed"] == 0
        assert (await caller.round(3, "ann/3", reply)).messages == ["left?", "right?"]


async def test_progress_and_logs_go_out_on_the_present_rounds_stream() -> None:
    server: FastMCP[Any] = FastMCP("talks")

    @server.tool
    async def talk(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "begun")
        await ctx.elicit("go on?", bool)
        await ctx.report_progress(2, 2, "done")
        await ctx.info("a line")
        return "said"

    async with hosted(server) as caller:
        reply = await caller.call("talk", meta={"progressToken": "p1"})
        assert [event["params"]["progressToken"] for event in reply.events] == ["p1"]
        meta = {"progressToken": "p2", LOG_LEVEL_META_KEY: "info"}
        reply = await caller.retry("talk", reply.token, reply.accept(value=True), meta=meta)
    assert reply.text == "said"
    progress, line = reply.events
    assert (progress["params"]["progressToken"], progress["params"]["message"]) == ("p2", "done")
    assert line["params"]["data"]["msg"] == "a line"


async def test_fastmcps_own_cache_keeps_results_and_no_questions() -> None:
    async with hosted(watched(ResponseCachingMiddleware())) as caller:
        for word in ("a", "c"):
            assert (await caller.tool("ask", word, "b")).text == f"{word} b"
        assert caller.runtime.counts["entered"] == 2


async def test_middleware_may_try_again_where_a_node_had_no_room() -> None:
    class Patient(Middleware):
        async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
            try:
                return await call_next(context)
            except Unavailable:
                parked = await taken
                await caller.retry("ask", parked.token, {key: {"action": "cancel"} for key in parked.asked})
                return await call_next(context)

    server: FastMCP[Any] = FastMCP("patient", middleware=[Patient()])

    @server.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("1?", str)).action)

    async with hosted(server, max_parked=1) as caller:
        taken = asyncio.ensure_future(caller.call("ask"))
        await taken
        assert (await caller.call("ask")).messages == ["1?"]


async def test_a_call_from_within_a_handler_is_part_of_it() -> None:
    server = watched()

    @server.tool
    async def both(ctx: Context) -> str:
        found = await ctx.fastmcp.call_tool("ask", {})
        return f"{found.structured_content} {value(await ctx.elicit('3?', str))}"

    async with hosted(server) as caller:
        assert (await caller.tool("both", "a", "b", "c")).text == "{'result': 'a b'} c"
        assert caller.runtime.counts["entered"] == 1
