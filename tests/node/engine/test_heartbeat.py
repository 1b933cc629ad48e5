"""The node's own lease, on clocks that the test turns: the node's and the store's are two."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import AsyncIterator, Callable

import pytest

from framehold.engine.heartbeat import Alone, Heartbeat
from framehold.engine.peers import Peers
from framehold.engine.round_trips import RoundTrips
from framehold_core.clock import Clock
from framehold_core.errors import NodeNameTaken, StoreUnavailable
from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import LeaseReply, NodeRecord, is_open, longest_round_trip, window_until
from framehold_core.requests import Reply, Verdict
from framehold_core.value import replace
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_store.memory import MemoryStore
from framehold_store.system_clock import system_clock
from tests.kit.effects import SOON
from tests.kit.leases import lease
from tests.kit.processes import until

pytestmark = pytest.mark.anyio

SEALS = LeaseSeal(Trust([b"k" * 32]), "ns")
TTL = 0.6
"""Seconds: renewals come every 0.2 s of real time, whatever the turned clocks say."""


class Shelf(MemoryStore):
    """A store on a clock of its own, which can be cut off from the node, or from its registrations alone. Counts
    deletions of leases."""

    def __init__(self) -> None:
        self.at = 5000.0
        self.away = self.closed = False
        self.asked = self.gone = 0
        super().__init__(lambda: self.at)

    async def _heard(self) -> None:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("the store is away")

    async def register(self, node: NodeRecord, ttl: float, over: bytes = b"") -> LeaseReply:
        await self._heard()
        if self.closed:
            raise StoreUnavailable("the store takes no registration")
        return await super().register(node, ttl, over)

    async def renew(self, node: NodeRecord, acknowledged: int, ttl: float) -> LeaseReply:
        await self._heard()
        return await super().renew(node, acknowledged, ttl)

    async def unregister(self, node: NodeRecord) -> None:
        if self.away:
            raise StoreUnavailable("the store is away")
        self.gone += 1
        await super().unregister(node)

    def put(self, heart: Heartbeat, boot: str | None = None, beat: int | None = None) -> None:
        """Write a lease under the node's name behind its back."""
        held = heart.lease
        wrote = held.beat if beat is None else beat
        life = (Boot(boot), Incarnation(boot)) if boot else (held.boot, held.incarnation)
        self.write(SEALS.seal(NodeRecord(held.node, life[1], life[0], wrote, "", "live", "", "", self.at + TTL)))

    def write(self, lease: NodeRecord) -> None:
        """Write a lease, whatever stands there."""
        self._nodes[lease.node] = lease


class Hands:
    """The node's clock."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.clock = Clock(lambda: self.time, lambda: self.time, os.urandom)


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def heart(hands: Hands, shelf: Shelf) -> AsyncIterator[Heartbeat]:
    beating = Heartbeat(shelf, hands.clock, "n1", "http://n1", TTL, SEALS)
    await beating.open()
    yield beating
    await beating.close()


def window(heart: Heartbeat, hands: Hands) -> bool:
    """Whether the node may run without asking."""
    return is_open(heart.lease, hands.time)


async def test_a_store_that_is_away_closes_nothing_the_window_runs_out(
    heart: Heartbeat, hands: Hands, shelf: Shelf
) -> None:
    """And when it is back within its own TTL, the same incarnation goes on."""
    before, shelf.away = heart.lease, True
    asked = shelf.asked
    await until(lambda: shelf.asked > asked + 1, "two renewals in vain")
    assert heart.lease == before and window(heart, hands)
    hands.time += TTL
    assert not window(heart, hands)
    shelf.away = False
    await until(lambda: window(heart, hands), "the window to open again")
    assert heart.lease.incarnation == before.incarnation


async def test_a_silence_of_the_store_is_told_when_it_begins_and_when_the_lease_has_run_out(
    heart: Heartbeat, hands: Hands, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    """And not at each heartbeat; the next silence is told again."""

    async def beats(times: int) -> list[str]:
        caplog.clear()
        wanted = shelf.asked + times
        await until(lambda: shelf.asked >= wanted, "the heartbeats")
        return [record.getMessage() for record in caplog.records if record.name == "framehold.engine.heartbeat"]

    caplog.set_level(logging.WARNING)
    for _ in range(2):
        shelf.away = True
        (first,) = await beats(2)
        assert "is not renewed" in first and "parked calls go on for" in first
        hands.time += TTL
        (second,) = await beats(2)
        assert "has no valid lease" in second and await beats(1) == []
        shelf.away = False
        shelf.at += TTL
        await beats(2)
    # At once where the lease had run out when it began.
    hands.time += TTL
    shelf.away = True
    (only,) = await beats(2)
    assert "has no valid lease" in only


def test_a_store_that_stalls_now_and_then_stays_slow_for_a_minute() -> None:
    trips, found = RoundTrips(6.0), []
    for took in (*[0.4] * 5, *[0.01] * 3, 0.45, 0.45, 0.45, *[0.01] * 40):
        trips.add(took)
        found.append((trips.usual, trips.slow))
    # Of the first heartbeats one alone, or a few, hold nothing. A minute has thirty.
    assert found[3:8] == [(0.4, 0), (0.4, 1), (0.4, 2), (0.4, 3), (0.4, 3)]
    assert found[10] == (0.45, 4) and found[12] == (0.45, 6)
    assert found[41] == (0.45, 1) and found[42] == (0.01, 0)


@pytest.mark.parametrize(("ttl", "timeout", "longest"), [(5.0, 1.0, 0.5), (3.0, 1.0, 0.5), (1.0, 1.0, 0.2267)])
def test_the_longest_round_trip_keeps_the_window_open(ttl: float, timeout: float, longest: float) -> None:
    """With one that is a little longer, a renewal ends after the window of the one before it, or a second request in a
    row comes after its time-out."""
    assert longest_round_trip(ttl, timeout) == longest

    def works(trip: float) -> bool:
        renewed = trip + ttl / 3 + trip
        return renewed <= window_until(0.0, ttl, ttl - trip / 2) and 2 * trip <= timeout

    assert works(longest - 0.001) and not works(longest + 0.001)


async def test_a_lapse_takes_a_new_incarnation(
    heart: Heartbeat, hands: Hands, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    """The key ran out in the store: absence is permanent, the old incarnation never comes back. It is told."""
    before, beats = heart.lease, list[tuple[str, object]]()
    heart.on_beat = lambda op, reply, seconds: beats.append((op, reply))
    hands.time += TTL
    shelf.at += TTL
    await until(lambda: heart.lease.incarnation != before.incarnation and window(heart, hands), "a new incarnation")
    assert heart.lease.boot == before.boot and not heart.lost.is_set()
    assert [node.inc for node in await shelf.nodes()] == [heart.lease.incarnation]
    assert heart.claims_from == -math.inf, "nothing went back"
    assert heart.doubts == 1, "but nobody can tell"
    assert heart.missing_from == hands.time + TTL, "nor whether others are gone"
    lapsed, registered = ("renew", Reply(Verdict.MISSING)), ("register", Reply(Verdict.OK))
    assert beats[beats.index(lapsed) :][:2] == [lapsed, registered]
    assert caplog.text.count("the node lease lapsed") == 1


async def test_a_store_that_was_away_makes_nobody_dead(heart: Heartbeat, hands: Hands, shelf: Shelf) -> None:
    """Leases ran out that nobody could renew: for one TTL after its return a missing one says nothing of its node."""
    assert heart.missing_from == -math.inf
    shelf.away = True
    await until(lambda: heart.missing_from == math.inf, "a renewal that is not heard")
    shelf.away = False
    await until(lambda: heart.missing_from == hands.time + TTL, "the next renewal")
    assert heart.doubts == 1, "it may be another server now, or an older state"


async def test_a_registration_after_a_lapse_that_fails_is_tried_again(
    heart: Heartbeat, hands: Hands, shelf: Shelf
) -> None:
    """The store failed between the lapse and the registration. What is left of the old lease stays meanwhile."""
    await until(lambda: heart.lease.beat >= 2, "some renewals")
    before = heart.lease
    shelf.closed = True
    shelf.put(heart, beat=0)
    await until(lambda: not window(heart, hands), "the lapse")
    asked = shelf.asked
    await until(lambda: shelf.asked > asked + 1, "it to go on")
    assert [node.inc for node in await shelf.nodes()] == [before.incarnation]
    shelf.closed = False
    await until(lambda: window(heart, hands), "a new incarnation")
    assert [node.inc for node in await shelf.nodes()] == [heart.lease.incarnation] != [before.incarnation]
    assert heart.claims_from == hands.time + TTL, "the store went back"
    assert shelf.gone == 0 and not heart.lost.is_set(), "others would take the node for dead"


async def test_another_process_under_the_same_name_ends_this_one(
    heart: Heartbeat, hands: Hands, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.at += TTL / 2
    shelf.put(heart, boot="another")
    await asyncio.wait_for(heart.lost.wait(), 5)
    assert not window(heart, hands)
    assert "another process is registered as node 'n1': no call runs here any more" in caplog.text
    await heart.close()
    assert [node.boot for node in await shelf.nodes()] == ["another"]


Planted = Callable[[NodeRecord, float], NodeRecord]
"""A lease that somebody without a key may write, made of the node's own one and of when the node registered."""
PLANTED: dict[str, Planted] = {
    "nobody's": lambda late, since: replace(late, seal=""),
    "with the node's seal": lambda late, since: late,
    "of a fleet with other keys": lambda late, since: LeaseSeal(Trust([b"x" * 32]), "ns").seal(late),
    "of another namespace": lambda late, since: LeaseSeal(Trust([b"k" * 32]), "other").seal(late),
    "of a former life": lambda late, since: SEALS.seal(replace(late, expires=since + TTL)),
    "of another node": lambda late, since: replace(SEALS.seal(replace(late, node=NodeId("n2"))), node=NodeId("n1")),
    "its own, changed": lambda late, since: replace(late, boot=Boot("a boot"), beat=1),
}


@pytest.mark.parametrize("kind", PLANTED)
async def test_who_has_no_key_ends_no_process(
    heart: Heartbeat, hands: Hands, shelf: Shelf, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.at += TTL / 2
    hands.time += TTL / 2
    await until(lambda: heart.lease.beat >= 2, "a renewal")
    (own,) = await shelf.nodes()
    assert heart.since is not None
    beat = heart.lease.beat
    shelf.write(PLANTED[kind](replace(own, boot=Boot("another"), expires=shelf.at + TTL), heart.since))
    await until(lambda: heart.lease.beat > beat and window(heart, hands), "the next renewal")
    (stored,) = await shelf.nodes()
    assert stored.boot == heart.lease.boot and SEALS.holds(stored) and not heart.lost.is_set()
    assert "somebody else has written" in caplog.text


async def test_a_lease_that_no_key_has_written_delays_no_start(
    hands: Hands, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.write(NodeRecord(NodeId("n1"), Incarnation("i"), Boot("b"), 1, "", "live", "", "", shelf.at + TTL, "0" * 32))
    heart = Heartbeat(shelf, hands.clock, "n1", "", TTL, SEALS)
    await heart.open()
    assert window(heart, hands) and "somebody else has written" in caplog.text
    await heart.close()


@pytest.mark.parametrize("ahead", [90.0, -90.0])
async def test_a_clock_that_is_set_costs_no_lease(heart: Heartbeat, hands: Hands, shelf: Shelf, ahead: float) -> None:
    """Of the node, which then measures that of the store again; the same incarnation goes on."""
    before = heart.lease
    hands.clock.measured(shelf.at + ahead, hands.time, hands.time)
    await until(lambda: heart.lease.beat > before.beat + 1, "some renewals")
    assert heart.lease.incarnation == before.incarnation and window(heart, hands)
    (stored,) = await shelf.nodes()
    assert stored.expires == shelf.at + TTL


async def test_a_name_that_is_taken_is_waited_out(hands: Hands, shelf: Shelf, caplog: pytest.LogCaptureFixture) -> None:
    """A killed process leaves its lease: its successor starts when that has run out, and was never `lost` meanwhile.
    That it waits is told once."""
    caplog.set_level(logging.INFO)
    dead = Heartbeat(shelf, hands.clock, "n1", "", TTL, SEALS)
    await shelf.register(dead._record(shelf.at), TTL)
    heart = Heartbeat(shelf, hands.clock, "n1", "", TTL, SEALS)
    watch = asyncio.create_task(heart.lost.wait())
    opening = asyncio.create_task(heart.open())
    asked = shelf.asked
    await until(lambda: shelf.asked > asked + 3, "some attempts")
    assert not opening.done() and not watch.done()
    shelf.at += TTL
    await asyncio.wait_for(opening, 5)
    assert window(heart, hands) and not watch.done()
    assert caplog.text.count("waits for the lease of its former life") == 1
    watch.cancel()
    await heart.close()


async def test_a_name_that_another_process_goes_on_to_have_is_refused(hands: Hands, shelf: Shelf) -> None:
    other, heart = (Heartbeat(shelf, hands.clock, "n1", "", TTL, SEALS) for _ in range(2))
    await other.open()
    opening = asyncio.create_task(heart.open())
    asked = shelf.asked
    await until(lambda: shelf.asked > asked + 3, "some attempts")
    for _ in range(10):
        shelf.at += TTL / 3
        beat = other.lease.beat
        await until(lambda: other.lease.beat > beat, "a renewal")  # noqa: B023 - waited for at once
    with pytest.raises(NodeNameTaken, match=r"registered as node 'n1'; nothing was started; .*FRAMEHOLD_NODE_ID"):
        await asyncio.wait_for(opening, 5)
    await heart.close()
    assert [node.boot for node in await shelf.nodes()] == [other.lease.boot]
    await other.close()


async def test_leaving_right_after_an_announcement_ends(heart: Heartbeat, hands: Hands, shelf: Shelf) -> None:
    """A node that has nothing to hand off says that it drains and leaves, all in one turn of the loop. Nobody has to
    wait for its lease to run out, and it runs nothing any more."""
    assert [node.node for node in await shelf.nodes()] == ["n1"]
    await asyncio.sleep(0)
    heart.announce("draining")
    async with asyncio.timeout(5.0):
        await heart.close()
    assert await shelf.nodes() == () and not window(heart, hands)


async def test_nothing_of_it_runs_on_when_it_has_left(hands: Hands, shelf: Shelf) -> None:
    before, heart = asyncio.all_tasks(), Heartbeat(shelf, hands.clock, "n1", "http://n1", TTL, SEALS)
    await heart.open()
    assert asyncio.all_tasks() != before
    for _ in range(2):
        await heart.close()
        assert asyncio.all_tasks() == before


async def test_leaving_a_store_that_is_away_only_says_so(
    heart: Heartbeat, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.away = True
    with caplog.at_level(logging.INFO):
        await heart.close()
    assert "its lease will run out by itself" in caplog.text


async def test_alone_the_window_is_always_open() -> None:
    alone = Alone("n1", system_clock())
    await alone.open()
    assert is_open(alone.lease, 1e12) and alone.lease.node == NodeId("n1")
    await alone.close()


THERE = "http://127.0.0.1:1"


def peers_of(store: MemoryStore) -> Peers:
    trust = Trust(())
    return Peers("here", trust, LeaseSeal(trust, "ns"), store, system_clock())


async def test_a_process_is_waited_for_until_its_lease_is_gone() -> None:
    """The next process of its node is another one, also at the same address. The request was not sent to that."""
    store = MemoryStore(lambda: 0.0, poll=0.01)
    peers = peers_of(store)
    there = lease("there", address=THERE, expires=60.0)
    await store.register(there, 60.0)
    receiver = await peers.receiver(THERE)
    assert receiver is not None and receiver.boots == (there.boot,)
    vanishing = asyncio.create_task(peers.vanished(receiver.boots))
    await peers.follow()
    assert not vanishing.done()
    await store.unregister(there)
    await store.register(replace(there, boot=Boot("2")), 60.0)
    await asyncio.wait_for(vanishing, SOON)
    await peers.follow()
    await asyncio.wait_for(peers.vanished(receiver.boots), SOON)
    await peers.close()
