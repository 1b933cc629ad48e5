"""Frames that go to make room, and new calls that are refused where none can go: by count, and by memory."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings
from framehold.engine import eviction, memory, runtime
from framehold.engine.replies import Parked
from framehold.engine.runtime import Runtime
from framehold.frame.frame import Frame
from framehold_core import events as ev
from framehold_core.call import Phase, may_be_dropped
from framehold_core.ids import Waiter
from tests.node.desk import Card, Talk, desk, question, shielded, turns
from tests.node.nodes import node, served
from tests.node.stage import Stage, Word, said
from tests.processes import until
from tests.wire import Reply

pytestmark = pytest.mark.anyio
MIB = 1 << 20


class Room(Stage):
    """Calls of one tool or another, by name. `ran` are the effects that really ran, `ended` whose handlers were
    cancelled; `go` lets effects go that wait."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.ran: list[str] = []
        self.ended: list[str] = []
        self.go = asyncio.Event()

    async def parked(self, tool: str, *names: str) -> list[Reply]:
        """A call for each name, all of them parked."""
        reply = [await self.call(tool, arguments={"name": name}) for name in names]
        assert all(item.messages for item in reply)
        return reply

    async def answer(self, tool: str, name: str, asked: Reply) -> Reply:
        return await self.retry(tool, asked.token, asked.accept(word="aye"), arguments={"name": name})

    async def completes(self, name: str, asked: Reply) -> None:
        """A marked call goes through its last rounds; each of its effects ran once."""
        while asked.message["result"]["resultType"] == "input_required":
            asked = await self.answer("marked", name, asked)
        assert asked.text == f"aye aye first-{name}#1 second-{name}#1"
        assert self.ran.count(f"first-{name}") == self.ran.count(f"second-{name}") == 1

    async def refused(self, tool: str, setting: str, name: str = "one-too-many") -> None:
        """A new call gets 503, the setting's name, and when to come again; nothing is started, and lists are told."""
        entered = self.runtime.counts["entered"]
        reply = await self.call(tool, arguments={"name": name})
        assert (reply.status, reply.code) == (503, -32603), reply.message
        assert setting in reply.text and "nothing was started" in reply.text
        assert int(reply.headers["retry-after"]) >= 1
        assert self.runtime.counts["entered"] == entered
        listed = await self.send("tools/list", {})
        assert len(listed.result["tools"]) == 3

    @property
    def frames(self) -> list[str]:
        """Whose frames are here."""
        handlers: list[Any] = [slot.handler for slot in self.runtime.table if slot.frame]
        return sorted(handler._raw["arguments"]["name"] for handler in handlers)


def register(server: MCPServer[Any], room: Room) -> None:
    def effect(name: str) -> str:
        room.ran.append(name)
        return f"{name}#{room.ran.count(name)}"

    async def held(name: str) -> str:
        room.ran.append(name)
        await room.go.wait()
        return f"{name}#{room.ran.count(name)}"

    @server.tool()
    @framehold.reentrant
    async def marked(name: str, ctx: Context) -> str:
        """An effect and a question, and both again."""
        first = await framehold.once("first", effect, f"first-{name}")
        one = said(await ctx.elicit(f"{name} one?", Word))
        second = await framehold.once("second", effect, f"second-{name}")
        return f"{one} {said(await ctx.elicit(f'{name} two?', Word))} {first} {second}"

    @server.tool()
    async def unmarked(name: str, ctx: Context) -> str:
        """A question."""
        try:
            return said(await ctx.elicit(f"{name}?", Word))
        except asyncio.CancelledError:
            room.ended.append(name)
            raise

    @server.tool()
    @framehold.reentrant
    async def busy(name: str, ctx: Context) -> str:
        """A question beside an effect that waits."""
        effect = asyncio.create_task(framehold.once("held", held, name))
        return f"{said(await ctx.elicit(f'{name}?', Word))} {await effect}"


def consistent(at: Runtime) -> None:
    """What the table keeps count of is what is there."""
    slots = list(at.table)
    assert at.table.frames == sum(slot.frame is not None for slot in slots)
    resting = {slot for slot in slots if slot.call.phase is Phase.PARKED and slot.frame and may_be_dropped(slot.call)}
    assert set(at.table._evictable) == resting
    assert at.counts["broken"] == 0


@asynccontextmanager
async def room(**settings: Any) -> AsyncIterator[Room]:
    server: MCPServer[Any] = MCPServer("room")
    app = framehold.asgi(server, Settings(node_id="room", **settings))
    async with served(app) as url, Room(url) as caller:
        register(server, caller)
        caller.runtime, caller.server = app.attached.runtime, server
        yield caller
        consistent(caller.runtime)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is looked at, and told of, at once and not within a second."""
    monkeypatch.setattr(runtime, "SWEEP", 0.02)


# By count


async def test_a_new_call_takes_the_place_of_the_one_that_was_parked_the_longest() -> None:
    """Which is replayed at its next retry, and takes the place of the next; no effect runs twice."""
    async with room(max_parked=3) as client:
        a, b, c, d = await client.parked("marked", "a", "b", "c", "d")
        assert client.frames == ["b", "c", "d"] and client.runtime.counts["evicted"] == 1
        a = await client.answer("marked", "a", a)
        assert a.messages == ["a two?"] and client.frames == ["a", "c", "d"]
        assert client.runtime.counts["rebuilt"] == 1 and client.runtime.counts["evicted"] == 2
        for name, asked in (("a", a), ("b", b), ("c", c), ("d", d)):
            await client.completes(name, asked)
        assert client.frames == [] and client.runtime.counts["refused"] == 0


async def test_whoever_was_resumed_last_goes_last() -> None:
    """So does one whose questions were asked again: somebody is about to answer them."""
    async with room(max_parked=3) as client:
        a, b, _ = await client.parked("marked", "a", "b", "c")
        a = await client.answer("marked", "a", a)
        again = await client.retry("marked", b.token, {}, arguments={"name": "b"})
        assert again.asked == b.asked
        order: list[str] = []
        for name in ("d", "e", "f"):
            before = set(client.frames)
            await client.parked("marked", name)
            order += before - set(client.frames)
        assert order == ["c", "a", "b"]
        await client.completes("a", a)
        await client.completes("b", again)


async def test_the_frame_of_an_unmarked_handler_never_goes() -> None:
    """However long it is parked: marked ones go, and when none is left new calls are refused, marked or not."""
    async with room(max_parked=3) as client:
        one, two = await client.parked("unmarked", "one", "two")
        await client.parked("marked", "a", "b")
        assert client.frames == ["b", "one", "two"]
        three = (await client.parked("unmarked", "three"))[0]
        assert client.frames == ["one", "three", "two"]
        for tool in ("marked", "unmarked"):
            await client.refused(tool, "FRAMEHOLD_MAX_PARKED")
        assert client.runtime.counts["refused"] == 2 and client.runtime.counts["evicted"] == 2
        for name, asked in (("one", one), ("two", two), ("three", three)):
            assert (await client.answer("unmarked", name, asked)).text == "aye"
        assert client.ended == []


async def test_the_retry_of_a_call_whose_frame_went_is_never_refused() -> None:
    """Where all the others are unmarked it comes on top; new calls are refused until there is room again."""
    async with room(max_parked=2) as client:
        (a,) = await client.parked("marked", "a")
        one, two = await client.parked("unmarked", "one", "two")
        assert client.frames == ["one", "two"]
        a = await client.answer("marked", "a", a)
        assert a.messages == ["a two?"] and client.frames == ["a", "one", "two"]
        assert (await client.answer("unmarked", "one", one)).text == "aye"
        await client.parked("unmarked", "three")
        assert client.frames == ["three", "two"]
        await client.refused("marked", "FRAMEHOLD_MAX_PARKED")
        await client.completes("a", a)
        assert (await client.answer("unmarked", "two", two)).text == "aye"


async def test_a_node_that_existing_calls_made_too_full_gets_no_fuller_than_it_must() -> None:
    """Each that comes back makes the one before it go again."""
    async with room(max_parked=3) as client:
        early = await client.parked("marked", "a", "b", "c")
        await client.parked("unmarked", "one", "two", "three")
        for name, asked in zip("abc", early, strict=True):
            await client.answer("marked", name, asked)
        assert client.frames == ["c", "one", "three", "two"]
        consistent(client.runtime)


async def test_a_retry_that_needs_no_frame_costs_none_its_place() -> None:
    """A call that has ended, or that is decided from its record, is not entered again."""
    async with room(max_parked=2) as client:
        (one,) = await client.parked("unmarked", "one")
        assert (await client.answer("unmarked", "one", one)).text == "aye"
        await client.parked("marked", "a", "b")
        assert (await client.answer("unmarked", "one", one)).text == "aye"
        assert client.frames == ["a", "b"] and client.runtime.counts["evicted"] == 0


async def test_an_effect_that_runs_protects_its_frame() -> None:
    """The next in line goes instead, or the new call is refused; when the effect has ended the frame can go."""
    async with room(max_parked=2) as client:
        busy = (await client.parked("busy", "it"))[0]
        await until(lambda: client.ran == ["it"], "the effect")
        await client.parked("marked", "a", "b")
        assert client.frames == ["b", "it"]
        await client.parked("unmarked", "one")
        await client.refused("marked", "FRAMEHOLD_MAX_PARKED")
        assert client.frames == ["it", "one"]
        client.go.set()
        await until(lambda: client.runtime.table.has_evictable, "the effect's end")
        await client.parked("marked", "c")
        assert client.frames == ["c", "one"]
        assert (await client.answer("busy", "it", busy)).text == "aye it#1"


async def test_rounds_of_strategy_replay_make_room_too() -> None:
    """They leave no frame; while one runs it is counted like any other."""
    async with room(max_parked=1, strategy="replay") as client:
        a, b = await client.parked("marked", "a", "b")
        assert client.frames == [] and client.runtime.counts["evicted"] == 0
        await client.completes("a", a)
        await client.completes("b", b)


async def test_a_user_at_the_limit_costs_no_other_a_frame() -> None:
    """The limit for one user is looked at first."""
    async with desk(max_parked=2, max_parked_per_principal=1) as at:
        for name in ("ann", "ben"):
            talk = Talk(waiting, reentrant=True)
            talk.principal = name
            await at.runtime.start(talk, Card())
        talk = Talk(waiting, reentrant=True)
        talk.principal = "ben"
        with pytest.raises(framehold.LimitExceeded, match="FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL"):
            await at.runtime.start(talk, Card())
        assert at.counts["evicted"] == 0 and at.runtime.table.frames == 2
        assert at.runtime.table.met["FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL", True][0] == 1


async def test_a_burst_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Not each frame: how many, why, and what becomes of their calls; and how many new calls were refused."""
    caplog.set_level(logging.INFO, "framehold")
    monkeypatch.setattr(runtime, "SWEEP", 3600)
    async with desk(max_parked=10) as at:
        for _ in range(20):
            await at.runtime.start(Talk(waiting, reentrant=True), Card())
        for _ in range(10):
            await at.parked(waiting)
        for _ in range(2):
            with pytest.raises(framehold.LimitExceeded):
                await at.start(waiting)
        assert not caplog.records
        for _ in range(2):
            await at.runtime.eviction.sweep()
        lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "20 frames were evicted (more than FRAMEHOLD_MAX_PARKED): their calls continue from their journals at their "
        "next retry; a larger limit or more nodes would hold them",
        "2 new calls were refused (FRAMEHOLD_MAX_PARKED): what is here goes on and could not be evicted for them; "
        "raise the limit or add nodes",
    ]


async def test_a_call_that_met_a_bug_is_not_in_line() -> None:
    """Whatever way a call goes, nothing of it stays."""
    async with desk(max_parked=1) as at:
        asked, table = await at.runtime.start(Talk(waiting, reentrant=True), Card()), at.runtime.table
        assert isinstance(asked, Parked)
        slot = table.get(asked.call)
        assert slot is not None and table.has_evictable
        at.runtime.feed(slot, ev.Start(Waiter(0)))
        assert (at.counts["broken"], table.has_evictable, table.frames) == (1, False, 0)


# The end of a frame


async def waiting(frame: Frame) -> str:
    return str(await frame.ask(question("q", "elicit")))


async def test_an_evicted_frame_is_silenced_and_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    """Its handlers' `finally` runs in its own context; what it still asks is cancelled; its futures are."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    seen: list[str] = []
    asks: list[Any] = []

    async def handler(frame: Frame) -> str:
        variable.set("mine")
        try:
            await asyncio.gather(frame.ask(question("one"), "one"), frame.ask(question("two"), "two"))
        finally:
            seen.append(variable.get())
            try:
                await frame.ask(question("goodbye?"))
            except asyncio.CancelledError:
                seen.append("silenced")
        return "never"

    async with desk(max_parked=1) as at:
        asked = await at.runtime.start(Talk(handler, reentrant=True), Card())
        assert isinstance(asked, Parked)
        asks += [ask.answer for ask in at.frame(asked).pending.values()]
        await at.runtime.start(Talk(waiting, reentrant=True), Card())
        await until(lambda: seen == ["mine", "silenced"], "the end")
        assert len(asks) == 2 and all(ask.cancelled() for ask in asks)
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_a_handler_that_raises_while_it_is_cancelled_is_counted_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its call is not harmed."""
    server: MCPServer[Any] = MCPServer("room")

    @server.tool()
    @framehold.reentrant
    async def careless(ctx: Context) -> str:
        """Breaks in its `finally` when it is cancelled."""
        try:
            return said(await ctx.elicit("?", Word))
        except asyncio.CancelledError:
            raise ValueError("in a hurry") from None

    app = framehold.asgi(server, Settings(node_id="room", max_parked=1))
    async with served(app) as url, Stage(url) as client:
        at = app.attached.runtime
        one = await client.call("careless")
        two = await client.call("careless")
        await until(lambda: at.counts["unclean"] == 1, "the end")
        for asked in (two, one):
            assert (await client.retry("careless", asked.token, asked.accept(word="aye"))).text == "aye"
    result = [record.getMessage() for record in caplog.records if record.name == "framehold.engine.performer"]
    assert result == ["a handler of 'careless' raised while it was cancelled; its call is not harmed by it"]
    assert not [record for record in caplog.records if record.name == "asyncio"]


# By memory


class Gauge:
    """What the process holds, in MiB, as these tests want it."""

    def __init__(self) -> None:
        self.mib = 10.0
        self.looks = 0

    def read(self) -> int:
        self.looks += 1
        return int(self.mib * MIB)


@pytest.fixture
def gauge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gauge]:
    gauge = Gauge()
    monkeypatch.setattr(memory, "resident", gauge.read)
    monkeypatch.setattr(memory, "limit", lambda *_: 100 * MIB)
    monkeypatch.setattr(eviction, "READING_AGE", -math.inf)
    yield gauge


async def looked(gauge: Gauge, times: int = 3) -> None:
    """Let memory be looked at a few times more."""
    enough = gauge.looks + times
    await until(lambda: gauge.looks >= enough, "a look")


async def test_frames_go_for_memory_until_the_low_mark_and_no_further(gauge: Gauge) -> None:
    """Those that were parked the longest, as many as weigh enough; although the allocator gives nothing back. Every
    call completes."""
    names = list("abcdefghi")
    async with room() as client:
        asked = await client.parked("marked", *names)
        gauge.mib = 89.9
        await looked(gauge)
        assert client.frames == names
        gauge.mib = 91
        await until(lambda: client.runtime.counts["memory"], "a burst")
        await looked(gauge)
        # A frame weighs 9 MiB, 11 are too many.
        assert client.frames == names[2:] and client.runtime.counts["memory"] == 2
        await client.parked("marked", "late")
        for name, reply in zip(names, asked, strict=True):
            await client.completes(name, reply)
        assert client.runtime.counts["refused"] == 0


async def test_memory_is_read_again_as_soon_as_some_frames_have_come(
    gauge: Gauge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However young the last reading is: frames may be large, and come fast."""
    monkeypatch.setattr(eviction, "READING_AGE", math.inf)
    async with room() as client:
        await client.parked("marked", *"ab")
        gauge.mib, looks = 95, gauge.looks
        await client.parked("marked", *"cdefghijkl")
        assert gauge.looks > looks and client.runtime.counts["memory"]


async def test_growth_beyond_what_was_seen_makes_more_frames_go(gauge: Gauge) -> None:
    async with room() as client:
        await client.parked("marked", *"abcdefghi")
        gauge.mib = 91
        await until(lambda: client.runtime.counts["memory"] == 2, "a burst")
        await until(lambda: not client.runtime.tasks.cancelling, "its end")
        gauge.mib = 94
        await until(lambda: client.runtime.counts["memory"] == 4, "another")
        await looked(gauge)
        assert client.frames == list("efghi")


async def test_where_no_frame_can_go_for_memory_new_calls_are_refused_first(gauge: Gauge) -> None:
    """What is here goes on, and a call whose frame went comes back."""
    async with room() as client:
        (a,) = await client.parked("marked", "a")
        one, two = await client.parked("unmarked", "one", "two")
        gauge.mib = 95
        await until(lambda: client.frames == ["one", "two"] and not client.runtime.tasks.cancelling, "a burst")
        gauge.mib = 98
        await client.refused("marked", "FRAMEHOLD_MEMORY_LIMIT")
        await client.refused("unmarked", "FRAMEHOLD_MEMORY_LIMIT")
        assert (await client.answer("unmarked", "one", one)).text == "aye"
        await client.completes("a", a)
        assert (await client.answer("unmarked", "two", two)).text == "aye"
        assert client.ended == [] and client.runtime.counts["refused"] == 2


async def test_above_the_limit_new_calls_are_refused_whatever_could_go(gauge: Gauge) -> None:
    """Until memory falls; parked calls go on meanwhile."""
    async with room() as client:
        asked = await client.parked("marked", *"abcdefghi")
        gauge.mib = 100.5
        await client.refused("marked", "FRAMEHOLD_MEMORY_LIMIT")
        for name, reply in zip("abcdefghi", asked, strict=True):
            await client.answer("marked", name, reply)
        await client.refused("marked", "FRAMEHOLD_MEMORY_LIMIT")
        gauge.mib = 85
        await client.parked("marked", "late")


async def test_an_empty_node_takes_calls_whatever_the_allocator_kept(gauge: Gauge) -> None:
    """Nothing would fall by waiting: a node that refused everything would do so for good."""
    async with room() as client:
        (one,) = await client.parked("unmarked", "one")
        gauge.mib = 101
        await client.refused("unmarked", "FRAMEHOLD_MEMORY_LIMIT")
        assert (await client.answer("unmarked", "one", one)).text == "aye"
        await client.parked("unmarked", "two")


async def test_a_new_call_does_not_wait_for_the_next_look(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that begins hundreds of calls a second is full within one."""
    monkeypatch.setattr(runtime, "SWEEP", 3600)
    async with room() as client:
        await client.parked("marked", *"abcdefghi")
        gauge.mib = 91
        await client.parked("marked", "late")
        await until(lambda: client.runtime.counts["memory"] == 2, "a burst")


async def test_a_call_that_comes_back_does_not_wait_for_the_next_look_either(
    gauge: Gauge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a node died, they come back in a crowd; none of them is refused."""
    monkeypatch.setattr(runtime, "SWEEP", 3600)
    async with room(max_parked=8) as client:
        asked = await client.parked("marked", *"abcdefghi")
        gauge.mib = 101
        await client.completes("a", asked[0])
        assert client.runtime.counts["memory"] >= 2 and client.runtime.counts["refused"] == 0


async def test_a_burst_lets_others_have_the_loop(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each small portion; and nothing goes twice for what is on its way."""
    monkeypatch.setattr(eviction, "BATCH", 5)
    async with desk() as at:
        for _ in range(100):
            await at.runtime.start(Talk(waiting, reentrant=True), Card())
        gauge.mib = 95
        seen = [0]
        watching = asyncio.create_task(looked(gauge, 20))
        while not watching.done():
            seen.append(at.counts["memory"])
            await asyncio.sleep(0)
        assert max(late - early for early, late in itertools.pairwise(seen)) == 5
        assert at.counts["memory"] == math.ceil(15 / 0.85)


async def test_what_still_ends_counts_as_gone_and_as_held(gauge: Gauge) -> None:
    """Handlers that take their time to end: no others go instead of them, though memory has not fallen yet."""
    let_go = asyncio.Event()

    async def slow(frame: Frame) -> str:
        try:
            return str(await frame.ask(question("q")))
        finally:
            await shielded(let_go)

    async with desk() as at:
        for _ in range(10):
            await at.runtime.start(Talk(slow, reentrant=True), Card())
        gauge.mib = 90.5
        await until(lambda: at.counts["memory"], "a burst")
        gauge.mib = 90.6
        await looked(gauge, 5)
        assert at.counts["memory"] == 2 == at.runtime.tasks.cancelling
        let_go.set()
        await until(lambda: not at.runtime.tasks.cancelling, "their ends")
        await looked(gauge, 5)
        assert at.counts["memory"] == 2


async def test_without_a_limit_memory_is_not_looked_at(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "allowed", lambda *_: None)
    async with room() as client:
        gauge.looks, gauge.mib = 0, 1e6
        asked = await client.parked("marked", "a", "b")
        for name, reply in zip("ab", asked, strict=True):
            await client.completes(name, reply)
        assert gauge.looks == 0


async def test_the_setting_counts_more_than_the_cgroup(gauge: Gauge) -> None:
    async with room(memory_limit="50Mi") as client:
        await client.parked("marked", *"abcd")
        gauge.mib = 46
        await until(lambda: client.runtime.counts["memory"] == 1, "a burst")


@pytest.mark.parametrize(
    ("mib", "says"),
    [
        (85, "FRAMEHOLD_MEMORY_LIMIT is 100 MiB and this process takes 85 MiB before its first call: few calls"),
        (None, "FRAMEHOLD_MEMORY_LIMIT is not kept"),
    ],
)
async def test_a_limit_that_can_not_be_kept_is_told_at_the_start(
    gauge: Gauge,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mib: int | None,
    says: str,
) -> None:
    """One below what the process takes by itself, or on a system that doesn't say what that is; calls are served."""
    monkeypatch.setattr(memory, "resident", lambda: mib and mib * MIB)
    async with desk(memory_limit=100 * MIB) as at:
        await at.parked(waiting)
        await turns(10)
    assert [record.getMessage() for record in caplog.records if says in record.getMessage()]


class Memory:
    """What a process holds, as the system says it."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")

    def mib(self, what: str) -> float:
        (line,) = [line for line in self._status.read_text().splitlines() if line.startswith(f"{what}:")]
        return int(line.split()[1]) / 1024


async def test_a_process_stays_below_its_limit_and_every_call_completes(tmp_path: Path) -> None:
    """Calls that keep a mebibyte each come four times as many as there is room for, and nobody is refused."""
    target, calls = "tests/node/heavy_server.py:mcp", 240
    async with node(target, tmp_path, log_level="info") as child:
        limit = Memory(child.pid).mib("VmRSS") + 60
    async with (
        node(target, tmp_path, log_level="info", memory_limit=f"{limit:.0f}Mi") as child,
        Stage(child.url) as client,
    ):

        async def call(number: int) -> Reply:
            return await client.call("heavy", arguments={"number": number})

        async def answer(number: int, reply: Reply) -> Reply:
            answers = reply.accept(word="aye")
            return await client.retry("heavy", reply.token, answers, arguments={"number": number})

        asked: list[Reply] = []
        for first in range(0, calls, 8):
            asked += await asyncio.gather(*map(call, range(first, first + 8)))
        parked = Memory(child.pid)
        for first in range(0, calls, 8):
            done = await asyncio.gather(*(answer(number, asked[number]) for number in range(first, first + 8)))
            assert [reply.text for reply in done] == [f"{number} aye {MIB} 1" for number in range(first, first + 8)]
        assert parked.mib("VmHWM") < limit, (parked.mib("VmHWM"), limit)
        # Told with the next look, up to a second later.
        line = "frames were evicted (memory is near FRAMEHOLD_MEMORY_LIMIT)"
        await until(lambda: line in child.log(), "the line about the evictions")
        print(f"limit {limit:.0f} MiB, peak {parked.mib('VmHWM'):.0f} MiB")
