"""From a `Write` effect to the request that a store understands, and from the store's reply to the event that follows.

A driver (a node's runtime, the simulation) performs a write in four steps:

1. `pack` it: encode its drafts from the call's present position on, each sealed for its position. Keep the result with
   the write: a write that is sent again must be the same bytes, or the store can't tell that it was already applied.
2. Make the `request` for it, and submit that to the store.
3. Drop the reply if `call.outbox.in_flight` is no longer this write (the frame went meanwhile), or if `StoreDown` was
   fed for this sending of it: a late reply to a stalled write has no row, since the write is sent again.
4. Feed `event` of the reply to `step`; after an acknowledgement the packed entries belong to the frame's log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import journal, lease, retry
from .call import Call, fence_of
from .effects import Op, Write
from .errors import JournalError, impossible
from .events import Acked, Answer, Claimed, Event, WriteRefused
from .ids import NodeId
from .journal import Draft, Entry, EntryKind
from .lease import Lease
from .requests import (
    Answered,
    Batch,
    Claim,
    Commit,
    Finish,
    Head,
    Heal,
    Intent,
    Release,
    Reply,
    Request,
    Result,
    Stored,
    Verdict,
    Verify,
)
from .value import Value, replace

MAX_ATTEMPTS = 5
"""How many owners may die running one round before the call is stuck (docs/protocol.md, rule 15, decision 015)."""

_SAID = ("history", "last round", "answers", "effects")
"""What a record says of its journal."""
_OTHERWISE = (
    "its journal is not the one that its record names ({}): entries are missing, altered or of another time; the call "
    "was not continued; check who else writes this store"
)

Seal = Callable[[int, Draft], bytes]
"""Seal a draft's value for its position."""


class Terms(Value):
    """What a driver knows of a call and the machine does not need: how its record begins, and for how many seconds its
    record and its tombstone live."""

    head: Head
    record_ttl: float
    tombstone_ttl: float
    max_attempts: int = MAX_ATTEMPTS


class Packed(Value):
    """The bytes of a write, the same for each sending, and the history after it. `sent` is when it was first sent, in
    seconds on the node's clock."""

    entries: tuple[bytes, ...]
    history: str
    sent: float
    outcome: bytes = b""


def pack(call: Call, write: Write, seal: Seal, now: float, outcome: bytes = b"") -> Packed:
    """Encode a write's drafts at the call's position. `now` is in seconds on the node's clock."""
    if not write.drafts:
        return Packed((), call.history, now, outcome)
    encoded = tuple(
        [
            journal.encode(journal.entry(place, draft, seal(place, draft)))
            for place, draft in enumerate(write.drafts, call.position)
        ]
    )
    return Packed(encoded, journal.chain(call.history, encoded), now, outcome)


def once_intents(entries: Sequence[Entry]) -> tuple[tuple[str, bool], ...]:
    """Each `once` key of a journal by its digest, and whether its result is there."""
    found: dict[str, bool] = {}
    for item in entries:
        if item.kind in (EntryKind.INTENT, EntryKind.RESULT, EntryKind.EFFECT):
            found[once_digest(item.key)] = item.kind is not EntryKind.INTENT
    return tuple(found.items())


def once_digest(key: str) -> str:
    """The name of a `once` key in the record."""
    return journal.digest(key.encode("utf-8", "surrogatepass"))


def round_of(entries: Sequence[Entry]) -> int:
    """The round whose questions a journal asked last; 0 before the first questions."""
    return max((item.round for item in entries if item.kind is EntryKind.ASK), default=0)


def answers_of(entries: Sequence[Entry]) -> dict[int, Answered]:
    """What a record says of the answers in its journal, by their rounds."""
    given: dict[int, list[Answer]] = {}
    for item in entries:
        if item.kind is EntryKind.ANSWER:
            given.setdefault(item.round, []).append(Answer(item.key, item.fp, item.value))
    return {
        round_: Answered(round_, retry.digest(answers), journal.asked(entries, round_))
        for round_, answers in given.items()
    }


def read(stored: Stored) -> tuple[Entry, ...]:
    """The entries of a call that may be claimed. What its record says of them is a hint (docs/protocol.md, rule 29):
    the entries decide, and a record that says otherwise is not believed.

    Raises:
        JournalError: an entry can't be read, or the record says otherwise than the entries.
    """
    record, entries = stored.record, journal.decode_all(stored.journal)
    if record.is_over:
        return entries
    said = (record.history, record.round, dict(record.answers), dict(record.intents))
    found = (
        journal.chain(journal.GENESIS, stored.journal),
        round_of(entries),
        answers_of(entries),
        dict(once_intents(entries)),
    )
    for what, one, other in zip(_SAID, said, found, strict=True):
        if one != other:
            raise JournalError(_OTHERWISE.format(what))
    return entries


def request(call: Call, write: Write, packed: Packed, terms: Terms, log: Sequence[bytes], ran: float = 0.0) -> Request:
    """The request for `write`. `log` is the frame's acknowledged journal; only a heal looks at it. `ran` is how many
    seconds the round has run by now; it is for the record's trail, and may differ when a write is sent again."""
    fence, ttl = fence_of(call), terms.record_ttl
    batch = Batch(packed.entries, packed.history)
    head = terms.head if call.epoch == 1 and call.position == 0 else None
    if write.op is Op.PARK:
        return Commit(call.id, fence, batch, ttl, write.answered, head, ran, write.results)
    if write.op is Op.FINISH:
        if write.ending is None:
            impossible("a finish does not say how the call ended")
        outcome, ending, answered = packed.outcome, write.ending, write.answered
        return Finish(call.id, fence, outcome, ending, terms.tombstone_ttl, answered, ran, write.results)
    if write.op is Op.INTEND:
        return Intent(call.id, fence, batch, ttl, write.key, write.answered, head, write.results)
    if write.op is Op.RESULT:
        return Result(call.id, fence, batch, ttl, write.answered, head, write.results)
    if write.op is Op.VERIFY:
        if write.incarnation is None:
            impossible("a verification names no incarnation")
        return Verify(call.id, fence, write.incarnation, ttl)
    if write.op is Op.RELEASE:
        return Release(call.id, fence, ttl)
    if write.op is Op.HEAL:
        return _heal(call, write, terms, log)
    if write.seen is None or write.evidence is None:
        impossible(f"a write of kind {write.op.value!r} lacks the owner that it saw, or its evidence")
    who = (NodeId(call.owner), call.incarnation, terms.head.boot)
    return Claim(call.id, write.seen, write.evidence, *who, call.reentrant, terms.max_attempts, ttl, write.kept)


def _heal(call: Call, write: Write, terms: Terms, log: Sequence[bytes]) -> Heal:
    """The request for a heal: everything that the store acknowledged to this frame, under its present incarnation."""
    fence = replace(fence_of(call), incarnation=write.incarnation or call.incarnation)
    batch = Batch(tuple(log), call.history)
    entries = journal.decode_all(log)
    carried = any(item.kind is EntryKind.ANSWER and item.round == call.round for item in entries)
    answered = (*call.answered_before, call.answered) if call.answered is not None and carried else call.answered_before
    intents = once_intents(entries)
    return Heal(call.id, fence, write.seen, batch, answered, intents, terms.head, terms.record_ttl)


def event(call: Call, write: Write, packed: Packed, reply: Reply, held: Lease, now: float) -> Event:
    """The event that a reply to `write` is to the machine. `held` is the node's lease as it stands.

    Raises:
        JournalError: a claimed journal can't be read, or its record says otherwise than it.
    """
    if reply.verdict not in (Verdict.OK, Verdict.ALREADY):
        return WriteRefused(reply.verdict, reply.stored)
    if write.op is Op.CLAIM:
        if reply.stored is None:
            impossible("the store granted a claim and did not return the record")
        return Claimed(reply.stored, read(reply.stored), held, packed.sent)
    # The window of a later incarnation is not this frame's: it was not verified under it (rule 4).
    is_open = held.incarnation == (write.incarnation or call.incarnation) and lease.is_open(held, now)
    already = reply.verdict is Verdict.ALREADY
    position = call.position + len(packed.entries)
    return Acked(reply.epoch, position, packed.history, is_open, packed.sent, already)
