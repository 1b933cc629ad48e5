"""Which faults a schedule draws, and how long each lasts.

A schedule draws from a few kinds that often meet; all kinds together seldom do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TTL = 1.0
"""Seconds that a node lease lives; all other times of a schedule are chosen around it."""

WEATHER = {
    "calm": (),
    "links": ("cut", "cut", "slow", "slow", "twice"),
    "partitions": ("split", "split", "split", "cut", "slow"),
    "crashes": ("crash", "crash", "cut", "slow", "leave"),
    "pauses": ("pause", "pause", "slow", "replace"),
    "outages": ("outage", "outage", "cut", "pause"),
    "operations": ("evict", "evict", "drain", "leave", "leave", "pause"),
    "roll-outs": ("drain", "drain", "drain", "slow", "cut"),
    "lapses": ("lapse", "lapse", "skip", "slow", "pause"),
    "clocks": ("skip", "jump", "jump", "pause", "slow"),
    "losses": ("rollback", "rollback", "slow", "pause"),
    "fail-overs": ("failover", "failover", "forget", "slow", "pause"),
    "storm": (
        "crash",
        "pause",
        "outage",
        "cut",
        "split",
        "slow",
        "twice",
        "evict",
        "drain",
        "leave",
        "replace",
        "skip",
    ),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something breaks at `at` for `span` seconds. `target` is a node, a link (`a>store`), or the store.

    crash, pause      a node loses its memory, or does nothing, and comes back
    replace           a node pauses while another process begins under its name
    drain, evict      a node hands off and leaves; a node's memory is short
    stop              an operator ends the calls of a node
    leave             every client hangs up on its open request
    cut, split        a link carries nothing one way, or both
    slow, twice       a link delays by up to `amount` seconds, or repeats what it carries
    outage            the store answers nothing
    rollback          the store forgets what it acknowledged in the last `amount` seconds
    failover          the same, and node `target` talks to the old primary for a while yet
    empty             the store forgets everything
    forget            the store lets go of each record and lease that was written in the last `amount` seconds
    lapse             the store lets a node's lease expire early
    skip              a node's clock jumps forward by `amount` seconds
    jump              the store's clock jumps by `amount` seconds, forward or back
    change            a node starts again with variant number `amount` of every handler (`changes`), and after `span`
                      seconds with the old code; a span of 0 is for good
    upgrade           a node starts again with a newer release, for good
    """

    at: float
    kind: str
    target: str
    span: float = 0.0
    amount: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.kind} {self.target} for {self.span:.3f} ({self.amount:.3f})"


def fault(rng: random.Random, nodes: tuple[str, ...], weather: Sequence[str]) -> Fault:
    """One fault of this weather."""
    kind, node = rng.choice(weather), rng.choice(nodes)
    at = rng.uniform(0.1, 1.8)
    if kind in ("crash", "pause", "replace", "drain"):
        return Fault(at, kind, node, rng.choice((rng.uniform(0.02, 0.5), rng.uniform(0.5, 3 * TTL))))
    if kind in ("evict", "leave", "lapse"):
        return Fault(at, kind, node)
    if kind == "skip":
        return Fault(at, kind, node, 0.0, rng.uniform(0.1, 2.0))
    if kind == "failover":
        return Fault(at, kind, node, rng.uniform(0.1, 1.5), rng.choice((0.0, 0.05, 0.3)) * rng.uniform(0.5, 1.5))
    if kind in ("outage", "rollback", "forget", "jump"):
        return _of_the_store(rng, at, kind)
    other = rng.choice([name for name in (*nodes, "store", "store", "client") if name != node])
    link = rng.choice((f"{node}>{other}", f"{other}>{node}"))
    if kind == "twice" and rng.random() < 0.4:
        # What should hurt most: the first request of a call.
        at, link = rng.uniform(0.0, 0.4), f"client>{node}"
    return Fault(at, kind, link, rng.choice((0.1, 0.4, 1.5)) * rng.uniform(0.3, 1.2), rng.choice((0.05, 0.4, 2.0)))


def _of_the_store(rng: random.Random, at: float, kind: str) -> Fault:
    if kind == "outage":
        return Fault(at, kind, "store", rng.uniform(0.05, 2 * TTL))
    if kind == "jump":
        return Fault(at, kind, "store", 0.0, rng.choice((1, 1, -1)) * rng.uniform(0.1, 2.0))
    return Fault(at, kind, "store", 0.0, rng.choice((0.02, 0.1, 0.3)) * rng.uniform(0.5, 1.5))


def changes(rng: random.Random, nodes: tuple[str, ...]) -> Iterator[Fault]:
    """A roll-out of changed code, to one node after another; it may stop half-way, and is often rolled back."""
    at, variant = rng.uniform(0.15, 1.0), float(rng.randrange(1000))
    back = rng.random() < 0.7
    for node in rng.sample(nodes, rng.randint(1, len(nodes))):
        yield Fault(at, "change", node, rng.uniform(1.0, 2.5) if back else 0.0, variant)
        at += rng.uniform(0.0, 0.5)


HEALED = 1.4 * TTL
"""Seconds within which a node has noticed that the store went back, and has healed what it holds: a third of a lease
until its next heartbeat, as long again until what it sent before is sent again, and its way back to a lease."""


def restore(rng: random.Random, nodes: tuple[str, ...]) -> Iterator[Fault]:
    """The store is silent, or goes back, or both; then a node leaves at any time, or dies when it has healed what it
    holds. Nothing else breaks, so no call is lost whose frame lived (docs/protocol.md, rule 7)."""
    first, *others = rng.sample(nodes, len(nodes))
    away = rng.choice((0.0, 0.0, 0.5, 2.0)) * TTL * rng.uniform(0.5, 1.5)
    amount = rng.choice((0.0, 0.1, 0.5, 2.0, 99.0)) * rng.uniform(0.5, 1.5)
    back = rng.uniform(0.5, 2.0) + away
    if away:
        yield Fault(back - away, "outage", "store", away)
    if rng.random() < 0.4:
        # What it hands off is taken over just before, if at all.
        begins = back - away - min(amount, 1.0) - 0.2 * rng.random()
        yield Fault(max(0.1, begins), "drain", rng.choice(others), 2 * TTL)
    if amount:
        yield Fault(back, "rollback" if amount < back else "empty", "store", 0.0, amount)
    kind = rng.choice(("drain", "drain", "crash", ""))
    if kind == "drain":
        yield Fault(back + rng.choice((0.0, 0.3, HEALED)) * rng.random(), kind, first, rng.uniform(0.5, 3 * TTL))
    elif kind:
        yield Fault(back + rng.uniform(HEALED, 2 * HEALED), kind, first, rng.uniform(0.5, 3 * TTL))
    if away and rng.random() < 0.5:
        # A node leaves while the store is silent, and has time to hand its calls off when that is back.
        yield Fault(back - away * rng.random(), "drain", rng.choice(others), away + 4 * TTL)


def upgrade(rng: random.Random, nodes: tuple[str, ...]) -> Iterator[Fault]:
    """A new release is tried on one node, which often fails; the others get it later."""
    first, *others = rng.sample(nodes, len(nodes))
    yield Fault(rng.uniform(0.05, 0.4), "upgrade", first)
    if rng.random() < 0.7:
        yield Fault(rng.uniform(1.3, 2.5), "crash", first, rng.uniform(1.0, 3.0))
    yield from (Fault(rng.uniform(3.0, 5.5), "upgrade", node) for node in others)
