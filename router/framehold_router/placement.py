"""The decision which node serves a request, with its reason.

The law: any placement is correct, since a node relays what it doesn't own; a good one is fast. What a client can forge
chooses among the fleet's own addresses and nothing else. A choice costs no more than a few draws and look-ups, however
many calls there are.

- START: call ids are drawn until the ring maps one to a node that has room (bounded load), so that no list of
  exceptions is needed afterwards: the id alone leads every router back.
- RETRY: the node that a response named, where that is another than the ring's; then the ring's; then its next ones.
- SESSION: the node that has it, and no other while that node has a lease: "no such session" from elsewhere would make
  the client throw it away.
- ANY: the less busy of two, drawn at random.

A node that could not be reached is passed over for a while wherever there is a choice: an address that swallows packets
must not cost each request a connection time-out. Then one request tries it; the others wait for what comes of that.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from framehold_core.ids import CallId, NodeId

from .envelope import Facts, Kind
from .membership import Fleet
from .message import Address
from .owners import Owners

DRAWS = 64
"""How many call ids are drawn for one whose node has room."""
PASSED_OVER = 2.0
"""Seconds for which a node is passed over after a connection to it failed."""
BOUND = 1.25
"""How much of the mean load a node may have: less takes more draws, more lets the ring's unevenness through."""


class Reason(StrEnum):
    """Why a request goes where it goes."""

    START = "start"
    RING = "ring"
    LEASE = "lease"
    """A response has named the node that holds the call."""
    NEXT = "next"
    """Not the first choice: that was tried, or is passed over."""
    SESSION = "session"
    ANY = "any"


_BY_RING = (Reason.RING, Reason.START)


class Placement(NamedTuple):
    """Where a request goes. `call` is the id minted for it, to be told to the node; `token_call` the call that the
    request names, or will name."""

    node: NodeId
    address: Address
    call: CallId | None = None
    token_call: CallId | None = None
    reason: Reason = Reason.ANY


def fresh_call() -> CallId:
    """An id for a new call: 128 random bits."""
    return CallId(os.urandom(16).hex())


class Placer:
    """Places the requests of one router. `fleet` gives the newest view, `clock` seconds that never go back."""

    def __init__(
        self,
        fleet: Callable[[], Fleet],
        clock: Callable[[], float],
        mint: Callable[[], CallId] = fresh_call,
        below: Callable[[int], int] = random.randrange,
    ) -> None:
        self._fleet, self._clock, self._mint, self._below = fleet, clock, mint, below
        self._owners = Owners()
        self._in_flight: dict[NodeId, int] = {}
        self._passed: dict[NodeId, float] = {}
        self._view = fleet()
        self._names: tuple[NodeId, ...] = ()
        self._total = 0
        self._look(self._view)

    def place(self, facts: Facts, tried: Collection[NodeId] = ()) -> Placement | None:
        """The node for a request that the nodes in `tried` did not take; None where there is none left."""
        placement = self.where(facts, tried)
        if placement is not None and placement.node in self._passed:
            # This request tries the node; until something comes of it, or for as long again, the others do not.
            self._passed[placement.node] = self._clock() + PASSED_OVER
        return placement

    def where(self, facts: Facts, tried: Collection[NodeId] = ()) -> Placement | None:
        """What `place` would say, for whoever only wants to know."""
        fleet = self._fleet()
        if fleet is not self._view:
            self._look(fleet)
        if facts.kind is Kind.START:
            placement = self._start(tried)
        elif facts.call is not None:
            placement = self._retry(facts.call, tried)
        elif facts.node is not None and self._reachable(facts.node):
            placement = self._put(facts.node, Reason.SESSION) if facts.node not in tried else None
        else:
            placement = self._any(tried)
        return placement

    def began(self, node: NodeId) -> None:
        """A request to `node` is in flight."""
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        self._total += node in self._view.ring.nodes

    def ended(self, node: NodeId) -> None:
        """It is no longer, however it ended. Once for each `began`."""
        self._in_flight[node] -= 1
        self._total -= node in self._view.ring.nodes
        if not self._in_flight[node]:
            del self._in_flight[node]

    def unreachable(self, node: NodeId) -> None:
        """A connection to `node` failed."""
        self._passed[node] = self._clock() + PASSED_OVER

    def stands(self, placement: Placement) -> bool:
        """Whether the node that was chosen still has a lease, at the same address; or nobody else has one. To give a
        round up cuts it off: for nothing, where there is no other node to ask."""
        members = self._fleet().members
        member = members.get(placement.node)
        if member is not None and member.address == placement.address:
            return True
        return all(other.address in (None, placement.address) for other in members.values())

    def learned(self, placement: Placement, served_by: str) -> None:
        """A response came, and named the node that served: remembered where the ring would not have said so."""
        self._passed.pop(placement.node, None)
        call = placement.token_call
        if call is None or (served_by == placement.node and placement.reason in _BY_RING):
            # The ring said so, and nothing else was remembered: the call's place is not worked out a second time.
            return
        if served_by == self._view.ring.owner(call):
            self._owners.forget(call)
        elif (member := self._view.members.get(NodeId(served_by))) is not None:
            self._owners.learn(call, member.node)

    def _look(self, fleet: Fleet) -> None:
        """Sum up a new view once, not for each request. What was tried in vain was an address, not a name: a node that
        came back elsewhere is sent to at once."""
        before, self._view = self._view.members, fleet
        self._names = tuple(sorted(fleet.ring.nodes))
        self._total = sum(self._load(node) for node in self._names)
        self._passed = {
            node: until
            for node, until in self._passed.items()
            if node in fleet.members and node in before and fleet.members[node].boot == before[node].boot
        }

    def _start(self, tried: Collection[NodeId]) -> Placement | None:
        allowed = self._allowed(tried)
        if not allowed:
            return None
        among, total = self._view.ring.nodes, self._total
        if allowed is not self._names:
            # What is out of reach takes no share of the load: the mean is of those that are left.
            among, total = frozenset(allowed), sum(self._load(node) for node in allowed)
        bound = math.ceil(BOUND * (total + 1) / len(allowed))
        best: tuple[int, NodeId, CallId] | None = None
        call = self._mint()
        for _ in range(DRAWS):
            node = self._view.ring.owner(call)
            if node is not None and node in among:
                load = self._load(node)
                if load < bound:
                    return self._put(node, Reason.START, call, minted=True)
                if best is None or load < best[0]:
                    best = load, node, call
            call = self._mint()
        if best is None:
            # A few nodes of very many are left and no draw met one. The response will say where the call lives.
            node = min((self._load(node), node) for node in allowed)[1]
            return self._put(node, Reason.NEXT, call, minted=True)
        return self._put(best[1], Reason.START, best[2], minted=True)

    def _retry(self, call: CallId, tried: Collection[NodeId]) -> Placement | None:
        learned = self._owners.get(call)
        if learned is None and not tried and not self._passed:
            owner = self._view.ring.owner(call)
            if owner is not None:
                return self._put(owner, Reason.RING, call)
        node = self._first(self._homes(call, learned), tried)
        if node is None:
            return None
        return self._put(node, Reason.LEASE if node == learned else Reason.NEXT, call)

    def _homes(self, call: CallId, learned: NodeId | None) -> Iterator[NodeId]:
        """Where a call may be, the likeliest first. A draining node may still hold it."""
        if learned is not None:
            yield learned
        yield from self._view.ring.order(call)
        yield from self._view.members

    def _first(self, nodes: Iterable[NodeId], tried: Collection[NodeId]) -> NodeId | None:
        """The first that can be sent to; the first of those that are passed over where there is no other."""
        last: NodeId | None = None
        for node in nodes:
            if node in tried or not self._reachable(node):
                continue
            if not self._is_passed_over(node):
                return node
            last = last or node
        return last

    def _any(self, tried: Collection[NodeId]) -> Placement | None:
        allowed = self._allowed(tried)
        if not allowed:
            # Draining nodes take no new call, but they do list tools.
            node = self._first(self._view.members, tried)
            return self._put(node, Reason.ANY) if node is not None else None
        count = len(allowed)
        first = self._below(count)
        second = (first + 1 + self._below(count - 1)) % count if count > 1 else first
        return self._put(min((allowed[first], allowed[second]), key=self._business), Reason.ANY)

    def _allowed(self, tried: Collection[NodeId]) -> tuple[NodeId, ...]:
        """The nodes on the ring that were not tried, without those that are passed over if that leaves any."""
        if not tried and not self._passed:
            return self._names
        left = tuple(node for node in self._names if node not in tried)
        return tuple(node for node in left if not self._is_passed_over(node)) or left

    def _is_passed_over(self, node: NodeId) -> bool:
        return node in self._passed and self._clock() < self._passed[node]

    def _reachable(self, node: NodeId) -> bool:
        member = self._view.members.get(node)
        return member is not None and member.address is not None

    def _load(self, node: NodeId) -> int:
        """Calls that a node holds: parked ones as of its last heartbeat, and what is in flight from here."""
        return (self._view.members[node].stats.parked or 0) + self._in_flight.get(node, 0)

    def _business(self, node: NodeId) -> tuple[int, int]:
        """A parked call takes memory and no time: for a short request it only breaks ties."""
        return self._in_flight.get(node, 0), self._view.members[node].stats.parked or 0

    def _put(self, node: NodeId, reason: Reason, call: CallId | None = None, *, minted: bool = False) -> Placement:
        address = self._view.members[node].address
        assert address is not None, "only nodes with an address are chosen from"
        return Placement(node, address, call if minted else None, call, reason)
