"""What will happen in one schedule: a list of decisions, each of which can be left out.

A plan is drawn from its seed and from nothing else. While it runs, small delays come from one random stream per link,
so that leaving a decision out disturbs the others as little as possible: that is what makes shrinking work.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

TTL = 1.0
"""Seconds that a node lease lives; all other times of a schedule are chosen around it."""

REBOOT = 0.1
"""Seconds that a node is away when it gets other code."""

NAMES = ("a", "b", "c")

PROGRAMS = (
    "k1",
    "k1; k2",
    "k1+k2; k3",
    "o1; k1; o2",
    "k1; i1; k2",
    "k1; o1; o2; k2; o3",
    "i1; i2; k1; i3; k2",
    "k1+o1; k2",
    "k1+i1,i2; k2; o3",
    "k1+i1,k2; k3",
    "k1+k2,o1; k3+k4",
    "k1; k2+k3; o1; k4; k5",
    "k1; k2; k3; k4",
    "k1; i1; k2; o1; k3+k4; k5",
    "k1; o1+i1,k2; k3",
    "k1; ~o1,i2+k2; k3",
    "~i1,i2,o3+k1",
    "k1+~o1,o2",
    "o1; o2",
    "v1; k1; v2; o1; k2",
    "k1; t2",
    "v1; k1+i1; t2",
    "t1+o1; i2",
    "",
)
"""Handlers, one statement after another: `k` asks, `o` is a `once`, `i` a `once` declared idempotent, `v` a recorded
value, `t` an ask that the handler soon waits for no longer, `x` kills the node that comes to it; `+` gathers branches,
`,` is the order within one, and nobody waits for a branch that begins with `~`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something breaks at `at` for `span` seconds. `target` is a node, a link (`a>store`), or the store.

    A `change` starts a node again with variant number `amount` of every handler (`changes`), and after `span` seconds
    with the old code; a span of 0 is for good. An `upgrade` starts it again with a newer release, for good."""

    at: float
    kind: str
    target: str
    span: float = 0.0
    amount: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.kind} {self.target} for {self.span:.3f} ({self.amount:.3f})"


@dataclass(frozen=True, slots=True)
class Mischief:
    """A client does something odd with call `call` at `at`: `kind` of answers, to token number `back` from the last,
    at `node`."""

    at: float
    call: int
    kind: str
    node: str
    back: int = 0

    def __str__(self) -> str:
        return f"{self.at:.3f} call {self.call}: {self.kind} answers to token -{self.back} at {self.node}"


@dataclass(frozen=True, slots=True)
class Intent:
    """One client that makes one call and sees it through. `styles` says how each round is answered."""

    at: float
    program: str
    reentrant: bool
    node: str
    styles: tuple[str, ...]

    @property
    def fragile(self) -> bool:
        """Whether a timer decides what is recorded: then replay may diverge, and says so (PROTOCOL rule 12)."""
        return "t" in self.program.rpartition(";")[0] or ("t" in self.program and "," in self.program)

    def __str__(self) -> str:
        marked = "re-entrant" if self.reentrant else "unmarked"
        return f"{self.at:.3f} a client calls {marked} [{self.program}] at {self.node}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One schedule. `rates` are the speeds of the nodes' clocks and of the store's, last."""

    seed: int
    nodes: tuple[str, ...]
    rates: tuple[float, ...]
    clients: tuple[Intent, ...]
    faults: tuple[Fault, ...] = ()
    mischief: tuple[Mischief, ...] = ()
    rehearses: bool = False
    """Whether nothing is kept between rounds: each frame that may be rebuilt is dropped once its round is parked."""

    @property
    def loses(self) -> bool:
        """Whether the store loses acknowledged writes: then only I3 and I6 are promised."""
        return any(fault.kind == "rollback" for fault in self.faults)

    @property
    def whole_from(self) -> float:
        """When every node whose code is changed only for a while has its old code again."""
        ends = [fault.at + fault.span for fault in self.faults if fault.kind == "change" and fault.span]
        return max(ends) + REBOOT if ends else 0.0

    @property
    def changed_for_good(self) -> bool:
        """Whether some node never gets its old code again."""
        return any(fault.kind == "change" and not fault.span for fault in self.faults)

    @property
    def calm_from(self) -> float:
        """When the last fault is over."""
        ends = [fault.at + fault.span for fault in self.faults]
        return max([0.0, *ends, *(item.at for item in self.mischief), *(item.at for item in self.clients)])

    def without(self, group: str, start: int, count: int) -> Plan:
        """The same plan without some decisions of a group."""
        items = getattr(self, group)
        cut = items[:start] + items[start + count :]
        return replace(self, **{group: cut})

    def lines(self) -> Iterator[str]:
        """The plan as text."""
        yield f"plan of seed {self.seed}: nodes {' '.join(self.nodes)}{', rehearsing' if self.rehearses else ''}"
        happenings: list[Fault | Mischief | Intent] = [*self.clients, *self.faults, *self.mischief]
        for item in sorted(happenings, key=lambda item: item.at):
            yield f"  {item}"


WEATHER = {
    "calm": (),
    "links": ("cut", "cut", "slow", "slow", "twice"),
    "crashes": ("crash", "crash", "cut", "slow", "leave"),
    "pauses": ("pause", "pause", "slow", "replace"),
    "outages": ("outage", "outage", "cut", "pause"),
    "operations": ("evict", "evict", "drain", "leave", "leave", "pause"),
    "losses": ("rollback", "rollback", "slow", "pause"),
    "storm": ("crash", "pause", "outage", "cut", "slow", "twice", "evict", "drain", "leave", "replace"),
}
"""Which faults a schedule draws from: a few kinds often meet, all kinds together seldom do."""


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(seed)
    nodes = NAMES[: rng.choice((2, 2, 3))]
    rates = tuple(rng.uniform(0.98, 1.02) for _ in range(len(nodes) + 1))
    clients = tuple(_client(rng, nodes) for _ in range(rng.choice((1, 1, 2))))
    weather = WEATHER[rng.choice(tuple(WEATHER))]
    faults = tuple(_fault(rng, nodes, weather) for _ in range(rng.randint(1, 8))) if weather else ()
    mischief = tuple(_mischief(rng, nodes, len(clients)) for _ in range(rng.choice((0, 2, 4, 8))))
    # Drawn last, so that a seed without them is the schedule that it was before there were any.
    if rng.random() < 0.08:
        faults += tuple(_changes(rng, nodes))
    rehearses = rng.random() < 0.08
    if rng.random() < 0.05:
        faults += tuple(_upgrade(rng, nodes))
    return Plan(seed, nodes, rates, clients, faults, mischief, rehearses)


def _changes(rng: random.Random, nodes: tuple[str, ...]) -> Iterator[Fault]:
    """A roll-out of changed code, to one node after another; it may stop half-way, and is often rolled back."""
    at, variant = rng.uniform(0.15, 1.0), float(rng.randrange(1000))
    back = rng.random() < 0.7
    for node in rng.sample(nodes, rng.randint(1, len(nodes))):
        yield Fault(at, "change", node, rng.uniform(1.0, 2.5) if back else 0.0, variant)
        at += rng.uniform(0.0, 0.5)


def _upgrade(rng: random.Random, nodes: tuple[str, ...]) -> Iterator[Fault]:
    """A new release is tried on one node, which often fails; the others get it later."""
    first, *others = rng.sample(nodes, len(nodes))
    yield Fault(rng.uniform(0.05, 0.4), "upgrade", first)
    if rng.random() < 0.7:
        yield Fault(rng.uniform(1.3, 2.5), "crash", first, rng.uniform(1.0, 3.0))
    yield from (Fault(rng.uniform(3.0, 5.5), "upgrade", node) for node in others)


def _client(rng: random.Random, nodes: tuple[str, ...]) -> Intent:
    styles = tuple(rng.choice(("full", "full", "full", "partial", "extra", "none")) for _ in range(6))
    program = rng.choice(PROGRAMS)
    if rng.random() < 0.03:
        program = "k1; x1; k2"
    return Intent(rng.uniform(0.1, 0.5), program, rng.random() < 0.75, rng.choice(nodes), styles)


def _fault(rng: random.Random, nodes: tuple[str, ...], weather: tuple[str, ...]) -> Fault:
    kind, node = rng.choice(weather), rng.choice(nodes)
    at = rng.uniform(0.1, 1.8)
    if kind in ("crash", "pause", "replace"):
        span = rng.choice((rng.uniform(0.02, 0.5), rng.uniform(0.5, 3 * TTL)))
        return Fault(at, kind, node, span)
    if kind == "outage":
        return Fault(at, kind, "store", rng.uniform(0.05, 2 * TTL))
    if kind == "rollback":
        return Fault(at, kind, "store", 0.0, rng.choice((0.02, 0.1, 0.3)) * rng.uniform(0.5, 1.5))
    if kind in ("evict", "drain", "leave"):
        return Fault(at, kind, node)
    other = rng.choice([name for name in (*nodes, "store", "store", "client") if name != node])
    link = rng.choice((f"{node}>{other}", f"{other}>{node}"))
    return Fault(at, kind, link, rng.choice((0.1, 0.4, 1.5)) * rng.uniform(0.3, 1.2), rng.choice((0.05, 0.4, 2.0)))


def _mischief(rng: random.Random, nodes: tuple[str, ...], clients: int) -> Mischief:
    kind = rng.choice(("same", "same", "same", "other", "partial", "extra", "none"))
    back = rng.choice((0, 0, 0, 1, 1, 2, 3))
    return Mischief(rng.uniform(0.2, 2.2), rng.randrange(clients), kind, rng.choice(nodes), back)
