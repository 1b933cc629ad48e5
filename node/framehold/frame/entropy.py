"""The source of recorded values (`now`, `uuid4`, `random`).

Usually that is the clock of the node, with the time of the store. With strategy replay a client may send an older token
again and so branch a call's history. Then a seed and an instant from the token are the source, so that all branches get
the same values (docs/protocol.md, rule 14).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from framehold_core.clock import Clock


class SystemEntropy:
    """The time and the randomness of the node's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        """The current time, in seconds since the epoch."""
        return self._clock.time()

    def draw(self, key: str) -> bytes:
        """16 random bytes, for the value that is recorded under `key`; an empty key: it is not recorded."""
        return self._clock.fresh(16)


class SeededEntropy:
    """Values that are computed from a token: from its `seed` (16 bytes) and from the `instant` at which it was made, in
    seconds since the epoch. `fresh` gives random bytes."""

    def __init__(self, seed: bytes, instant: float, fresh: Callable[[int], bytes]) -> None:
        self.seed, self.instant, self._fresh = seed, instant, fresh

    def now(self) -> float:
        """The time of the last question, or of the call's start before the first question."""
        return self.instant

    def draw(self, key: str) -> bytes:
        """16 bytes: always the same for the same key, on each branch. Random ones for the empty key."""
        if not key:
            return self._fresh(16)
        return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=self.seed, digest_size=16).digest()


Entropy = SystemEntropy | SeededEntropy
"""A clock and a source of random bytes."""
