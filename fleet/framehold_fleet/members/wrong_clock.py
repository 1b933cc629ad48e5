"""The log lines about a wall clock of this machine that is wrong.

No call depends on it: times that another process reads are the store's. But logs, certificates and the tokens of other
services go by it.
"""

from __future__ import annotations

import logging

from framehold_core.clock import Clock

_log = logging.getLogger(__name__)

LIMIT = 20.0
"""Seconds by which a wall clock is off when it counts as wrong."""
_WRONG = (
    "the wall clock of this machine is %.0f s %s the store's: calls go on, by the store's clock, but log lines, "
    "certificates and the tokens of your users are judged by the wrong one; run a time service (NTP) here, or on the "
    "store's machine"
)


class WrongClock:
    """Logs one line when the wall clock turns out to be wrong, and one when it is right again."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._is_wrong = clock, False

    def look(self) -> None:
        """Compare both clocks, by the present measure."""
        offset = self._clock.offset
        was, self._is_wrong = self._is_wrong, abs(offset) >= LIMIT
        if self._is_wrong and not was:
            _log.warning(_WRONG, abs(offset), "behind" if offset > 0 else "ahead of")
        elif was and not self._is_wrong:
            _log.info("the wall clock of this machine agrees with the store's again")
