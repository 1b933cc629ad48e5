"""Every line that is written while a round runs says which call it belongs to: lines of Framehold, of the SDK, and of
the author's own logger, on whatever handler."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from mcp.server.mcpserver import Context
from opentelemetry import trace

import framehold
from framehold.config import Settings
from framehold.engine import drain
from framehold.frame.logged_call import NamedCall, logged_call
from framehold.http.outages import Outages
from framehold.telemetry.log_fields import add_call_fields
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId, prefix
from framehold_store.batch import BatchLane, Item
from tests.kit.client import Caller
from tests.kit.nodes import KEY
from tests.kit.serving import Word, said, server_of, serving
from tests.kit.tracing import at, traces

pytestmark = pytest.mark.anyio
FIELDS = ("call", "tool", "round", "epoch")
mine = logging.getLogger("my.tool")


class Lines(logging.Handler):
    """A handler of an author's, on a logger of the author's choice."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def fields(self, message: str) -> dict[str, Any]:
        """The fields of the only line that begins so."""
        (record,) = (item for item in self.records if item.getMessage().startswith(message))
        return {name: vars(record)[name] for name in FIELDS if name in vars(record)}


@pytest.fixture
def lines() -> Iterator[Lines]:
    """The lines of all loggers of level info."""
    found, root = Lines(), logging.getLogger()
    level = root.level
    root.addHandler(found)
    root.setLevel(logging.INFO)
    add_call_fields()
    yield found
    root.removeHandler(found)
    root.setLevel(level)


def call_of(token: str) -> str:
    return prefix(token.split(".")[1])


async def busy(ctx: Context) -> str:
    """Writes lines in every way that a handler has, asks, and raises."""
    mine.info("at once")
    await asyncio.to_thread(mine.info, "in a thread")
    child = asyncio.create_task(asyncio.to_thread(mine.info, "of a child"))
    await child
    await framehold.once("effect", mine.info, "of an effect")
    said(await ctx.elicit("one", Word))
    mine.info("after the answer")
    raise LookupError("what a user typed")


async def asks(ctx: Context) -> str:
    """Asks once."""
    return said(await ctx.elicit("one", Word))


async def test_each_line_of_a_handler_names_its_call_and_round(lines: Lines) -> None:
    async with serving(busy) as client:
        asked = await client.call("busy")
        mine.info("outside")
        await client.retry("busy", asked.token, asked.accept(word="x"))
    first = {"call": call_of(asked.token), "tool": "busy", "round": 1, "epoch": 1}
    for message in ("at once", "in a thread", "of a child", "of an effect"):
        assert lines.fields(message) == first, message
    assert lines.fields("outside") == {}
    assert lines.fields("after the answer") == {**first, "round": 2}
    assert lines.fields("Tool 'busy' raised an unexpected exception") == {**first, "round": 2}


async def test_what_a_line_says_of_itself_stays(lines: Lines) -> None:
    """A field that an author gives is the author's; a line about another call gets nothing of this one."""

    async def odd(ctx: Context) -> str:
        """Writes lines with fields of its own."""
        mine.info("own tool", extra={"tool": "hammer", "mine": 1})
        mine.info("own call", extra={"call": "mine"})
        return said(await ctx.elicit("one", Word))

    async with serving(odd) as client:
        asked = await client.call("odd")
    assert lines.fields("own tool") == {"call": call_of(asked.token), "tool": "hammer", "round": 1, "epoch": 1}
    assert lines.fields("own call") == {"call": "mine"}


async def test_lines_of_the_authors_middleware_name_the_call_too(lines: Lines) -> None:
    """After the round as well; before it as far as the request names its call."""

    async def notes(ctx: Any, call_next: Any) -> Any:
        number = 2 if "requestState" in (ctx.params or {}) else 1
        mine.info("before round %d", number)
        result = await call_next(ctx)
        mine.info("after round %d", number)
        return result

    async with serving(asks) as client:
        client.server.middleware.append(notes)
        asked = await client.call("asks")
        await client.retry("asks", asked.token, asked.accept(word="x"))
    call = call_of(asked.token)
    assert lines.fields("before round 1") == {}
    assert lines.fields("after round 1") == {"call": call, "tool": "asks", "round": 1, "epoch": 1}
    assert lines.fields("before round 2") == {"call": call}
    assert lines.fields("after round 2")["call"] == call


async def test_a_request_that_a_handler_sends_in_its_own_task_leaves_its_lines_alone(lines: Lines) -> None:
    inner = framehold.asgi(server_of("inner", busy), Settings(node_id="inner"))

    async def outer(ctx: Context) -> str:
        """Calls another server of this process, by its app."""
        client = Caller("http://inner.test/mcp")
        await client._http.aclose()
        client._http = httpx2.AsyncClient(transport=httpx2.ASGITransport(inner), headers={"host": "127.0.0.1:80"})
        async with client:
            asked = await client.call("busy")
            mine.info("outer again, inner was %s", call_of(asked.token))
        return said(await ctx.elicit("one", Word))

    async with inner.lifespan(), serving(outer) as client:
        asked = await client.call("outer")
    found = lines.fields("outer again")
    assert found == {"call": call_of(asked.token), "tool": "outer", "round": 1, "epoch": 1}
    assert lines.fields("at once")["tool"] == "busy"


async def test_a_line_names_the_span_that_it_is_written_in(lines: Lines) -> None:
    """That of the round, or one of the handler's own; also a line of the engine's, which runs in no span."""

    async def spans(ctx: Context) -> str:
        """Writes lines within and without a span of its own."""
        mine.info("in the round")
        with trace.get_tracer("a test's own").start_as_current_span("own"):
            mine.info("in a span")
        return said(await ctx.elicit("one", Word))

    with traces() as seen:
        async with serving(spans) as client:
            asked = await client.call("spans")
            (slot,) = client.runtime.table
            parked = slot.log_fields
            await client.retry("spans", asked.token, asked.accept(word="x"))
        own, (first, _) = seen.one("own"), seen.named("tools/call spans")
    by_message = {record.getMessage(): vars(record) for record in lines.records}
    for message, span in (("in the round", first), ("in a span", own)):
        here = by_message[message]
        assert (int(here["trace_id"], 16), int(here["span_id"], 16)) == at(span)
        assert (len(here["trace_id"]), len(here["span_id"])) == (32, 16)
    assert "trace_id" not in parked, "no request waits"


async def test_a_line_of_the_engine_names_call_and_span(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tool, round and epoch, on which node, and what follows; not its user, its token or its answers."""

    async def twice(ctx: Context) -> str:
        """Asks twice."""
        said(await ctx.elicit("one", Word))
        return said(await ctx.elicit("two", Word))

    with traces() as seen, caplog.at_level(logging.INFO):
        async with serving(twice, keys=(KEY,)) as client:
            asked = await client.call("twice")
            with monkeypatch.context() as patched:
                away = StoreUnavailable("it is away")
                patched.setattr(client.runtime.store, "submit", lambda request, done: done(away))
                reply = await client.retry("twice", asked.token, asked.accept(word="secret word"))
            assert reply.status == 503
        _, span = seen.named("tools/call twice")
    (record,) = (item for item in caplog.records if "did not take a commit" in item.getMessage())
    line = vars(record)
    assert (int(line["trace_id"], 16), int(line["span_id"], 16)) == at(span)
    about = {"call": call_of(asked.token), "tool": "twice", "round": 2, "epoch": 1, "node": "stage"}
    assert {name: line[name] for name in about} == about
    assert "stays" in record.getMessage() and "try again" in record.getMessage()
    assert "secret word" not in caplog.text and asked.token not in caplog.text


async def test_a_drain_that_meets_its_deadline_names_what_it_costs(caplog: pytest.LogCaptureFixture) -> None:
    """The parked calls that end with the process and the rounds that are cut, each by its tool; of many the first."""
    running = asyncio.Event()

    async def runs() -> str:
        """Runs for as long as it may."""
        running.set()
        await asyncio.get_running_loop().create_future()
        return "never"

    async with serving(asks, runs) as client:
        tokens = [(await client.call("asks")).token for _ in range(22)]
        cut = asyncio.create_task(client.call("runs"))
        await running.wait()
        await client.runtime.drain(0.0)
        (text,) = (record.getMessage() for record in caplog.records if "met its deadline" in record.getMessage())
        (slot,) = (slot for slot in client.runtime.table if slot.tool == "runs")
    await asyncio.gather(cut, return_exceptions=True)
    named = ", ".join(f"asks {call_of(token)}" for token in tokens[:20])
    assert text.endswith(f"1 rounds that run are cut; lost: {named}, 2 more; cut: runs {prefix(slot.call.id)}")


def test_a_name_that_no_file_can_hold_does_not_break_that_line() -> None:
    """A tool may be called by half of a surrogate pair: a log handler that encodes the line would fail."""
    slot: Any = SimpleNamespace(tool="\ud83d", call=SimpleNamespace(id="5f3a9c01" * 4))
    assert drain._names("lost", [slot]).encode() == b"; lost: ? 5f3a9c01"


async def test_refused_requests_show_no_id_and_no_token(lines: Lines) -> None:
    """Tampered tokens, answers that don't fit, calls that nobody knows: whoever logs them shows the beginning only."""

    async with serving(asks) as client:
        asked = await client.call("asks")
        tokens = [asked.token, asked.token[:-2], asked.token.replace(asked.token[3:9], "zzzzzz")]
        for token in tokens:
            await client.retry("asks", token, {key: {"action": "odd"} for key in asked.asked})
        await client.retry("asks", asked.token, asked.accept(word="x"))
        await client.retry("asks", asked.token, asked.accept(word="another"))
    text = "\n".join(f"{record.getMessage()} {vars(record)}" for record in lines.records)
    assert lines.records and not [word for token in tokens for word in (token, token.split(".")[1]) if word in text]


async def test_work_that_is_shared_names_no_call() -> None:
    """It is begun by one request and serves all."""
    found, connecting = list[Any](), asyncio.Event()

    async def looks(address: str) -> bool:
        found.append(logged_call.get())
        return False

    class Link:
        name, connection, trouble = "a store", None, ""

        async def connect(self, *_: object) -> None:
            found.append(logged_call.get())
            connecting.set()
            await _never()

        async def drop(self) -> None:
            pass

    before = logged_call.set(NamedCall(CallId("a" * 32)))
    try:
        await Outages(looks, looks).wait("http://127.0.0.1:1", _never, float("inf"))
        lane = BatchLane(Link(), 1.0, 10)  # type: ignore[arg-type]  # as much of a link as a lane uses
        lane.submit(Item(b"", "key", "a request", lambda raw: None))
        await connecting.wait()
        await lane.close()
    finally:
        logged_call.reset(before)
    assert found == [None, None]


async def _never() -> Any:
    await asyncio.get_running_loop().create_future()


@pytest.fixture
def late() -> Iterator[Lines]:
    """A handler that came after the first asking, and the call that is being served."""
    handler = Lines()
    add_call_fields()
    mine.addHandler(handler)
    add_call_fields()
    before = logged_call.set(NamedCall(CallId("0123abcd" + "e" * 24)))
    yield handler
    logged_call.reset(before)
    mine.removeHandler(handler)


def test_handlers_that_are_added_later_are_reached_by_asking_again(late: Lines) -> None:
    add_call_fields()
    assert len(late.filters) == 1
    mine.warning("later")
    assert late.fields("later") == {"call": "0123abcd"}


def test_a_thread_that_is_no_calls_writes_lines_of_no_call(late: Lines) -> None:
    thread = threading.Thread(target=lambda: mine.warning("alone"))
    thread.start()
    thread.join()
    assert late.fields("alone") == {}
