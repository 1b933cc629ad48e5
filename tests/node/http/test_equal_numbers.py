"""A request that a hop has encoded again says the same, and is taken for the same (docs/protocol-tables.md,
"A retry arrives")."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp.types import CallToolRequestParams, CallToolResult, ElicitResult, TextContent
from pydantic import BaseModel

import framehold
from framehold.config import Settings
from tests.node.nodes import served
from tests.node.stage import stage
from tests.wire import Caller, Reply

pytestmark = pytest.mark.anyio


class Amount(BaseModel):
    n: float


@framehold.reentrant
async def ask(value: Any, ctx: Context) -> str:
    """Ask, and say what came as it came."""
    answer = await ctx.elicit("How much?", Amount)
    return json.dumps([value, answer.data.n if answer.action == "accept" else answer.action])


async def call_tool(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
    answer = await ctx.session.elicit_form("How much?", {"type": "object", "properties": {"n": {"type": "number"}}})
    assert isinstance(answer, ElicitResult)
    said = (answer.content or {}).get("n") if answer.action == "accept" else answer.action
    text = json.dumps([(params.arguments or {})["value"], said])
    return CallToolResult(content=[TextContent(type="text", text=text)])


def high() -> Any:
    server: MCPServer[Any] = MCPServer("high")
    server.tool()(ask)
    return server


SERVERS: dict[str, Callable[[], Any]] = {"MCPServer": high, "low-level": lambda: Server("low", on_call_tool=call_tool)}
WRITTEN: dict[str, tuple[Any, Any]] = {
    "a double as an integer": (1.0, 1),
    "an integer as a double": (1, 1.0),
    "deeper": ({"a": [100, {"b": 2.0}]}, {"a": [1e2, {"b": 2}]}),
}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("strategy", ["hold", "replay"])
async def test_arguments_that_are_written_otherwise_are_the_same(server: str, written: str, strategy: str) -> None:
    """In each round. A handler has those of the request that it is entered with: under strategy replay, of each."""
    first, then = WRITTEN[written]
    # A low-level server has no marks, so its calls are held.
    settings = Settings(node_id="n", strategy=strategy if server == "MCPServer" else "hold")
    app = framehold.asgi(SERVERS[server](), settings)
    async with served(app) as url, Caller(url) as caller:
        asked = await caller.call("ask", arguments={"value": first})
        done = await caller.retry("ask", asked.token, asked.accept(n=2), arguments={"value": then})
        value, said = json.loads(done.text)
        # Python takes 1 for 1.0, its `repr` does not.
        came = first if settings.strategy == "hold" else then
        assert (repr(value), said) == (repr(came), 2), done.message
        asked = await caller.call("ask", arguments={"value": first})
        other = await caller.retry("ask", asked.token, asked.accept(n=2), arguments={"value": 3})
        assert other.code == -32602


def answers(reply: Reply, **answer: Any) -> dict[str, Any]:
    return dict.fromkeys(reply.asked, answer)


AGAIN: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "a number": ({"action": "accept", "content": {"n": 1.0}}, {"action": "accept", "content": {"n": 1}}, 1.0),
    "declined, with content": ({"action": "decline"}, {"action": "decline", "content": None}, "decline"),
    "other meta": ({"action": "cancel", "_meta": {"a": 1}}, {"action": "cancel", "_meta": {"a": 2}}, "cancel"),
}


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("settings", [{}, {"rehearse": True}], ids=["held", "rebuilt"])
async def test_an_answer_that_is_written_otherwise_is_the_same(again: str, settings: dict[str, Any]) -> None:
    """A retry gets the outcome again, and no conflict; another answer is one."""
    first, then, said = AGAIN[again]
    async with stage(ask, **settings) as client:
        given = {"arguments": {"value": "x"}}
        asked = await client.call("ask", **given)
        for answer in (first, then):
            done = await client.retry("ask", asked.token, answers(asked, **answer), **given)
            assert json.loads(done.text) == ["x", said]
        other = answers(asked, action="accept", content={"n": 7})
        assert "reason" in (await client.retry("ask", asked.token, other, **given)).message["error"]["data"]
