"""Slows down who guesses a token, counts the guesses, and logs them.

The law: a right token is never held back, whoever guesses beside it. The answer to a wrong one waits: for a peer's
first one for FIRST_DELAY, for each further one twice as long, up to MAX_DELAY. What guesses can take is bounded: peers
share a fixed number of places, and at most MAX_WAITING answers wait, so that beyond them a guess is answered at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from ipaddress import AddressValueError, IPv6Network

from ..telemetry.log_bursts import LogBursts

FIRST_DELAY, MAX_DELAY = 0.05, 5.0
"""Seconds for which the answer to a wrong token waits, at least and at most."""
FORGET = 600.0
"""Seconds after which a peer that showed no wrong token begins anew."""
MAX_WAITING = 256
"""Answers that wait at once."""
PLACES = 1024
"""Places of peers. Two peers that share one slow each other's wrong tokens down, and nothing else."""
WRONG_TOKENS = "wrong_tokens"
"""The count of wrong tokens in `counts`."""


class Guesses:
    """The wrong tokens that one process was shown. They are counted in `counts`, by WRONG_TOKENS, and logged on
    `logger`. `clock` gives seconds; `pause` waits for so many."""

    def __init__(
        self,
        logger: logging.Logger,
        counts: Counter[str],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._bursts, self._counts, self._clock, self._pause = LogBursts(logger), counts, clock, pause
        self._waiting = 0
        self._last = [(-math.inf, 0.0)] * PLACES
        """When a peer of each place showed a wrong token last, and how long its answer waited."""

    async def wrong(self, peer: str) -> None:
        """Count and log a wrong token of `peer`, an IP address; return when its answer may be sent."""
        self._counts[WRONG_TOKENS] += 1
        self._bursts.warning("a wrong token was shown by %.64r: nothing was returned or done", peer, extra={})
        delay = self._delay(peer)
        if self._waiting >= MAX_WAITING:
            return
        self._waiting += 1
        try:
            await self._pause(delay)
        finally:
            self._waiting -= 1

    def _delay(self, peer: str) -> float:
        place, now = hash(_network(peer)) % PLACES, self._clock()
        at, last = self._last[place]
        delay = FIRST_DELAY if now - at > FORGET else min(2 * last, MAX_DELAY)
        self._last[place] = now, delay
        return delay


def _network(peer: str) -> str:
    """The part of an address that its owner can't choose: all of IPv4, and the first half of IPv6."""
    address = peer.removeprefix("::ffff:")
    try:
        return str(IPv6Network((address, 64), strict=False))
    except AddressValueError:
        return address
