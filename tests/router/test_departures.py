"""Who came and went: when a node was last alive, when that was noticed, and whether it left or was lost."""

from __future__ import annotations

from typing import Any

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import NodeRecord, end_of
from framehold_core.value import replace
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members import membership as module
from framehold_fleet.members.membership import DRAINING, LIVE, Membership
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.models.events import EndView, EventView, LogEntry
from framehold_router.collect.departures import MAX_REMEMBERED, Departures
from framehold_store.memory import MemoryStore

SEALS = LeaseSeal(Trust([b"k" * 32]), "ns")
TTL = 6.0
PAUSE = TTL / 3
WHERE = "http://10.0.0.1:80"


class Stage:
    """A store, a router's look at it, and two clocks that a test turns: the store's is `apart` from the router's."""

    def __init__(self, apart: float = 0.0) -> None:
        self.now, self.apart = 1_000_000.0, apart
        self.away = False
        self.store = MemoryStore(lambda: self.now + self.apart)
        self.seen = Departures(lambda: self.now)
        self.detected: list[float] = []
        self.seen.on_detected = self.detected.append
        self.entries: list[LogEntry] = []
        self.seen.on_entry = self.entries.append
        self.membership = Membership(self.store, SEALS)
        self.membership.on_looked = self.seen.look
        self.beats: dict[str, int] = {}
        self.parked: int | None = None
        self.bound: int | None = None

    def lease(self, name: str, boot: str, state: str, seals: LeaseSeal = SEALS) -> NodeRecord:
        stats, ends = Stats(parked=self.parked, bound=self.bound).dump(), end_of(self.now + self.apart, TTL)
        life = NodeId(name), Incarnation(f"i-{boot}"), Boot(boot), self.beats.get(name, 0)
        return seals.seal(NodeRecord(*life, WHERE, state, "", stats, ends))

    async def comes(self, name: str, boot: str = "b", seals: LeaseSeal = SEALS) -> None:
        self.beats[name] = 0
        await self.store.register(self.lease(name, boot, LIVE, seals), TTL)

    async def seen_alive(self, name: str = "a", boot: str = "b") -> None:
        await self.comes(name, boot)
        await self.look()
        await self.lives(name, boot)

    async def renews(self, name: str, boot: str = "b", state: str = LIVE) -> None:
        self.beats[name] += 1
        await self.store.renew(self.lease(name, boot, state), self.beats[name] - 1, TTL)

    async def leaves(self, name: str, boot: str = "b") -> None:
        await self.store.unregister(self.lease(name, boot, LIVE))

    async def look(self, later: float = 0.0) -> None:
        self.now += later
        await self.membership.refresh()

    async def lives(self, name: str, boot: str = "b", looks: int = 3) -> None:
        """A node renews as ever, and the router looks a moment after each renewal."""
        for _ in range(looks):
            self.now += PAUSE
            await self.renews(name, boot)
            await self.look(0.3)
            self.now -= 0.3

    def ends(self, name: str, boot: str = "b") -> list[EndView]:
        ends = [entry.end for entry in self.entries if entry.end is not None]
        return [end for end in ends if (end.node_id, end.boot) == (name, boot)]

    def of(self, name: str, boot: str = "b") -> EndView:
        return self.ends(name, boot)[-1]

    @property
    def events(self) -> list[EventView]:
        return [entry.event for entry in self.entries if entry.event is not None]

    def told(self) -> list[tuple[str, str]]:
        return [(event.kind, event.node_id) for event in self.events]


@pytest.fixture
async def stage() -> Stage:
    stage = Stage()
    await stage.look()
    return stage


@pytest.mark.parametrize("outage", [False, True])
async def test_a_node_whose_lease_runs_out_is_lost(stage: Stage, outage: bool) -> None:
    """It is known when it was last alive, when this router found its lease gone, and how many calls the last lease that
    a look found said. That its last two heartbeats were an outage apart does not show that it gave its lease back."""
    stage.parked = 3
    await stage.seen_alive()
    stage.parked = 8
    if outage:
        stage.now += TTL * 5
        stage.beats["a"] += 1
        await stage.store.register(stage.lease("a", "b", LIVE), TTL)
    else:
        await stage.renews("a")
    alive = stage.now
    stage.parked = None
    await stage.comes("silent")
    await stage.look(0.001)
    assert not stage.ends("a")
    await stage.look(TTL + 1.0)
    gone = stage.of("a")
    assert (gone.node_id, gone.boot, gone.state, gone.left) == ("a", "b", LIVE, False)
    assert gone.detected == stage.now
    assert gone.last_heartbeat == pytest.approx(alive, abs=0.01)
    assert stage.detected == [pytest.approx(TTL + 1.0, abs=0.01)] * 2
    texts = {event.node_id: event.text for event in stage.events if event.kind == "node_lost"}
    assert "7.0 s after its last heartbeat" in texts["a"]
    assert "retries of its calls (it had 8 parked) go elsewhere" in texts["a"] and "its calls go" in texts["silent"]
    assert (gone.calls, stage.of("silent").calls, stage.seen.heartbeats()) == (8, None, {})


@pytest.mark.parametrize("apart", [-900.0, 0.0, 5_000_000.0])
async def test_a_heartbeat_is_known_better_than_looks_are_close(apart: float) -> None:
    """The node registered while this router looked, so it is known how far the store's clock is apart from ours: a
    renewal is found by a look 1.9 s after it, and its own time is told."""
    stage = Stage(apart)
    await stage.look()
    await stage.comes("a")
    await stage.look(0.002)
    stage.now += PAUSE
    await stage.renews("a")
    renewed = stage.now
    await stage.look(1.9)
    assert stage.seen.heartbeats() == {"a": pytest.approx(renewed, abs=0.003)}


@pytest.mark.parametrize("leap", [-3600.0, 3600.0])
async def test_a_clock_that_leaps_puts_a_heartbeat_outside_no_two_looks(stage: Stage, leap: float) -> None:
    """A store that failed over to a machine whose clock is wrong."""
    await stage.comes("a")
    await stage.look()
    await stage.look(1.0)
    before = stage.now
    stage.now += 0.5
    stage.apart += leap
    # Its lease is carried over, so the renewal finds it.
    stage.store._nodes[NodeId("a")] = replace(stage.store._nodes[NodeId("a")], expires=stage.now + stage.apart + 1.0)
    await stage.renews("a")
    await stage.look(0.5)
    assert before <= stage.seen.heartbeats()[NodeId("a")] <= stage.now


@pytest.mark.parametrize("lives", [True, False])
async def test_a_node_that_gives_its_lease_back_has_left(stage: Stage, lives: bool) -> None:
    """Also where it drained so fast that no look saw it drain, or after its first heartbeat: a lease that ran out would
    have lasted longer."""
    await stage.comes("a")
    await stage.look()
    if lives:
        await stage.lives("a")
    await stage.leaves("a")
    await stage.look(0.5)
    assert stage.of("a").left
    assert stage.told() == [("node_joined", "a"), ("node_left", "a")]
    assert stage.events[-1].text == "Node a has left: it gave its lease back"
    assert stage.detected == []


async def test_a_node_that_drained_has_left_however_long_it_was_silent(stage: Stage) -> None:
    """Drained, then killed: nothing of it was lost that it had not let go. Where looks are rare, it may have given its
    lease back before this one."""
    stage.bound = 3
    await stage.comes("a")
    await stage.look()
    await stage.renews("a", state=DRAINING)
    await stage.look()
    await stage.look()
    await stage.look(TTL + 1.0)
    assert stage.told() == [("node_joined", "a"), ("node_draining", "a"), ("node_left", "a")]
    assert (stage.of("a").state, stage.of("a").left, stage.events[-1].lost) == (DRAINING, True, 0)
    assert stage.events[-1].text == "Node a has left: it drained, and its lease is gone"
    assert stage.detected == []


async def test_a_node_that_is_killed_while_it_drains_loses_what_it_was_to_keep(stage: Stage) -> None:
    """Its lease ran out: it has not said itself what its drain left over. One that gives its lease back has."""
    stage.bound = 3
    for name in ("killed", "done"):
        await stage.seen_alive(name)
        await stage.renews(name, state=DRAINING)
        await stage.look()
    await stage.leaves("done")
    for _ in range(5):
        await stage.look(TTL / 3)
    left = {event.node_id: event for event in stage.events if event.kind == "node_left"}
    assert (left["killed"].lost, left["done"].lost) == (3, 0)
    assert "3 calls of tools not marked re-entrant are lost" in left["killed"].text
    assert "lost" not in left["done"].text


async def test_each_life_of_a_node_ends_by_itself(stage: Stage) -> None:
    """A name that is taken anew between two looks is another life; the same process under a new incarnation
    (docs/protocol.md, rule 4) is none."""
    await stage.seen_alive("a", "b1")
    await stage.leaves("a", "b1")
    again = replace(stage.lease("a", "b1", LIVE), inc=Incarnation("next"), beat=0)
    await stage.store.register(SEALS.seal(again), TTL)
    registered = stage.now
    await stage.look(0.1)
    assert not stage.ends("a", "b1")
    assert stage.told() == [("node_joined", "a")]
    assert stage.seen.heartbeats() == {"a": pytest.approx(registered, abs=0.01)}
    stage.now += TTL + 0.5
    await stage.comes("a", "b2")
    await stage.look()
    assert not stage.of("a", "b1").left and not stage.ends("a", "b2")
    assert stage.told() == [("node_joined", "a"), ("node_lost", "a"), ("node_joined", "a")]
    assert stage.seen.heartbeats() == {"a": pytest.approx(stage.now)}


async def test_nobody_is_gone_while_the_store_is_away(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for a while after: leases ran out that nobody could renew. Who does not come back then is lost."""
    await stage.seen_alive()
    nodes = stage.store.nodes

    async def away(named: object = None) -> tuple[NodeRecord, ...]:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(stage.store, "nodes", away)
    await stage.look(TTL + 1.0)
    monkeypatch.setattr(stage.store, "nodes", nodes)
    await stage.look(1.0)
    assert not stage.ends("a") and list(stage.membership.fleet.members) == ["a"]
    monkeypatch.setattr(module, "BACK", 0.0)
    await stage.look(1.0)
    assert not stage.of("a").left


async def test_a_node_with_other_keys_is_told_of_by_nobody(stage: Stage) -> None:
    """Whoever can write to the store could else drive out what happened to the fleet's own."""
    await stage.comes("ours")
    for number in range(300):
        await stage.comes(f"theirs-{number}", seals=LeaseSeal(Trust([b"x" * 32]), "ns"))
    await stage.look()
    await stage.look(TTL + 1.0)
    assert stage.told() == [("node_joined", "ours"), ("node_lost", "ours")]
    assert len(stage.ends("ours")) == 1


async def test_what_is_remembered_of_ended_lives_is_bounded(stage: Stage) -> None:
    for number in range(MAX_REMEMBERED + 50):
        await stage.comes("a", f"b{number}")
        await stage.look()
        await stage.look(TTL + 1.0)
    assert len(stage.seen._ended) == MAX_REMEMBERED
    ids = [event.id for event in stage.events]
    assert len(ids) == len(set(ids)) == 2 * (MAX_REMEMBERED + 50)


async def test_two_routers_report_the_same_under_the_same_ids(stage: Stage) -> None:
    """So that the event log shows it once; a lease that lapses twice ends twice, and its node comes back. Who was there
    before a router has not joined, or a restart would tell of a fleet that came all at once."""
    other, late = Departures(lambda: stage.now + 0.4), Departures(lambda: stage.now)
    entries: list[LogEntry] = []
    other.on_entry = entries.append
    looked = stage.membership.on_looked

    def both(members: Any, leases: Any) -> None:
        looked(members, leases)
        other.look(members, leases)

    stage.membership.on_looked = both
    await stage.look()
    for _ in range(2):
        await stage.comes("a")
        await stage.look()
        await stage.look(TTL + 1.0)
    ids = [event.id for event in stage.events]
    assert ids == [entry.event.id for entry in entries if entry.event is not None]
    assert [end.incarnation for end in stage.ends("a")] == ["i-b", "i-b"]
    assert stage.told() == [("node_joined", "a"), ("node_lost", "a")] * 2
    assert "never ended" in stage.events[2].text
    await stage.comes("a")
    late.on_entry = entries.append
    entries.clear()
    stage.membership.on_looked = late.look
    await stage.look()
    assert entries == [] and late.heartbeats() == {"a": stage.now}
