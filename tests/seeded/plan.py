"""One schedule: which calls clients make, what is done to the fleet meanwhile, and where a process is struck."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

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
    "k1; t1; k2",
    "t1+o1; k1; t2",
    "k1; o1; k2; o2; k3",
    "v; k1; v; k2",
    "k1; o1+o1; k2",
    "k1; o1; v; p; k2",
    "k1; x1; k2",
    "o1; k1; x1; o2",
    "k1; e1; k2; e2",
    "e1+k1; o1",
)
EFFECTS = tuple(program for program in PROGRAMS if set(program) & set("oiet"))
KINDS = (
    *("kill", "stand", "cut", "slow", "lapse", "outage", "drain", "evict", "leave", "pause", "rewind"),
    "replace",
    # Once more: what makes others take over.
    *("kill", "stand", "cut", "drain"),
)
"""What may be done to a node, to its line, or to the store."""
MOODS = (
    ("stand",),
    ("stand", "cut"),
    ("stand", "lapse"),
    ("stand", "kill"),
    ("cut", "lapse"),
    ("kill",),
    ("rewind", "lapse", "stand"),
    ("outage", "stand"),
    ("drain", "stand", "outage"),
    ("drain", "slow"),
    ("replace", "stand"),
)
"""Kinds that go well together: what two processes do to one call at once."""
KILL, LATE, STAND, LEAVE, CUT = "kill", "kill late", "stand", "leave", "cut"
STRIKES = (KILL, LATE, STAND, LEAVE, CUT)
"""What may be done at a place. LATE kills after what is awaited there has ended. CUT cuts the line to the store: a
message that is sent there is lost, or its reply."""
FOCUSES = (
    (STRIKES, False),
    (STRIKES, False),
    ((STAND,), True),
    ((KILL, LATE), True),
    ((CUT,), True),
    ((STAND, LEAVE), False),
)
"""What a schedule does at places, and whether it does so at writes alone. A process that stands still behind a write
for longer than its lease: that is what windows, epochs and lapses are there for."""
WRITES = ("Claim", "Commit", "Intent", "Result", "Finish", "Release", "Verify", "Heal")
"""The writes of calls."""
RENEWAL = -2 * (len(WRITES) + 1)
"""The number of the place where a renewal of a lease is sent. Behind it are those of all writes."""
DUELS, HANDOFFS, CUT_OFF = 0.35, 0.08, 0.03
"""How many schedules are duels (`_duel`), how many are hand-offs (`_handoff`), and in how many of all a node is cut off
for long (`_cut_off`)."""
TOKEN_TTL, SHORT, LONG = 600.0, 4.0, 80.0
"""Seconds that a token is good for, also where a node is cut off for LONG: for longer than a tombstone lives."""
CALM = 3.0
"""Seconds after which nothing is done to the fleet any more."""


class Intent(NamedTuple):
    """A client makes a call at `at`. `deaths` is how often a process dies at each `x` of its program. `carried`: its
    token carries the whole call. `hasty`: it soon asks another node. Its user `thinks` so many seconds at most."""

    at: float
    program: str
    marked: bool
    deaths: int
    carried: bool
    hasty: bool = False
    thinks: float = 1.5


class Fault(NamedTuple):
    """What is done to the node of this number, or to the client of this number, at `at`."""

    at: float
    kind: str
    target: int
    lasts: float


class Aim(NamedTuple):
    """What is done to a node's process when one comes to a place for the `nth` time. `place` is any number: it counts
    the places again and again. Numbers below 0 count from the last one: from `RENEWAL` on these are of writes."""

    place: int
    nth: int
    kind: str
    lasts: float


class Plan(NamedTuple):
    """One schedule. `rates` are the speeds of the nodes' clocks and of the store's, last. `rehearses`: nodes drop the
    frames of marked calls after each round. `deploys`: a process may have another release than the one before. A node
    looks up `takeovers` calls at once. `redis`: the store is the scripts of Redis, in an interpreter of Lua. A token is
    good for `token_ttl` seconds."""

    seed: int
    nodes: int
    rates: tuple[float, ...]
    rehearses: bool
    deploys: bool
    takeovers: int
    redis: bool
    intents: tuple[Intent, ...]
    faults: tuple[Fault, ...]
    aims: tuple[Aim, ...]
    token_ttl: float = TOKEN_TTL

    @property
    def loses(self) -> bool:
        """Whether the store loses acknowledged writes."""
        return any(fault.kind == "rewind" for fault in self.faults)

    @property
    def early(self) -> bool:
        """Whether leases end before their time."""
        return any(fault.kind == "lapse" for fault in self.faults)

    @property
    def lacks(self) -> bool:
        """Whether a release may lack the tool: not where the one node that has it may be cut off for LONG."""
        return self.deploys and self.token_ttl == TOKEN_TTL

    def without(self, group: str, at: int, size: int) -> Plan:
        """This schedule without some decisions of a group."""
        decisions = getattr(self, group)
        left: dict[str, Any] = {group: (*decisions[:at], *decisions[at + size :])}
        return self._replace(**left)

    def lines(self) -> list[str]:
        """The schedule in words, a decision on a line."""
        head = f"seed {self.seed}: {self.nodes} nodes, clocks {', '.join(f'{rate:.3f}' for rate in self.rates)}"
        modes = f"rehearses {self.rehearses}, deploys {self.deploys}, redis {self.redis}"
        decisions = map(str, (*self.intents, *self.faults, *self.aims))
        return [head, modes, f"takeovers at once: {self.takeovers}, tokens of {self.token_ttl:.0f} s", *decisions]


def draw(seed: int) -> Plan:
    """The schedule of a seed. Each has some kinds of faults only, so that one kind does not hide what another does."""
    random = Random(seed)
    plan, kind = _drawn(seed, random), random.random()
    if Random(f"{seed}: cut off").random() < CUT_OFF:
        return _cut_off(plan, random)
    if kind < DUELS:
        return _duel(plan, random)
    return _handoff(plan, random) if kind < DUELS + HANDOFFS else plan


def _drawn(seed: int, random: Random) -> Plan:
    nodes = random.choice((2, 2, 3))
    rates = tuple(random.uniform(0.98, 1.02) for _ in range(nodes + 1))
    intents = tuple(
        Intent(
            random.uniform(0.1, 1.0),
            random.choice(PROGRAMS),
            random.random() < 0.75,
            random.choice((1, 1, 2, 9)),
            random.random() < 0.08,
        )
        for _ in range(random.choice((2, 5, 8)))
    )
    kinds = random.choice((random.choice(MOODS), random.sample(KINDS, random.choice((1, 3, 5, len(KINDS))))))
    faults = tuple(
        Fault(
            random.uniform(0.1, CALM),
            random.choice(kinds),
            random.randrange(nodes),
            random.choice((0.05, 0.5, 1.7, 2.5, 4.0)),
        )
        for _ in range(random.choice((0, 2, 4, 8, 12)))
    )
    strikes, writes = random.choice(FOCUSES)
    aims = tuple(_aim(random, strikes, writes) for _ in range(random.choice((0, 4, 12))))
    modes = random.random() < 0.15, random.random() < 0.3, random.choice((1, 2, 16)), random.random() < 0.1
    return Plan(seed, nodes, rates, *modes, intents, tuple(sorted(faults)), aims)


def _aim(random: Random, strikes: tuple[str, ...], writes: bool) -> Aim:
    write = -random.randint(1, 2 * len(WRITES))
    place = write if writes or random.random() < 0.5 else random.randrange(2**30)
    return Aim(place, random.choice((1, 1, 1, 2, 3, 5, 8)), random.choice(strikes), random.choice((0.05, 2.5, 4.0)))


def _duel(plan: Plan, random: Random) -> Plan:
    """Two owners of one call: processes stand still at writes, and go on when others have taken their calls over."""
    intents = tuple(
        intent._replace(program=random.choice(EFFECTS), marked=True, carried=False, hasty=True)
        for intent in plan.intents[: random.choice((1, 2, 4))]
    )
    aims = tuple(
        Aim(random.randint(RENEWAL, -1), random.choice((1, 1, 2, 3)), STAND, random.uniform(1.6, 4.5))
        for _ in range(random.choice((3, 6, 12)))
    )
    slow = tuple(Fault(0.1, "slow", node, 0.0) for node in range(plan.nodes))
    return plan._replace(intents=intents, aims=aims, faults=random.choice((plan.faults, slow, ())))


def _handoff(plan: Plan, random: Random) -> Plan:
    """A node drains while the store does not answer for a while: often from when it has sent what hands a call off."""
    intents = tuple(intent._replace(marked=True, carried=False, thinks=4.0) for intent in plan.intents)
    at, node = random.uniform(0.6, 2.0), random.randrange(plan.nodes)
    kind, lasts = random.choice(("outage", "cut", "slow", "stand")), random.choice((0.5, 1.0, 1.7))
    faults = Fault(at, "drain", node, 4.0), Fault(at + random.uniform(-0.2, 0.1), kind, node, lasts)
    # The last places are those of a release, a verification and a heal: sent, and applied.
    aims = tuple(Aim(-random.randint(1, 6), 1, CUT, lasts) for _ in range(random.choice((0, 1, 3))))
    return plan._replace(intents=intents, faults=tuple(sorted(faults[: 1 if aims else 2])), aims=aims)


def _cut_off(plan: Plan, random: Random) -> Plan:
    """A node is cut off from the store in the middle of an effect. Others end its call, and forget it, before it is
    back."""
    intents = tuple(
        intent._replace(program=random.choice(EFFECTS), marked=True, carried=False, hasty=True, thinks=0.5)
        for intent in plan.intents[:3]
    )
    writes = RENEWAL + 2 * (1 + WRITES.index("Intent")), RENEWAL + 2 * (1 + WRITES.index("Result"))
    aim = Aim(random.choice(writes) + random.randrange(2), random.choice((1, 1, 2)), CUT, LONG)
    faults = tuple(fault for fault in plan.faults if fault.kind not in ("rewind", "lapse"))
    return plan._replace(intents=intents, aims=(aim,), faults=random.choice((faults, ())), token_ttl=SHORT)
