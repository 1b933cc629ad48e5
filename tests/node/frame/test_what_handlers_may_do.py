"""Handlers that misbehave, and a node that ends: each client is answered, and the node serves on or starts nothing."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import Context
from mcp.types import INTERNAL_ERROR, ListToolsResult, Tool

import framehold
from framehold.app import assemble
from framehold.config import Settings
from framehold.engine import runtime
from framehold.engine.replies import Ended, Parked
from framehold.engine.runtime import Runtime
from framehold.frame.frame import Frame
from framehold_core.effects import Refusal
from framehold_store import system_clock as clock
from framehold_store.memory import MemoryStore
from tests.node.desk import Card, Desk, Talk, desk, question, shielded, turns
from tests.node.nodes import served
from tests.node.stage import Word, stage
from tests.processes import until
from tests.wire import EVERYTHING, Caller, Reply

pytestmark = pytest.mark.anyio

PATIENCE = 30.0
"""Seconds in which anything here is answered."""


@pytest.fixture
async def at() -> AsyncIterator[Desk]:
    async with desk() as opened:
        yield opened


async def _once(frame: Frame) -> object:
    return await frame.ask(question("A"))


async def _settled(coroutine: Any) -> Any:
    """What a request came to, an exception too; that it never comes to anything fails the test."""
    task = asyncio.ensure_future(coroutine)
    done, _ = await asyncio.wait([task], timeout=PATIENCE)
    if not done:
        task.cancel()
        await asyncio.wait([task])
        pytest.fail("nobody answered the request")
    return task.exception() or task.result()


# What handlers raise


class Halt(BaseException):
    """What no handler should raise."""


async def _refused(client: Any, pending: Any) -> None:
    reply = await _settled(pending)
    assert isinstance(reply, Reply), reply
    assert "error" in reply.message or reply.result.get("isError"), reply.message
    await until(lambda: len(client.runtime.table) == 0, "the end of the call")


@pytest.mark.parametrize("error", [Halt("x"), GeneratorExit(), BaseExceptionGroup("all", [asyncio.CancelledError()])])
async def test_a_handler_that_raises_a_base_exception_gets_its_client_an_error_at_once(error: BaseException) -> None:
    """In its first round and after a resume; nothing of the call is left."""

    async def at_once(ctx: Context) -> str:
        raise error

    async def later(ctx: Context) -> str:
        await ctx.elicit("word?", Word)
        raise error

    async with stage(at_once, later) as client:
        await _refused(client, client.call("at_once"))
        reply = await client.call("later")
        await _refused(client, client.retry("later", reply.token, reply.accept(word="x")))


async def test_asking_from_another_event_loop_is_refused() -> None:
    """A synchronous tool that runs a loop of its own in its thread is told so, and its call goes on."""

    def elsewhere(ctx: Context) -> str:
        try:
            asyncio.run(asyncio.wait_for(ctx.elicit("word?", Word), 2))
        except framehold.AskError:
            return "refused"
        except Exception as other:
            return f"another error: {other!r}"
        return "asked"

    async with stage(elsewhere) as client:
        reply = await _settled(client.call("elsewhere"))
        assert isinstance(reply, Reply) and reply.result["resultType"] == "complete", reply
        assert reply.text == "refused"


async def test_a_handler_that_swallows_cancellation_and_asks_for_ever_does_not_freeze_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each ask of a frame that is gone lets the loop turn: other calls are served meanwhile."""
    time, asks, enough = [1000.0], 0, False
    monkeypatch.setattr(clock, "now", lambda: time[0])
    monkeypatch.setattr(runtime, "SWEEP", 0.005)

    async def script(frame: Frame) -> object:
        nonlocal asks
        # The bound ends a loop that is frozen.
        while not enough and asks < 50_000:
            asks += 1
            try:
                return await frame.ask(question("A"))
            except BaseException:
                pass
        return "over"

    async with desk(token_ttl=10) as at:
        await at.parked(script)
        time[0] += 1000
        await until(lambda: asks > 1, "the end of the frame")
        await turns(20)
        other = await _settled(at.start(_once))
        enough = True
        assert asks < 50_000, "the loop stood still"
        assert isinstance(other, Parked), other


async def test_an_outcome_that_cannot_be_dumped_is_an_internal_error() -> None:
    """The call is not lost: it finished, with a result that the SDK can't put on the wire either."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.session.elicit_form("word?", {"type": "object", "properties": {"word": {"type": "string"}}})
        return {"content": [], "structuredContent": {"at": datetime.date(2026, 1, 1)}}

    async def list_tools(ctx: Any, params: Any) -> Any:
        return ListToolsResult(tools=[Tool(name="date", description="d", input_schema={"type": "object"})])

    server: Server[Any] = Server("low", on_call_tool=call_tool, on_list_tools=list_tools)
    app = framehold.asgi(server, Settings(node_id="low"))
    async with served(app) as url, Caller(url, EVERYTHING) as client:
        reply = await client.call("date")
        reply = await _settled(client.retry("date", reply.token, reply.accept(word="x")))
        assert reply.message.get("error", {}).get("code") == INTERNAL_ERROR, reply.message
        assert app.attached.runtime.counts["broken"] == 0


# Nodes that end


async def test_a_node_that_lost_its_name_starts_nothing() -> None:
    """Another process stands under its name: calls are that one's from then on."""
    store, entered = MemoryStore(clock.now), 0

    async def script(frame: Frame) -> object:
        nonlocal entered
        entered += 1
        return await frame.ask(question("Charge?"))

    def one(ttl: float) -> Runtime:
        return assemble(Settings(node_id="same", lease_ttl=ttl, advertise_url=""), store, True, clock.system_clock())

    old, new = one(0.5), one(60.0)
    await old.open()
    store._nodes.clear()  # as if it had been paused for longer than its lease
    await new.open()
    try:
        await asyncio.wait_for(old.heartbeat.lost.wait(), PATIENCE)
        result = await _settled(old.start(Talk(script), Card()))
        assert entered == 0, "a handler was entered"
        assert not isinstance(result, Parked | Ended), result
        assert isinstance(await _settled(new.start(Talk(script), Card())), Parked)
    finally:
        await old.close()
        await new.close()


async def test_a_retry_is_answered_whatever_a_read_raises(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that this release can't read refuses its call; its slot does not stay."""
    parked = await at.parked(_once)
    assert await at.retry(parked, dict.fromkeys(parked.questions, "a")) == Ended("a")

    async def broken(request: object) -> None:
        raise ValueError("a record of another release")

    monkeypatch.setattr(at.store, "run", broken)
    result = await _settled(at.retry(parked, dict.fromkeys(parked.questions, "a")))
    assert isinstance(result, Refusal | Exception), result
    await until(lambda: len(at.runtime.table) == 0, "the end of the retry")


async def test_nothing_is_started_while_or_after_a_node_closes() -> None:
    """A handler that lingers holds the close up: who comes meanwhile, or later, is refused and enters nothing."""
    lingers, leave = asyncio.Event(), asyncio.Event()
    entered: list[str] = []

    async def stubborn(frame: Frame) -> object:
        try:
            return await frame.ask(question("A"))
        finally:
            lingers.set()
            await shielded(leave)

    async def late(frame: Frame) -> str:
        entered.append("late")
        return "done"

    async with desk() as at:
        await at.parked(stubborn)
        closing = asyncio.ensure_future(at.runtime.close())
        await lingers.wait()
        during = await _settled(at.start(late))
        leave.set()
        await asyncio.wait_for(closing, PATIENCE)
        after = await _settled(at.start(late))
        asking = await _settled(at.start(_once))
        assert entered == []
        for result in (during, after, asking):
            assert isinstance(result, Refusal | Exception), result
        assert len(at.runtime.table) == 0


async def test_a_retry_that_comes_while_a_node_closes_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that was reading its record when the close began."""
    lingers, leave, reading = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stubborn(frame: Frame) -> object:
        try:
            return await frame.ask(question("B"))
        finally:
            lingers.set()
            await shielded(leave)

    async def never(request: object) -> None:
        reading.set()
        await asyncio.Event().wait()

    async with desk() as at:
        parked = [await at.parked(_once), await at.parked(_once)]
        for each in parked:
            assert await at.retry(each, dict.fromkeys(each.questions, "a")) == Ended("a")
        await at.parked(stubborn)
        monkeypatch.setattr(at.store, "run", never)
        before = asyncio.ensure_future(at.retry(parked[0], {}))
        await reading.wait()
        closing = asyncio.ensure_future(at.runtime.close())
        await lingers.wait()
        during = asyncio.ensure_future(at.retry(parked[1], {}))
        await turns(5)
        leave.set()
        await asyncio.wait_for(closing, PATIENCE)
        for request in (before, during):
            result = await _settled(request)
            assert isinstance(result, Refusal | Exception), result
        assert len(at.runtime.table) == 0
