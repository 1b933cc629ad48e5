"""From a `Write` effect to the request that a store understands, and from the store's reply to the event that follows.

A driver (a node's runtime, the simulation) performs a write in four steps:

1. `pack` it at the call's present position: encode its drafts, each sealed for its place. Keep the result with the
   write: one that is sent again must be the same bytes, or the store can't tell that it was already applied.
2. `request` it, and submit that to the store.
3. Drop the reply if `call.flight` is no longer this write (the frame went meanwhile), or if `StoreDown` was fed for
   this sending of it: a late reply to a write that was given up has no row, the write is sent again.
4. Feed `event` of the reply to `step`; after an acknowledgement the packed entries belong to the frame's log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import journal, lease
from .call import Call, fence
from .effects import Op, Write
from .events import Acked, Claimed, Event, Refused
from .ids import NodeId
from .journal import Draft, Entry, Kind
from .lease import Lease
from .requests import (
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
    Verdict,
    Verify,
)

MAX_ATTEMPTS = 5
"""Claims in a row, without a round between them, after which a call is stuck (PROTOCOL rule 15)."""

Seal = Callable[[int, Draft], bytes]
"""Seal a draft's value for its position."""


class Terms(NamedTuple):
    """What a driver knows of a call that the machine needn't: how its record begins, and how long things live
    (seconds)."""

    head: Head
    record_ttl: float
    tombstone_ttl: float
    max_attempts: int = MAX_ATTEMPTS


class Packed(NamedTuple):
    """A write as it will be sent, every time."""

    entries: tuple[bytes, ...]
    jh: str
    outcome: bytes = b""


def pack(call: Call, write: Write, seal: Seal, outcome: bytes = b"") -> Packed:
    """Encode a write's drafts at the call's position."""
    if not write.drafts:
        return Packed((), call.jh, outcome)
    encoded = tuple(
        journal.encode(journal.entry(call.n + place, draft, seal(call.n + place, draft)))
        for place, draft in enumerate(write.drafts)
    )
    return Packed(encoded, journal.chain(call.jh, encoded), outcome)


def once_intents(entries: Sequence[Entry]) -> tuple[tuple[str, bool], ...]:
    """Each `once` key of a journal by its digest, and whether its result is there."""
    found: dict[str, bool] = {}
    for item in entries:
        if item.kind in (Kind.INTENT, Kind.RESULT):
            found[once_digest(item.key)] = item.kind is Kind.RESULT
    return tuple(found.items())


def once_digest(key: str) -> str:
    """The name of a `once` key in the record."""
    return journal.digest(key.encode("utf-8", "surrogatepass"))


def request(call: Call, write: Write, packed: Packed, terms: Terms, log: Sequence[bytes], ran: float = 0.0) -> Request:
    """The request for `write`. `log` is the frame's acknowledged journal; only a heal looks at it. `ran` is how many
    seconds the round has run by now; it is for the record's trail, and may differ when a write is sent again."""
    claim, ttl = fence(call), terms.record_ttl
    batch = Batch(packed.entries, packed.jh)
    head = terms.head if call.epoch == 1 and call.n == 0 else None
    if write.op is Op.PARK:
        return Commit(call.id, claim, batch, ttl, write.answered, head, ran)
    if write.op is Op.FINISH:
        return Finish(call.id, claim, packed.outcome, write.cause, terms.tombstone_ttl, write.answered, ran)
    if write.op is Op.INTEND:
        return Intent(call.id, claim, batch, ttl, write.key, write.answered, head)
    if write.op is Op.RESULT:
        return Result(call.id, claim, batch, ttl, write.key)
    if write.op is Op.VERIFY:
        assert write.inc is not None
        return Verify(call.id, claim, write.inc, ttl)
    if write.op is Op.RELEASE:
        return Release(call.id, claim, ttl)
    if write.op is Op.HEAL:
        return _heal(call, write, terms, log)
    assert write.seen is not None and write.evidence is not None
    who = (NodeId(call.owner), call.inc, terms.head.boot)
    return Claim(call.id, write.seen, write.evidence, *who, call.reentrant, terms.max_attempts, ttl)


def _heal(call: Call, write: Write, terms: Terms, log: Sequence[bytes]) -> Heal:
    """A heal writes what this frame was acknowledged, under its present incarnation."""
    claim = fence(call)._replace(inc=write.inc or call.inc)
    batch = Batch(tuple(log), call.jh)
    entries = journal.decode_all(log)
    carried = any(item.kind is Kind.ANSWER and item.round == call.round for item in entries)
    answered = (*call.past, call.answered) if call.answered is not None and carried else call.past
    intents = once_intents(entries)
    return Heal(call.id, claim, write.seen, batch, answered, intents, terms.head, terms.record_ttl)


def event(call: Call, write: Write, packed: Packed, reply: Reply, held: Lease, now: float) -> Event:
    """What a reply to `write` means to the machine. `held` is the node's lease as it stands.

    Raises:
        JournalError: a claimed journal can't be read.
    """
    if reply.verdict not in (Verdict.OK, Verdict.ALREADY):
        return Refused(reply.verdict, reply.stored)
    if write.op is Op.CLAIM:
        assert reply.stored is not None, "a granted claim brings the record"
        return Claimed(reply.stored, journal.decode_all(reply.stored.journal), held)
    # The window of a later incarnation is not this frame's: it was not verified under it (rule 4).
    is_open = held.inc == (write.inc or call.inc) and lease.is_open(held, now)
    already = reply.verdict is Verdict.ALREADY
    return Acked(reply.epoch, call.n + len(packed.entries), packed.jh, is_open, already)
