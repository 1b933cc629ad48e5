"""The event log of the fleet as a router shows it: each thing once, whoever saw it, and the same on every router."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from framehold_core.errors import StoreFull, StoreUnavailable
from framehold_core.ids import Boot
from framehold_fleet.members import event_writer
from framehold_fleet.members.event_writer import EventWriter
from framehold_fleet.models.events import EndView, EventView, LogEntry, TakeoverView
from framehold_router.collect import event_reader, fleet_log, shared_look
from framehold_router.collect.fleet_log import SURE, FleetLog, FleetPast
from framehold_router.collect.unseen_ends import GRACE, HOUR
from framehold_store.base import StoredEvent, StreamName
from framehold_store.memory import MemoryStore
from tests.kit.processes import until
from tests.router.cast import NOW, Cast, cast_of, member


def event(number: int, node: str = "a", kind: str = "takeover") -> EventView:
    return EventView(id=f"{number:09}", at=NOW + number, node_id=node, kind=kind, text=f"event {number}")


def takeover(call: str, outcome: Any = "recovered", to: str = "a") -> TakeoverView:
    fields = {"call": call, "tool": "t", "reason": "died", "from_node": "z", "from_boot": "b", "to_node": to}
    return TakeoverView.model_validate({**fields, "to_boot": "b-lease", "epoch": 2, "asked": NOW, "outcome": outcome})


def end(left: bool = False, at: float = NOW, inc: str = "i") -> EndView:
    times = {"last_heartbeat": at - 5, "detected": at}
    return EndView(node_id="z", boot="b", incarnation=inc, state="live", left=left, **times)


class Shelf(MemoryStore):
    """A store that may be away, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW)
        self.trouble: StoreUnavailable | None = None
        self.asked: list[str] = []

    async def append_events(self, entries: Any, to: StreamName = "log") -> None:
        if self.trouble is not None:
            raise self.trouble
        await super().append_events(entries, to)

    async def events(self, after: str = "", count: int = 500, of: StreamName = "log") -> tuple[StoredEvent, ...]:
        self.asked.append(after)
        if self.trouble is not None:
            raise self.trouble
        return await super().events(after, count, of)

    async def add(self, *entries: LogEntry) -> None:
        await self.append_events([entry.model_dump_json().encode() for entry in entries])


@pytest.fixture
async def cast(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cast]:
    monkeypatch.setattr(shared_look, "FRESH", 0.0)
    async with cast_of() as made:
        made.store = Shelf()
        made.members.append(member("a", "http://127.0.0.1:1"))
        yield made


def shelf(cast: Cast) -> Shelf:
    assert isinstance(cast.store, Shelf)
    return cast.store


def log_of(cast: Cast) -> FleetLog:
    return FleetLog(cast.store, lambda: cast.fleet, lambda: cast.now)


async def test_entries_are_read_once_and_later_ones_after_them(cast: Cast) -> None:
    log = log_of(cast)
    await shelf(cast).append_events([b"", b"no", b"[]", b'{"event": 1}'])
    await shelf(cast).add(LogEntry(event=event(1)), LogEntry(takeover=takeover("c1", "under way")))
    first = await log.logged()
    assert [item.outcome for item in first.takeovers] == ["under way"]
    assert await log.logged() is first, "nothing is new"
    await shelf(cast).append_events([b'{"news": 1, "event": null}'])
    await shelf(cast).add(LogEntry(event=event(2)), LogEntry(takeover=takeover("c1")))
    await shelf(cast).add(LogEntry(takeover=takeover("c2", "under way")))
    second = await log.logged()
    assert [item.id for item in second.events] == [event(2).id, event(1).id]
    assert [item.outcome for item in second.takeovers] == ["recovered", "under way"]
    assert shelf(cast).asked == ["", "000000000006", "000000000006"] and second.changes > first.changes
    cast.members[0] = cast.members[0]._replace(boot=Boot("next"))
    assert [item.outcome for item in (await log.logged()).takeovers] == ["recovered", "failed"]
    shelf(cast).trouble = StoreUnavailable("away")
    log.add(LogEntry(event=event(3)))
    assert len((await log.logged()).events) == 3


async def test_two_routers_and_one_that_was_restarted_show_the_same(cast: Cast) -> None:
    one, other = log_of(cast), log_of(cast)
    seen = LogEntry(event=EventView(id="end-b-i", at=NOW, node_id="z", kind="node_lost", text="lost"), end=end())
    one.add(seen)
    await shelf(cast).add(seen, LogEntry(event=event(1, "gone")), LogEntry(takeover=takeover("c1")))
    views = [await log.logged() for log in (one, other, log_of(cast))]
    assert len({view[:2] for view in views}) == 1
    assert [dict(view.ends) for view in views] == [{("z", "b"): end()}] * 3


async def test_an_end_that_several_routers_saw_is_one(cast: Cast) -> None:
    """The first who found the lease gone says when. One that saw the lease given back knows best how."""
    log = log_of(cast)
    for left, at, kind in ((False, NOW + 1, "node_lost"), (True, NOW + 2, "node_left"), (False, NOW, "node_lost")):
        about = {"id": "end-b-i", "at": at, "node_id": "z", "kind": kind, "text": kind}
        await shelf(cast).add(LogEntry(event=EventView.model_validate(about), end=end(left, at)))
    logged = await log.logged()
    assert dict(logged.ends) == {("z", "b"): end(True, NOW)}
    assert [item.kind for item in logged.events] == ["node_left"]
    await shelf(cast).add(LogEntry(end=end(False, NOW + 60, "later")))
    assert (await log.logged()).ends["z", "b"].incarnation == "later", "its last end counts"


async def test_what_is_kept_is_bounded(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_EVENTS", "MAX_TAKEOVERS", "MAX_ENDS"):
        monkeypatch.setattr(fleet_log, name, 3)
    monkeypatch.setattr(event_reader, "PAGE", 2)
    for number in range(7):
        about = takeover(f"c{number}")
        await shelf(cast).add(LogEntry(event=event(number), takeover=about, end=end(at=NOW + number, inc=f"{number}")))
    logged: FleetPast = await log_of(cast).logged()
    assert [item.id for item in logged.events] == [event(number).id for number in (6, 5, 4)]
    assert [item.call for item in logged.takeovers] == ["c4", "c5", "c6"]


# ---- calls that were lost with their process


def loss(boot: str, calls: int, at: float = 0.0, event_id: str = "", kind: str = "node_lost") -> LogEntry:
    """As a router writes of a node whose lease it saw gone; with `event_id` as a node writes of its drain."""
    about = event_id or f"end-{boot}-i{at:g}"
    return LogEntry(event=EventView(id=about, at=NOW + at, node_id="z", kind=kind, lost=calls, text="lost"))


async def test_lost_calls_are_counted_once_and_when_they_are_sure(cast: Cast) -> None:
    """Whoever saw it, and how many times; what is older than this router was counted by others. A node that is killed
    at the end of its drain has said what it leaves over: its lease runs out with the same calls."""
    await shelf(cast).add(loss("old", 9, at=-5.0))
    log = log_of(cast)
    log.add(loss("died", 4))
    drained = loss("slow", 2, event_id="slow-000000001", kind="drain")
    await shelf(cast).add(loss("died", 4), drained, loss("slow", 2, kind="node_left"))
    await log.logged()
    assert log.lost == {"died": 0, "drain_deadline": 0}
    cast.now += SURE
    await log.logged()
    await log.logged()
    assert log.lost == {"died": 4, "drain_deadline": 2}


async def test_a_process_that_comes_back_has_lost_nothing(cast: Cast) -> None:
    """Its lease ran out while it was paused; or another router saw that it gave its lease back. When it dies for good
    after that, its calls are counted."""
    log = log_of(cast)
    boot = cast.members[0].boot
    left = LogEntry(event=EventView(id="end-left-i0", at=NOW, node_id="z", kind="node_left", text="left"))
    await shelf(cast).add(loss(boot.replace("-", ""), 4), loss("left", 3), left)
    cast.members[0] = cast.members[0]._replace(boot=Boot(boot.replace("-", "")))
    cast.now += SURE
    assert [item.boot for item in (await log.logged()).losses] == ["blease"] and not log.lost.total()
    cast.members.clear()
    await shelf(cast).add(loss("blease", 5, at=SURE + 1.0))
    cast.now += SURE + 1.0
    await log.logged()
    assert log.lost["died"] == 5


# ---- writing


async def test_entries_are_written_together_and_the_last_of_a_key_counts() -> None:
    store = Shelf()
    writer = EventWriter(store, LogEntry.encoded)
    writer.write("c1", LogEntry(takeover=takeover("c1", "under way")))
    writer.write("e1", LogEntry(event=event(1)))
    writer.write("c1", LogEntry(takeover=takeover("c1")))
    assert await writer.flush()
    entries = [LogEntry.model_validate_json(item.entry) for item in await store.events()]
    assert entries == [LogEntry(event=event(1)), LogEntry(takeover=takeover("c1"))]
    assert await writer.flush() and len(await store.events()) == 2, "nothing is written twice"


async def test_a_write_that_fails_is_tried_again_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_writer, "MAX_PENDING", 5)
    monkeypatch.setattr(event_writer, "BATCH", 2)
    store = Shelf()
    store.trouble = StoreFull("no room")
    writer = EventWriter(store, LogEntry.encoded)
    for number in range(8):
        writer.write(f"{number}", LogEntry(event=event(number)))
    assert not await writer.flush() and isinstance(writer.trouble, StoreFull)
    store.trouble = None
    assert [await writer.flush(), writer.trouble] == [True, None]
    assert "3 events were dropped, the oldest" in caplog.text
    entries = [LogEntry.model_validate_json(item.entry) for item in await store.events()]
    assert [item.event.id for item in entries if item.event is not None] == [event(n).id for n in range(3, 8)]


async def test_a_process_that_ends_writes_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_writer, "LAST", 0.05)
    store = Shelf()
    writer = EventWriter(store, LogEntry.encoded)

    async def one_life(number: int) -> asyncio.Task[None]:
        task = asyncio.create_task(writer.run())
        await asyncio.sleep(0)
        writer.write(f"{number}", LogEntry(event=event(number)))
        task.cancel()
        async with asyncio.timeout(5.0):
            await asyncio.wait((task,))
        return task

    async def never(entries: Any, to: str) -> None:
        await asyncio.Event().wait()

    await one_life(1)
    assert len(await store.events()) == 1
    monkeypatch.setattr(store, "append_events", never)
    assert (await one_life(2)).cancelled()


def test_a_writer_is_run_again_in_another_event_loop() -> None:
    """A server may be served in loop after loop; what was noted between them is written too."""
    store = Shelf()
    writer = EventWriter(store, LogEntry.encoded)

    async def one_life(number: int) -> None:
        task = asyncio.create_task(writer.run())
        # So that it waits in this loop.
        await asyncio.sleep(0)
        writer.write(f"{number}", LogEntry(event=event(number)))
        await until(lambda: not writer._pending, "the entries")
        task.cancel()
        await asyncio.wait((task,))

    asyncio.run(one_life(1))
    writer.write("between", LogEntry(event=event(2)))
    asyncio.run(one_life(3))
    assert len(asyncio.run(store.events())) == 3


def joined(node: str, boot: str = "b", at: float = NOW) -> LogEntry:
    text = f"Node {node} has joined"
    return LogEntry(event=EventView(id=f"node_joined-{boot}-i", at=at, node_id=node, kind="node_joined", text=text))


def told(node: str, kind: str, boot: str = "b", at: float = NOW) -> LogEntry:
    return LogEntry(event=EventView(id=f"{boot}-{kind}-{at:.0f}", at=at, node_id=node, kind=kind, text=kind))


AFTER = joined("z", "former", NOW - 60), joined("z"), LogEntry(end=end())
UNSEEN: dict[str, tuple[list[LogEntry], dict[tuple[str, str], bool]]] = {
    "by its joining, or by what it wrote": (
        [joined("x"), told("y", "takeover", "c")], {("x", "b"): False, ("y", "c"): False},
    ),
    "it drained": (
        [joined("x"), told("x", "drain"), joined("y", "c"), told("y", "node_draining", "c")],
        {("x", "b"): True, ("y", "c"): True},
    ),
    "its drain was taken back": (
        [joined("x", at=NOW - 9), told("x", "drain", at=NOW - 8), told("x", "node_draining", at=NOW - 7),
         told("x", "undrained", at=NOW - 6), told("x", "takeover", at=NOW - 5),
         told("y", "drain", at=NOW - 8), told("y", "undrained", at=NOW - 6), told("y", "drain", at=NOW - 4)],
        {("x", "b"): False, ("y", "b"): True},
    ),
    "its drain was taken back in the same moment, read in either order": (
        [told("x", "node_draining"), told("x", "undrained"), told("y", "undrained", "c"), told("y", "drain", "c")],
        {("x", "b"): False, ("y", "c"): False},
    ),
    "one is here in another life, one's last event is old": (
        [joined("a", "former"), joined("x", at=NOW - HOUR - 1)], {},
    ),
    "a router saw it end: so its former life ended too": ([*AFTER], {}),
    "its last life after that": ([*AFTER, joined("z", "next", NOW + 1)], {("z", "next"): False}),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "ends"), UNSEEN.values(), ids=UNSEEN)
async def test_a_node_that_nobody_saw_go_is_missed(
    cast: Cast, entries: list[LogEntry], ends: dict[tuple[str, str], bool]
) -> None:
    """When it was missed is known, and no more; whether it left. It is told no more once it is back."""
    await shelf(cast).add(*entries)
    log = log_of(cast)

    async def missed() -> dict[tuple[str, str], EndView]:
        return {life: one for life, one in (await log.logged()).ends.items() if one.last_heartbeat is None}

    assert not await missed()
    began, cast.now = cast.now, cast.now + GRACE - 0.1
    assert not await missed()
    cast.now += 0.1
    found = await missed()
    assert {life: one.left for life, one in found.items()} == ends
    assert all((one.detected, one.calls) == (began, None) for one in found.values())
    cast.members += [member(name, "http://127.0.0.1:2") for name, _ in ends]
    assert not await missed()


async def test_the_time_without_a_store_does_not_count(cast: Cast) -> None:
    """While the store is away nobody can renew a lease: the time begins anew with its return."""
    log = log_of(cast)
    await shelf(cast).add(joined("x"))
    await log.logged()
    shelf(cast).trouble = StoreUnavailable("away")
    cast.now += GRACE
    assert not (await log.logged()).ends
    shelf(cast).trouble = None
    cast.now += 1
    assert not (await log.logged()).ends
    cast.now += GRACE
    assert ("x", "b") in (await log.logged()).ends
