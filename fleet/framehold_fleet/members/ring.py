"""The ring: an immutable map from call ids to nodes, equal in every process that knows the same nodes.

The law: the owner of a key depends only on the set of nodes, never on the order in which they joined. If points of two
nodes fall on one place, the node with the smaller name has it. A node that joins takes keys from all nodes and moves
none between others; a node that leaves gives its keys to all. Routers and nodes of a rolling release must agree, so
neither the hash nor the number of points may change without a new prefix of the token.

`uhashring` computes the points. It gives a place that two nodes hit to the last node, so nodes are added in falling
order of their names. It is mutable, so its lists are copied. It hashes all nodes that it is given; so for a ring that
is made from an earlier one it gets only the new nodes, and their points are merged into the points that stay.
"""

from __future__ import annotations

import os
from bisect import bisect, bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain, compress

from uhashring import HashRing

from framehold_core.ids import CallId, NodeId

POINTS = 160
"""Points of each node: shares then lie within about a quarter of the ideal."""
SPACE = 1 << 64
"""How many places the ring has."""


def fresh_call(fresh: Callable[[int], bytes] = os.urandom) -> CallId:
    """An id for a new call: 128 random bits. `fresh` gives random bytes."""
    return CallId(fresh(16).hex())


def place(text: str) -> int:
    """Where a text falls on the ring."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class Ring:
    """The ring of the nodes of one view of the fleet. `hash_fn` maps a text to 0 .. SPACE - 1; tests make it collide.

    `before` is a ring with the same hash, whose points are used again. It does not change the result, it saves time:
    1,000 nodes take 0.4 s without it, and a few milliseconds if one node has joined or left since."""

    def __init__(
        self, nodes: Iterable[NodeId], hash_fn: Callable[[str], int] = place, before: Ring | None = None
    ) -> None:
        self.nodes = frozenset(nodes)
        self._hash = hash_fn
        kept = self.nodes & before.nodes if before is not None and before._unmet else frozenset()
        self._places, self._owners = before._only(kept) if before is not None and kept else ([], [])
        laid = HashRing(nodes=sorted(self.nodes - kept, reverse=True), hash_fn=hash_fn, vnodes=POINTS)
        self._merge(laid.get_points())
        # The first owner stands at the end once more: a key behind the last point needs no branch.
        self._owners += self._owners[:1]
        self._shares: dict[NodeId, float] | None = None

    @property
    def _unmet(self) -> bool:
        """Whether no two points are on one place. Otherwise a node that leaves may have hidden points of other
        nodes."""
        return self.points == POINTS * len(self.nodes)

    def _only(self, nodes: frozenset[NodeId]) -> tuple[list[int], list[NodeId]]:
        """Places and owners of some of the nodes."""
        stays = [node in nodes for node in self._owners[:-1]]
        return list(compress(self._places, stays)), list(compress(self._owners, stays))

    def _merge(self, points: Iterable[tuple[int, NodeId]]) -> None:
        """Add points, which are in rising order. If a place is taken already, the smaller name has it."""
        places, owners, start = self._places, self._owners, 0
        self._places, self._owners = [], []
        for point, node in points:
            end = bisect_left(places, point, start)
            self._places += places[start:end]
            self._owners += owners[start:end]
            met = places[end : end + 1] == [point]
            self._places.append(point)
            self._owners.append(min(node, owners[end]) if met else node)
            start = end + met
        self._places += places[start:]
        self._owners += owners[start:]

    def owner(self, key: str) -> NodeId | None:
        """The node that a key belongs to; None where there is no node."""
        return self._owners[bisect(self._places, self._hash(key))] if self._owners else None

    def order(self, key: str) -> Iterator[NodeId]:
        """All nodes, each once, in the order in which a key would belong to them if those before were gone."""
        start = bisect(self._places, self._hash(key))
        seen: set[NodeId] = set()
        for index in chain(range(start, self.points), range(start)):
            node = self._owners[index]
            if node not in seen:
                seen.add(node)
                yield node
                if len(seen) == len(self.nodes):
                    return

    def shares(self) -> dict[NodeId, float]:
        """The part of all keys that each node owns; the parts add up to 1."""
        if self._shares is None:
            held: Counter[NodeId] = Counter(dict.fromkeys(self.nodes, 0))
            before = self._places[-1] - SPACE if self._places else 0
            for here, node in zip(self._places, self._owners, strict=False):
                held[node] += here - before
                before = here
            self._shares = {node: size / SPACE for node, size in held.items()}
        return dict(self._shares)

    def position(self, key: str) -> float:
        """Where a key falls, from 0 to 1."""
        return self._hash(key) / SPACE

    def arcs(self) -> Iterator[tuple[float, NodeId]]:
        """The arcs of the ring from 0 on: pairs of a start (0 to 1) and the node that owns the ring from there up to
        the next start."""
        before: NodeId | None = None
        for start, node in zip(chain((0,), self._places), self._owners, strict=False):
            if node != before:
                yield start / SPACE, node
            before = node

    def moved(self, before: Ring) -> float:
        """The part of all keys, from 0 to 1, that another node owns than on the ring `before`. Exact, computed arc by
        arc. Without nodes on one of the rings nothing has moved. Takes about a millisecond per thousand points."""
        if not self._owners or not before._owners:
            return 0.0
        size = 0
        ends = sorted({*self._places, *before._places})
        last = ends[-1] - SPACE
        for here in ends:
            # No point lies between the last place and this one: that arc belongs to the owner of the next point.
            if self._up_to(here) != before._up_to(here):
                size += here - last
            last = here
        return size / SPACE

    def _up_to(self, end: int) -> NodeId:
        return self._owners[bisect_left(self._places, end)]

    @property
    def points(self) -> int:
        """The number of points: POINTS for each node, less if two points are on one place."""
        return len(self._places)

    def points_of(self) -> dict[NodeId, int]:
        """How many points each node has."""
        held = Counter(dict.fromkeys(self.nodes, 0))
        held.update(self._owners[:-1])
        return dict(held)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ring):
            return NotImplemented
        return self._places == other._places and self._owners == other._owners

    def __hash__(self) -> int:
        return hash(self.nodes)

    def __repr__(self) -> str:
        return f"Ring({sorted(self.nodes)!r})"


TOGETHER = 5.0
"""Seconds in which nodes come or go together: those of a fleet that starts, or of a scaling."""


@dataclass(frozen=True)
class Change:
    """The change from one ring to another, at `changed`. `first` is the ring before the first of those changes that
    came together, at `began`. Times are in seconds since 1970."""

    before: Ring
    after: Ring
    changed: float
    first: Ring
    began: float

    @classmethod
    def alone(cls, before: Ring, after: Ring, now: float) -> Change:
        """A change that came with no other."""
        return cls(before, after, now, before, now)

    def then(self, after: Ring, now: float) -> Change:
        """The next change, to the ring `after`: together with this one if it came within TOGETHER of the first."""
        if not 0 <= now - self.began < TOGETHER:
            return Change.alone(self.after, after, now)
        return Change(self.after, after, now, self.first, self.began)

    @cached_property
    def moved(self) -> float:
        """The part of all calls, from 0 to 1, that the change gave to another node. Computed on first access."""
        return self.after.moved(self.before)

    @cached_property
    def moved_together(self) -> float:
        """As `moved`, by all the changes that came together."""
        return self.after.moved(self.first)
