"""Which connections end when all places of a server are taken and one more client comes.

The law: no request that may have begun is broken off, but for subscriptions, whose clients subscribe again. A client's
address loses no place to one that has more. Of the address with the most places, the connection goes first that has
been longest in a state that may end: it waits for a request, sends one, or listens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Protocol, TypeVar

AT_ONCE = 64
"""One part in so many of all places is made free at once: to look at all connections for each client would be slow."""


class Placed(Protocol):
    """A connection."""

    peer: str

    def yields_since(self, now: float) -> float | None:
        """Since when it is in a state that may end, in seconds on the loop's clock; None if it must not."""


PlaceT = TypeVar("PlaceT", bound=Placed)


def yielding(connections: Iterable[PlaceT], newcomer: str, now: float) -> list[PlaceT]:
    """The connections that end for clients of the address `newcomer`; none if none may."""
    held: Counter[str] = Counter()
    may_end: defaultdict[str, list[tuple[float, int, PlaceT]]] = defaultdict(list)
    for number, connection in enumerate(connections):
        held[connection.peer] += 1
        if (since := connection.yields_since(now)) is not None:
            may_end[connection.peer].append((since, number, connection))
    for longest_last in may_end.values():
        longest_last.sort(reverse=True)
    chosen: list[PlaceT] = []
    for _ in range(1 + held.total() // AT_ONCE):
        peer = max((peer for peer, left in may_end.items() if left), key=held.__getitem__, default=None)
        if peer is None or held[peer] < held[newcomer]:
            break
        held[peer] -= 1
        chosen.append(may_end[peer].pop()[2])
    return chosen
