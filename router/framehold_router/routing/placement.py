"""The decision which node serves a request, with its reason.

The law: every placement is correct, because a node relays a request for a call that another node holds; a good
placement is fast. A client can forge the facts of its request; they choose only among the addresses of the fleet. A
choice costs a few draws and look-ups, however many calls there are.

- START: call ids are drawn until the ring maps one to a node within two bounds (bounded load). Its parked calls are
  few, or fewer than a multiple of the mean; its rounds in flight are fewer than a multiple of the mean of those nodes
  that are within the first bound. Requests of 2025 sessions and streams, which stay open for long, count as no rounds.
  The id alone then leads every router to that node, and no list of exceptions is needed.
- RETRY: the node that a response named, if that is not the node of the ring; then the node of the ring; then the next
  nodes on the ring.
- SESSION: the node that has the session, and no other while that node has a lease. Another node would answer "no such
  session", and the client would drop its session.
- ANY: the less busy one of two nodes, drawn at random.

Nodes report their parked calls one after the other, with their heartbeats. While many calls park, a node that has just
reported seems fuller than the others. If it were judged by that report alone it would get no call until they have
reported too, and the last one to report would get nearly all. So a node is within the bound of parked calls if it is by
one of its last two reports. A router that has just started has one report of each node, which keeps no call away.

A node that declined a new call is drawn for no other one until its next heartbeat, if there is another choice. A node
that could not be reached is passed over for a while if there is another choice: an address that swallows packets must
not cost each request a connection time-out. After that time one request tries the node; the other requests pass it over
until that attempt has ended.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from framehold_core.ids import Boot, CallId, NodeId
from framehold_fleet.members.address import Address
from framehold_fleet.members.membership import Fleet, Member
from framehold_fleet.members.ring import fresh_call

from .learned_owners import Owners
from .refused_hosts import RefusedHosts
from .request_facts import Facts, RequestKind

DRAWS = 64
"""Call ids that are drawn at most to find one whose node has room."""
PASSED_OVER = 2.0
"""Seconds for which a node is passed over after a connection to it failed."""
BOUND = 1.25
"""The load that a node may have, as a multiple of the mean load, for rounds in flight and for parked calls alike. A
lower bound takes more draws; a higher one allows more of the unevenness of the ring."""
FEW = 16
"""Parked calls that keep no new call away, however few the other nodes have. A node that held the only call of a fleet
would get none of a burst, until its next heartbeat."""


class PlacementReason(StrEnum):
    """Why a request goes to its node."""

    START = "start"
    RING = "ring"
    LEASE = "lease"
    """A response has named the node that holds the call."""
    NEXT = "next"
    """Not the first choice, which was tried already or is passed over."""
    SESSION = "session"
    ANY = "any"


_BY_RING = (PlacementReason.RING, PlacementReason.START)


class Placement(NamedTuple):
    """Where a request goes. `boots`: the process at `address` has to prove that it is one of them. `call`: the id that
    was minted for a new call, and is sent to the node. `token_call`: the call that the token of the request names, or
    the tokens of the new call will name."""

    node: NodeId
    address: Address
    call: CallId | None = None
    token_call: CallId | None = None
    reason: PlacementReason = PlacementReason.ANY
    boots: tuple[Boot, ...] = ()


class Placer:
    """Places the requests of one router. It keeps counts of requests in flight and of failed connections. `fleet` gives
    the newest view, `clock` gives seconds that never go back, `mint` makes call ids, and `below(n)` draws an integer
    from 0 to n - 1."""

    def __init__(
        self,
        fleet: Callable[[], Fleet],
        clock: Callable[[], float],
        mint: Callable[[], CallId] = fresh_call,
        below: Callable[[int], int] = random.randrange,
    ) -> None:
        self._fleet, self._clock, self._mint, self._below = fleet, clock, mint, below
        self._owners = Owners()
        self.refused_hosts = RefusedHosts(clock)
        self._in_flight = Counter[NodeId]()
        self._rounds = Counter[NodeId]()
        self._passed: dict[NodeId, float] = {}
        self._declined: dict[NodeId, tuple[Boot, int]] = {}
        """The nodes that declined a new call, each with the boot and the beat of its lease then."""
        self._view = fleet()
        self._names: tuple[NodeId, ...] = ()
        self._first_choice: tuple[NodeId, ...] = ()
        """Those of `_names` that are not passed over, or all of them."""
        self._room: frozenset[NodeId] = frozenset()
        """The nodes that a new call goes to first; `_total` counts their rounds in flight."""
        self._total = 0
        self._until = -math.inf
        """Until when `_settle` needs to compute these three no more."""
        self._earlier: dict[NodeId, int] = {}
        """The parked calls of each node as of the report before its last one."""
        self._look(self._view)

    def place(self, facts: Facts, tried: Collection[NodeId] = ()) -> Placement | None:
        """The placement of a request which the nodes in `tried` did not take; None if no node is left."""
        placement = self.where(facts, tried)
        if placement is not None and placement.node in self._passed:
            # This request tries the node; others pass it over until it answers, or for PASSED_OVER seconds more.
            self.unreachable(placement)
        return placement

    def where(self, facts: Facts, tried: Collection[NodeId] = ()) -> Placement | None:
        """The placement that `place` would return. Changes nothing."""
        fleet = self._fleet()
        if fleet is not self._view:
            self._look(fleet)
        if facts.kind is RequestKind.START:
            placement = self._start(tried)
        elif facts.call is not None:
            placement = self._retry(facts.call, tried)
        elif facts.node is not None and self._reachable(facts.node):
            placement = self._put(facts.node, PlacementReason.SESSION) if facts.node not in tried else None
        else:
            placement = self._any(tried)
        return placement

    def began(self, placement: Placement) -> None:
        """Count a request as in flight."""
        self._in_flight[placement.node] += 1
        if placement.token_call is not None:
            self._rounds[placement.node] += 1
            self._total += placement.node in self._room

    def ended(self, placement: Placement) -> None:
        """Count a request as ended, however it ended. Called once for each `began`."""
        self._in_flight[placement.node] -= 1
        if placement.token_call is not None:
            self._rounds[placement.node] -= 1
            self._total -= placement.node in self._room

    def unreachable(self, placement: Placement) -> None:
        """Record that a connection to this process failed: its node is passed over for PASSED_OVER seconds."""
        if self._present(placement) is not None:
            self._passed[placement.node] = self._clock() + PASSED_OVER
            self._until = -math.inf

    def declined(self, placement: Placement) -> None:
        """Record that this process takes no new call at present: its node is drawn for none until its next heartbeat,
        if there is another one."""
        if (member := self._present(placement)) is not None:
            self._declined[placement.node] = member.boot, member.beat
            self._until = -math.inf

    def stands(self, placement: Placement) -> bool:
        """Whether to keep waiting for the chosen process: it still has a lease at the same address, or no other node
        has an address. Giving up a round cancels it, which is useless without another node to send it to."""
        members = self._fleet().members
        member = members.get(placement.node)
        if member is not None and member.address == placement.address and member.boot in placement.boots:
            return True
        return all(other.address in (None, placement.address) for other in members.values())

    def learned(self, placement: Placement, served_by: str) -> None:
        """Take in a response, which named the node that served. The node is remembered for the call if the ring maps
        the call to another node."""
        if self._passed and self._passed.pop(placement.node, None) is not None:
            self._until = -math.inf
        call = placement.token_call
        if call is None or (served_by == placement.node and placement.reason in _BY_RING):
            # The ring gave this node and nothing else is remembered, so the owner need not be computed again.
            return
        if served_by == self._view.ring.owner(call):
            self._owners.forget(call)
        elif (member := self._view.members.get(NodeId(served_by))) is not None:
            self._owners.learn(call, member.node)

    def _look(self, fleet: Fleet) -> None:
        """Take in a new view: names and totals are computed once, not for each request. A failed connection concerns
        one process of a node: its next process is not passed over."""
        before, self._view = self._view.members, fleet
        self._names = tuple(sorted(fleet.ring.nodes))
        self._in_flight, self._rounds = +self._in_flight, +self._rounds
        same = {node for node in before.keys() & fleet.members if fleet.members[node].boot == before[node].boot}
        self._passed = {node: until for node, until in self._passed.items() if node in same}
        beats = {node: (member.boot, member.beat) for node, member in fleet.members.items()}
        self._declined = {node: beat for node, beat in self._declined.items() if beats.get(node) == beat}
        same &= fleet.ring.nodes
        held = {node: before[node].stats.parked or 0 for node in same}
        reported = {node for node in same if (before[node].beat, held[node]) != (beats[node][1], self._parked(node))}
        self._earlier |= {node: held[node] for node in reported}
        self._earlier = {node: parked for node, parked in self._earlier.items() if node in same}
        self._until = -math.inf

    def _settle(self) -> None:
        """Compute the nodes of the first choice, if they may have changed."""
        now = self._clock()
        if now < self._until:
            return
        self._first_choice = self._allowed(())
        self._room = self._with_room(self._allowed((), self._declined))
        self._total = sum(self._rounds[node] for node in self._room)
        self._until = min((until for until in self._passed.values() if now < until), default=math.inf)

    def _with_room(self, allowed: Collection[NodeId]) -> frozenset[NodeId]:
        """Those of the `allowed` nodes that are within the bound of parked calls. The mean is of the allowed nodes:
        other nodes take no share of the load."""
        if not allowed:
            return frozenset()
        full = max(FEW, _bound(sum(map(self._parked, allowed)), len(allowed)))
        return frozenset(node for node in allowed if self._lower(node) < full)

    def _start(self, tried: Collection[NodeId]) -> Placement | None:
        self._settle()
        room, rounds = self._room, self._total
        if tried:
            room = self._with_room(self._allowed(tried, self._declined))
            rounds = sum(self._rounds[node] for node in room)
        if not room:
            return None
        busy = _bound(rounds, len(room))
        best: tuple[int, NodeId, CallId] | None = None
        call = self._mint()
        for _ in range(DRAWS):
            node = self._view.ring.owner(call)
            if node is not None and node in room:
                load = self._rounds[node]
                if load < busy:
                    return self._put(node, PlacementReason.START, call, minted=True)
                if best is None or load < best[0]:
                    best = load, node, call
            call = self._mint()
        if best is None:
            # Few of very many nodes are left, and no draw hit one. The response will name the node of the call.
            node = min((self._rounds[node], node) for node in room)[1]
            return self._put(node, PlacementReason.NEXT, call, minted=True)
        return self._put(best[1], PlacementReason.START, best[2], minted=True)

    def _retry(self, call: CallId, tried: Collection[NodeId]) -> Placement | None:
        learned = self._owners.get(call)
        owner = self._view.ring.owner(call) if learned is None and not tried else None
        if owner is not None and not self._is_passed_over(owner):
            return self._put(owner, PlacementReason.RING, call)
        node = self._first(self._homes(call, learned), tried)
        if node is None:
            return None
        reason = PlacementReason.RING if node == owner else PlacementReason.NEXT
        return self._put(node, PlacementReason.LEASE if node == learned else reason, call)

    def _homes(self, call: CallId, learned: NodeId | None) -> Iterator[NodeId]:
        """The nodes that may hold a call, the likeliest first. Draining nodes are among them."""
        if learned is not None:
            yield learned
        yield from self._view.ring.order(call)
        yield from self._view.members

    def _first(self, nodes: Iterable[NodeId], tried: Collection[NodeId]) -> NodeId | None:
        """The first of `nodes` that can be sent to and is not passed over; if there is none, the first that is passed
        over."""
        last: NodeId | None = None
        for node in nodes:
            if node in tried or not self._reachable(node):
                continue
            if not self._is_passed_over(node):
                return node
            last = last or node
        return last

    def _any(self, tried: Collection[NodeId]) -> Placement | None:
        self._settle()
        allowed = self._allowed(tried) if tried else self._first_choice
        if not allowed:
            # Draining nodes take no new call, but they do list tools.
            node = self._first(self._view.members, tried)
            return self._put(node, PlacementReason.ANY) if node is not None else None
        count = len(allowed)
        first = self._below(count)
        second = (first + 1 + self._below(count - 1)) % count if count > 1 else first
        return self._put(min((allowed[first], allowed[second]), key=self._business), PlacementReason.ANY)

    def _allowed(self, tried: Collection[NodeId], declined: Collection[NodeId] = ()) -> tuple[NodeId, ...]:
        """The nodes on the ring that were not tried, without those that are passed over or have `declined` if that
        leaves any."""
        if not (tried or self._passed or declined):
            return self._names
        left = tuple(node for node in self._names if node not in tried)
        return tuple(node for node in left if node not in declined and not self._is_passed_over(node)) or left

    def _is_passed_over(self, node: NodeId) -> bool:
        return node in self._passed and self._clock() < self._passed[node]

    def _reachable(self, node: NodeId) -> bool:
        member = self._view.members.get(node)
        return member is not None and member.address is not None

    def _present(self, placement: Placement) -> Member | None:
        """The process of a placement; None if its node has another one by now, or none."""
        member = self._view.members.get(placement.node)
        return member if member is not None and member.boot in placement.boots else None

    def _parked(self, node: NodeId) -> int:
        """The parked calls of a node as of its last heartbeat."""
        return self._view.members[node].stats.parked or 0

    def _lower(self, node: NodeId) -> int:
        """The parked calls of a node as of one of its last two reports, whichever has fewer; 0 after one report."""
        return min(self._parked(node), self._earlier.get(node, 0))

    def _business(self, node: NodeId) -> tuple[int, int]:
        """The load of a node for a request that is no round: all requests in flight from here first; parked calls break
        ties, because they take memory but no time."""
        return self._in_flight[node], self._parked(node)

    def _put(
        self, node: NodeId, reason: PlacementReason, call: CallId | None = None, *, minted: bool = False
    ) -> Placement:
        member = self._view.members[node]
        assert member.address is not None, "only nodes with an address are chosen from"
        return Placement(node, member.address, call if minted else None, call, reason, (member.boot,))


def _bound(total: int, nodes: int) -> int:
    """The load from which on a node gets no new call, where so many nodes have a load of `total` together. The least
    loaded of them is always below."""
    return math.ceil(BOUND * (total + 1) / nodes)
