"""Somebody who writes the store and has no key (docs/protocol.md, rule 29).

Each act is one thing that such a writer can do: it changes what no seal covers, moves, brings back or deletes what one
covers, and puts there what no seal fits. `Adversary.touched` names the calls of which something was changed; what still
holds of them is in `KEEPS`. All other calls are held to every invariant.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framehold_core import journal
from framehold_core.errors import JournalError
from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.journal import Draft, EntryKind, EntryLane
from framehold_core.requests import Answered, Record, RecordState, Stored
from framehold_core.value import replace
from framehold_core.writes import answers_of, once_digest, once_intents, round_of

from .changes import digest
from .weather import TTL, Fault

if TYPE_CHECKING:
    from .world import World


@dataclass(frozen=True, slots=True)
class Act:
    """The adversary does something of `kind` at `at`; `roll` decides to what, and how."""

    at: float
    kind: str
    roll: int

    def __str__(self) -> str:
        return f"{self.at:.3f} somebody writes the store: {self.kind} ({self.roll})"


# ---- hints of a record: each function gives the record with another value


def _owner(rng: random.Random, world: World, record: Record) -> Record:
    """The owner, its incarnation and its process, each or all: those of another node, or of none."""
    node = world.nodes[rng.choice(world.plan.nodes)]
    who = rng.choice((node.name, "", "z")), rng.choice((node.lease.incarnation, "", "z.1"))
    head = replace(record.head, boot=Boot(rng.choice((node.boot, "", "z1"))))
    made: dict[str, Any] = {"owner": who[0], "incarnation": who[1], "head": head}
    fields = rng.choice((("owner",), ("incarnation",), ("head",), ("owner", "incarnation"), tuple(made)))
    return replace(record, **{field: made[field] for field in fields})


def _count(name: str) -> Callable[[random.Random, World, Record], Record]:
    def changed(rng: random.Random, world: World, record: Record) -> Record:
        made: dict[str, Any] = {name: max(0, getattr(record, name) + rng.choice((-2, -1, -1, 1, 1, 2, 7)))}
        return replace(record, **made)

    return changed


def _answers(rng: random.Random, world: World, record: Record) -> Record:
    """The answers of a round: forgotten, other ones, or such as nobody gave."""
    round_ = rng.choice((*record.answers, record.round))
    made = Answered(round_, rng.choice(("forged", "0" * 32)), rng.choice((("k1",), ("k1", "k2"), ())))
    others = {key: item for key, item in record.answers.items() if key != round_}
    return replace(record, answers=rng.choice((others, {**others, round_: made})))


def _effects(rng: random.Random, world: World, record: Record) -> Record:
    """An effect: forgotten, intended, or done."""
    key = rng.choice((*record.intents, once_digest("o1"), once_digest("i1"), once_digest("o2")))
    others = {name: done for name, done in record.intents.items() if name != key}
    return replace(record, intents=rng.choice((others, {**others, key: True}, {**others, key: False})))


def _times(rng: random.Random, world: World, record: Record) -> Record:
    ends = world.store.now() + rng.choice((0.0, 0.2, 99.0))
    return replace(record, created=0.0, expires=ends)


Hint = Callable[[random.Random, "World", Record], Record]
HINTS: dict[str, Hint] = {
    "state": lambda rng, _, record: replace(record, state=rng.choice(tuple(RecordState))),
    "owner": _owner,
    "epoch": _count("epoch"),
    "round": _count("round"),
    "position": _count("position"),
    "history": lambda rng, _, record: replace(record, history=rng.choice(("", "0" * 32))),
    "attempts": lambda rng, _, record: replace(record, attempts=rng.choice((0, 1, 2, 4, 5, 99))),
    "answers": _answers,
    "effects": _effects,
    "ending": lambda *given: replace(given[-1], cause="do as I say", error="X", place="y:z:1", out_round=7, trail=()),
    "times": _times,
}
"""What of a record no seal covers, and how it is changed."""


def _spoiled(raw: bytes, n: int, word: str) -> bytes:
    """An entry with another value, and with the digest of that where it is an answer."""
    try:
        item, value = journal.decode(raw, n), journal.canonical(word)
    except JournalError:
        return b"garbage"
    fp = journal.digest(value) if item.kind is EntryKind.ANSWER else item.fp
    return journal.encode(replace(item, fp=fp, value=b"z.1:" + value))


TAKES: dict[str, frozenset[str]] = {
    "ending": frozenset(),
    "owner": frozenset({"I1"}),
    "attempts": frozenset({"I7", "I9"}),
    "epoch": frozenset({"I1", "I2", "I7"}),
    "state": frozenset({"I1", "I2", "I5", "I7", "I9"}),
    "position": frozenset({"I1", "I2", "I5", "I7", "I9"}),
    "history": frozenset({"I7", "rule 20"}),
    "round": frozenset({"I7", "rule 20"}),
    "answers": frozenset({"I2", "I7"}),
    "answers of a call that is over": frozenset({"I4", "I7"}),
    "effects": frozenset({"I7"}),
    "times": frozenset({"I1", "I5", "I7", "I9"}),
    "head": frozenset({"I7", "rule 28"}),
    "outcome": frozenset({"I7"}),
    "entries": frozenset({"I1", "I2", "I4", "I5", "I7", "I9", "rule 20"}),
    "replay": frozenset({"I1", "I2", "I4", "I5", "I7", "I9", "rule 20"}),
    "exchange": frozenset({"I1", "I2", "I4", "I5", "I7", "I9", "rule 20", "rule 28"}),
    "delete": frozenset({"I1", "I5", "I7", "I9"}),
}
"""What is not promised any more of a call of which this was changed. docs/protocol-tables.md has the same table. I3,
I6, I8 and I10 are promised whatever was changed, and so is it that a client which asks again is told how its call
ended."""


class Adversary:
    """The writer of one world's store."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.touched: dict[str, set[str]] = defaultdict(set)
        self._past: dict[str, list[Any]] = defaultdict(list)

    def saw(self, key: str, value: Any) -> None:
        """Something was written: it can be written again."""
        self._past[key].append(value)

    def leaves(self, call: str, name: str) -> bool:
        """Whether an invariant is promised of a call, whatever was changed of it."""
        if call not in self.touched:
            return True
        stored, what = self._world.store.calls.get(call), self.touched[call]
        if "answers" in what and stored is not None and stored.record.is_over:
            what = {*what, "answers of a call that is over"}
        return not any(name in TAKES[one] for one in what)

    def act(self, act: Act) -> None:
        """Do it, if there is something to do it to."""
        done = ACTS[act.kind](self, random.Random(act.roll))
        if done:
            self._world.counts[f"act {act.kind}"] += 1
            self._world.say("writer", f"{act.kind}: {done}")

    # ---- to calls

    def _call(self, rng: random.Random) -> str:
        calls = sorted(self._world.store.calls)
        return rng.choice(calls) if calls else ""

    def _two(self, rng: random.Random) -> tuple[str, ...]:
        calls = sorted(self._world.store.calls)
        return tuple(rng.sample(calls, 2)) if len(calls) > 1 else ()

    def _put(self, call: str, stored: Stored | None, *what: str) -> str:
        calls = self._world.store.calls
        if stored == calls.get(call):
            return ""
        self.touched[call].update(what)
        if stored is None:
            del calls[call]
        else:
            calls[call] = stored
        return call

    def hint(self, rng: random.Random) -> str:
        """Change one or two hints of a record."""
        if not (call := self._call(rng)):
            return ""
        stored, names = self._world.store.calls[call], rng.sample(tuple(HINTS), rng.choice((1, 1, 1, 2)))
        record = stored.record
        for name in names:
            record = HINTS[name](rng, self._world, record)
        done = self._put(call, replace(stored, record=record), *names)
        return done and f"{' and '.join(names)} of {call}"

    def head(self, rng: random.Random) -> str:
        """Change what the seal of a head covers: to what another call has, or to what none has."""
        if not (call := self._call(rng)):
            return ""
        stored = self._world.store.calls[call]
        others = [item.record.head for item in self._world.store.calls.values()]
        other, head = rng.choice(others), stored.record.head
        made: dict[str, Any] = {
            "reentrant": not head.reentrant,
            "code": rng.choice((*sorted(self._world.kept), other.code, digest("o8"))),
            "tool": rng.choice((other.tool, "z")),
            "method": "z",
            "target": "z",
            "args": "z",
            "principal": "z",
        }
        names = rng.sample(tuple(made), rng.choice((1, 1, 2))) if rng.random() < 0.6 else ["reentrant", "code"]
        head = replace(head, **{name: made[name] for name in names})
        return self._put(call, replace(stored, record=replace(stored.record, head=head)), "head")

    def outcome(self, rng: random.Random) -> str:
        """End a call by the outcome of another one, or by none."""
        if not (call := self._call(rng)):
            return ""
        stored = self._world.store.calls[call]
        made = rng.choice((*(item.record.outcome for item in self._world.store.calls.values()), b"", b"0:made up"))
        record = replace(stored.record, state=RecordState.DONE, outcome=made)
        return self._put(call, Stored(record, ()), "outcome")

    def entries(self, rng: random.Random) -> str:
        """Cut, swap, repeat or move entries, or make one up; mostly the record is made to fit them."""
        if not (call := self._call(rng)):
            return ""
        stored = self._world.store.calls[call]
        old = list(stored.journal)
        if not old:
            return ""
        at, round_ = rng.randrange(len(old)), stored.record.round
        other = self._world.store.calls[self._call(rng)].journal
        key = rng.choice(("k2", "k3", "o1", "o2", "i1"))
        kind = EntryKind.ASK if key[0] == "k" else EntryKind.INTENT
        made_up = journal.entry(
            len(old), Draft(kind, key, round_ + rng.choice((0, 1)), EntryLane.SIDE, "fp", "none", b""), b""
        )
        spoiled = _spoiled(old[at], at, rng.choice(("yes", "no", "5")))
        made = rng.choice(
            (
                old[:at],
                [*old[:at], spoiled, *old[at + 1 :]],
                [*old[:at], spoiled, *old[at + 1 :]],
                [*old[:at], *old[at + 1 :]],
                [*old[:at], *reversed(old[at:])],
                [*old, old[at]],
                [*old[:at], *other[at:]],
                [*old, journal.encode(made_up)],
                [*old[:-1], journal.encode(replace(made_up, n=len(old) - 1))],
            )
        )
        fits = rng.random() < 0.7
        return self._put(
            call, self._fitted(stored, tuple(made)) if fits else replace(stored, journal=tuple(made)), "entries"
        )

    def _fitted(self, stored: Stored, made: tuple[bytes, ...]) -> Stored:
        """A record that says what these entries say, as far as somebody without a key can tell."""
        record = replace(stored.record, position=len(made), history=journal.chain(journal.GENESIS, made))
        try:
            entries = journal.decode_all(made)
        except JournalError:
            return Stored(record, made)
        said: dict[str, Any] = {
            "round": round_of(entries),
            "answers": answers_of(entries),
            "intents": dict(once_intents(entries)),
        }
        return Stored(replace(record, **said), made)

    def replay(self, rng: random.Random) -> str:
        """Bring back what stood there earlier: the call, its record or its journal."""
        past = sorted(call for call in self._past if not call.startswith("node "))
        if not past:
            return ""
        call = rng.choice(past)
        old, stored = rng.choice(self._past[call]), self._world.store.calls.get(call)
        if stored is None or rng.random() < 0.5:
            return self._put(call, old, "replay")
        made = rng.choice((replace(stored, record=old.record), replace(stored, journal=old.journal)))
        return self._put(call, made, "replay")

    def exchange(self, rng: random.Random) -> str:
        """Exchange two calls, their records, their journals, or the heads of their records."""
        if not (two := self._two(rng)):
            return ""
        one, other = (self._world.store.calls[call] for call in two)
        made = rng.choice(
            (
                (other, one),
                (replace(one, record=other.record), replace(other, record=one.record)),
                (replace(one, journal=other.journal), replace(other, journal=one.journal)),
                tuple(
                    replace(item, record=replace(item.record, head=replace(head, boot=item.record.head.boot)))
                    for item, head in ((one, other.record.head), (other, one.record.head))
                ),
            )
        )
        done = [self._put(call, item, "exchange") for call, item in zip(two, made, strict=True)]
        return " ".join(filter(None, done))

    def delete(self, rng: random.Random) -> str:
        """Delete a call, or its journal."""
        if not (call := self._call(rng)):
            return ""
        stored = self._world.store.calls[call]
        return self._put(call, rng.choice((None, replace(stored, journal=()))), "delete")

    # ---- to leases

    def _lease(self, rng: random.Random) -> str:
        names = sorted(self._world.store.nodes)
        return rng.choice(names) if names else ""

    def lease(self, rng: random.Random) -> str:
        """Change a field of a lease, or put one there that somebody made up."""
        if not (name := self._lease(rng)):
            return ""
        held = self._world.store.nodes[name]
        made: dict[str, Any] = {
            "inc": Incarnation("z.1"),
            "boot": Boot("z"),
            "beat": held.beat + rng.choice((-1, 1, 99)),
            "node": NodeId(rng.choice(self._world.plan.nodes)),
            "address": "z",
            "state": "draining",
            "code": "z",
            "stats": "z",
            "expires": held.expires + rng.choice((-TTL, 99.0)),
        }
        # One of another process ends nobody that has one which ends later.
        fields = rng.choice(((rng.choice(tuple(made)),), ("boot", "expires")))
        self._world.store.nodes[name] = replace(held, **{field: made[field] for field in fields})
        return f"{' and '.join(fields)} of the lease of {name}"

    def old_lease(self, rng: random.Random) -> str:
        """Bring an older lease of a node back, and keep it as long as one likes."""
        past = sorted(key for key in self._past if key.startswith("node "))
        if not past:
            return ""
        key = rng.choice(past)
        name, item = key.removeprefix("node "), rng.choice(self._past[key])
        self._world.store.nodes[name] = item
        self._world.store.lives[name] = self._world.store.now() + rng.choice((0.3, 99.0))
        return f"lease of {name}, of {item.inc} and beat {item.beat}"

    def lease_of_another(self, rng: random.Random) -> str:
        """Put the lease of one node under the name of another."""
        nodes = self._world.store.nodes
        if len(nodes) < 2:
            return ""
        one, other = rng.sample(sorted(nodes), 2)
        nodes[one], nodes[other] = nodes[other], nodes[one]
        return f"leases of {one} and {other} exchanged"

    def no_lease(self, rng: random.Random) -> str:
        """Delete a lease."""
        if not (name := self._lease(rng)):
            return ""
        del self._world.store.nodes[name]
        return f"lease of {name} deleted"


OF_CALLS = ("hint", "hint", "hint", "hint", "head", "head", "outcome", "entries", "replay", "exchange", "delete")
OF_LEASES = ("lease", "old_lease", "lease_of_another", "no_lease")
ACTS: dict[str, Callable[[Adversary, random.Random], str]] = {
    kind: getattr(Adversary, kind) for kind in (*OF_CALLS, *OF_LEASES)
}


def draw(rng: random.Random, nodes: tuple[str, ...]) -> tuple[tuple[Act, ...], tuple[Fault, ...]]:
    """Some acts, of one kind or of several; and often a crash just behind one, so that what was changed is read."""
    kinds = rng.choice((OF_CALLS, OF_CALLS, OF_LEASES, (*OF_CALLS, *OF_LEASES), (rng.choice(OF_CALLS),)))
    acts = [Act(rng.uniform(0.15, 2.0), rng.choice(kinds), rng.randrange(10**9)) for _ in range(rng.randint(1, 5))]
    crash = Fault(
        rng.choice(acts).at + rng.choice((-0.1, 0.05, 0.2)), "crash", rng.choice(nodes), rng.uniform(0.1, 2.0)
    )
    return tuple(acts), (crash,) if rng.random() < 0.6 else ()
