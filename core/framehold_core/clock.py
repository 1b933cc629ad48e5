"""The clock of one process: a time that only passes, the time of the store, and randomness.

A process never writes its machine's wall clock where another process reads it. Two machines may differ by minutes; all
processes of a fleet read one store. So each measures the store's clock, and writes and judges times on that.

    sent ------------------> received      on `now`, the clock of this process
            store_time                     anywhere between them: the error is half the round trip

The measure with the least error is kept. Its error grows with its age, since clocks drift. A measure that contradicts
the kept one replaces it whatever its error: another server answers now, or the store's clock was set.
"""

from __future__ import annotations

import math
from collections.abc import Callable

DRIFT = 5e-4
"""Seconds that two clocks may drift apart in a second: the most that NTP slews a clock."""


class Clock:
    """Time and randomness of one process.

    Args:
        now: seconds on a clock that never goes back and does not stop while the machine is suspended.
        wall: seconds since 1970 by the machine's wall clock. It may be wrong, and it may jump.
        fresh: that many random bytes, fit for keys.
    """

    __slots__ = ("_ahead", "_error", "_measured_at", "_wall", "fresh", "now")

    def __init__(self, now: Callable[[], float], wall: Callable[[], float], fresh: Callable[[int], bytes]) -> None:
        # Attributes, not methods: a call of the source costs no second call.
        self.now, self.fresh = now, fresh
        self._wall = wall
        self._ahead = wall() - now()
        self._error, self._measured_at = math.inf, 0.0

    def time(self) -> float:
        """Seconds since 1970 on the store's clock. Before the first measure: on the wall clock as it was when this
        object was made, so that a wall clock that is set meanwhile moves no time."""
        return self.now() + self._ahead

    def at(self, moment: float) -> float:
        """A moment of `now` as seconds since 1970 on the store's clock, by the present measure."""
        return moment + self._ahead

    @property
    def offset(self) -> float:
        """Seconds that the machine's wall clock lacks to `time` at present; negative if it is fast."""
        return self.time() - self._wall()

    def measured(self, store_time: float, sent: float, received: float) -> None:
        """Take in a measure of the store's clock.

        Args:
            store_time: seconds since 1970 on the store's clock while it answered.
            sent: when the question left, by `now`.
            received: when the answer came, by `now`.
        """
        error, ahead = (received - sent) / 2, store_time - (sent + received) / 2
        kept = self._error + (received - self._measured_at) * DRIFT
        if error <= kept or abs(ahead - self._ahead) > error + kept:
            self._ahead, self._error, self._measured_at = ahead, error, received
