"""What the real ring and the real placement do with 1,000 nodes: balance, and a rolling restart.

Law: the ring is not modelled. Shares are exact, arc by arc. Placements are those of `Placer`. While nodes are away, a
key belongs to the first node of `Ring.order` that is up, as the ring itself defines it. Random values come from a seed,
so the figures are the same on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from types import MappingProxyType

from framehold_core.ids import Boot, CallId, Incarnation, NodeId
from framehold_fleet.members.membership import LIVE, Fleet, Member
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.members.ring import Ring
from framehold_loadtest.scale.model import NODES_A_ROUTER, Sizes
from framehold_router.routing.placement import Placer
from framehold_router.routing.request_facts import Facts, RequestKind

ZONES = Sizes().zones
_START = Facts(RequestKind.START)
_GROUPS = 10
"""Nodes send their heartbeats at any time; here one group of this many after the other."""


def names(count: int) -> tuple[NodeId, ...]:
    """The nodes of a fleet; every third one is in the same zone."""
    return tuple(NodeId(f"node-{number:04}") for number in range(count))


def zone(count: int) -> tuple[NodeId, ...]:
    """The nodes of the first zone."""
    return names(count)[::ZONES]


@lru_cache(maxsize=32)
def ring(nodes: frozenset[NodeId]) -> Ring:
    """The ring of these nodes; to lay it out takes half a millisecond for each, so it is kept."""
    return Ring(nodes)


def ring_without(count: int, gone: Iterable[NodeId] = ()) -> Ring:
    """The ring of a fleet less some of its nodes."""
    return ring(frozenset(names(count)) - frozenset(gone))


@dataclass(frozen=True)
class Balance:
    """Calls of the most and the least loaded node as a ratio to the mean: `ring_*` by the ring alone, `placed_*` as
    placed with bounded load by `routers`; `draws` is how many ids were drawn for a call."""

    nodes: int
    routers: int
    ring_least: float
    ring_most: float
    placed_least: float
    placed_most: float
    draws: float


def balance(count: int, routers: int, seed: int, calls: int = 100, beats: int = 10) -> Balance:
    """Fill an empty fleet with `calls` a node, within `beats` heartbeats of each node. All calls stay. Nodes report
    what they hold one group after the other, so most of what routers see is old."""
    random, drawn, on = Random(f"{seed} {count} {routers}"), [0], ring_without(count)
    held = dict.fromkeys(names(count), 0)
    reported = {node: _member(node, 0) for node in held}
    view = [Fleet(MappingProxyType(reported), on)]

    def mint() -> CallId:
        drawn[0] += 1
        return CallId(f"{random.getrandbits(128):032x}")

    placers = [Placer(lambda: view[0], lambda: 0.0, mint, random.randrange) for _ in range(routers)]
    turns = random.sample(names(count), count)
    for beat in range(beats * _GROUPS):
        for number in range(count * calls // (beats * _GROUPS)):
            placement = placers[number % routers].place(_START)
            assert placement is not None, "every node is live"
            held[placement.node] += 1
        reported = reported | {node: _member(node, held[node]) for node in turns[beat % _GROUPS :: _GROUPS]}
        view[0] = Fleet(MappingProxyType(reported), on)
    mean = sum(held.values()) / count
    shares = [share * count for share in on.shares().values()]
    most, least = max(held.values()) / mean, min(held.values()) / mean
    return Balance(count, routers, min(shares), max(shares), least, most, drawn[0] / sum(held.values()))


def _member(node: NodeId, parked: int) -> Member:
    return Member(node, Incarnation("1"), Boot("1"), LIVE, "", (node, 80), Stats(parked=parked))


@dataclass(frozen=True)
class Rolling:
    """A restart of all nodes, `at_once` of them at a time. Of the later rounds that came meanwhile: those that found
    their call handed off, and replayed it; those whose call was not where the ring says, and took a hop once. `node`
    is the share of each node's time that it would take to read of every change and to follow with its ring, `router` of
    each router's, which reads all leases; `store` is the cores of Redis for these looks."""

    nodes: int
    at_once: int
    seconds: float
    replayed: float
    relayed: float
    node: float
    router: float
    store: float


@dataclass(frozen=True)
class Roll:
    """How it is done: each group is `away` seconds; calls have 2 to 6 rounds, and a mean of `think` seconds between."""

    away: float = 20.0
    think: float = 60.0
    calls: int = 4_000


def rolling(count: int, at_once: int, seed: int, prices: tuple[float, float, float], roll: Roll) -> Rolling:
    """Calls that begin at any instant of the restart, each followed from round to round. `prices` are seconds of a
    process for a node on a ring that changes, and for a lease in a look; and of Redis for the latter."""
    random, on = Random(f"{seed} {count} {at_once}"), ring_without(count)
    turns = {node: number // at_once * roll.away for number, node in enumerate(random.sample(names(count), count))}
    seconds = max(turns.values()) + roll.away
    rounds = replayed = relayed = 0
    for _ in range(roll.calls):
        homes = _Homes(on, f"{random.getrandbits(128):032x}", turns, roll.away)
        at = random.uniform(0, seconds)
        home, learned = homes.at(at), False
        for _ in range(random.randint(1, 5)):
            parked, at = at, at + random.expovariate(1 / roll.think)
            if at > seconds:
                break
            first = homes.at(at)
            rounds += 1
            if parked < turns[home] <= at:
                home, learned = first, False
                replayed += 1
            elif home != first and not learned:
                # The router hears who has it, and sends the next round there.
                learned = True
                relayed += 1
    follow, read, look = prices
    every = roll.away / at_once
    # A restart is reported three times: it drains, it left, it is back. The ring changes at the first and the last.
    reports, changed = 3 / every, 2 / every
    node, router = changed * count * follow + reports * read, count * (changed * follow + reports * read)
    store = reports * (count + count / NODES_A_ROUTER * count) * look
    return Rolling(count, at_once, seconds, replayed / rounds, relayed / rounds, node, router, store)


class _Homes:
    """The owners of one key, as nodes are away and come back."""

    def __init__(self, on: Ring, key: str, turns: dict[NodeId, float], away: float) -> None:
        self._order, self._seen = on.order(key), list[NodeId]()
        self._turns, self._away = turns, away

    def at(self, now: float) -> NodeId:
        """The first of the key's nodes that is up."""
        index = 0
        while True:
            if index == len(self._seen):
                self._seen.append(next(self._order))
            node = self._seen[index]
            if not self._turns[node] <= now < self._turns[node] + self._away:
                return node
            index += 1
