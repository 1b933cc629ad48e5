"""What will happen in one schedule: a list of decisions, each of which can be left out.

A plan is drawn from its seed and from nothing else. While it runs, small delays come from one random stream per link,
so that leaving a decision out disturbs the others as little as possible: that is what makes shrinking work.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from . import adversary, weather
from .adversary import OF_LEASES, Act
from .weather import WEATHER, Fault

LONG = 60.0
"""Seconds that a token is good for where none expires."""

SHORT = 2.0
"""Seconds that a token is good for where a node is cut off for longer than a tombstone lives."""

CUT_OFF = 0.06
"""The share of schedules in which one is."""

MIXED = 0.1
"""The share of schedules in which faults of any kind are added."""

LOSING = ("jump", "lapse", "rollback", "failover", "forget")
"""Faults by which the store loses what it had, or a lease before its time."""

REBOOT = 0.1
"""Seconds that a node is away when it gets other code."""

ADVERSE = 0.2
"""The share of schedules in which somebody writes the store."""

NAMES = ("a", "b", "c")

PROGRAMS = (
    "k1",
    "k1; k2",
    "k1+k2; k3",
    "o1; k1; o2",
    "k1; i1; k2",
    "k1; o1; o2; k2; o3",
    "i1; i2; k1; i3; k2",
    "d1,k1+o1,i1; k2",
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
    "o1+o2; k1; o3+i1,o4",
    "v1; k1; v2; o1; k2",
    "k1; t2",
    "v1; k1+i1; t2",
    "t1+o1; i2",
    "",
)
"""Handlers, one statement after another: `k` asks, `o` is a `once`, `i` a `once` declared idempotent, `v` a recorded
value, `t` an ask that the handler soon waits for no longer, `d` a delay, `n` notifies the client, `x` kills the node
that comes to it; `+` gathers branches, `,` is the order within one, and nobody waits for a branch that begins with
`~`. What was heard first of the branches of a statement shows in all that comes behind it."""

EFFECTS = tuple(program for program in PROGRAMS if "k1; o1" in program or "k1; i1" in program)
"""Handlers in which an effect follows answers."""

LEARNING = (
    "k1; o1,n1; k2",
    "o1; n1; k1; i1; n2; o2; k2",
    "k1; v1; i1; i2; k2",
    "k1; o1; i1; k2; v1,i2; n1",
    "i1; o1; i2; k1; ~o2,n1+k2; i3",
)
"""Handlers that use what they have just learned: in an effect that may run again, or in a notification."""


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
    room: int = 0
    """How many calls a node may have at a time; 0 is no limit."""
    token_ttl: float = LONG
    """Seconds that a token is good for."""
    poison: int = 0
    """How many processes the calls of a handler may end before it is paused; 0: it never is. An operator resumes it."""
    restores: bool = False
    """Whether nothing breaks but the store, which goes back: then live frames heal it, and what they hold is not lost
    (`weather.restore`)."""
    keeps_code: bool = False
    """Whether the store keeps the code of each marked call, so that changed code on its next node does not matter."""
    acts: tuple[Act, ...] = ()
    """What somebody without a key writes to the store."""

    @property
    def loses(self) -> bool:
        """Whether the store loses acknowledged writes, or lets them expire early: then docs/protocol.md promises only
        I3, I6, I8 and I9."""
        kinds = {fault.kind for fault in self.faults}
        return bool(kinds & {"rollback", "failover", "forget", "empty"}) or (self.token_ttl < LONG and "jump" in kinds)

    @property
    def stalls(self) -> float:
        """The longest time for which a process stands still, in seconds."""
        return max((fault.span for fault in self.faults if fault.kind in ("pause", "replace")), default=0.0)

    @property
    def rushes(self) -> bool:
        """Whether node leases may expire in the store before their time: a window that is open then proves nothing, so
        an effect may run again that a successor has recorded. What it writes is refused all the same."""
        return any(fault.kind in ("lapse", "jump") for fault in self.faults) or any(
            act.kind in OF_LEASES for act in self.acts
        )

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
        others: list[Mischief | Intent | Act] = [*self.mischief, *self.clients, *self.acts]
        return max([0.0, *ends, *(item.at for item in others)])

    def without(self, group: str, start: int, count: int) -> Plan:
        """The same plan without some decisions of a group."""
        items = getattr(self, group)
        cut = items[:start] + items[start + count :]
        return replace(self, **{group: cut})

    def lines(self) -> Iterator[str]:
        """The plan as text."""
        yield f"plan of seed {self.seed}: nodes {' '.join(self.nodes)}{', rehearsing' if self.rehearses else ''}"
        happenings: list[Fault | Mischief | Intent | Act] = [*self.clients, *self.faults, *self.mischief, *self.acts]
        for item in sorted(happenings, key=lambda item: item.at):
            yield f"  {item}"


def draw(seed: int, adverse: float = ADVERSE) -> Plan:
    """The plan of a seed. `adverse` is the share of seeds in which somebody writes the store."""
    plan, rng = _mixed(_cut_off(_draw(seed))), random.Random(f"{seed}:adversary")
    if rng.random() >= adverse or plan.restores:
        return plan
    # Two calls at least: they can be exchanged, and one of them may stay untouched.
    more = () if len(plan.clients) > 1 else (_client(rng, plan.nodes),)
    acts, faults = adversary.draw(rng, plan.nodes)
    return replace(plan, clients=(*plan.clients, *more), faults=(*plan.faults, *faults), acts=acts)


def _cut_off(plan: Plan) -> Plan:
    """In some schedules a node is cut off from the store in the middle of a call, for longer than a tombstone lives."""
    rng = random.Random(f"{plan.seed}:cut off")
    if rng.random() >= CUT_OFF or plan.restores or plan.poison or plan.room:
        return plan
    first, *others = plan.clients
    first = replace(first, program=rng.choice(EFFECTS), reentrant=True)
    node = rng.choice((first.node, *plan.nodes))
    cut = Fault(rng.uniform(0.2, 1.2), "cut", f"{node}>store", rng.uniform(5.0, 8.0))
    faults = tuple(fault for fault in plan.faults if fault.kind not in LOSING)
    return replace(plan, token_ttl=SHORT, clients=(first, *others), faults=(*faults, cut))


def _mixed(plan: Plan) -> Plan:
    """In some schedules two kinds of weather meet that share no fault."""
    rng = random.Random(f"{plan.seed}:mixed")
    if rng.random() >= MIXED or plan.restores or plan.poison or plan.token_ttl == SHORT:
        return plan
    kinds = tuple({kind: None for many in WEATHER.values() for kind in many})
    faults = tuple(weather.fault(rng, plan.nodes, rng.sample(kinds, 4)) for _ in range(rng.randint(2, 7)))
    return replace(plan, faults=(*plan.faults, *faults))


def _draw(seed: int) -> Plan:
    rng = random.Random(seed)
    nodes = NAMES[: rng.choice((2, 2, 3))]
    rates = tuple(rng.uniform(0.98, 1.02) for _ in range(len(nodes) + 1))
    clients = tuple(_client(rng, nodes) for _ in range(rng.choice((1, 1, 2))))
    kinds = WEATHER[rng.choice(tuple(WEATHER))]
    faults = tuple(weather.fault(rng, nodes, kinds) for _ in range(rng.randint(1, 8))) if kinds else ()
    mischief = tuple(_mischief(rng, nodes, len(clients)) for _ in range(rng.choice((0, 2, 4, 8))))
    # Drawn last, so that a seed without them is the schedule that it was before there were any.
    if rng.random() < 0.08:
        faults += tuple(weather.changes(rng, nodes))
    rehearses = rng.random() < 0.08
    if rng.random() < 0.05:
        faults += tuple(weather.upgrade(rng, nodes))
    room = 0
    if rng.random() < 0.06:
        room, clients = rng.choice((1, 2)), (*clients, *(_client(rng, nodes) for _ in range(2)))
    # Where room is short, a call that its client has given up must end before the client does.
    token_ttl = 3.0 if rng.random() < 0.06 or room else LONG
    if token_ttl < LONG:
        faults += (Fault(rng.uniform(1.5, 6.0), "crash", rng.choice(nodes), rng.uniform(0.1, 2.0)),)
    if rng.random() < 0.06:
        faults += (Fault(rng.uniform(0.2, 2.0), "stop", rng.choice(nodes)),)
    if rng.random() < 0.2 and not room and not any("x" in client.program for client in clients):
        return Plan(seed, nodes, rates, clients, tuple(weather.restore(rng, nodes)), mischief, restores=True)
    poison = 0
    if rng.random() < 0.05:
        poison, clients = 3, (*clients[:-1], replace(clients[-1], program="k1; x1; k2", reentrant=True))
    keeps_code = rng.random() < 0.5
    if rng.random() < 0.15 and not poison:
        clients = (*clients[:-1], replace(clients[-1], program=rng.choice(LEARNING)))
    if poison and rng.random() < 0.7:
        clients = (replace(clients[-1], program="k1; i1; x1; k2"), *clients[1:])
    return Plan(
        *(seed, nodes, rates, clients, faults, mischief, rehearses, room, token_ttl, poison), keeps_code=keeps_code
    )


def _client(rng: random.Random, nodes: tuple[str, ...]) -> Intent:
    styles = tuple(rng.choice(("full", "full", "full", "partial", "extra", "none")) for _ in range(6))
    program = rng.choice(PROGRAMS)
    if rng.random() < 0.03:
        program = "k1; x1; k2"
    return Intent(rng.uniform(0.1, 0.5), program, rng.random() < 0.75, rng.choice(nodes), styles)


def _mischief(rng: random.Random, nodes: tuple[str, ...], clients: int) -> Mischief:
    kind = rng.choice(("same", "same", "same", "other", "partial", "extra", "none", "forged", "stolen", "expired"))
    back = rng.choice((0, 0, 0, 1, 1, 2, 3))
    return Mischief(rng.uniform(0.2, 2.2), rng.randrange(clients), kind, rng.choice(nodes), back)
