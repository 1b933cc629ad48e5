"""Digests of the objects of a graph: each is over the object and all that it leads to.

Two objects, maybe of two processes, have one digest if they and all that they lead to are alike. Circles are allowed.

    1. each object has a digest of its own: what was put to it, with a mark where it leads to another object
    2. `ROUNDS` times: each object's digest is continued by those of the objects that it leads to, in order
    3. an object's last digest is over that, and over the digests of all objects that can be reached from it
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

ROUNDS = 8
"""So many steps away, it counts by which way an object is reached; farther away, only that it is reached."""


class ObjectForms:
    """The objects of one graph, by number. What is put belongs to the object that was opened last."""

    def __init__(self) -> None:
        self._own = [hashlib.sha256()]
        self._leads: list[list[int]] = [[]]
        self._joined: list[list[int]] = [[]]
        self._open = [0]

    def put(self, *parts: object) -> None:
        """Add texts or bytes to the open object, or anything that `str` describes alike in each process."""
        own = self._own[self._open[-1]]
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
            own.update(b"%d:%b" % (len(data), data))

    def begin(self) -> int:
        """Have the open object lead to a new one, which is open until `end`. Returns its number."""
        number = len(self._own)
        self._own.append(hashlib.sha256())
        self._leads.append([])
        self._joined.append([])
        self.lead(number)
        self._open.append(number)
        return number

    def end(self) -> None:
        """Close the object that was opened last."""
        self._open.pop()

    def lead(self, number: int) -> None:
        """Have the open object lead to a known one."""
        self.put("leads")
        self._leads[self._open[-1]].append(number)

    def join(self, number: int, other: int) -> None:
        """Have an object lead to another one, in no order."""
        self._joined[number].append(other)

    def digests(self) -> list[str]:
        """The digest of each object, by number; that of the first is the digest of the whole graph."""
        found = [own.digest() for own in self._own]
        for _ in range(ROUNDS):
            found = [
                hashlib.sha256(own + b"".join([found[n] for n in leads] + sorted(found[n] for n in joined))).digest()
                for own, leads, joined in zip(found, self._leads, self._joined, strict=True)
            ]
        self._leads = [leads + joined for leads, joined in zip(self._leads, self._joined, strict=True)]
        rings = list(self._rings())
        ring_of = {number: index for index, ring in enumerate(rings) for number in ring}
        digests: list[bytes] = []
        for index, ring in enumerate(rings):
            beyond = {ring_of[other] for number in ring for other in self._leads[number]} - {index}
            parts = [*sorted(found[number] for number in ring), b"-", *sorted(digests[other] for other in beyond)]
            digests.append(hashlib.sha256(b"".join(parts)).digest())
        return [hashlib.sha256(own + digests[ring_of[number]]).hexdigest()[:32] for number, own in enumerate(found)]

    def _rings(self) -> Iterator[list[int]]:
        """The sets of objects that lead to each other (strongly connected components, by Tarjan), each in order, and
        behind all that they lead to."""
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        waiting: set[int] = set()
        work = [(0, iter(self._leads[0]))]
        while work:
            number, others = work[-1]
            if number not in index:
                index[number] = low[number] = len(index)
                stack.append(number)
                waiting.add(number)
            other = next(others, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[number])
                if low[number] == index[number]:
                    start = stack.index(number)
                    ring, stack[start:] = sorted(stack[start:]), []
                    waiting.difference_update(ring)
                    yield ring
            elif other not in index:
                work.append((other, iter(self._leads[other])))
            elif other in waiting:
                low[number] = min(low[number], index[other])
