"""How many requests begin their pass in one turn of the event loop.

A thousand requests that arrive at once, or that waited for the same node, would run one after the other before the loop
looks at anything else: the heartbeat would come too late, and the node lose its lease to its own popularity.

    1. up to `PER_TURN` requests go through at once
    2. the rest line up; each turn of the loop lets as many in, in order
"""

from __future__ import annotations

import asyncio
from collections import deque

PER_TURN = 32
"""A pass takes some 0.3 ms: ten milliseconds a turn, and a store's reply takes about three turns to be heard."""


class Turns:
    """The line. Belongs to one event loop."""

    def __init__(self, per_turn: int = PER_TURN) -> None:
        self._per_turn = self._left = per_turn
        self._line: deque[asyncio.Future[None]] = deque()
        self._counting = False

    async def mine(self) -> None:
        """Returns when it is this request's turn."""
        if not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_soon(self._turn)
        if self._left and not self._line:
            self._left -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        await turn

    def _turn(self) -> None:
        self._left = self._per_turn
        while self._line and self._left:
            turn = self._line.popleft()
            if not turn.done():
                self._left -= 1
                turn.set_result(None)
        self._counting = self._left < self._per_turn
        if self._counting:
            asyncio.get_running_loop().call_soon(self._turn)
