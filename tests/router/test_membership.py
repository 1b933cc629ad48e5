"""The view of the fleet: it follows the store, outlives the store's absence, and is never half of anything."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framehold_core.clock import Clock
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import NodeRecord, no_lease
from framehold_core.value import replace
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members import membership as module
from framehold_fleet.members.address import Address, TlsAddress, address_of
from framehold_fleet.members.membership import STRANGE, Fleet, Membership
from framehold_fleet.members.node_stats import Stats, read
from framehold_store.feed import Feed
from framehold_store.memory import MemoryStore
from tests.kit.leases import changed
from tests.kit.processes import until as settled

TTL = 60.0
SOON = 10.0
OPEN = LeaseSeal(Trust(()), "ns")
"""Where there are no keys."""


def lease(name: str, address: str = "http://10.0.0.1:80", state: str = "live", stats: str = "") -> NodeRecord:
    return NodeRecord(NodeId(name), Incarnation("i"), Boot("b"), 0, address, state, "", stats, 0.0)


class Shelf(MemoryStore):
    """A store that can be away, that counts its reads, and that holds a read back until it is let go."""

    def __init__(self) -> None:
        super().__init__(lambda: self.now, poll=3600.0)
        self.now = 0.0
        self.away = False
        self.broken = False
        self.reads = self.counts = self.beats = 0
        self.leases: list[NodeId] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def nodes(self, named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        self.reads += named is None
        self.leases.extend(named or self._nodes)
        found = await super().nodes(named)
        await self.gate.wait()
        if self.broken:
            raise RuntimeError("a bug")
        if self.away:
            raise StoreUnavailable("the store is away")
        return found

    async def count_nodes(self) -> int:
        self.counts += 1
        if self.away:
            raise StoreUnavailable("the store is away")
        return await super().count_nodes()

    async def put(self, *leases: NodeRecord) -> None:
        for node in leases:
            await self.register(self._next(node), TTL)

    async def change(self, node: NodeRecord) -> None:
        await self.renew(self._next(node), 0, TTL)

    def _next(self, node: NodeRecord) -> NodeRecord:
        self.beats += 1
        return replace(node, beat=self.beats, expires=self.now + TTL)

    def write(self, node: NodeRecord) -> None:
        """Write a lease as nobody may who goes by the rules."""
        self._nodes[node.node] = node
        self._feed.notify(node.node)


@pytest.fixture
async def store() -> AsyncIterator[Shelf]:
    shelf = Shelf()
    yield shelf
    await shelf.close()


@pytest.fixture
async def membership(store: Shelf) -> AsyncIterator[Membership]:
    follower = Membership(store, OPEN)
    await follower.open()
    yield follower
    await follower.close()


def names(fleet: Fleet) -> list[str]:
    return sorted(fleet.ring.nodes)


async def until(membership: Membership, predicate: Callable[[Fleet], bool]) -> Fleet:
    async with asyncio.timeout(SOON):
        return await membership.wait(predicate)


async def test_a_node_with_other_keys_is_no_part_of_the_fleet(store: Shelf, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is sent to it, and one line says what to do. Any of the fleet's keys is enough: they are rotated one by
    one. A seal is good for one node, one life of it, and one address."""
    new, old, foreign = (LeaseSeal(Trust([name * 16]), "ns") for name in (b"new", b"old", b"foreign"))

    def sealed(name: str, seals: LeaseSeal, node: str = "", boot: str = "b") -> NodeRecord:
        made = replace(lease(name), expires=TTL)
        return replace(made, seal=seals.seal(replace(made, node=NodeId(node or name), boot=Boot(boot))).seal)

    leases = [
        sealed("a", new),
        sealed("b", old),
        sealed("c", foreign),
        sealed("d", new, node="a"),
        sealed("e", new, boot="another life"),
        sealed("f", LeaseSeal(Trust([b"new" * 16]), "another namespace")),
        replace(lease("g"), expires=TTL),
        replace(no_lease(NodeId("h")), expires=TTL),
        *(replace(lease(name), expires=TTL, seal=seal) for name, seal in (("i", "\u0662"), ("j", "\ud800"))),
    ]
    for made in leases:
        store.write(made)
    follower = Membership(store, LeaseSeal(Trust([b"new" * 16, b"old" * 16]), "ns"))
    await follower.open()
    await follower.refresh()
    await follower.close()
    assert names(follower.fleet) == ["a", "b"]
    for name in "cdefghij":
        stranger = follower.fleet.members[NodeId(name)]
        assert (stranger.state, stranger.address) == (STRANGE, None)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 8 and "'c'" in lines[0] and "FRAMEHOLD_KEYS" in lines[0]


async def test_the_stores_clock_is_measured_at_the_start_and_at_each_poll() -> None:
    """A router's own wall clock may be wrong, and the store may fail over to a server with another clock."""
    ahead, wrong = [500.0], [90.0]
    store = MemoryStore(lambda: time.monotonic() + ahead[0], poll=0.01)
    clock = Clock(time.monotonic, lambda: time.monotonic() + ahead[0] + wrong[0], bytes)
    follower = Membership(store, OPEN, clock=clock)
    await follower.open()
    assert clock.offset == pytest.approx(-90.0, abs=1.0)
    wrong[0], ahead[0] = -90.0, 530.0
    await settled(lambda: clock.offset == pytest.approx(90.0, abs=1.0), "a measure of the other server")
    await follower.close()
    await store.close()


@pytest.mark.parametrize("field", ["boot", "beat", "address", "state", "expires", "seal"])
async def test_a_node_whose_lease_somebody_changes_stays_until_it_has_written_it_again(
    store: Shelf, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """It replaces what stands there with its next heartbeat: meanwhile its requests go nowhere else. If it does not,
    nothing is sent to it any more."""
    seals = LeaseSeal(Trust([b"k" * 32]), "ns")
    own = seals.seal(replace(lease("a"), expires=TTL))
    other = changed(own, field)
    store.write(own)
    follower = Membership(store, seals)
    await follower.refresh()
    before = follower.fleet
    store.write(other)
    assert await follower.refresh() == before, "the one that held counts"
    heard: list[NodeRecord] = []
    follower.on_looked = lambda _, leases: heard.extend(leases)
    monkeypatch.setattr(module, "BACK", 0.0)
    stranger = (await follower.refresh()).members[NodeId("a")]
    assert (stranger.state, stranger.address, names(follower.fleet), heard) == (STRANGE, None, [], [])
    store.write(seals.seal(replace(own, beat=1)))
    assert names(await follower.refresh()) == ["a"] and len(heard) == 1
    monkeypatch.undo()
    store.write(other)
    assert names(await follower.refresh()) == ["a"], "it has its time again"


async def test_a_lease_that_holds_is_verified_once(store: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    seals = LeaseSeal(Trust([b"k" * 32]), "ns")
    for number in range(100):
        store.write(seals.seal(replace(lease(f"n{number}"), expires=TTL)))
    follower = Membership(store, seals)
    verified: list[NodeRecord] = []
    verify = seals._is_sealed

    def counted(lease: NodeRecord) -> bool:
        verified.append(lease)
        return verify(lease)

    monkeypatch.setattr(seals, "_is_sealed", counted)
    await follower.refresh()
    await follower.refresh()
    assert len(names(follower.fleet)) == len(verified) == 100
    store.write(seals.seal(replace(lease("n7", state="draining"), expires=TTL)))
    await follower.refresh()
    assert [made.node for made in verified[100:]] == ["n7"]


@pytest.mark.parametrize("away", [False, True])
async def test_the_first_view_is_there_when_it_opens(store: Shelf, away: bool) -> None:
    """A router that is ready places its first request well. Without the store it opens all the same."""
    await store.put(lease("a"))
    store.away = away
    membership = Membership(store, OPEN)
    await membership.open()
    assert names(membership.fleet) == ([] if away else ["a"])
    store.away = False
    await store.put(lease("b"))
    await until(membership, lambda fleet: names(fleet) == ["a", "b"])
    await membership.close()


async def test_nodes_come_and_go(store: Shelf, membership: Membership) -> None:
    await store.put(lease("a"))
    before = await until(membership, lambda fleet: names(fleet) == ["a"])
    await store.put(lease("b"))
    await until(membership, lambda fleet: names(fleet) == ["a", "b"])
    await store.unregister(lease("a"))
    fleet = await until(membership, lambda fleet: names(fleet) == ["b"])
    assert (list(before.members), list(fleet.members)) == (["a"], ["b"])
    with pytest.raises(TypeError):
        before.members[NodeId("c")] = before.members[NodeId("a")]  # type: ignore[index]  # that is the point


async def test_what_nodes_say_of_themselves_is_in_the_view(store: Shelf, membership: Membership) -> None:
    """A heartbeat alone announces nothing; who asks gets it. Laying out a ring takes time: the same names keep it. A
    node that drains takes no new calls, and is still asked for those that it holds."""
    await store.put(lease("a"), lease("b"))
    ring = (await until(membership, lambda fleet: names(fleet) == ["a", "b"])).ring
    await store.change(lease("a", stats=Stats(pid=7, parked=3).dump()))
    fleet = await membership.refresh()
    assert fleet.members[NodeId("a")].stats == Stats(pid=7, parked=3) and fleet.ring is ring
    await store.change(lease("a", state="draining"))
    fleet = await until(membership, lambda fleet: names(fleet) == ["b"])
    assert fleet.members[NodeId("a")].state == "draining"
    assert fleet.members[NodeId("a")].address == ("10.0.0.1", 80)


async def test_nodes_that_come_back_one_by_one_are_in_the_view_all_the_time(
    store: Shelf, membership: Membership, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All leases ran out while the store was away. To drop whoever is not the first to register would give its calls to
    others, its sessions up, and the rounds that run on it. The view is true again once the nodes had time to come back;
    one line is logged when the store goes, one when it is back."""
    caplog.set_level(logging.INFO)
    await store.put(lease("a"), lease("b"))
    await until(membership, lambda fleet: names(fleet) == ["a", "b"])
    store.away = True
    for name in ("a", "b"):
        await store.unregister(lease(name))
    for _ in range(3):
        assert names(await membership.refresh()) == ["a", "b"]
    store.away = False
    assert names(await membership.refresh()) == ["a", "b"]
    await store.put(replace(lease("b", "http://10.0.0.9:80"), inc=Incarnation("next")), lease("c"))
    fleet = await membership.refresh()
    assert names(fleet) == ["a", "b", "c"] and fleet.members[NodeId("b")].inc == "next"
    monkeypatch.setattr(module, "BACK", 0.0)
    assert names(await membership.refresh()) == ["b", "c"]
    for told in ("can't be read", "is back"):
        assert sum(told in line for line in caplog.messages) == 1


async def test_changes_of_the_ring_are_counted_and_looks_told_of(store: Shelf) -> None:
    """From the first one that was found on: that one took no call from anybody. A view whose ring is the same is no
    change of it. A look that the store did not answer is not told."""
    await store.put(lease("a"))
    follower = Membership(store, OPEN)
    looks: list[tuple[list[NodeId], list[NodeId]]] = []
    follower.on_looked = lambda members, leases: looks.append((list(members), [lease.node for lease in leases]))
    await follower.refresh()
    assert (follower.changes, follower.change) == (0, None)
    await store.put(lease("b"))
    await follower.refresh()
    change = follower.change
    assert change is not None and (change.before.nodes, change.after) == (frozenset({"a"}), follower.fleet.ring)
    await store.change(lease("b", "http://10.0.0.9:80"))
    await follower.refresh()
    assert (follower.changes, follower.change) == (1, change)
    await store.unregister(lease("a"))
    await follower.refresh()
    assert follower.changes == 2
    store.away = True
    await follower.refresh()
    await store.unregister(lease("b"))
    store.away = False
    await follower.refresh()
    both = ["a", "b"]
    assert looks == [(["a"], ["a"]), (both, both), (both, both), (["b"], ["b"]), (["b"], [])]


@pytest.fixture
async def counting() -> AsyncIterator[tuple[Shelf, Membership]]:
    shelf = Shelf()
    shelf._feed = Feed(0.0)
    await shelf.put(lease("a"), lease("b"), lease("c"))
    follower = Membership(shelf, OPEN, 5)
    await follower.open()
    yield shelf, follower
    await follower.close()
    await shelf.close()


async def test_a_poll_counts_the_leases_and_each_fifth_reads_them(counting: tuple[Shelf, Membership]) -> None:
    """A poll reads only the number of nodes. Every fifth poll reads all leases, for changes that no number shows."""
    shelf, _ = counting
    async with asyncio.timeout(SOON):
        while shelf.counts < 40:
            await asyncio.sleep(0)
    assert shelf.counts / 5 <= shelf.reads <= shelf.counts / 4 + 3


async def test_a_lease_that_ran_out_is_missed_at_the_next_poll(counting: tuple[Shelf, Membership]) -> None:
    """Nobody tells of it, and the number does: no poll passes between."""
    shelf, membership = counting
    await run_out(shelf)
    polls = membership._polls
    await until(membership, lambda fleet: names(fleet) == ["a", "b"])
    assert membership._polls <= polls + 1


async def run_out(shelf: Shelf) -> None:
    shelf.now = TTL / 2
    await shelf.change(lease("a"))
    await shelf.change(lease("b"))
    shelf.now = TTL + 1


async def test_a_lease_that_ran_out_is_missed_however_much_is_heard_of_others(
    counting: tuple[Shelf, Membership],
) -> None:
    """A rollout of a large fleet causes notices without a pause, for as long as it takes."""
    shelf, follower = counting
    async with asyncio.timeout(SOON):
        while shelf.reads < 2:
            await asyncio.sleep(0)
        shelf._feed = Feed(0.05)
        await run_out(shelf)
        while "c" in follower.fleet.members:
            await shelf.change(lease("a", state="draining"))
            await shelf.change(lease("a"))
            await asyncio.sleep(0)
    assert names(follower.fleet) == ["a", "b"]


@pytest.mark.parametrize("every", [1, 5])
async def test_of_a_change_one_lease_is_read_by_who_polls_for_no_more(store: Shelf, every: int) -> None:
    """Else each change would be paid for with the square of the fleet. Who lives by what leases say reads them all."""
    await store.put(*(lease(f"n{number}") for number in range(100)))
    follower = Membership(store, OPEN, every)
    await follower.open()
    async with asyncio.timeout(SOON):
        while store.reads < 2:
            await asyncio.sleep(0)
        await follower.refresh()
    store.leases.clear()
    await store.put(lease("new"))
    await until(follower, lambda fleet: "new" in fleet.ring.nodes)
    assert len(store.leases) == (101 if every == 1 else 1)
    await store.change(lease("n7", state="draining"))
    await until(follower, lambda fleet: "n7" not in fleet.ring.nodes)
    await store.unregister(lease("n8"))
    fleet = await until(follower, lambda fleet: "n8" not in fleet.members)
    assert (len(fleet.members), len(fleet.ring.nodes)) == (100, 99)
    assert len(store.leases) == (302 if every == 1 else 3)
    await follower.close()
    assert fleet == (await Membership(store, OPEN).refresh())


async def test_after_the_store_was_away_the_leases_are_read_again(counting: tuple[Shelf, Membership]) -> None:
    """The number of nodes may be unchanged although their names are not."""
    shelf, membership = counting
    async with asyncio.timeout(SOON):
        for away in (True, False):
            shelf.away = away
            while membership.stale is not away:
                await asyncio.sleep(0)
    assert names(membership.fleet) == ["a", "b", "c"]


async def test_a_bug_in_reading_does_not_end_the_following(
    store: Shelf, membership: Membership, caplog: pytest.LogCaptureFixture
) -> None:
    store.broken = True
    reads = store.reads
    await store.put(lease("a"))
    async with asyncio.timeout(SOON):
        while store.reads == reads or not caplog.records:
            await asyncio.sleep(0)
    store.broken = False
    await store.put(lease("b"))
    await until(membership, lambda fleet: names(fleet) == ["a", "b"])


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_refresh_begins_after_it_was_asked_for(store: Shelf, membership: Membership, leaves: bool) -> None:
    """A read that was under way may be older than the question. Those who wait share the next one, also where the one
    who began the first leaves."""
    await membership.refresh()
    store.gate.clear()
    reads = store.reads
    first = asyncio.create_task(membership.refresh())
    while store.reads == reads:
        await asyncio.sleep(0)
    # Behind the back of the change feed, and of the read that has begun.
    store._nodes[NodeId("late")] = replace(lease("late"), expires=TTL)
    others = [asyncio.create_task(membership.refresh()) for _ in range(5)]
    await asyncio.sleep(0)
    if leaves:
        first.cancel()
    store.gate.set()
    assert all(names(fleet) == ["late"] for fleet in await asyncio.gather(*others))
    assert store.reads == reads + 2


async def test_closing_ends_the_following(store: Shelf, membership: Membership) -> None:
    await store.put(lease("a"))
    await until(membership, lambda fleet: names(fleet) == ["a"])
    await membership.close()
    await membership.close()
    reads = store.reads
    await store.put(lease("b"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (store.reads, names(membership.fleet)) == (reads, ["a"])


ADDRESSES: dict[str, Address | None] = {
    "http://10.0.0.1:8000": ("10.0.0.1", 8000),
    "http://node-1.nodes.ns.svc:8000/": ("node-1.nodes.ns.svc", 8000),
    "http://[::1]:8000": ("::1", 8000),
    "http://[2001:db8::7]": ("2001:db8::7", 80),
    "http://node": ("node", 80),
    "": None,
    "https://node:80": TlsAddress("node", 80),
    "http://": None,
    "http://:80": None,
    "http://node:0": None,
    "http://node:99999": None,
    "http://node:+80": None,
    "http://node:٨٠": None,
    "http://::1:80": None,
    "http://[:::]:80": None,
    "http://[10.0.0.1]:80": None,
    "http://[::1]80": None,
    "http://user@node:80": None,
    "http://node:80/path": None,
    "http://node:80?q": None,
    "http://node:80\n": None,
    "http://no de:80": None,
    "http://node-1..ns.svc:80": None,
    "http://.:80": None,
    f"http://{'x' * 63}.svc.:80": ("x" * 63 + ".svc.", 80),
    f"http://{'x' * 64}.svc:80": None,
    "http://node\r\nx: y:80": None,
    "unix:/run/node": None,
    "https://node": TlsAddress("node", 443),
    "https://10.0.0.1:8443/": TlsAddress("10.0.0.1", 8443),
    "httpss://node:80": None,
}


@pytest.mark.parametrize(("url", "address"), ADDRESSES.items())
async def test_addresses(url: str, address: Address | None) -> None:
    assert address_of(url) == address and type(address_of(url)) is type(address)


async def test_a_node_without_a_usable_address_gets_nothing(
    store: Shelf, membership: Membership, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a member, not on the ring, and there is one line in the log until it says something else. A process on
    standard input and output has none, and needs none."""
    await store.put(lease("a", "ftp://x"), lease("b"), lease("stdio", ""))
    fleet = await until(membership, lambda fleet: len(fleet.members) == 3)
    for _ in range(3):
        await membership.refresh()
    assert (names(fleet), fleet.members[NodeId("a")].url) == (["b"], "ftp://x")
    assert sum("'ftp://x'" in line for line in caplog.messages) == 1
    assert sum("'stdio': it has no address (FRAMEHOLD_ADVERTISE_URL)" in line for line in caplog.messages) == 1
    for url in ("ftp://y", "ftp://x"):
        await store.change(lease("a", url))
        await membership.refresh()
    assert [sum(f"'ftp://{name}'" in line for line in caplog.messages) for name in "xy"] == [2, 1]
    await store.change(lease("a"))
    assert names(await membership.refresh()) == ["a", "b"]


counts = st.none() | st.integers(0, 2**53)
short = st.text(max_size=64)
"""What is longer is cut where it is read."""
texts = st.none() | short
all_stats = st.builds(
    Stats,
    *(counts, counts, counts, texts, st.none() | st.floats(0, 2**53)),
    *(st.none() | st.floats(-(2**53), 2**53), st.none() | st.integers(1, 65535)),
    *(texts, texts, st.none() | st.sampled_from(["", "/weather", "/a/b%20c"])),
    *(st.none() | st.floats(0, 2**53), st.none() | st.floats(0, 2**53)),
    **dict.fromkeys(("descriptors", "descriptors_limit", "kept", "bound", "asleep", "released"), counts),
)


@given(all_stats, st.text() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(str))
def test_stats_read_as_they_were_written_and_no_others_raise(stats: Stats, text: str) -> None:
    assert read(stats.dump()) == stats and isinstance(read(text), Stats)


GARBAGE = {
    "": Stats(),
    "[1]": Stats(),
    "[" * 100_000: Stats(),
    '{"parked":true,"pid":"7","in_flight":-1,"version":3,"started":NaN}': Stats(),
    '{"parked":1e999,"pid":1.5,"in_flight":' + "9" * 5_000 + "}": Stats(),
    '{"parked":99999999999999999999,"started":Infinity,"pid":5}': Stats(pid=5),
    '{"parked":3.0,"later":{"x":[]},"version":"1","started":1.5}': Stats(parked=3, version="1", started=1.5),
    '{"prefix":"/weather/v1%20"}': Stats(prefix="/weather/v1%20"),
    '{"prefix":"/a b HTTP/1.1\\r\\nx: y"}': Stats(),
    '{"version":"' + "x" * 1000 + '"}': Stats(version="x" * 64),
}


@pytest.mark.parametrize(("text", "stats"), GARBAGE.items(), ids=range(len(GARBAGE)))
async def test_stats_that_can_not_be_read_are_none(text: str, stats: Stats) -> None:
    assert read(text) == stats
