"""A node's machine and a store, tied together by hand, so that a test reads as a story.

A `Node` drives one `Call` as a shell must: it performs no effect that the machine did not name, sends each write to
a `Shelf`, which runs the very functions of `record`, and feeds the reply back. So every write is checked at its
receiver. What a shell may never do is asserted after each step:

- a request that arrived is answered once, or still waits in the machine: none is forgotten
- a step that raises leaves the state as it was
"""

from __future__ import annotations

from typing import NamedTuple

from framehold_core import journal, record, writes
from framehold_core.call import Call, Phase
from framehold_core.continuation import step
from framehold_core.effects import Effect, Forget, Op, Outcome, Questions, Refusal, Relay, Respond, Write
from framehold_core.ending import COMPLETED, Ending
from framehold_core.events import (
    Acked,
    Answer,
    Asked,
    Claimed,
    Drain,
    Event,
    Finished,
    Flush,
    Found,
    Intended,
    Left,
    MayClaim,
    Pass,
    Rebuilt,
    Renewed,
    Resulted,
    Retry,
    Start,
    StoreDown,
)
from framehold_core.ids import Boot, CallId, Incarnation, NodeId, Waiter
from framehold_core.journal import Draft, EntryKind, EntryLane
from framehold_core.lease import Lease
from framehold_core.requests import Evidence, Head, Read, Reply, Stored
from framehold_core.value import replace

CALL = CallId("0123456789abcdef0123456789abcdef")
TOKEN_TTL, RECORD_TTL, TOMBSTONE_TTL = 600.0, 900.0, 700.0
BEGUN = 1000.0
"""When a test begins, on the node's clock."""
LEFT_OPEN = Forget(open_until=BEGUN + TOKEN_TTL)
"""Nothing is left here of a call whose record stays open."""


class Token(NamedTuple):
    """What a retry's token claims."""

    round: int
    epoch: int
    round_history: str
    node: str


class Shelf:
    """The store: one call's record and journal."""

    def __init__(self) -> None:
        self.stored: Stored | None = None

    def lose(self) -> None:
        """The store went back to before the call's first write."""
        self.stored = None

    def exchange(self, seal: str = "another") -> None:
        """Somebody puts a record with another head in its place."""
        assert self.stored is not None, "nothing is stored"
        record = self.stored.record
        self.stored = replace(self.stored, record=replace(record, head=replace(record.head, seal=seal)))

    def cut(self) -> None:
        """Somebody cuts the journal to nothing, and makes the record fit."""
        assert self.stored is not None, "nothing is stored"
        record = replace(self.stored.record, round=0, position=0, history=journal.GENESIS, answers={}, intents={})
        self.stored = Stored(record, ())


def answer(key: str, text: str = "yes") -> Answer:
    """A client's answer to the ask `key`."""
    value = journal.canonical(text)
    return Answer(key, journal.digest(value), value)


def ask(key: str, round_: int = 1) -> Draft:
    """The handler's ask `key`, for the round that it opens."""
    return Draft(EntryKind.ASK, key, round_, EntryLane.MAIN, f"fp-{key}", "none", b"")


class Node:
    """One node with one call."""

    def __init__(self, shelf: Shelf | None = None, name: str = "n1", *, reentrant: bool = True) -> None:
        self.shelf = shelf or Shelf()
        self.now = BEGUN
        self.lease = Lease(NodeId(name), Incarnation(f"{name}-i1"), Boot(f"{name}-b1"), 1, until=1100.0)
        self.call = Call(CALL, self.lease.node, self.lease.incarnation, reentrant, TOKEN_TTL)
        self.is_marked = reentrant
        """Whether the present code of this node is marked."""
        head = Head(self.lease.boot, reentrant, "tool", "code", "tools/call", "tool", "args", "principal")
        self.terms = writes.Terms(head, RECORD_TTL, TOMBSTONE_TTL)
        self.log: list[bytes] = []
        self.effects: tuple[Effect, ...] = ()
        self.heard: dict[int, Questions | Outcome | Refusal | Relay] = {}
        self.waits: set[int] = set()
        self.token: Token | None = None
        self._packed: tuple[Write, writes.Packed] | None = None
        self._arrivals = 0
        self._seals = 0

    def phase(self) -> Phase:
        """Where the call is. A type checker takes the attribute `call.phase` for what the last assert found there."""
        return self.call.phase

    # ---- what happens to a call

    def feed(self, event: Event) -> tuple[Effect, ...]:
        """Step the machine, and check what no step may do."""
        before = self.call
        try:
            self.call, self.effects = step(before, event, self.now)
        except BaseException:
            assert self.call is before
            raise
        for effect in self.effects:
            if isinstance(effect, Respond):
                self._tell(effect.waiter, effect.response)
            elif isinstance(effect, Relay):
                self._tell(effect.waiter, effect)
        known = {item.waiter for item in (*self.call.waiting, *self.call.undecided)}
        assert self.waits <= known, f"requests {self.waits - known} were forgotten by {type(event).__name__}"
        return self.effects

    def _tell(self, waiter: int, what: Questions | Outcome | Refusal | Relay) -> None:
        assert waiter in self.waits, f"request {waiter} was answered twice, or never came"
        self.waits.remove(waiter)
        self.heard[waiter] = what
        if isinstance(what, Questions):
            self.token = Token(what.round, what.epoch, what.round_history, self.lease.node)

    def arrive(self) -> Waiter:
        self._arrivals += 1
        self.waits.add(self._arrivals)
        return Waiter(self._arrivals)

    def start(self) -> Waiter:
        """Round 1 arrives."""
        waiter = self.arrive()
        self.feed(Start(waiter))
        return waiter

    def retry(self, *answers: Answer, token: Token | None = None) -> Waiter:
        """A retry arrives, with the last token unless told otherwise."""
        token = token or self.token
        assert token is not None, "no questions were heard yet"
        waiter = self.arrive()
        node = NodeId(token.node)
        self.feed(Retry(waiter, token.round, token.epoch, token.round_history, node, answers, self.lease))
        return waiter

    def leave(self, waiter: int) -> tuple[Effect, ...]:
        """The request behind `waiter` disconnects."""
        self.waits.discard(waiter)
        return self.feed(Left(Waiter(waiter)))

    def asks(self, *keys: str) -> tuple[Effect, ...]:
        """The handler waits for these answers."""
        return self.feed(Asked(tuple(ask(key, self.call.round + 1) for key in keys)))

    def intends(self, key: str = "k") -> tuple[Effect, ...]:
        """`once` wants to run."""
        draft = Draft(EntryKind.INTENT, key, self.call.round, EntryLane.SIDE, f"fp-{key}", "none", b"")
        return self.feed(Intended(writes.once_digest(key), draft))

    def wants(self, key: str = "k", *, is_open: bool = True) -> tuple[Effect, ...]:
        """`once` wants to run an effect that was declared idempotent."""
        return self.feed(Intended(writes.once_digest(key), None, is_open))

    def results(self, key: str = "k", kind: EntryKind = EntryKind.RESULT) -> tuple[Effect, ...]:
        """The effect of `once` has run."""
        draft = Draft(kind, key, self.call.round, EntryLane.SIDE, f"fp-{key}", "json", b"1")
        return self.feed(Resulted(writes.once_digest(key), draft))

    def flush(self) -> tuple[Effect, ...]:
        """No other write has taken along what is owed."""
        return self.feed(Flush())

    def finishes(self, outcome: str = "done", ending: Ending = COMPLETED) -> tuple[Effect, ...]:
        """The handler ends."""
        return self.feed(Finished(outcome, ending))

    def lapse(self) -> None:
        """The node's lease lapsed; it goes on under a new incarnation."""
        count = int(self.lease.incarnation.rsplit("i", 1)[1]) + 1
        self.lease = replace(self.lease, incarnation=Incarnation(f"{self.lease.node}-i{count}"))

    def renew(self) -> tuple[Effect, ...]:
        """The node's lease is renewed, or registered anew, and the call hears of it."""
        self.lease = replace(self.lease, until=self.now + 100.0)
        return self.feed(Renewed(self.lease))

    # ---- the store

    def _seal(self, n: int, draft: Draft) -> bytes:
        # No two seals are equal: a write that is packed twice would be another history.
        self._seals += 1
        return b"%d:%d:" % (n, self._seals) + draft.value

    def submit(self) -> tuple[Write, writes.Packed, Reply]:
        """The store gets the write in flight and applies it; nobody hears of that yet."""
        write = self.call.outbox.in_flight
        assert write is not None, "no write is in flight"
        if self._packed is None or self._packed[0] is not write:
            outcome = str(write.outcome).encode() if write.op is Op.FINISH else b""
            self._packed = write, writes.pack(self.call, write, self._seal, self.now, outcome)
        packed = self._packed[1]
        wanted = writes.request(self.call, write, packed, self.terms, self.log)
        self.shelf.stored, reply = record.apply(self.shelf.stored, wanted, self.now)
        return write, packed, reply

    def commit(self) -> tuple[Effect, ...]:
        """The write in flight reaches the store, and its reply this node."""
        return self.hear(*self.submit())

    def hear(self, write: Write, packed: writes.Packed, reply: Reply) -> tuple[Effect, ...]:
        """The store's reply arrives."""
        assert self.call.outbox.in_flight is write, "a shell drops the reply to a write whose frame went"
        event = writes.event(self.call, write, packed, reply, self.lease, self.now)
        if isinstance(event, Claimed):
            self.log = list(event.stored.journal)
        elif isinstance(event, Acked):
            self.log += packed.entries
        return self.feed(event)

    def commit_all(self) -> None:
        """Until no write is in flight."""
        while self.call.outbox.in_flight is not None:
            self.commit()

    def store_down(self, *, is_open: bool = True) -> tuple[Effect, ...]:
        """The store does not answer."""
        return self.feed(StoreDown(is_open))

    def look(
        self,
        evidence: Evidence | None = None,
        elsewhere: tuple[str, ...] = (),
        kept: bool = False,
        waiting: tuple[Retry, ...] | None = None,
    ) -> tuple[Effect, ...]:
        """The lookup is answered. `kept`: kept code will be entered. `waiting` are the requests that had come before
        the read: all of them by default."""
        _, reply = record.apply(self.shelf.stored, Read(CALL), self.now)
        entries = journal.decode_all(reply.stored.journal) if reply.stored else ()
        judged: MayClaim | Pass | None = None
        if evidence is not None:
            judged = MayClaim(evidence, died=evidence is Evidence.GONE)
        elif reply.stored is not None:
            judged = Pass(NodeId(reply.stored.record.owner))
        came = self.call.undecided if waiting is None else waiting
        waiters = frozenset(retry.waiter for retry in came)
        others, reentrant = frozenset(map(NodeId, elsewhere)), self.is_marked or kept
        return self.feed(Found(reply.stored, entries, judged, waiters, others, reentrant, kept))


def running(shelf: Shelf | None = None, *, reentrant: bool = True) -> Node:
    """A handler in its first round."""
    node = Node(shelf, reentrant=reentrant)
    node.start()
    return node


def parked(*keys: str, shelf: Shelf | None = None, reentrant: bool = True) -> Node:
    """A call that has asked `keys` ("a" unless told otherwise), and whose client has heard the questions."""
    node = running(shelf, reentrant=reentrant)
    node.asks(*(keys or ("a",)))
    node.commit()
    return node


def resumed(*, reentrant: bool = True) -> Node:
    """A handler in its second round: "a" was answered."""
    node = parked(reentrant=reentrant)
    node.retry(answer("a"))
    return node


def elsewhere(first: Node, name: str = "n2", *, reentrant: bool = True) -> Node:
    """Another node, which a retry of the same call reaches. `reentrant`: whether its present code is marked."""
    node = Node(first.shelf, name, reentrant=reentrant)
    node.token, node.now = first.token, first.now
    return node


def reach(phase: Phase) -> Node:
    """A call in `phase`, by the shortest way; a request waits wherever one can."""
    node = Node() if phase is Phase.IDLE else resumed()
    if phase is Phase.PARKING:
        node.asks("b")
    elif phase is Phase.FINISHING:
        node.finishes()
    elif phase in (Phase.PARKED, Phase.RELEASING, Phase.VERIFYING):
        node = parked()
        if phase is Phase.RELEASING:
            node.feed(Drain())
        elif phase is Phase.VERIFYING:
            node.lapse()
            node.retry(answer("a"))
    elif phase is Phase.HEALING:
        node.shelf.lose()
        node.asks("b")
        node.commit()
    elif phase is Phase.STRANDED:
        node.asks("b")
        node.store_down()
    elif phase in (Phase.LOOKING, Phase.CLAIMING, Phase.REBUILDING):
        node = elsewhere(parked())
        node.retry(answer("a"))
        if phase is not Phase.LOOKING:
            node.look(Evidence.GONE)
        if phase is Phase.REBUILDING:
            node.commit()
    assert node.call.phase is phase, node.call.phase
    return node


def rebuild(node: Node, evidence: Evidence = Evidence.GONE) -> None:
    """Look up, claim and replay."""
    node.look(evidence)
    node.commit()
    node.feed(Rebuilt())
