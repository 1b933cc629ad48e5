"""Plays conversations on two servers of one process, one with the short path and one without it, and compares what
they reply and what they have counted."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from tests.ordinary.client import Count, Party, party
from tests.ordinary.conversations import Conversation, drawn

SHARE = (0.4, 0.6)
"""The share of the generated requests that take the short path: with fewer it is not tested, with more nothing else."""


class Tally(NamedTuple):
    """How many requests were compared, how many of them took the short path, and what differed."""

    requests: int = 0
    taken: int = 0
    differences: tuple[str, ...] = ()

    def __add__(self, other: Any) -> Tally:
        return Tally(*(one + two for one, two in zip(self, other, strict=True)))

    def told(self) -> str:
        share = self.taken / max(1, self.requests)
        head = f"{self.requests} requests compared, {share:.0%} by the short path, {len(self.differences)} differ"
        return "\n\n".join((head, *self.differences[:5]))

    def is_good(self) -> bool:
        return not self.differences and SHARE[0] <= self.taken / max(1, self.requests) <= SHARE[1]


@asynccontextmanager
async def both(redis: str = "", **settings: Any) -> AsyncIterator[tuple[Party, Party]]:
    """A server with the short path, and one without it. `settings` are those of `party`."""
    stored = {**settings, **({"store_url": redis, "keys": (secrets.token_hex(32),)} if redis else {})}
    names: list[dict[str, Any]] = [{"namespace": secrets.token_hex(8)} if redis else {} for _ in range(2)]
    async with party(**stored, **names[0]) as short, party(ordinary=False, **stored, **names[1]) as long:
        yield short, long


async def played(
    pair: tuple[Party, Party], conversations: Iterable[Conversation], requests: float = 1e9, differences: float = 1e9
) -> Tally:
    """Play conversations on both until so many requests are compared, or so many of them differ."""
    found, short, long = Tally(), *pair
    with Count() as count:
        for talk in conversations:
            one, other = await talk.hold(short), await talk.hold(long)
            differ = tuple(f"{talk}\n  short {a}\n  long  {b}" for a, b in zip_longest(one, other) if a != b)
            found += Tally(len(one), 0, differ)
            if found.requests >= requests or len(found.differences) >= differences:
                break
    counted = short.counted(), long.counted()
    if counted[0] != counted[1]:
        found += Tally(differences=(f"counted otherwise:\n  short {counted[0]}\n  long  {counted[1]}",))
    return found._replace(taken=count.taken)


async def compared(requests: int, seed: int, redis: str = "") -> Tally:
    async with both(redis) as pair:
        return await played(pair, drawn(seed), requests)


async def drained(requests: int, seed: int) -> Tally:
    """The same, on servers that begin to drain in the middle of it."""
    async with both() as pair:
        found = await played(pair, drawn(seed), requests * 4 // 5)
        for side in pair:
            await side.app.attached.runtime.drain(0.0, parked=False, leaves=False)
        return found + await played(pair, islice(drawn(seed + 1), requests), requests // 5)
