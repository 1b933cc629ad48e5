"""Limits how many requests begin in one turn of the event loop.

A thousand requests may arrive at once, or may have waited for the same node. Without a limit the loop would run them
one after the other before anything else: the heartbeat would be late, and the node would lose its lease.

    1. up to `PER_TURN` requests begin at once
    2. the others wait in a queue; each turn of the loop lets `PER_TURN` of them begin, in order
"""

from __future__ import annotations

import asyncio
from collections import deque

PER_TURN = 32
"""A pass through the kernel takes about 0.3 ms, so this is about 10 ms a turn. A reply of the store takes about three
turns to reach the call that waits for it."""


class Pacing:
    """The queue of requests. Belongs to one event loop."""

    def __init__(self, per_turn: int = PER_TURN) -> None:
        self._per_turn = self._left = per_turn
        self._queue: deque[asyncio.Future[None]] = deque()
        self._counting = False

    def is_free(self) -> bool:
        """Whether this request may begin at once; then it counts as begun."""
        if not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_soon(self._turn)
        if not self._left or self._queue:
            return False
        self._left -= 1
        return True

    async def mine(self) -> None:
        """Return when this request may begin."""
        if self.is_free():
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        await turn

    def _turn(self) -> None:
        self._left = self._per_turn
        while self._queue and self._left:
            turn = self._queue.popleft()
            if not turn.done():
                self._left -= 1
                turn.set_result(None)
        self._counting = self._left < self._per_turn
        if self._counting:
            asyncio.get_running_loop().call_soon(self._turn)
