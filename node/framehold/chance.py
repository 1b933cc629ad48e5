"""Where recorded values come from: the world, or, where a client may branch a call's history, a seed and an instant
that all branches share (PROTOCOL rule 14)."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Protocol


class Chance(Protocol):
    """A clock and a source of bytes."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def draw(self, key: str) -> bytes:
        """16 bytes for the value that is recorded under `key`; for "" they are recorded nowhere."""


class World:
    """The clock on the wall, and the system's randomness."""

    def now(self) -> float:
        """The time."""
        return time.time()

    def draw(self, key: str) -> bytes:
        """16 random bytes."""
        return os.urandom(16)


class Seeded:
    """Drawn from a token: `seed` (16 bytes) and the instant at which it was minted."""

    def __init__(self, seed: bytes, instant: float) -> None:
        self.seed, self.instant = seed, instant

    def now(self) -> float:
        """When the last question was asked, or the call began."""
        return self.instant

    def draw(self, key: str) -> bytes:
        """The same 16 bytes for the same key, on each branch; fresh ones where nothing is recorded."""
        if not key:
            return os.urandom(16)
        return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=self.seed, digest_size=16).digest()
