"""A node lists the calls that ended on it: how each ended, which exception it was, and which line raised it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Context as FastContext
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError as FastToolError
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

import framehold
from framehold.config import Settings
from framehold.telemetry import recent_calls
from framehold_core import events as ev
from framehold_core.ids import CallId
from framehold_core.requests import Read, Verdict
from tests.node.nodes import KEY, served
from tests.node.operating import TOKEN, Operator, call_of, marked, unmarked
from tests.node.stage import Stage, Word, said, stage
from tests.node.traced import traces
from tests.processes import until

pytestmark = pytest.mark.anyio

HERE = "tests.node.admin.test_call_list"
TOOL_ERROR = "mcp.server.mcpserver.exceptions.ToolError"


class NoStock(Exception):
    """An exception of the author's."""


async def refund(ctx: Context) -> str:
    """Asks, then fails with a secret in its text."""
    said(await ctx.elicit("Which order?", Word))
    raise NoStock("secret 4111")


async def deliberate() -> str:
    """Fails as the SDK wants it."""
    raise ToolError("secret 4111")


def plain() -> str:
    """Not async: the SDK calls it."""
    raise KeyError("secret")


async def refused() -> str:
    """Fails with an error of the protocol."""
    raise MCPError(-32000, "secret")


async def returned() -> CallToolResult:
    """Returns an error: nothing is raised."""
    return CallToolResult(content=[TextContent(type="text", text="secret")], is_error=True)


async def fine() -> str:
    """Ends well."""
    return "secret"


@asynccontextmanager
async def node(*tools: Callable[..., Any], **settings: Any) -> AsyncIterator[tuple[Stage, Operator]]:
    async with stage(*tools, admin_token=TOKEN, keys=(KEY,), **settings) as at, Operator(at.url) as operator:
        yield at, operator


async def listed(operator: Operator, **query: Any) -> list[dict[str, Any]]:
    answer = await operator.ask("GET", "calls", params=query)
    assert answer.status == 200, answer
    items: list[dict[str, Any]] = answer.json["items"]
    assert "secret" not in str(items)
    return items


def how(item: dict[str, Any]) -> tuple[str, str, str]:
    return item["outcome"], item["error"], item["place"]


def at_line(fn: Callable[..., Any], down: int) -> str:
    return f"{HERE}:{fn.__qualname__}:{fn.__code__.co_firstlineno + down}"


@pytest.mark.parametrize(
    ("tool", "outcome", "error", "place"),
    [
        (deliberate, "tool_error", TOOL_ERROR, at_line(deliberate, 2)),
        (plain, "tool_error", "KeyError", at_line(plain, 2)),
        (refused, "protocol_error", "mcp.shared.exceptions.MCPError", at_line(refused, 2)),
        (returned, "tool_error", "", ""),
        (fine, "completed", "", ""),
    ],
)
async def test_how_a_call_ended(tool: Callable[..., Any], outcome: str, error: str, place: str) -> None:
    """By the exception that the tool raised, also where the SDK made a result of it."""
    async with node(tool) as (at, operator):
        await at.call(tool.__name__)
        (item,) = await listed(operator)
        assert how(item) == (outcome, error, place)
        assert (item["tool"], item["node_id"], item["rounds"]) == (tool.__name__, "stage", 1)
        assert item["began"] <= item["ended"] <= time.time() and item["seconds"] == item["ended"] - item["began"]


@pytest.mark.parametrize("masked", [True, False])
async def test_how_a_call_of_a_fastmcp_server_ended(masked: bool) -> None:
    """FastMCP puts an exception of its own around the tool's, or passes on what the tool raised of that kind."""
    server: FastMCP[Any] = FastMCP("errors", mask_error_details=masked)

    async def fails(ctx: FastContext, how: str) -> str:
        await ctx.elicit("so?", str)
        raise FastToolError("secret") if how == "said" else NoStock("secret")

    async def broken(ctx: FastContext) -> str:
        raise NoStock("secret")

    server.tool(fails)
    server.prompt(broken)
    app = framehold.asgi(server, Settings(node_id="fast", admin_token=TOKEN))
    async with served(app) as url, Stage(url) as at, Operator(url) as operator:
        for how_ in ("said", "raised"):
            reply = await at.call("fails", arguments={"how": how_})
            await at.retry("fails", reply.token, reply.accept(value="x"), arguments={"how": how_})
        await at.send("prompts/get", {"name": "broken"})
        prompt, raised, result = await listed(operator)
    assert how(result) == ("tool_error", "fastmcp.exceptions.ToolError", at_line(fails, 2))
    assert how(raised) == ("tool_error", f"{HERE}.NoStock", at_line(fails, 2))
    assert how(prompt) == ("protocol_error", f"{HERE}.NoStock", at_line(broken, 1))


async def test_a_call_that_fails_after_a_question_says_so_in_its_record_too() -> None:
    async with node(refund, fine) as (at, operator):
        response = await at.call("refund")
        assert await listed(operator) == []
        assert (await at.retry("refund", response.token, response.accept(word="B1"))).result["isError"]
        await at.call("fine")
        wanted = ("tool_error", f"{HERE}.NoStock", at_line(refund, 3))
        (item,) = await listed(operator, failed="true")
        assert (how(item), item["call_id"], item["rounds"]) == (wanted, call_of(response.token), 2)
        reply = await at.runtime.store.run(Read(CallId(call_of(response.token))))
        assert reply.verdict is Verdict.OK and reply.stored is not None
        assert tuple(reply.stored.record.ending or ()) == wanted


async def test_calls_that_an_operator_or_a_client_ends_are_cancelled_and_those_without_a_client_expire() -> None:
    entered = asyncio.Event()

    async def works(ctx: Context) -> None:
        entered.set()
        await asyncio.Event().wait()

    async with node(marked, works, token_ttl=600.0) as (at, operator):
        held = await at.call("marked")
        assert (await operator.cancel(call_of(held.token))).status == 200
        leaving = asyncio.create_task(at.call("works"))
        await entered.wait()
        leaving.cancel()
        await until(lambda: at.runtime.counts["left"] == 1, "the round was left")
        await at.call("marked")
        (slot,) = at.runtime.table
        slot.call = slot.call._replace(expires=0.0)
        at.runtime.feed(slot, ev.Expired())
        items = await listed(operator)
        assert [(item["tool"], item["outcome"], item["rounds"]) for item in items] == [
            ("marked", "expired", 1), ("works", "cancelled", 0), ("marked", "cancelled", 1)
        ]  # fmt: skip
        assert await listed(operator, failed="true") == []


async def test_an_unmarked_call_whose_frame_is_gone_is_lost_and_listed_once() -> None:
    """When its client left, and when it comes back and is told so."""
    entered = asyncio.Event()

    async def works(ctx: Context) -> None:
        said(await ctx.elicit("Go?", Word))
        entered.set()
        await asyncio.Event().wait()

    async with node(works) as (at, operator):
        reply = await at.call("works")
        leaving = asyncio.create_task(at.retry("works", reply.token, reply.accept(word="y")))
        await entered.wait()
        leaving.cancel()
        await until(lambda: at.runtime.counts["left"] == 1, "the round was left")
        before = await listed(operator)
        assert [(item["outcome"], item["rounds"]) for item in before] == [("lost", 1)]
        assert "lost" in (await at.retry("works", reply.token, reply.accept(word="y"))).text
        assert await listed(operator) == before


async def test_a_call_that_diverged_is_listed_until_it_goes_on() -> None:
    words = ["one?"]

    @framehold.reentrant
    async def fickle(ctx: Context) -> str:
        return said(await ctx.elicit(words[0], Word))

    async with node(fickle) as (at, operator):
        reply = await at.call("fickle")
        await operator.evict(call_of(reply.token))
        words[0] = "another?"
        await at.retry("fickle", reply.token, reply.accept(word="y"))
        assert [item["outcome"] for item in await listed(operator, outcome="diverged")] == ["diverged"]
        words[0] = "one?"
        assert (await at.retry("fickle", reply.token, reply.accept(word="y"))).text == "y"
        assert [item["outcome"] for item in await listed(operator)] == ["completed"]


async def test_filters_order_and_pages() -> None:
    async with node(fine, deliberate, unmarked) as (at, operator):
        for tool in ("fine", "deliberate", "fine", "deliberate", "fine"):
            await at.call(tool)
        newest = await listed(operator)
        assert [item["tool"] for item in newest] == ["fine", "deliberate"] * 2 + ["fine"]
        assert await listed(operator, tool="deliberate") == [newest[1], newest[3]]
        assert await listed(operator, call=newest[2]["call_id"][:12]) == [newest[2]]
        assert await listed(operator, node="another") == []
        paged: list[dict[str, Any]] = []
        query: dict[str, Any] = {"limit": 2}
        while True:
            page = (await operator.ask("GET", "calls", params=query)).json
            assert page["total"] == 5
            paged += page["items"]
            if page["next"] is None:
                break
            query["after"] = page["next"]
        assert paged == newest
        turned = await listed(operator, sort="seconds", descending="false")
        assert [item["seconds"] for item in turned] == sorted(item["seconds"] for item in newest)
        assert (await operator.ask("GET", "calls", params={"after": "x"})).status == 400


async def test_counts_of_what_another_filter_would_list() -> None:
    """Each facet leaves its own filter out, and keeps the others."""
    async with node(fine, deliberate, plain) as (at, operator):
        for tool in ("fine", "deliberate", "deliberate", "plain"):
            await at.call(tool)

        async def facets(**query: Any) -> Any:
            return (await operator.ask("GET", "calls", params={"facets": "true", **query})).json["facets"]

        ends, tools = {"completed": 1, "tool_error": 3}, {"fine": 1, "deliberate": 2, "plain": 1}
        assert await facets() == {"outcome": ends, "tool": tools, "node": {"stage": 4}}
        failed = {"outcome": ends, "tool": {"deliberate": 2, "plain": 1}, "node": {"stage": 3}}
        assert await facets(failed="true") == failed == await facets(outcome="tool_error")
        # "deliberate" has no "n".
        assert await facets(tool="*N*") == {
            "outcome": {"completed": 1, "tool_error": 1},
            "tool": tools,
            "node": {"stage": 2},
        }
        assert await facets(node="x*") == {"outcome": {}, "tool": {}, "node": {"stage": 4}}
        assert {item["tool"] for item in await listed(operator, tool="*N*")} == {"fine", "plain"}


async def test_an_ended_call_names_the_trace_of_its_last_round() -> None:
    with traces() as traced:
        async with node(refund, fine) as (at, operator):
            reply = await at.call("refund")
            await at.retry("refund", reply.token, reply.accept(word="B1"))
            traced.sampler.on = False
            await at.call("fine")
            untraced, item = await listed(operator)
    last = max(traced.named("tools/call refund"), key=lambda span: span.start_time or 0)
    assert item["trace_id"] == f"{last.context.trace_id:032x}"
    assert untraced["trace_id"] == ""


async def test_good_calls_do_not_drive_out_bad_ones_and_none_stays_for_longer_than_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent_calls, "MAX_CALLS", 3)
    async with node(fine, deliberate) as (at, operator):
        await at.call("deliberate")
        for _ in range(6):
            await at.call("fine")
        assert [item["tool"] for item in await listed(operator)] == ["fine"] * 3 + ["deliberate"]
        monkeypatch.setattr(recent_calls, "KEPT_SECONDS", 0.0)
        assert await listed(operator) == []
