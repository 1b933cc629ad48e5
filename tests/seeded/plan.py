"""One schedule: which calls clients make, and what is done to the fleet meanwhile."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

PROGRAMS = (
    "k1; k2",
    "k1; o1; k2",
    "o1; k1",
    "k1; o1; o2",
    "k1; i1; k2; o1",
    "k1+k2; o1; k3",
    "k1; o1+o2; k2",
    "k1; v; o1; k2",
    "k1; s; k2",
    "k1+k2",
    "o1+k1; k2",
)
KINDS = ("kill", "kill", "stand", "stand", "stand", "cut", "cut", "lapse", "outage", "drain", "evict", "slow", "leave")
CALM = 3.0
"""Seconds after which nothing is done to the fleet any more."""


class Intent(NamedTuple):
    """A client makes a call at `at`."""

    at: float
    program: str
    marked: bool


class Fault(NamedTuple):
    """What is done to the node of this number, or to the client of this number, at `at`."""

    at: float
    kind: str
    target: int
    lasts: float


class Plan(NamedTuple):
    """One schedule. `rates` are the speeds of the nodes' clocks and of the store's, last."""

    seed: int
    nodes: int
    rates: tuple[float, ...]
    intents: tuple[Intent, ...]
    faults: tuple[Fault, ...]


def draw(seed: int) -> Plan:
    """The schedule of a seed."""
    random = Random(seed)
    nodes = random.choice((2, 2, 3))
    rates = tuple(random.uniform(0.98, 1.02) for _ in range(nodes + 1))
    intents = tuple(
        Intent(random.uniform(0.1, 1.0), random.choice(PROGRAMS), random.random() < 0.75)
        for _ in range(random.choice((2, 6, 6)))
    )
    faults = tuple(
        Fault(
            random.uniform(0.1, CALM),
            random.choice(KINDS),
            random.randrange(nodes),
            random.choice((0.05, 0.5, 1.7, 2.5)),
        )
        for _ in range(random.choice((2, 4, 6, 10)))
    )
    return Plan(seed, nodes, rates, intents, tuple(sorted(faults)))
