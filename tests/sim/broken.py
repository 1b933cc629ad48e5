"""What a mutation puts in the place of a rule: the same functions, wrong in one thing each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framehold_core import lease, ownership, record, replay, retry, rounds, takeover, writes
from framehold_core.call import Call, Move, Phase, send
from framehold_core.effects import Go, Op, Outcome, Questions, Respond, Run, Write
from framehold_core.ending import COMPLETED
from framehold_core.events import Asked, Event, Finished, Found, Intended, Resulted
from framehold_core.ids import Incarnation, NodeId
from framehold_core.journal import Entry, EntryKind
from framehold_core.lease import Lease
from framehold_core.ownership import Sight
from framehold_core.requests import (
    Claim,
    Evidence,
    Fence,
    Finish,
    RecordState,
    Reply,
    Result,
    Stored,
    Verdict,
)
from framehold_core.value import replace
from framehold_core.writes import once_digest

from .driver import Driver
from .handlers import Frame
from .membership import Membership
from .scripts import Slot


def ungated_questions(call: Call, event: Asked, now: float) -> Move:
    move = rounds.asked(call, event, now)
    early = Questions(call.round + 1, call.epoch, call.position, call.history)
    replies = tuple(Respond(item.waiter, early) for item in call.waiting)
    return Move(replace(move.call, waiting=()), (*move.effects, *replies))


def ungated_outcome(call: Call, event: Finished, now: float) -> Move:
    move = rounds.finished(call, event, now)
    replies = tuple(Respond(item.waiter, Outcome(event.outcome)) for item in move.call.waiting)
    return Move(replace(move.call, waiting=()), (*move.effects, *replies))


def hasty_effect(call: Call, event: Intended, now: float) -> Move:
    move = rounds.intended(call, event, now)
    return replace(move, effects=(*move.effects, Go(event.key)))


def answers_left_behind(call: Call, event: Intended, now: float) -> Move:
    """The intent alone: the round's answers go with the next questions, or with the outcome."""
    if event.draft is None:
        return rounds.intended(call, event, now)
    write = Write(Op.INTEND, (event.draft,), key=event.key)
    outbox, effects = send(call, write)
    return Move(replace(call, outbox=outbox, intents=call.intents | {event.key}), effects)


def _without_results(call: Call) -> Call:
    notes = tuple(draft for draft in call.notes if draft.kind not in (EntryKind.RESULT, EntryKind.EFFECT))
    return replace(call, notes=notes, owed=())


def drops_results(call: Call, event: Asked, now: float) -> Move:
    """What the call owes does not go with its questions, nor later."""
    return rounds.asked(_without_results(call), event, now)


def parks_before_results(call: Call, event: Asked, now: float) -> Move:
    """What the call owes goes with the write behind its questions."""
    move = rounds.asked(_without_results(call), event, now)
    late = tuple(draft for draft in call.notes if draft.kind in (EntryKind.RESULT, EntryKind.EFFECT))
    return replace(move, call=replace(move.call, notes=late, owed=call.owed))


def result_of_anybody(stored: Stored | None, request: Result, now: float) -> record.Applied:
    """A result counts, whoever has the call by now."""
    if stored is not None:
        seen = stored.record
        owner, incarnation = NodeId(seen.owner), Incarnation(seen.incarnation)
        mine = replace(request.fence, owner=owner, incarnation=incarnation, epoch=seen.epoch)
        request = replace(request, fence=mine)
    return _RIGHT_RESULT(stored, request, now)


def result_first(driver: Driver, slot: Slot, frame: Frame, name: str) -> None:
    """The result is written as soon as the effect may run; it runs a moment later, if this process still lives."""
    frame.pending[name] = f"{slot.call.id}:{name}"
    driver.feed(slot, Resulted(once_digest(name), frame.result_draft(name, slot.call.round)))
    slot.process.later(0.02, _RIGHT_EFFECT, driver, slot, frame, name)


def blind_fence(*blind: str) -> Callable[..., Verdict]:
    """The check of the fence, blind to some of what a write presents."""
    seeing = record.check_fence

    def check(stored: Stored | None, fence: Fence, resulting: str | None, creates: bool) -> Verdict:
        if stored is not None:
            fence = replace(fence, **{name: getattr(stored.record, name) for name in blind})
        return seeing(stored, fence, resulting, creates)

    return check


def claims_anything(stored: Stored | None, request: Claim, now: float) -> Any:
    if stored is not None and stored.record.state is RecordState.OPEN:
        own = request.evidence is Evidence.OWNER and stored.record.owner == request.owner
        evidence = request.evidence if own else Evidence.GONE
        request = replace(request, seen=stored.record.seen, evidence=evidence)
    return _RIGHT_CLAIM(stored, request, now)


def claims_unmarked(stored: Stored | None, request: Claim, now: float) -> Any:
    if stored is None:
        return _RIGHT_CLAIM(stored, request, now)
    head = stored.record.head
    marked = replace(stored, record=replace(stored.record, head=replace(head, reentrant=True)))
    after, reply = _RIGHT_CLAIM(marked, replace(request, reentrant=True), now)
    if reply.verdict is not Verdict.OK or after is None:
        return stored, reply
    # What the head says is sealed: it stays.
    taken = replace(after, record=replace(after.record, head=replace(head, boot=request.boot)))
    return taken, replace(reply, stored=taken)


def taken_by_what_was_found(case: lease.LeaseCase) -> bool:
    """The lease that a new process finds first ends it, if the store's clock is set back."""
    return bool(_RIGHT_IS_TAKEN.fget(replace(case, found=None)))


def gives_its_name_up(member: Membership, over: bytes) -> None:
    """A node that has lapsed deletes what is left of its lease, and registers with its next heartbeat."""
    if over:
        member._process.world.store.lapse(member.lease.node)
        member._rest()
    else:
        _RIGHT_BEAT(member, over)


def heard_as_it_comes(cursor: replay.Cursor) -> tuple[Entry, ...]:
    """The result of an effect is given when the handler has come to that effect: of several, the last one first."""
    for at in range(len(cursor._deliveries) - 1, cursor._given - 1, -1):
        item = cursor._deliveries[at][0]
        if item.kind is not EntryKind.ANSWER and (EntryKind.INTENT, item.key, 0) in cursor._met:
            cursor._deliveries.insert(cursor._given, cursor._deliveries.pop(at))
            cursor._given += 1
            return (item,)
    return _RIGHT_READY(cursor)


def hasty_evidence(sight: Sight) -> Evidence | None:
    """An owner that lives, and never lapsed, is thought gone."""
    assert sight.stored is not None
    record_ = sight.stored.record
    owner = sight.leases.get(NodeId(record_.owner))
    alive = owner is not None and owner.inc == record_.incarnation and record_.owner != sight.me.node
    return Evidence.GONE if alive else _RIGHT_EVIDENCE(sight)


def any_window(call: Call, write: Write, packed: writes.Packed, reply: Reply, held: Lease, now: float) -> Event:
    """The window of any incarnation is good for each frame."""
    return _RIGHT_EVENT(
        call, write, packed, reply, replace(held, incarnation=write.incarnation or call.incarnation), now
    )


def lapse_is_death(sight: Sight) -> Evidence | None:
    """Whoever has lost one lease is dead, whatever process holds the next one."""
    assert sight.stored is not None
    record_ = sight.stored.record
    owner = sight.leases.get(NodeId(record_.owner))
    is_open = record_.state is RecordState.OPEN and record_.owner != sight.me.node
    return Evidence.GONE if is_open and (not owner or owner.inc != record_.incarnation) else _RIGHT_EVIDENCE(sight)


def never_behind(stored: Stored | None, fence: Fence, resulting: str | None, creates: bool) -> Verdict:
    """A store that went back is written to as if it had not."""
    verdict = _RIGHT_FENCE(stored, fence, resulting, creates)
    return Verdict.OK if verdict is Verdict.BEHIND and stored is not None else verdict


def guesses(call: Call, event: Found, now: float) -> Move:
    """A token without a record begins the call anew."""
    if event.stored is None and not event.elsewhere:
        return Move(replace(call, phase=Phase.RUNNING, waiting=call.undecided, undecided=()), (Run(call.epoch),))
    return takeover.found(call, event, now)


def says_all_is_well(stored: Stored | None, request: Finish, now: float) -> record.Applied:
    """However a call ended, its record calls it completed."""
    return _RIGHT_FINISH(stored, replace(request, ending=COMPLETED), now)


def half_is_enough(call: Call, case: retry.RetryCase, now: float) -> Move:
    """The frame resumes with the answers that came, complete or not."""
    given = {answer.key for answer in case.usable}
    return _RIGHT_ACCEPT(replace(call, asks=tuple(ask for ask in call.asks if ask.key in given)), case, now)


_RIGHT_EVENT, _RIGHT_EVIDENCE, _RIGHT_FENCE = writes.event, ownership.evidence_of, record.check_fence
_RIGHT_ACCEPT, _RIGHT_BEAT, _RIGHT_EFFECT = rounds._accept, Membership._beat, Driver._begin_effect
_RIGHT_CLAIM, _RIGHT_FINISH, _RIGHT_RESULT = (record._SCRIPTS[kind] for kind in (Claim, Finish, Result))
_RIGHT_IS_TAKEN, _RIGHT_READY = vars(lease.LeaseCase)["is_taken"], replay.Cursor.ready
