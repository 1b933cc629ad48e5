"""Which connections end when all places of a server are taken and one more client comes.

The law: no request that may have begun is broken off, but for subscriptions, whose clients subscribe again. A client's
address loses no place to one that has more. Of the address with the most places, the connection goes first that has
been longest in a state that may end: it waits for a request, sends one, or listens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TypeVar

AT_ONCE = 64
"""One part in so many of all places is made free at once: to look at all connections for each client would be slow."""


ConnectionT = TypeVar("ConnectionT")


def yielding(connections: Iterable[tuple[ConnectionT, str, float | None]], newcomer: str) -> list[ConnectionT]:
    """The connections that end for clients of the address `newcomer`; none if none may. Each comes with the address of
    its client, and with since when it is in a state that may end, on any clock in seconds; None if it must not."""
    held: Counter[str] = Counter()
    may_end: defaultdict[str, list[tuple[float, int, ConnectionT]]] = defaultdict(list)
    for number, (connection, peer, since) in enumerate(connections):
        held[peer] += 1
        if since is not None:
            may_end[peer].append((since, number, connection))
    for longest_last in may_end.values():
        longest_last.sort(reverse=True)
    chosen: list[ConnectionT] = []
    for _ in range(1 + held.total() // AT_ONCE):
        most = max((peer for peer, left in may_end.items() if left), key=held.__getitem__, default=None)
        if most is None or held[most] < held[newcomer]:
            break
        held[most] -= 1
        chosen.append(may_end[most].pop()[2])
    return chosen
