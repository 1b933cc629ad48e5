"""A node remembers what happened on it: what, when, and not too much of it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.engine import takeovers
from framehold.engine.heartbeat import Alone, Heartbeat
from framehold.engine.replies import Parked
from framehold.frame.frame import Frame
from framehold.telemetry import event_log as chronicles
from framehold.telemetry.event_log import NodeEvents
from framehold.telemetry.metrics import CallMetrics
from framehold.telemetry.tool_labels import ToolLabels
from framehold_core.clock import Clock
from framehold_core.errors import StoreUnavailable
from framehold_core.events import Evict
from framehold_core.ids import Boot, Incarnation, NodeId, prefix
from framehold_core.requests import Claim, Evidence, Read, Reply, Verdict
from framehold_core.writes import MAX_ATTEMPTS
from framehold_fleet.models.events import EventKind, EventView, LogEntry, TakeoverView
from framehold_store.system_clock import system_clock
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question
from tests.kit.metrics import scraped
from tests.kit.operators import Node, call_of, marked, pair, unmarked
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said

pytestmark = pytest.mark.anyio


def kinds(happened: Any) -> list[str]:
    return [event["kind"] for event in happened["events"]]


@framehold.reentrant
async def wanders(ctx: Context) -> str:
    """Asks something else each time it is entered."""
    return said(await ctx.elicit(f"{time.monotonic_ns()} secret?", Word))


@pytest.fixture
async def nodes(redis: RedisServer, tmp_path: Any) -> AsyncIterator[tuple[Node, Node]]:
    async with pair(redis, tmp_path.name, marked, unmarked, wanders) as made:
        yield made


# ---- takeovers


async def test_a_call_of_a_node_that_died_is_told_from_its_retry_to_its_reply(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    held, boot = await a.caller.call("marked"), a.runtime.heartbeat.lease.boot
    await a.runtime.heartbeat.close()
    before = time.time()
    again = await b.caller.retry("marked", held.token, held.accept(word="x"))
    result = await b.happened()
    (takeover,) = result["takeovers"]
    times = [takeover.pop(name) for name in ("asked", "claimed", "replayed", "resumed")]
    assert takeover == {
        "call": prefix(call_of(held.token)),
        "tool": "marked",
        "reason": "died",
        "from_node": "a",
        "from_boot": boot,
        "to_node": "b",
        "to_boot": b.runtime.heartbeat.lease.boot,
        "epoch": 2,
        "outcome": "recovered",
        "kept_code": False,
    }
    # On the store's clock, as it was measured.
    assert before - 1.0 <= times[0] and times == sorted(times) and times[-1] <= time.time() + 1.0
    assert kinds(result) == [EventKind.TAKEOVER, EventKind.RECOVERED]
    first, second = result["events"]
    assert first["text"] == (
        "node a is gone; the call is carried on here, its handler entered again with what is recorded"
    )
    assert (first["call"], first["tool"], first["epoch"], first["round"]) == (takeover["call"], "marked", 2, 1)
    assert first["id"] < second["id"] and first["at"] <= second["at"] and first["node_id"] == "b"
    # It is this node's own by now: what comes after is no takeover.
    await b.operator.evict(call_of(held.token))
    await b.caller.retry("marked", again.token, again.accept(word="y"))
    assert len((await b.happened())["takeovers"]) == 1


async def test_what_a_client_waited_counts_from_its_request(nodes: tuple[Node, Node]) -> None:
    """Not from the last look at the record: it was held until the dead node's lease was gone."""
    a, b = nodes
    held = await a.caller.call("marked")
    heartbeat, peers = a.runtime.heartbeat, b.runtime.peers
    heartbeat.address = "http://127.0.0.1:1"
    heartbeat.announce("live")
    peers.mint()
    view: Any = peers._membership
    await until(lambda: (at := view.fleet.members.get("a")) and at.url == heartbeat.address, "the dead address")
    coming = asyncio.create_task(b.caller.retry("marked", held.token, held.accept(word="x")))
    await asyncio.sleep(0.6)
    assert not coming.done()
    await heartbeat.close()
    await coming
    happened = await b.happened()
    (takeover,) = happened["takeovers"]
    assert takeover["resumed"] - takeover["asked"] >= 0.6
    result = happened["events"][-1]["text"]
    took = re.search(r"its client has its reply ([0-9.]+) s after its request came", result)
    assert took is not None and float(took[1]) >= 0.6
    counted = await scraped(b.caller)
    for phase in ("claim", "total"):
        assert 0.5 <= counted.mean("failover_duration_seconds", f'{{phase="{phase}"}}') < 60


async def test_a_call_that_was_handed_off_is_told_with_who_did(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    held = await a.caller.call("marked")
    assert (await a.operator.ask("POST", "drain")).status == 202
    await a.runtime.drain(10.0)
    await b.caller.retry("marked", held.token, held.accept(word="x"))
    (takeover,) = (await b.happened())["takeovers"]
    assert (takeover["reason"], takeover["from_node"], takeover["outcome"]) == ("released", "a", "recovered")
    assert takeover["from_boot"] == a.runtime.heartbeat.lease.boot
    result = await a.happened()
    ordered, drained = [event["text"] for event in result["events"]]
    assert ordered.startswith("an operator (admin token ") and "ordered this node to drain" in ordered
    assert drained == "node drained: 1 calls handed off"


async def test_a_call_that_is_lost_with_its_node_is_told_as_lost(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    held = await a.caller.call("unmarked")
    await a.runtime.heartbeat.close()
    for _ in range(2):
        reply = await b.caller.retry("unmarked", held.token, held.accept(word="x"))
        assert "This call was lost" in reply.text
    result = await b.happened()
    (takeover,) = result["takeovers"]
    assert (takeover["outcome"], takeover["claimed"], takeover["resumed"]) == ("lost", None, None)
    assert kinds(result) == [EventKind.LOST] and "not marked @framehold.reentrant" in result["events"][0]["text"]


async def test_a_call_whose_handler_went_another_way_is_told_as_diverged_without_what_it_asked(
    nodes: tuple[Node, Node],
) -> None:
    a, b = nodes
    held = await a.caller.call("wanders")
    await a.runtime.heartbeat.close()
    reply = await b.caller.retry("wanders", held.token, held.accept(word="x"))
    assert reply.result["isError"]
    result = await b.happened()
    (takeover,) = result["takeovers"]
    assert takeover["outcome"] == "diverged" and takeover["replayed"] is None and "secret" not in str(result)
    assert kinds(result) == [EventKind.TAKEOVER, EventKind.DIVERGED]


async def test_a_frame_that_was_fenced_is_told_and_the_write_is_counted(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    held = await a.caller.call("marked")
    await a.runtime.heartbeat.close()
    await b.caller.retry("marked", held.token, held.accept(word="x"))
    assert (await a.operator.cancel(call_of(held.token))).status == 409
    assert EventKind.FENCED in kinds(await a.happened())


# ---- without HTTP


async def asks(frame: Frame) -> object:
    """Asks one question."""
    return await frame.ask(question("a?"))


class Log:
    """The event log of a node, and what it writes: events, and takeovers as they were written last."""

    def __init__(self, heartbeat: Heartbeat | Alone) -> None:
        self.log = NodeEvents(heartbeat, self.write)
        self.events: list[EventView] = []
        self.changes: list[TakeoverView] = []

    def write(self, key: str, entry: LogEntry) -> None:
        if entry.event is not None:
            self.events.append(entry.event)
        if entry.takeover is not None:
            self.changes.append(entry.takeover)

    @property
    def takeovers(self) -> list[TakeoverView]:
        return list({(item.call, item.epoch): item for item in self.changes}.values())


def watching(at: Engine) -> Log:
    found = Log(at.runtime.heartbeat)
    at.runtime.observers.add(found.log)
    return found


async def begun(at: Engine) -> Parked:
    answer = await at.runtime.start(ScriptHandler(asks, reentrant=True), Carrier())
    assert isinstance(answer, Parked)
    return answer


async def retried(at: Engine, call: Parked) -> Any:
    answers = dict.fromkeys(call.questions, "yes")
    return await at.runtime.retry(at.claims(call), answers, ScriptHandler(asks, reentrant=True), Carrier())


async def carried_off(at: Engine, call: Parked, times: int = 1) -> None:
    """Another process, which has ended since, claimed the call so often."""
    slot = at.runtime.table.get(call.call)
    assert slot is not None
    at.runtime.feed(slot, Evict())
    for number in range(times):
        stored = (await at.store.run(Read(call.call))).stored
        assert stored is not None
        other = (NodeId("other"), Incarnation(f"i{number}"), Boot(f"b{number}"))
        claim = Claim(call.call, stored.record.seen, Evidence.GONE, *other, True, MAX_ATTEMPTS, 600.0)
        assert (await at.store.run(claim)).verdict is Verdict.OK


Script = Callable[[Frame], Awaitable[object]]


async def taking_over(at: Engine, script: Script) -> tuple[Parked, asyncio.Task[Any]]:
    """A call of this handler that another process claimed, and its retry here."""
    call = await at.runtime.start(ScriptHandler(script, reentrant=True), Carrier())
    assert isinstance(call, Parked)
    await carried_off(at, call)
    answers = dict.fromkeys(call.questions, "yes")
    return call, asyncio.create_task(
        at.runtime.retry(at.claims(call), answers, ScriptHandler(script, reentrant=True), Carrier())
    )


async def leave(request: asyncio.Task[Any]) -> None:
    """Its client leaves."""
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)


async def test_a_stuck_call_is_told_as_such() -> None:
    async with engine(shared=True) as at:
        chronicle, call = watching(at), await begun(at)
        await carried_off(at, call, MAX_ATTEMPTS)
        await retried(at, call)
        for _ in range(3):
            await retried(at, call)
        assert [item.outcome for item in chronicle.takeovers] == ["stuck"]
        assert [event.kind for event in chronicle.events] == [EventKind.STUCK]


async def test_a_frame_that_was_dropped_here_is_taken_from_nobody() -> None:
    async with engine() as at:
        chronicle, call = watching(at), await begun(at)
        slot = at.runtime.table.get(call.call)
        assert slot is not None
        at.runtime.feed(slot, Evict())
        await retried(at, call)
        assert (chronicle.events, chronicle.takeovers) == ([], [])


async def test_a_takeover_whose_client_leaves_has_failed() -> None:
    """Its next retry begins anew, with a frame that this node dropped itself."""
    never = asyncio.Event()

    async def stays(frame: Frame) -> object:
        await frame.ask(question("a?"))
        await never.wait()
        return "never"

    async with engine(shared=True) as at:
        chronicle = watching(at)
        _, coming = await taking_over(at, stays)
        await until(lambda: at.runtime.takeovers.under_way, "the takeover")
        assert [item.outcome for item in chronicle.takeovers] == ["under way"]
        await until(lambda: at.counts["resumed"], "the round")
        await leave(coming)
        assert [item.outcome for item in chronicle.takeovers] == ["failed"]
        assert not at.runtime.takeovers.under_way and not at.runtime.takeovers._asked


def slow_replay() -> tuple[Script, asyncio.Event, asyncio.Event]:
    """A handler that asks. Where it is entered again it sets the first event, and waits for the second."""
    entered, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(frame: Frame) -> object:
        if frame.replay is not None:
            entered.set()
            await goes_on.wait()
        return await frame.ask(question("a?"))

    return slow, entered, goes_on


async def test_a_takeover_whose_client_leaves_meanwhile_is_recovered_once_the_frame_stands() -> None:
    """Nothing of it failed; what becomes of the frame later is another story."""
    slow, entered, goes_on = slow_replay()

    async with engine(shared=True) as at:
        chronicle = watching(at)
        call, coming = await taking_over(at, slow)
        await entered.wait()
        await leave(coming)
        goes_on.set()
        await until(lambda: not at.runtime.takeovers.under_way, "its end")
        slot = at.runtime.table.get(call.call)
        assert slot is not None
        at.runtime.feed(slot, Evict())
        (takeover,) = chronicle.takeovers
        assert (takeover.outcome, takeover.resumed) == ("recovered", None) and takeover.replayed is not None
        last = chronicle.events[-1]
        assert last.kind == EventKind.RECOVERED and "nobody waits for it now" in last.text


async def test_a_clock_that_is_set_meanwhile_moves_no_takeover() -> None:
    """Another server of the store answers, whose clock is an hour ahead: the takeover took no hour, and is one."""
    slow, entered, goes_on = slow_replay()

    async with engine(shared=True) as at:
        chronicle, metrics = watching(at), CallMetrics(ToolLabels(lambda: None))
        at.runtime.observers.add(metrics)
        _, coming = await taking_over(at, slow)
        await entered.wait()
        clock = at.runtime.clock
        clock.measured(clock.time() + 3600, clock.now(), clock.now())
        goes_on.set()
        await coming
        assert len({(item.call, item.asked) for item in chronicle.changes}) == 1
        # Told again at each of its steps, as it is by then.
        found = [(item.outcome, item.replayed is None) for item in chronicle.changes]
        assert found == [("under way", True), ("under way", False), ("recovered", False)]
        last = chronicle.takeovers[-1]
        assert last.asked <= (last.claimed or 0) <= (last.replayed or 0) <= (last.resumed or 0) < last.asked + 60
        assert (
            all(0 <= tally.total < 60 for tally in metrics.failing.values())
            and sum(metrics.failing["total"].counts) == 1
        )


async def test_no_more_than_the_last_takeovers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """To tell whether they have ended, and which calls are stuck; each was written when it changed."""
    monkeypatch.setattr(takeovers, "MAX_TAKEOVERS", 3)
    monkeypatch.setattr(chronicles, "MAX_SINGLE_EVENTS", 1000)
    async with engine(shared=True) as at:
        chronicle, calls = watching(at), [await begun(at) for _ in range(5)]
        for call in calls:
            await carried_off(at, call)
            await retried(at, call)
        assert len(at.runtime.takeovers._takeovers) == 3
        held = [one.slot for one in at.runtime.takeovers._takeovers]
        assert held == [None] * 3, "a journal and arguments may take megabytes"
        assert [item.call for item in chronicle.takeovers] == [prefix(item.call) for item in calls]
        ids = [event.id for event in chronicle.events]
        assert ids == sorted(set(ids))


async def test_a_flood_is_told_in_part_and_as_a_number() -> None:
    """So that it doesn't wash away what else happened. The number is written when the burst is over."""
    now = 1000.0
    chronicle = Log(Alone("n", Clock(lambda: now, lambda: now, bytes)))
    chronicle.log.happened(EventKind.STORE_SILENT, "the store is silent")
    for _ in range(5000):
        chronicle.log.happened(EventKind.TAKEOVER, "a call came")
    chronicle.log.end_bursts()
    assert len(chronicle.events) == 1 + chronicles.MAX_SINGLE_EVENTS
    now = 1001.5
    chronicle.log.end_bursts()
    *_, last = chronicle.events
    assert (last.kind, last.text, last.at) == (EventKind.TAKEOVER, "4980 more likewise, within 1 s", 1000.0)
    chronicle.log.happened(EventKind.TAKEOVER, "a call came")
    assert len(chronicle.events) == 3 + chronicles.MAX_SINGLE_EVENTS


@pytest.mark.parametrize("moves", [-120.0, 120.0])
async def test_a_clock_of_the_store_that_is_set_begins_and_ends_no_flood(moves: float) -> None:
    """Another server of the store answers, with a clock of its own. Rare events are told one by one as before."""
    now = 1000.0
    clock = Clock(lambda: now, lambda: now, bytes)
    chronicle = Log(Alone("n", clock))
    for second in range(60):
        chronicle.log.happened(EventKind.TAKEOVER, "a call came")
        now += 1.0
        chronicle.log.end_bursts()
        if second == 10:
            clock.measured(clock.time() + moves, now, now)
    for number in range(5000):
        chronicle.log.happened(EventKind.TAKEOVER, "a call came")
        clock.measured(clock.time() + (-moves if number % 2 else moves), now, now)
    assert len(chronicle.events) == 60 + chronicles.MAX_SINGLE_EVENTS


async def test_evictions_and_refusals_are_one_event_a_look() -> None:
    async with engine(max_parked=10) as at:
        chronicle = watching(at)
        for _ in range(15):
            await begun(at)
        assert chronicle.events == []
        await at.runtime.eviction.sweep()
        (event,) = chronicle.events
        assert event.kind == EventKind.EVICTED and event.text.startswith("5 frames were evicted (more than FRAMEHOLD_")


async def test_a_drain_whose_store_is_silent_is_told_as_what_it_is() -> None:
    """Its calls were not handed off, and what was kept is not lost before the process ends."""
    async with engine(shared=True) as at:
        chronicle = watching(at)
        await begun(at)
        await at.parked(asks)
        at.store.down = True
        await at.runtime.drain(0.05)
        at.store.down = False
        *_, kept, last = [event.text for event in chronicle.events if event.kind == EventKind.DRAIN]
        assert kept.startswith("the store takes no release: 1 calls were not handed off; they are if it answers before")
        assert last.startswith(
            "drain met its deadline: 1 parked calls that only this process can carry on are lost when"
        )


async def test_a_store_that_is_silent_is_told_once_and_so_are_its_return_and_a_lapse() -> None:
    chronicle = Log(Alone("n", system_clock()))
    silent = StoreUnavailable("away")
    for reply in (Reply(Verdict.CONFLICT), Reply(Verdict.OK), silent, silent, Reply(Verdict.MISSING), Reply(Verdict.OK),
                  Reply(Verdict.CONFLICT)):  # fmt: skip
        chronicle.log.store_replied("renew", None, reply, 0.01)
    # A name that is taken when a node starts is waited for; later it is another process.
    assert [event.kind for event in chronicle.events] == [
        EventKind.STORE_SILENT,
        EventKind.STORE_BACK,
        EventKind.LEASE_LAPSED,
        EventKind.NODE_LOST,
    ]


# ---- what is no takeover, and what else is told
