"""What the requests that a node serves hold of its memory: their bodies, and the values that their bodies become.

The law: all requests together hold at most `most` bytes, and no more than the process may still take. For one more, the
largest request that is still being received is refused, so a few large ones keep nobody out. A small request always
passes, and so does one that is alone.

    1  a piece of a body comes: its bytes are charged
    2  the body is whole: the weight of its value is charged before it is parsed
    3  its response has ended: all that was charged is released
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

from .. import json_text

SMALL = 4096
"""Bytes up to which a request is not refused for want of room."""
LIGHT = 1024
"""Bytes of a body up to which its value is not weighed: it takes 72 KiB at most."""
HEAVY = 1 << 20
"""Bytes that a request holds, from which on it is served one after the other: each may take a tenth of a second."""
HEAVIEST = 2
"""How much heavier than the largest body the lists, objects and items of a body may be: it takes about a tenth of a
second to build and to compare them."""
MAX_LISTEN = 16 * 1024
"""Bytes that a request which subscribes may take, its value included: it stays for as long as its client listens."""


class Crowded(Exception):
    """Requests hold too much memory. This one was not run; it may succeed later."""


class TooLarge(Exception):
    """A body is too large, or the value that it becomes. The text says how large it may be."""


class Intake:
    """Counts what the requests of one node hold together. `most` and `room` say how many bytes that may be: by the
    settings, and by what this process may still take (None: not known)."""

    def __init__(self, most: Callable[[], float], room: Callable[[], float | None]) -> None:
        self._most, self._room = most, room
        self.held = 0
        """Bytes that all requests hold."""
        self.receiving: set[Held] = set()
        """The requests whose bodies are not whole."""

    def request(self) -> Held:
        """What one request holds: a context, at whose end its response has ended."""
        return Held(self)

    def charge(self, held: Held, size: int) -> None:
        """Charge `size` bytes, and refuse the largest request that is being received until all fit. Raises Crowded if
        that is this one."""
        held.size += size
        self.held += size
        while held.size > SMALL and self._is_beyond(held.size):
            largest = max(self.receiving, key=lambda other: other.size, default=held)
            if largest.size <= held.size:
                raise Crowded
            self.release(largest)
            largest.refuse()

    def take(self, data: bytes, largest: int) -> int:
        """Charge a body that is whole, and the value that it becomes. Returns the bytes of the value, 0 for a light
        one; -1 if there is no room, and nothing was charged. `largest` is the size of the largest body. `give_back`
        gets the size of the body and that of the value."""
        size, total = len(data), 0
        if size > LIGHT:
            weight = json_text.weight(data, HEAVIEST * largest)
            if weight.structure > HEAVIEST * largest:
                return -1
            total = sum(weight)
        size += total
        self.held += size
        if size > SMALL and self._is_beyond(size):
            self.held -= size
            return -1
        return total

    def give_back(self, size: int) -> None:
        """The response to a request has ended that `take` has charged."""
        self.held -= size

    def release(self, held: Held) -> None:
        """Charge nothing for a request any more."""
        self.receiving.discard(held)
        self.held -= held.size
        held.size = 0

    def _is_beyond(self, size: int) -> bool:
        """Whether all requests hold too much. `size` is what one of them holds."""
        if self.held > size and self.held > self._most():
            return True
        room = self._room()
        return room is not None and self.held > room


class Held:
    """What one request holds: `size` bytes."""

    __slots__ = ("_intake", "_is_refused", "_task", "size")

    def __init__(self, intake: Intake) -> None:
        self._intake, self._task, self._is_refused = intake, asyncio.current_task(), False
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._intake.release(self)

    def receives(self, size: int) -> None:
        """A piece of the body came, of `size` bytes. Raises Crowded."""
        self._intake.receiving.add(self)
        self._intake.charge(self, size)

    def received(self) -> None:
        """The body is whole: its request is not refused any more for the room of another."""
        self._intake.receiving.discard(self)

    def weigh(self, data: bytes, largest: int, listens: bool) -> int:
        """Charge what the value of `data`, a JSON text, takes at most. Returns how many bytes these are; 0 for a light
        one. `largest` is the size of the largest body; `listens` says whether the request subscribes.

        Raises:
            TooLarge: the value is too heavy, however much room there is.
            Crowded: there is no room for it.
        """
        if len(data) <= LIGHT:
            return 0
        limit = MAX_LISTEN if listens else HEAVIEST * largest
        weight = json_text.weight(data, limit)
        total = sum(weight)
        if weight.structure > limit or (listens and total > limit):
            what = "a subscription" if listens else f"{HEAVIEST} times FRAMEHOLD_MAX_BODY, beside its texts"
            raise TooLarge(f"its values may take {limit} bytes of memory ({what})")
        self._intake.charge(self, total)
        return total

    @property
    def is_heavy(self) -> bool:
        """Whether to build its value takes long."""
        return self.size > HEAVY

    def refuse(self) -> None:
        """End the wait of this request for its body: another one gets its room."""
        self._is_refused = True
        if self._task is not None:
            self._task.cancel()

    def was_refused(self) -> bool:
        """Whether the cancellation that has just come was that of `refuse`, and nobody else cancels its task."""
        return self._is_refused and self._task is not None and not self._task.uncancel()
