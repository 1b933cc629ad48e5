"""Middleware and handlers meet the requests, replies and connections that the SDK's own server shows them. What a
middleware returns or edits gets nowhere that it shouldn't: its own state names no call, whatever it looks like."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from fastmcp import Context as FastMCPContext
from fastmcp import FastMCP
from fastmcp.server.middleware.error_handling import RetryMiddleware
from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from mcp.types import INVALID_PARAMS, ErrorData
from pydantic import AnyHttpUrl

import framehold
from framehold.config import Settings
from framehold_core.errors import NodeFull
from framehold_fleet.headers import NOT_TAKEN
from framehold_fleet.identity.statements import Role
from tests.kit.client import EVERYTHING, Caller
from tests.kit.nodes import KEY, served
from tests.kit.processes import until
from tests.kit.proofs import sent_as
from tests.kit.serving import Word, said, serving

pytestmark = pytest.mark.anyio


def _both(build: Callable[[], MCPServer[Any]]) -> list[Any]:
    return [framehold.asgi(build(), Settings(node_id="seen")), build().streamable_http_app()]


async def test_what_a_middleware_edits_in_place_reaches_only_that_reply() -> None:
    async def personal(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if isinstance(result, dict) and result.get("resultType") == "input_required":
            who = ctx.params["_meta"]["traceparent"]
            for question in result["inputRequests"].values():
                question["params"]["message"] += f" [{who}]"
            result["inputRequests"]["mine"] = {"method": "roots/list"}
            del result["inputRequests"]["mine"]
        return result

    server: MCPServer[Any] = MCPServer("edits", middleware=[personal])

    @server.tool()
    async def ask(ctx: Context) -> str:
        return said(await ctx.elicit("word?", Word))

    app = framehold.asgi(server, Settings(node_id="edits"))
    async with served(app) as url, Caller(url, EVERYTHING) as client:
        for who in ("ann", "ben"):
            reply = await client.call("ask", meta={"traceparent": who})
            assert reply.messages == [f"word? [{who}]"]
        again = await client.retry("ask", reply.token, {}, meta={"traceparent": "ben"})
        assert again.messages == ["word? [ben]"]
        done = await client.retry("ask", again.token, again.accept(word="x"), meta={"traceparent": "ben"})
        assert done.text == "x"


async def forgets_meta(ctx: Any, call_next: Any) -> Any:
    if ctx.method == "tools/call":
        ctx = replace(ctx, params={name: item for name, item in ctx.params.items() if name != "_meta"})
    return await call_next(ctx)


async def denies(ctx: Any, call_next: Any) -> Any:
    if ctx.method == "tools/call":
        return ErrorData(code=-32001, message="forbidden", data={"why": "no"})
    return await call_next(ctx)


@pytest.mark.parametrize(("middleware", "code"), [(forgets_meta, INVALID_PARAMS), (denies, -32001)])
async def test_what_a_middleware_makes_of_a_request_is_an_error_as_the_sdk_sends_it(middleware: Any, code: int) -> None:
    """And not a result that looks like one."""

    def build() -> MCPServer[Any]:
        server: MCPServer[Any] = MCPServer("between", middleware=[middleware])

        @server.tool()
        async def work() -> str:
            return "worked"

        return server

    result = []
    for app in _both(build):
        async with served(app) as url, Caller(url, EVERYTHING) as client:
            reply = await client.call("work")
            result.append((reply.status, reply.message))
    assert result[0] == result[1] and result[0][1]["error"]["code"] == code


async def test_the_state_of_a_connection_is_one_requests() -> None:
    unwound: list[str] = []

    async def peek(who: str, ctx: Context) -> str:
        connection = ctx.session._connection
        before = dict(connection.state)
        connection.state[who] = f"a secret of {who}"
        connection.exit_stack.callback(unwound.append, who)
        return str(before)

    async with serving(peek) as client:
        reply = [await client.call("peek", arguments={"who": who}) for who in ("ann", "ben")]
        assert [each.text for each in reply] == ["{}", "{}"]
        await until(lambda: len(unwound) == 2, "the unwinding of the exit stacks", 5)
    assert unwound == ["ann", "ben"]


async def test_what_is_written_into_the_clients_parameters_is_one_requests() -> None:
    """By a handler or a middleware, in each way that they read them. Within its request it is kept."""

    async def edits(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/call":
            ctx.session.client_capabilities.experimental = {"seen": {}}
        return await call_next(ctx)

    def build(edited: bool) -> MCPServer[Any]:
        server: MCPServer[Any] = MCPServer("edits", middleware=[edits] if edited else [])

        @server.tool()
        async def peek(ctx: Context) -> str:
            params = ctx.session.client_params
            assert params is not None and ctx.session.client_capabilities is params.capabilities
            before = params.client_info.name, params.capabilities.experimental, params.capabilities.sampling
            params.client_info.name, params.capabilities.sampling = "another", None
            assert ctx.session.client_params.client_info.name == "another"
            return str(before)

        return server

    for edited, experimental in ((False, "None"), (True, "{'seen': {}}")):
        for app in _both(partial(build, edited)):
            async with served(app) as url, Caller(url, EVERYTHING) as client:
                seen = {(await client.call("peek")).text for _ in range(3)}
            assert seen == {f"('caller', {experimental}, SamplingCapability(context=None, tools=None))"}


async def test_meta_reads_as_the_sdks() -> None:
    """In a middleware and in the handler: the progress token under its Python name, the rest as it was sent."""

    def build() -> MCPServer[Any]:
        async def note(ctx: Any, call_next: Any) -> Any:
            seen.append(("middleware", dict(ctx.meta or {}), ctx.request_id))
            return await call_next(ctx)

        server: MCPServer[Any] = MCPServer("notes", middleware=[note])

        @server.tool()
        async def work(ctx: Context) -> str:
            seen.append(("handler", dict(ctx.request_context.meta or {}), ctx.request_context.request_id))
            return "worked"

        return server

    result = []
    for app in _both(build):
        seen: list[tuple[str, dict[str, Any], Any]] = []
        async with served(app) as url, Caller(url, EVERYTHING) as client:
            for number, meta in enumerate(({"progressToken": 7, "x.example/y": [1]}, {"progressToken": "p"}, {})):
                assert (await client.call("work", meta=meta, request_id=number)).text == "worked"
        result.append(seen)
    ours, sdks = result
    assert [meta.get("progress_token") for _, meta, _ in ours] == [7, 7, "p", "p", None, None]
    assert ours == sdks


class Tickets:
    def __init__(self) -> None:
        self.shown: list[str] = []

    async def verify_token(self, token: str) -> AccessToken | None:
        self.shown.append(token)
        return AccessToken(token=token, client_id="app", scopes=[]) if self.shown.count(token) == 1 else None


@pytest.mark.parametrize(
    ("method", "params"), [("tools/call", {"name": "work", "arguments": {}}), ("tools/list", {})], ids=["call", "list"]
)
async def test_a_request_is_authenticated_once(method: str, params: dict[str, Any]) -> None:
    """Whichever of our entry and the SDK's app serves it in the end."""
    tickets, address = Tickets(), AnyHttpUrl("http://127.0.0.1:9")
    auth = AuthSettings(issuer_url=address, resource_server_url=address, validate_token_resource=False)
    server: MCPServer[Any] = MCPServer("guarded", token_verifier=tickets, auth=auth)

    @server.tool()
    async def work() -> str:
        return "worked"

    app = framehold.asgi(server, Settings(node_id="guarded"))
    async with served(app) as url, Caller(url, EVERYTHING) as client:
        reply = await client.send(method, params, headers={"authorization": "Bearer ticket"})
        assert (reply.status, "result" in reply.message) == (200, True), reply.message
    assert tickets.shown == ["ticket"]


CALL = "550e8400-e29b-41d4-a716-446655440000"
FORM = {"mode": "form", "message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}


@asynccontextmanager
async def behind(middleware: Any) -> AsyncIterator[Caller]:
    server: MCPServer[Any] = MCPServer("behind", middleware=[middleware])

    @server.tool()
    async def work(ctx: Context) -> str:
        await ctx.report_progress(0.5)
        return "worked"

    async with served(framehold.asgi(server, Settings(node_id="n"))) as url, Caller(url, EVERYTHING) as client:
        yield client


@pytest.mark.parametrize("state", [f'FORM:{{"{CALL}":1}}', f'F{{"flow":"{CALL}"}}', f'F"{CALL}"', f'F[2,"{CALL}",1]'])
async def test_a_state_that_looks_like_one_of_ours_is_not_asked_with(state: str) -> None:
    async def asking(ctx: Any, call_next: Any) -> Any:
        if ctx.method != "tools/call":
            return await call_next(ctx)
        requests = {"ok": {"method": "elicitation/create", "params": FORM}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    async with behind(asking) as client:
        assert (await client.call("work")).code == -32603


async def test_progress_keeps_the_token_that_came() -> None:
    async def editing(ctx: Any, call_next: Any) -> Any:
        ctx.params["_meta"]["progressToken"] = "another"
        return await call_next(ctx)

    async with behind(editing) as client:
        reply = await client.call("work", meta={"progressToken": "mine"})
    assert [event["params"]["progressToken"] for event in reply.events] == ["mine"]


async def test_a_session_that_is_not_the_sdks_ends_the_call_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """A frame can't begin with it. The client gets a response all the same, and the log names the cause."""

    async def replacing(ctx: Any, call_next: Any) -> Any:
        return await call_next(dataclasses.replace(ctx, session=SimpleNamespace()))

    async with behind(replacing) as client, asyncio.timeout(20):
        assert (await client.call("work")).code == -32603
    assert "the session of this request is a SimpleNamespace" in caplog.text


class Hiccup:
    """What a tool does that fails at first. Each time that it is entered it runs an effect."""

    def __init__(self) -> None:
        self.ran: list[int] = []

    async def asks(self, ctx: Any) -> str:
        """Ask for a word, but for the first time."""
        await framehold.once("log", self.ran.append, len(self.ran))
        if len(self.ran) == 1:
            raise ConnectionError("a hiccup")
        return said(await ctx.elicit("Sure?", Word))


async def calls_again(ctx: Any, call_next: Any) -> Any:
    """A middleware of the SDK that calls on once more where a tool has failed."""
    result = await call_next(ctx)
    return await call_next(ctx) if isinstance(result, dict) and result.get("isError") else result


def of_sdk(tool: Hiccup) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("again", middleware=[calls_again])

    @server.tool()
    async def order(ctx: Context) -> str:
        return await tool.asks(ctx)

    return server


def of_fastmcp(tool: Hiccup) -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("again")
    server.add_middleware(RetryMiddleware(max_retries=1, base_delay=0.001, retry_exceptions=(Exception,)))

    @server.tool
    async def order(ctx: FastMCPContext) -> str:
        return await tool.asks(ctx)

    return server


@pytest.mark.parametrize("role", [None, Role.ROUTER])
@pytest.mark.parametrize("made", [of_sdk, of_fastmcp])
async def test_a_middleware_may_call_on_again(made: Any, role: Role | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass is a call of its own: the id that a router made is that of the first one. Where that has run, no
    response proves that nothing was started."""
    tool = Hiccup()
    app = framehold.asgi(made(tool), Settings(node_id="again", keys=(KEY,)))

    def headers(call: str) -> dict[str, str]:
        return {} if role is None else sent_as(role, call * 32)

    async with served(app) as url, Caller(url, EVERYTHING) as client:
        asked = await client.call("order", headers=headers("c"))
        assert asked.messages == ["Sure?"] and tool.ran == [0, 1]
        assert (await client.retry("order", asked.token, asked.accept(word="accept"))).text == "accept"

        def admit(*_: Any) -> None:
            if tool.ran:
                raise NodeFull("full", limit="parked")

        tool.ran.clear()
        monkeypatch.setattr(app.attached.runtime.eviction, "admit", admit)
        full = await client.call("order", headers=headers("d"))
        assert tool.ran == [0] and full.code == -32603 and NOT_TAKEN.decode() not in full.headers
