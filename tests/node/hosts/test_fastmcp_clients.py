"""Clients of every make and revision complete a FastMCP server's calls, a proxy's too, and nodes carry them on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import fastmcp
import httpx2
import mcp.types as types
import pytest
from fastmcp import Context, FastMCP
from fastmcp.client.elicitation import ElicitResult as FastMCPElicitResult
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server import create_proxy
from mcp import Client
from mcp.server import Server

import framehold
from examples import fastmcp_booking
from framehold.config import Settings
from framehold.http.app import Application
from framehold_cli.local import check
from framehold_cli.serve import target
from framehold_core.errors import ConfigError
from tests.kit.fastmcp_serving import Hosted, hosted
from tests.kit.nodes import entries, heirs, node, served
from tests.kit.processes import ROOT
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio

ANSWERS: dict[str, dict[str, Any]] = {
    "Which seat to Rome?": {"row": 3, "window": True},
    "Which fare for 3A?": {"value": "flex"},
    "Buy 3A, flex?": {"value": True},
    "Which meal?": {"value": "soup"},
}


async def official(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=ANSWERS[params.message])


async def own(message: str, response_type: Any, params: Any, context: Any) -> FastMCPElicitResult[Any]:
    return FastMCPElicitResult(action="accept", content=ANSWERS[message])


@pytest.mark.parametrize("mode", ["auto", "2026-07-28", "legacy"])
async def test_the_official_client_completes_a_call(mode: Any) -> None:
    """By negotiation, pinned, and as one of 2025: there FastMCP asks over the session, as it always did."""
    outcome = {}
    async with hosted(fastmcp_booking.app) as caller:
        entered = caller.runtime.counts["entered"]
        async with Client(caller.url, mode=mode, elicitation_callback=official) as client:
            for tool, arguments in (("book", {"trip": "Rome"}), ("kitchen_order", {})):
                result = await client.call_tool(tool, arguments)
                (block,) = result.content
                assert isinstance(block, types.TextContent) and not result.is_error
                outcome[tool] = block.text
        assert caller.runtime.counts["entered"] - entered == (0 if mode == "legacy" else 2)
    assert outcome == {"book": "Rome: ticket 3A, flex", "kitchen_order": "one soup"}


async def test_fastmcps_own_client_completes_a_call() -> None:
    async with hosted(fastmcp_booking.app) as caller:
        entered = caller.runtime.counts["entered"]
        async with fastmcp.Client(StreamableHttpTransport(caller.url), elicitation_handler=own) as client:
            assert (await client.call_tool("book", {"trip": "Rome"})).data == "Rome: ticket 3A, flex"
            assert {tool.name for tool in await client.list_tools()} == {"book", "kitchen_order"}
        assert caller.runtime.counts["entered"] - entered == 1


async def test_a_handler_that_returns_its_questions_serves_clients_of_each_revision() -> None:
    """Its state may look like a token of ours. FastMCP alone refuses clients of 2025: the library's shim asks over the
    session."""
    server: FastMCP[Any] = FastMCP("guard")
    effects: list[str] = []

    @server.tool
    async def guard(ctx: Context) -> str | types.InputRequiredResult:
        await framehold.once("effect", effects.append, "guard")
        if ctx.input_responses is None:
            schema = {"type": "object", "properties": {"value": {"type": "string"}}}
            form = types.ElicitRequestFormParams(message="Which meal?", requested_schema=schema)
            return types.InputRequiredResult(
                input_requests={"meal": types.ElicitRequest(params=form)}, request_state="h1.mine"
            )
        answer = ctx.input_responses["meal"]
        assert isinstance(answer, types.ElicitResult)
        return f"{(answer.content or {})['value']} {ctx.request_state}"

    async with hosted(server) as caller:
        for mode, ran in (("auto", 1), ("legacy", 2)):
            async with Client(caller.url, mode=mode, elicitation_callback=official) as client:
                (block,) = (await client.call_tool("guard", {})).content
                assert isinstance(block, types.TextContent) and block.text == "soup h1.mine", mode
            assert len(effects) == ran, mode


async def test_a_server_that_is_only_attached_suspends_in_memory_too() -> None:
    async with fastmcp.Client(fastmcp_booking.mcp, elicitation_handler=own) as client:
        assert (await client.call_tool("book", {"trip": "Rome"})).data == "Rome: ticket 3A, flex"


async def test_a_node_that_is_killed_leaves_its_call_to_another(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry that reaches the wrong node is passed on, although a middleware makes errors of all that it sees; a
    killed node's call is taken over, and its seat is sold once."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "sold"))
    async with heirs("tests/node/fastmcp_handling.py", tmp_path, redis.url) as start:
        first, second = await start(), await start()
        async with Hosted(first.url) as one, Hosted(second.url) as two:
            trip = {"trip": "Rome"}
            reply = await one.call("book", arguments=trip)
            reply = await two.retry("book", reply.token, reply.accept(row=3, window=True), arguments=trip)
            assert reply.messages == ["Which fare for 3A?"]
            first.kill()
            reply = await two.retry("book", reply.token, reply.accept(value="flex"), arguments=trip)
            assert reply.messages == ["Buy 3A, flex?"]
            reply = await two.retry("book", reply.token, reply.accept(value=True), arguments=trip)
            assert reply.text == "Rome: ticket 3A, flex"
    assert entries(tmp_path / "sold") == ["Rome/3A"]


async def test_a_target_may_be_a_function_or_an_app_with_additions(tmp_path: Path) -> None:
    """A function is called once; an app is served as its author built it, by `up` as well as by `node`."""
    made = tmp_path / "made_fast.py"
    made.write_text(
        "import framehold\nfrom fastmcp import FastMCP\nfrom starlette.responses import PlainTextResponse\n"
        "def create_server():\n    return FastMCP('made')\n"
        "def create_app():\n    app = framehold.asgi(create_server())\n"
        "    app.router.add_route('/home', lambda _: PlainTextResponse('home'))\n    return app\n"
    )
    settings = Settings(node_id="n")
    assert target.load(f"{made}:create_server").name == target.load(f"{made}:create_app").name == "made"
    assert isinstance(target.app_of(target.found(f"{made}:create_server"), settings), Application)
    app = target.found(f"{made}:create_app")
    assert target.app_of(app, app.attached.settings) is app
    with pytest.raises(ConfigError, match="with other settings"):
        target.app_of(app, Settings(node_id="other"))
    async with node(f"{made}:create_app", tmp_path) as serving, httpx2.AsyncClient() as http:
        assert (await http.get(f"{serving.root}/home")).text == "home"
    assert (await check.in_child(f"{made}:create_server", {})).file == made


def test_who_has_no_fastmcp_does_not_need_it() -> None:
    """Importing framehold, serving an MCPServer, and refusing what is no server: fastmcp stays unimported."""
    script = (
        "import sys, framehold; from mcp.server import MCPServer; framehold.asgi(MCPServer('m'));"
        "import framehold_cli.serve.target\n"
        "try: framehold.asgi(object())\nexcept TypeError: pass\n"
        "sys.exit('fastmcp' in sys.modules)"
    )
    environment = {"PYTHONPATH": ":".join(entry for entry in sys.path if entry)}
    ended = subprocess.run([sys.executable, "-c", script], check=False, cwd=ROOT, env=environment, timeout=60)
    assert ended.returncode == 0


def back() -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("back")

    @server.tool
    async def book(city: str, ctx: Context) -> str:
        room = await ctx.elicit(f"Which room in {city}?", str)
        sure = await ctx.elicit(f"{room.data}?", bool)  # type: ignore[union-attr]  # the user accepts
        return f"{city} {room.data} {sure.data}"  # type: ignore[union-attr]  # the user accepts

    return server


async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"value": True if params.message == "suite?" else "suite"})


async def booked(url: str, mode: Any) -> str:
    async with Client(url, mode=mode, elicitation_callback=answer) as client:
        (block,) = (await client.call_tool("book", {"city": "Oslo"})).content
        assert isinstance(block, types.TextContent)
        return block.text


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
@pytest.mark.parametrize("reached", ["attached", "legacy"])
async def test_a_proxy_over_a_server_of_the_same_process(mode: str, reached: str) -> None:
    """Attached, its calls wait between the proxy's connections; as a client of 2025 the proxy keeps one connection."""
    behind = back()
    if reached == "attached":
        framehold.attach(behind, Settings(node_id="back"))
        front = create_proxy(behind, name="front")
    else:
        front = create_proxy(behind, name="front", mode="legacy")
    async with hosted(front) as caller:
        assert await booked(caller.url, mode) == "Oslo suite True"


async def test_a_proxy_over_a_server_that_is_not_attached_says_what_to_do() -> None:
    async with hosted(create_proxy(back(), name="front")) as caller:
        reply = await caller.tool("book", arguments={"city": "Oslo"})
    assert "unavailable on 2026-07-28 connections" in reply.text
    assert "not attached to the server 'back'" in reply.text and 'create_proxy(server, mode="legacy")' in reply.text


VALUES: dict[str, tuple[dict[str, Any], Any]] = {
    "numbers": ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
    "number": ({"type": "integer"}, 3),
    "either": ({"anyOf": [{"type": "object"}, {"type": "integer"}]}, {"a": 1}),
}
"""The schema of a tool's result, and a result; by the tool's name."""


def valued() -> Server[Any]:
    server = Server[Any]("valued")

    async def listed(_: Any, params: types.PaginatedRequestParams) -> types.ListToolsResult:
        found = VALUES.items()
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, input_schema={"type": "object"}, output_schema=one) for name, (one, _) in found
            ]
        )

    async def called(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        value = VALUES[params.name][1]
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(value))], structured_content=value)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, listed)
    server.add_request_handler("tools/call", types.CallToolRequestParams, called)
    return server


async def replies(url: str, mode: Any) -> list[str]:
    found: list[str] = []
    async with Client(url, mode=mode) as client:
        for name in VALUES:
            try:
                found.append(str((await client.call_tool(name)).model_dump()))
            except Exception as error:
                found.append(repr(error))
    return found


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_result_that_is_no_object_is_the_same_as_with_fastmcp_alone(mode: str) -> None:
    """As it is, or wrapped for a client of 2025. FastMCP 4.1 refuses most of them."""
    async with served(valued().streamable_http_app(streamable_http_path="/mcp")) as behind:
        front = [create_proxy(behind, name="front", mode="2026-07-28") for _ in range(2)]
        async with served(front[0].http_app(path="/mcp")) as alone, hosted(front[1]) as caller:
            assert await replies(caller.url, mode) == await replies(alone, mode)
