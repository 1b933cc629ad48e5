"""Clients of every make and revision complete a FastMCP server's calls, and a fleet of nodes serves one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import fastmcp
import httpx2
import pytest
from fastmcp import Context, FastMCP
from fastmcp.client.elicitation import ElicitResult as FastMCPElicitResult
from fastmcp.client.transports import StreamableHttpTransport
from mcp import Client
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)

from examples import fastmcp_booking
from framehold.config import Settings
from framehold.http.app import Application
from framehold_cli.local import check
from framehold_cli.serve import target
from framehold_core.errors import ConfigError
from tests.fleet.fleet import fleet
from tests.node.fastmcp_stage import Hosted, hosted
from tests.node.nodes import entries, node
from tests.processes import ROOT
from tests.store.server import RedisServer

pytestmark = pytest.mark.anyio

ANSWERS: dict[str, dict[str, Any]] = {
    "Which seat to Rome?": {"row": 3, "window": True},
    "Which fare for 3A?": {"value": "flex"},
    "Buy 3A, flex?": {"value": True},
    "Which meal?": {"value": "soup"},
}


async def official(context: Any, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content=ANSWERS[params.message])


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
                assert isinstance(block, TextContent) and not result.is_error
                outcome[tool] = block.text
        assert caller.runtime.counts["entered"] - entered == (0 if mode == "legacy" else 2)
    assert outcome == {"book": "Rome: ticket 3A, flex", "kitchen_order": "one soup"}


async def test_fastmcps_own_client_completes_a_call() -> None:
    """Over HTTP, with the revision that it negotiates."""
    async with hosted(fastmcp_booking.app) as caller:
        entered = caller.runtime.counts["entered"]
        async with fastmcp.Client(StreamableHttpTransport(caller.url), elicitation_handler=own) as client:
            assert (await client.call_tool("book", {"trip": "Rome"})).data == "Rome: ticket 3A, flex"
            assert {tool.name for tool in await client.list_tools()} == {"book", "kitchen_order"}
        assert caller.runtime.counts["entered"] - entered == 1


async def test_a_handler_that_returns_its_questions_serves_clients_of_2025_too() -> None:
    """FastMCP alone refuses them: the library's shim asks over the session."""
    server: FastMCP[Any] = FastMCP("guard")

    @server.tool
    async def guard(ctx: Context) -> str | InputRequiredResult:
        """Ask by returning."""
        if ctx.input_responses is None:
            schema = {"type": "object", "properties": {"value": {"type": "string"}}}
            form = ElicitRequestFormParams(message="Which meal?", requested_schema=schema)
            return InputRequiredResult(input_requests={"meal": ElicitRequest(params=form)}, request_state="mine")
        answer = ctx.input_responses["meal"]
        assert isinstance(answer, ElicitResult)
        return f"{(answer.content or {})['value']} {ctx.request_state}"

    async with hosted(server) as caller:
        for mode in ("legacy", "auto"):
            async with Client(caller.url, mode=mode, elicitation_callback=official) as client:
                (block,) = (await client.call_tool("guard", {})).content
                assert isinstance(block, TextContent) and block.text == "soup mine", mode


async def test_a_server_that_is_only_attached_suspends_in_memory_too() -> None:
    """No HTTP: FastMCP's own transport between client and server, on the present revision."""
    async with fastmcp.Client(fastmcp_booking.mcp, elicitation_handler=own) as client:
        assert (await client.call_tool("book", {"trip": "Rome"})).data == "Rome: ticket 3A, flex"


async def test_a_node_that_is_killed_leaves_its_call_to_another(redis: RedisServer, tmp_path: Path) -> None:
    """`framehold node examples/fastmcp_booking.py`, twice, behind the router: the call is taken over, sold once."""
    async with fleet(tmp_path, redis, "node-1", "node-2", target="examples/fastmcp_booking.py") as made:
        router = await made.add_router()
        async with Hosted(router.url) as caller:
            trip = {"trip": "Rome"}
            reply = await caller.call("book", arguments=trip)
            reply = await caller.retry("book", reply.token, reply.accept(row=3, window=True), arguments=trip)
            assert reply.messages == ["Which fare for 3A?"]
            holder = reply.headers["framehold-node"]
            made.nodes[holder].kill()
            reply = await caller.retry("book", reply.token, reply.accept(value="flex"), arguments=trip)
            assert reply.messages == ["Buy 3A, flex?"]
            assert reply.headers["framehold-route"] == "takeover" and reply.headers["framehold-node"] != holder
            reply = await caller.retry("book", reply.token, reply.accept(value=True), arguments=trip)
            assert reply.text == "Rome: ticket 3A, flex"
    assert entries(made.entered) == ["Rome/3A"]


def test_a_module_is_searched_for_fastmcp_servers(tmp_path: Path) -> None:
    """The one that is called mcp, or the only one; with several, one has to be named."""
    assert target.load("examples.fastmcp_booking") is fastmcp_booking.mcp
    only, two = tmp_path / "only_fast.py", tmp_path / "two_fast.py"
    only.write_text("from fastmcp import FastMCP\nbooking = FastMCP('b')\n")
    two.write_text("from fastmcp import FastMCP\na, b = FastMCP('a'), FastMCP('b')\n")
    assert target.load(str(only)).name == "b"
    with pytest.raises(ConfigError, match=r"name the server.*\(found: a, b\)"):
        target.load(str(two))
    assert target.load(f"{two}:a").name == "a"


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
