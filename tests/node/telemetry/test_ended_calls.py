"""A node writes of each call that ends on it how it ended, which exception it was, and which line raised it."""

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
from framehold.telemetry.ended_calls import EndedCall, EndedCallWriter
from framehold_core import events as ev
from framehold_core.ending import FAILED
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId
from framehold_core.requests import Read, Request, Verdict
from framehold_core.value import astuple, replace
from framehold_fleet.members.event_writer import EventWriter
from framehold_fleet.members.membership import Fleet
from framehold_router.collect.ended_calls import EndedCalls as Reader
from framehold_store.base import Done
from framehold_store.memory import MemoryStore
from tests.kit.metrics import scraped
from tests.kit.nodes import KEY, served
from tests.kit.operators import TOKEN, Operator, call_of, marked
from tests.kit.processes import until
from tests.kit.serving import Served, Word, said, serving
from tests.kit.tracing import traces

pytestmark = pytest.mark.anyio

HERE = "tests.node.telemetry.test_ended_calls"
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


class Written:
    """What a node has written, as a router would read it."""

    def __init__(self, at: Served) -> None:
        self.store = MemoryStore(time.time)
        self.writers = [EventWriter(self.store, EndedCall.encoded, to) for to in ("ended", "failed")]
        at.runtime.observers.add(EndedCallWriter(at.runtime.heartbeat, *(writer.write for writer in self.writers)))

    async def listed(self) -> list[dict[str, Any]]:
        """The calls that ended, the newest first."""
        for writer in self.writers:
            assert await writer.flush()
        known = await Reader(self.store, lambda: Fleet.of(()), time.time).known()
        assert "secret" not in str(known)
        found = [item.model_dump() for item in known.calls.values()]
        return sorted(found, key=lambda item: item["ended"], reverse=True)


@asynccontextmanager
async def node(*tools: Callable[..., Any], **settings: Any) -> AsyncIterator[tuple[Served, Written]]:
    async with serving(*tools, keys=(KEY,), **settings) as at:
        yield at, Written(at)


async def listed(written: Written, **query: Any) -> list[dict[str, Any]]:
    return [item for item in await written.listed() if all(item[name] == value for name, value in query.items())]


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
    async with node(tool) as (at, written):
        await at.call(tool.__name__)
        (item,) = await listed(written)
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
    app = framehold.asgi(server, Settings(node_id="fast"))
    async with served(app) as url, Served(url) as at:
        at.runtime = app.attached.runtime
        written = Written(at)
        for how_ in ("said", "raised"):
            reply = await at.call("fails", arguments={"how": how_})
            await at.retry("fails", reply.token, reply.accept(value="x"), arguments={"how": how_})
        await at.send("prompts/get", {"name": "broken"})
        prompt, raised, result = await listed(written)
    assert how(result) == ("tool_error", "fastmcp.exceptions.ToolError", at_line(fails, 2))
    assert how(raised) == ("tool_error", f"{HERE}.NoStock", at_line(fails, 2))
    assert how(prompt) == ("protocol_error", f"{HERE}.NoStock", at_line(broken, 1))


async def test_a_call_that_fails_after_a_question_says_so_in_its_record_too() -> None:
    async with node(refund, fine) as (at, written):
        response = await at.call("refund")
        assert await listed(written) == []
        assert (await at.retry("refund", response.token, response.accept(word="B1"))).result["isError"]
        await at.call("fine")
        wanted = ("tool_error", f"{HERE}.NoStock", at_line(refund, 3))
        (item,) = await listed(written, outcome="tool_error")
        assert (how(item), item["call_id"], item["rounds"]) == (wanted, call_of(response.token), 2)
        reply = await at.runtime.store.run(Read(CallId(call_of(response.token))))
        assert reply.verdict is Verdict.OK and reply.stored is not None
        assert reply.stored.record.ending is not None and astuple(reply.stored.record.ending) == wanted


async def test_calls_that_an_operator_or_a_client_ends_are_cancelled_and_those_without_a_client_expire() -> None:
    entered = asyncio.Event()

    async def works(ctx: Context) -> None:
        entered.set()
        await asyncio.Event().wait()

    async with node(marked, works, admin_token=TOKEN, token_ttl=600.0) as (at, written), Operator(at.url) as operator:
        held = await at.call("marked")
        assert (await operator.cancel(call_of(held.token))).status == 200
        leaving = asyncio.create_task(at.call("works"))
        await entered.wait()
        leaving.cancel()
        await until(lambda: at.runtime.counts["left"] == 1, "the round was left")
        await at.call("marked")
        (slot,) = at.runtime.table
        slot.call = replace(slot.call, expires=0.0)
        at.runtime.feed(slot, ev.Expired())
        items = await listed(written)
        assert [(item["tool"], item["outcome"], item["rounds"]) for item in items] == [
            ("marked", "expired", 1), ("works", "cancelled", 0), ("marked", "cancelled", 1)
        ]  # fmt: skip
        assert not any(item["outcome"] in FAILED for item in items)


async def test_an_unmarked_call_whose_frame_is_gone_is_lost_and_listed_once() -> None:
    entered = asyncio.Event()

    async def works(ctx: Context) -> None:
        said(await ctx.elicit("Go?", Word))
        entered.set()
        await asyncio.Event().wait()

    async with node(works) as (at, written):
        reply = await at.call("works")
        leaving = asyncio.create_task(at.retry("works", reply.token, reply.accept(word="y")))
        await entered.wait()
        leaving.cancel()
        await until(lambda: at.runtime.counts["left"] == 1, "the round was left")
        before = await listed(written)
        assert [(item["outcome"], item["rounds"]) for item in before] == [("lost", 1)]
        assert "lost" in (await at.retry("works", reply.token, reply.accept(word="y"))).text
        assert await listed(written) == before


async def test_a_call_whose_first_round_could_not_be_kept_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store refuses its questions, so it is over. It says nothing of its tool: its round was refused."""

    def refuse(store: MemoryStore, request: Request, done: Done) -> None:
        asyncio.get_running_loop().call_soon(done, StoreUnavailable("OOM secret"))

    async with node(refund) as (at, written):
        begin = await scraped(at)
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStore, "submit", refuse)
            assert (await at.call("refund")).status == 503
        assert [how(item) for item in await listed(written)] == [("lost", "StoreUnavailable", "")]
        assert (await scraped(at)).since(begin)['rounds_total{outcome="refused",tool="refund"}'] == 1


async def test_a_call_that_diverged_is_listed_until_it_goes_on() -> None:
    words = ["one?"]

    @framehold.reentrant
    async def fickle(ctx: Context) -> str:
        said(await ctx.elicit(words[0], Word))
        return said(await ctx.elicit("two?", Word))

    async with node(fickle, admin_token=TOKEN) as (at, written), Operator(at.url) as operator:
        reply = await at.call("fickle")
        await operator.evict(call_of(reply.token))
        words[0] = "another?"
        await at.retry("fickle", reply.token, reply.accept(word="y"))
        assert [item["outcome"] for item in await listed(written, outcome="diverged")] == ["diverged"]
        words[0] = "one?"
        second = await at.retry("fickle", reply.token, reply.accept(word="y"))
        assert await listed(written) == [], "it goes on"
        assert (await at.retry("fickle", second.token, second.accept(word="y"))).text == "y"
        assert [item["outcome"] for item in await listed(written)] == ["completed"]


async def test_an_ended_call_names_the_trace_of_its_last_round() -> None:
    with traces() as traced:
        async with node(refund, fine) as (at, written):
            reply = await at.call("refund")
            await at.retry("refund", reply.token, reply.accept(word="B1"))
            traced.sampler.on = False
            await at.call("fine")
            untraced, item = await listed(written)
    last = max(traced.named("tools/call refund"), key=lambda span: span.start_time or 0)
    assert item["trace_id"] == f"{last.context.trace_id:032x}"
    assert untraced["trace_id"] == ""
