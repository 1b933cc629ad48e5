"""What a frame's handler sees when rounds change and when its call ends, and what a runtime keeps of it: nothing."""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import MCPError
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import Context
from mcp.types import INTERNAL_ERROR, ListToolsResult, Tool

import framehold
from framehold.config import Settings
from framehold.engine import runtime, tasks
from framehold.engine.replies import Ended, Parked
from framehold.frame.frame import Frame
from framehold_core.effects import Reason
from framehold_core.ids import prefix
from framehold_store import system_clock as clock
from tests.kit.client import EVERYTHING, Caller, Reply
from tests.kit.engine import Carrier, Engine, engine, question, reason, shielded, turns
from tests.kit.nodes import served
from tests.kit.processes import until
from tests.kit.serving import Word, serving

pytestmark = [pytest.mark.anyio, pytest.mark.serial]


@pytest.fixture
async def at() -> AsyncIterator[Engine]:
    async with engine() as opened:
        yield opened


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.time = 1000.0


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Turns the node's clock; what is due is looked for at every turn of a few milliseconds."""
    held = Clock()
    monkeypatch.setattr(clock, "now", lambda: held.time)
    monkeypatch.setattr(runtime, "SWEEP", 0.005)
    return held


# Context variables

carried: contextvars.ContextVar[str] = contextvars.ContextVar("carried")
own: contextvars.ContextVar[str] = contextvars.ContextVar("own", default="unset")


def _arrival(text: str) -> Carrier:
    """A request in whose context the transport said something; `own` is as the process began with it."""
    carried.set(text)
    own.set("as it was")
    return Carrier()


async def test_what_the_transport_says_is_fresh_and_what_the_handler_set_stays(at: Engine) -> None:
    """In gathered children too; also where the handler changed a variable that each request brings along."""

    async def child(frame: Frame, name: str) -> str:
        own.set(name)
        await frame.ask(question(name))
        return f"{carried.get()}/{own.get()}"

    async def handler(frame: Frame) -> str:
        own.set("mine")
        await frame.ask(question("first"))
        result = f"{carried.get()}/{own.get()}"
        return " ".join((result, *await asyncio.gather(child(frame, "a"), child(frame, "b"))))

    asked = await at.start(handler, carrier=_arrival("one"))
    asked = await at.retry(asked, dict.fromkeys(asked.questions, "x"), _arrival("two"))
    done = await at.retry(asked, dict.fromkeys(asked.questions, "x"), _arrival("three"))
    assert done == Ended("two/mine three/a three/b")


async def test_what_a_handler_sets_is_seen_by_the_request_that_carries_its_round_alone(at: Engine) -> None:
    """One that joins the round keeps what its own transport said, and so does the one that carries it."""
    go_on = asyncio.Event()

    async def handler(frame: Frame) -> str:
        await frame.ask(question("q"), "q")
        own.set("mine")
        await go_on.wait()
        return "done"

    async def sends(text: str) -> str:
        carrier = _arrival(text)
        assert await at.retry(asked, {"q": "x"}, carrier) == Ended("done")
        assert carrier.handler_context is None, "the request keeps nothing of the handler"
        return f"{carried.get()}/{own.get()}"

    asked = await at.parked(handler)
    first = asyncio.create_task(sends("one"))
    await until(lambda: at.counts["resumed"], "the round to run")
    second = asyncio.create_task(sends("two"))
    await turns(3)
    go_on.set()
    assert [*await asyncio.gather(first, second)] == ["one/mine", "two/as it was"]


# Ends


async def test_an_expired_call_is_torn_down_and_can_ask_nothing_more(hands: Clock) -> None:
    """`finally` sees the cancellation; an ask there raises it again instead of parking for ever."""
    seen: list[str] = []

    async def handler(frame: Frame) -> str:
        try:
            return str(await frame.ask(question("patience?")))
        finally:
            try:
                await frame.ask(question("goodbye?"))
            except asyncio.CancelledError:
                seen.append("silenced")

    async with engine(token_ttl=600) as at:
        asked = await at.parked(handler)
        hands.time += 599
        await turns(50)
        assert not seen
        hands.time += 1
        await until(lambda: seen == ["silenced"], "the teardown")
        assert at.counts["expired"] == 1 and not len(at.runtime.table)
        assert reason(await at.retry(asked, dict.fromkeys(asked.questions, "x"))) is Reason.LOST


async def test_closing_tears_down_every_frame_and_names_the_handlers_that_will_not_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that swallows its cancellation is counted and logged, and holds up the shutdown for a bounded time."""
    monkeypatch.setattr(tasks, "CANCEL_TIMEOUT", 0.05)
    let_go, ended = asyncio.Event(), []

    async def good(frame: Frame) -> str:
        try:
            return str(await frame.ask(question("q")))
        finally:
            ended.append("good")

    async def stubborn(frame: Frame) -> str:
        while not let_go.is_set():
            try:
                await frame.ask(question("q"))
            except asyncio.CancelledError:
                await shielded(let_go)
        ended.append("stubborn")
        return "late"

    async with engine() as at:
        for handler in (good, good, stubborn):
            await at.parked(handler)
        calls = ", ".join(f"{slot.tool} {prefix(slot.call.id)}" for slot in at.runtime.table)
    assert ended == ["good", "good"] and at.counts["unburied"] == 1
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "drain met its deadline: 3 parked calls that only this process can carry on are lost when it ends, "
        f"0 rounds that run are cut; lost: {calls}",
        "a cancelled handler still runs after 0.05 s; what it does has no effect on its call",
    ]
    let_go.set()
    await until(lambda: "stubborn" in ended, "the stubborn one")


PATIENCE = 30.0
"""Seconds in which anything here is answered."""


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

    async def at_once(ctx: Context) -> str:
        raise error

    async def later(ctx: Context) -> str:
        await ctx.elicit("word?", Word)
        raise error

    async with serving(at_once, later) as client:
        await _refused(client, client.call("at_once"))
        reply = await client.call("later")
        await _refused(client, client.retry("later", reply.token, reply.accept(word="x")))


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

    async with engine(token_ttl=10) as at:
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


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
NO_JSON = {"object": object(), "circle": CIRCLE, "bytes": b"\xff"}


@pytest.mark.parametrize("data", NO_JSON.values(), ids=NO_JSON)
async def test_data_of_an_error_that_json_cannot_carry_is_left_out(data: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The client gets the author's code and message, also who sends the same request again, and the log says why."""

    async def at_once(ctx: Context) -> str:
        raise MCPError(-32000, "out of range", {"x": data})

    async def later(ctx: Context) -> str:
        await ctx.elicit("word?", Word)
        return await at_once(ctx)

    async with serving(at_once, later) as client:
        replies = [await client.call("at_once")]
        asked = await client.call("later")
        replies += [await client.retry("later", asked.token, asked.accept(word="x")) for _ in range(2)]
        assert client.runtime.counts["broken"] == 0
    assert [reply.message["error"] for reply in replies] == [{"code": -32000, "message": "out of range"}] * 3
    assert caplog.text.count("the data of an error can't be written as JSON") == 2


# Nodes that end
