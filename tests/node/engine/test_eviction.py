"""Frames that go to make room, and new calls that are refused where none can go: by count, and by memory."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.engine import eviction, memory, runtime
from framehold.engine.replies import Ended, Parked
from framehold.frame.frame import Frame
from framehold_core.call import Phase, may_be_dropped
from framehold_core.effects import Reason
from framehold_core.errors import NodeFull
from framehold_core.events import Evict
from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.requests import Claim, Evidence, Fence, Read, Release, Verdict
from tests.kit.client import Reply
from tests.kit.effects import Effects
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question, reason, shielded, texts, turns
from tests.kit.nodes import node
from tests.kit.processes import until
from tests.kit.serving import Served, Word, said, serving

pytestmark = pytest.mark.anyio
MIB = 1 << 20


async def two_questions(frame: Frame) -> str:
    return f"{await frame.ask(question('one?'))} {await frame.ask(question('two?'))}"


async def one_question(frame: Frame) -> str:
    return str(await frame.ask(question("q")))


class Room(Engine):
    """Calls by name: marked ones ask twice, unmarked ones once."""

    async def park(self, *names: str, script: Callable[[Frame], Awaitable[object]] = two_questions) -> list[Parked]:
        """Start a marked call for each name."""
        return [await self._begin(name, ScriptHandler(script, reentrant=True)) for name in names]

    async def park_unmarked(self, *names: str) -> list[Parked]:
        return [await self._begin(name, ScriptHandler(one_question)) for name in names]

    async def _begin(self, name: str, handler_entry: ScriptHandler) -> Parked:
        handler_entry.tool = name
        reply = await self.runtime.start(handler_entry, Carrier())
        assert isinstance(reply, Parked), reply
        return reply

    async def answer(self, name: str, parked: Parked, script: Any = two_questions) -> Any:
        """Answer the questions of a call, which may be entered again for it."""
        handler_entry = ScriptHandler(script, reentrant=True)
        handler_entry.tool = name
        return await self.runtime.retry(
            self.claims(parked), dict.fromkeys(parked.questions, "aye"), handler_entry, Carrier()
        )

    async def completes(self, name: str, parked: Parked) -> None:
        """A marked call goes through its last rounds."""
        reply: Any = parked
        while isinstance(reply, Parked):
            reply = await self.answer(name, reply)
        assert reply == Ended("aye aye")

    async def refused(self, setting: str) -> None:
        """New calls are refused, marked or not; nothing is started."""
        entered = self.counts["entered"]
        for marked in (True, False):
            with pytest.raises(NodeFull, match=f"{setting}.*nothing was started"):
                await self.runtime.start(ScriptHandler(one_question, reentrant=marked), Carrier())
        assert self.counts["entered"] == entered

    @property
    def frames(self) -> list[str]:
        """Whose frames are here."""
        return sorted(slot.tool for slot in self.runtime.table if slot.frame)


@asynccontextmanager
async def room(**settings: Any) -> AsyncIterator[Room]:
    """A desk whose table is in order at its end: what it keeps count of is what is there."""
    async with engine(**settings) as at:
        yield Room(at.runtime, at.store)
        table = at.runtime.table
        assert table.frames == sum(slot.frame is not None for slot in table)
        resting = {
            slot for slot in table if slot.call.phase is Phase.PARKED and slot.frame and may_be_dropped(slot.call)
        }
        assert set(table._evictable) == resting


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is looked at, and told of, at once and not within a second."""
    monkeypatch.setattr(runtime, "SWEEP", 0.02)


async def lent(at: Room, parked: Parked) -> None:
    """Another node claims a call, as if this one were gone, and hands it off."""
    who, seen = NodeId("other"), (await at.store.run(Read(parked.call))).stored
    assert seen is not None
    claim = Claim(parked.call, seen.record.seen, Evidence.GONE, who, Incarnation("i"), Boot("b"), True, 5, 600.0)
    found = (await at.store.run(claim)).stored
    assert found is not None
    fence = Fence(who, Incarnation("i"), found.record.epoch, found.record.round, found.record.position)
    assert (await at.store.run(Release(parked.call, fence, 600.0))).verdict is Verdict.OK


@pytest.mark.parametrize("joins", [False, True])
async def test_a_request_that_brought_a_frame_back_enters_its_handler_once(joins: bool) -> None:
    """The frame is taken from this node while the request waits. It is told to come again, unless the same request has
    come meanwhile, which goes on for both."""
    goes_on, runs = asyncio.Event(), asyncio.Event()

    async def script(frame: Frame) -> str:
        first = await frame.ask(question("one?"))
        runs.set()
        await goes_on.wait()
        return f"{first} {await frame.ask(question('two?'))}"

    async with room() as at:
        (call,) = await at.park("a", script=script)
        slot = at.runtime.table.get(call.call)
        assert slot is not None
        at.runtime.feed(slot, Evict())
        waiting = [asyncio.create_task(at.answer("a", call, script))]
        await runs.wait()
        if joins:
            waiting.append(asyncio.create_task(at.answer("a", call, script)))
            await turns(3)
        await lent(at, call)
        goes_on.set()
        heard = await asyncio.gather(*waiting)
        if not joins:
            assert [reason(answer) for answer in heard] == [Reason.UNAVAILABLE]
            heard = [await at.answer("a", call, script)]
        assert [texts(answer) for answer in heard] == [["two?"]] * (1 + joins)
        assert at.counts["fenced"] == 1 and at.counts["diverged"] == 0
        assert await at.answer("a", heard[0], script) == Ended("aye aye")


# By count


async def test_a_new_call_takes_the_place_of_the_one_that_was_parked_the_longest() -> None:
    """Which is replayed at its next retry, and takes the place of the next."""
    async with room(max_parked=3) as at:
        a, b, c, d = await at.park(*"abcd")
        assert at.frames == ["b", "c", "d"] and at.counts["evicted"] == 1
        a = await at.answer("a", a)
        assert isinstance(a, Parked) and at.frames == ["a", "c", "d"]
        assert at.counts["rebuilt"] == 1 and at.counts["evicted"] == 2
        for name, parked in zip("abcd", (a, b, c, d), strict=True):
            await at.completes(name, parked)
        assert at.frames == [] and at.counts["refused"] == 0


async def test_whoever_was_resumed_last_goes_last() -> None:
    async with room(max_parked=3) as at:
        a, b, _ = await at.park(*"abc")
        await at.answer("a", a)
        again = await at.retry(b, {})
        assert again.questions == b.questions
        order: list[str] = []
        for name in "def":
            before = set(at.frames)
            await at.park(name)
            order += before - set(at.frames)
        assert order == ["c", "a", "b"]


async def test_the_frame_of_an_unmarked_handler_never_goes() -> None:
    """Marked ones go; when none is left new calls are refused. The retry of a call whose frame went never is: it comes
    on top, and makes the one that came so before it go again."""
    async with room(max_parked=3) as at:
        one, two = await at.park_unmarked("one", "two")
        a, b = await at.park("a", "b")
        assert at.frames == ["b", "one", "two"]
        await at.park_unmarked("three")
        assert at.frames == ["one", "three", "two"]
        await at.refused("FRAMEHOLD_MAX_PARKED")
        assert at.counts["refused"] == at.counts["evicted"] == 2
        await at.answer("a", a)
        assert at.frames == ["a", "one", "three", "two"]
        await at.answer("b", b)
        assert at.frames == ["b", "one", "three", "two"]
        for parked in (one, two):
            assert await at.retry(parked, dict.fromkeys(parked.questions, "aye")) == Ended("aye")
        await at.park("c")
        assert at.frames == ["b", "c", "three"]


async def test_an_effect_that_runs_protects_its_frame() -> None:
    effects = Effects()

    async def busy(frame: Frame) -> object:
        effect = asyncio.create_task(frame.recorded.once("held", effects.held, (), {}, False))
        return f"{await frame.ask(question('q'))} {await effect}"

    async with room(max_parked=2) as at:
        (held,) = await at.park("it", script=busy)
        await effects.started.wait()
        await at.park("a", "b")
        assert at.frames == ["b", "it"]
        await at.park_unmarked("one")
        await at.refused("FRAMEHOLD_MAX_PARKED")
        assert at.frames == ["it", "one"]
        effects.go.set()
        await until(lambda: at.runtime.table.has_evictable, "the effect's end")
        await at.park("c")
        assert at.frames == ["c", "one"]
        assert await at.answer("it", held, busy) == Ended("aye ['it']")


async def test_a_user_at_the_limit_costs_no_other_a_frame() -> None:
    async with room(max_parked=2, max_parked_per_principal=1) as at:
        talks = [ScriptHandler(one_question, reentrant=True) for _ in range(3)]
        for handler_entry, name in zip(talks, ("ann", "ben", "ben"), strict=True):
            handler_entry.principal = name
        for handler_entry in talks[:2]:
            await at.runtime.start(handler_entry, Carrier())
        with pytest.raises(framehold.LimitExceeded, match="FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL"):
            await at.runtime.start(talks[2], Carrier())
        assert at.counts["evicted"] == 0 and at.runtime.table.frames == 2
        assert at.runtime.table.met["FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL", True][0] == 1


async def test_a_burst_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "framehold")
    monkeypatch.setattr(runtime, "SWEEP", 3600)
    async with room(max_parked=10) as at:
        await at.park(*(f"m{number}" for number in range(20)))
        await at.park_unmarked(*(f"u{number}" for number in range(10)))
        await at.refused("FRAMEHOLD_MAX_PARKED")
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


async def test_a_handler_that_raises_while_it_is_cancelled_is_counted_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:

    @framehold.reentrant
    async def careless(ctx: Context) -> str:
        try:
            return said(await ctx.elicit("?", Word))
        except asyncio.CancelledError:
            raise ValueError("in a hurry") from None

    async with serving(careless, max_parked=1) as client:
        one, two = await client.call("careless"), await client.call("careless")
        await until(lambda: client.runtime.counts["unclean"] == 1, "the end")
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

    async def looked(self, times: int = 3) -> None:
        """Let memory be looked at a few times more."""
        enough = self.looks + times
        await until(lambda: self.looks >= enough, "a look")


@pytest.fixture
def gauge(monkeypatch: pytest.MonkeyPatch) -> Gauge:
    gauge = Gauge()
    monkeypatch.setattr(memory, "resident", gauge.read)
    monkeypatch.setattr(memory, "limit", lambda *_: 100 * MIB)
    monkeypatch.setattr(eviction, "READING_AGE", -math.inf)
    return gauge


async def test_frames_go_for_memory_until_the_low_mark_and_no_further(gauge: Gauge) -> None:
    """Those that were parked the longest, as many as weigh enough; although the allocator gives nothing back. Every
    call completes."""
    names = list("abcdefghi")
    async with room() as at:
        parked = await at.park(*names)
        gauge.mib = 89.9
        await gauge.looked()
        assert at.frames == names
        gauge.mib = 91
        await until(lambda: at.counts["memory"], "a burst")
        await gauge.looked()
        # A frame weighs 9 MiB, 11 are too many.
        assert at.frames == names[2:] and at.counts["memory"] == 2
        await at.park("late")
        for name, reply in zip(names, parked, strict=True):
            await at.completes(name, reply)
        assert at.counts["refused"] == 0


async def test_memory_is_read_again_as_soon_as_some_frames_have_come(
    gauge: Gauge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However young the last reading is: frames may be large, and come fast."""
    monkeypatch.setattr(eviction, "READING_AGE", math.inf)
    async with room() as at:
        await at.park(*"ab")
        gauge.mib, looks = 95, gauge.looks
        await at.park(*"cdefghijkl")
        assert gauge.looks > looks and at.counts["memory"]


async def test_where_no_frame_can_go_for_memory_new_calls_are_refused_first(gauge: Gauge) -> None:
    async with room() as at:
        (a,) = await at.park("a")
        (one,) = await at.park_unmarked("one")
        gauge.mib = 95
        await until(lambda: at.frames == ["one"] and not at.runtime.tasks.cancelling, "a burst")
        gauge.mib = 98
        await at.refused("FRAMEHOLD_MEMORY_LIMIT")
        await at.completes("a", a)
        assert await at.retry(one, dict.fromkeys(one.questions, "aye")) == Ended("aye")


async def test_above_the_limit_new_calls_are_refused_whatever_could_go(gauge: Gauge) -> None:
    """Until memory falls; parked calls go on meanwhile. An empty node takes calls whatever the allocator kept: nothing
    would fall by waiting."""
    async with room() as at:
        parked = await at.park(*"abc")
        gauge.mib = 100.5
        await at.refused("FRAMEHOLD_MEMORY_LIMIT")
        parked = [await at.answer(name, reply) for name, reply in zip("abc", parked, strict=True)]
        await at.refused("FRAMEHOLD_MEMORY_LIMIT")
        for name, reply in zip("abc", parked, strict=True):
            await at.completes(name, reply)
        await at.park("late")


@pytest.mark.parametrize("comes", ["a new call", "one that comes back"])
async def test_a_call_does_not_wait_for_the_next_look(
    gauge: Gauge, monkeypatch: pytest.MonkeyPatch, comes: str
) -> None:
    """A node that begins hundreds of calls a second is full within one; when another died, its calls come in a crowd,
    and none is refused."""
    monkeypatch.setattr(runtime, "SWEEP", 3600)
    async with room(max_parked=9 if comes == "a new call" else 8) as at:
        parked = await at.park(*"abcdefghi")
        if comes == "a new call":
            gauge.mib = 91
            await at.park("late")
        else:
            gauge.mib = 101
            await at.completes("a", parked[0])
        assert at.counts["memory"] >= 2 and at.counts["refused"] == 0


async def test_a_burst_lets_others_have_the_loop(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "BATCH", 5)
    async with room() as at:
        await at.park(*map(str, range(100)))
        gauge.mib = 95
        seen = [0]
        watching = asyncio.create_task(gauge.looked(20))
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

    async with room() as at:
        await at.park(*map(str, range(10)), script=slow)
        gauge.mib = 90.5
        await until(lambda: at.counts["memory"], "a burst")
        gauge.mib = 90.6
        await gauge.looked(5)
        assert at.counts["memory"] == 2 == at.runtime.tasks.cancelling
        let_go.set()
        await until(lambda: not at.runtime.tasks.cancelling, "their ends")
        await gauge.looked(5)
        assert at.counts["memory"] == 2


START = "FRAMEHOLD_MEMORY_LIMIT is 100 MiB and this process takes 85 MiB before its first call: few calls"


@pytest.mark.parametrize(("mib", "says"), [(85, START), (None, "FRAMEHOLD_MEMORY_LIMIT is not kept")])
async def test_a_limit_that_can_not_be_kept_is_told_at_the_start(
    gauge: Gauge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mib: int | None, says: str
) -> None:
    """One below what the process takes by itself, or on a system that doesn't say what that is; calls are served."""
    monkeypatch.setattr(memory, "resident", lambda: mib and mib * MIB)
    async with room(memory_limit=100 * MIB) as at:
        await at.park("a")
        await turns(10)
    assert [record.getMessage() for record in caplog.records if says in record.getMessage()]


def held_mib(pid: int, what: str) -> float:
    """What a process holds, or held at most, as the system says it."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(f"{what}:")]
    return int(line.split()[1]) / 1024


async def test_a_process_stays_below_its_limit_and_every_call_completes(tmp_path: Path) -> None:
    """Calls that keep a mebibyte each come four times as many as there is room for, and nobody is refused."""
    target, calls = "tests/node/heavy_server.py:mcp", 240
    async with node(target, tmp_path, log_level="info") as child:
        limit = held_mib(child.pid, "VmRSS") + 60
    async with (
        node(target, tmp_path, log_level="info", memory_limit=f"{limit:.0f}Mi") as child,
        Served(child.url) as client,
    ):

        async def call(number: int) -> Reply:
            return await client.call("heavy", arguments={"number": number})

        async def answer(number: int, reply: Reply) -> Reply:
            answers = reply.accept(word="aye")
            return await client.retry("heavy", reply.token, answers, arguments={"number": number})

        asked: list[Reply] = []
        for first in range(0, calls, 8):
            asked += await asyncio.gather(*map(call, range(first, first + 8)))
        for first in range(0, calls, 8):
            done = await asyncio.gather(*(answer(number, asked[number]) for number in range(first, first + 8)))
            assert [reply.text for reply in done] == [f"{number} aye {MIB} 1" for number in range(first, first + 8)]
        peak = held_mib(child.pid, "VmHWM")
        assert peak < limit, (peak, limit)
        # Told with the next look, up to a second later.
        line = "frames were evicted (memory is near FRAMEHOLD_MEMORY_LIMIT)"
        await until(lambda: line in child.log(), "the line about the evictions")
