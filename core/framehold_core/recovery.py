"""Transitions of a call whose frame is here, where the lease lapsed or the store failed: verify, heal, strand, release.

The frame behind a refused write is dropped, and the retries that waited for it are decided again from the record:
executors are fenced, answers never. A write that the store did not answer stays in flight as it was; a retry that joins
its round, or the store's return, sends it again.
"""

from __future__ import annotations

from . import lease as leases
from .call import (
    Call,
    Move,
    Phase,
    drop_and_forget,
    drop_frame,
    effect_under_way,
    flush,
    frame_phase,
    handler_phase,
    lose_ownership,
    may_be_dropped,
    refuse_all,
    run_withheld,
    send,
    send_verify,
)
from .effects import Effect, Forget, Lookup, Op, Outcome, RaiseInDoubt, Reason, Respond, Ungated, Write
from .ending import NOT_KEPT, Ending, How
from .errors import impossible
from .events import Acked, Drain, Evict, Expired, Flush, Recheck, Renewed, Retry, StoreBack, StoreDown, WriteRefused
from .outbox import Outbox
from .requests import Verdict
from .rounds import flushed
from .takeover import MAX_TRIES
from .value import replace

_UNKEPT = (
    "{}, so the call's first round could not be kept; its handler was cancelled where it stood; start a new call if "
    "that is safe"
)
UNKEPT = _UNKEPT.format("the store did not answer")


def write_refused(call: Call, event: WriteRefused, now: float) -> Move:
    """A write of a live frame was refused."""
    write = call.outbox.in_flight
    if write is None:
        impossible("the store refused a write of a call that has none in flight")
    if event.verdict is Verdict.BEHIND:
        return _heal(call, write, event, now)
    if write.op is Op.INTEND and event.verdict is Verdict.CONFLICT:
        call = _pass_on_contents(replace(call, intents=call.intents - {write.key}), write)
        outbox, sent = call.outbox.next()
        move = Move(replace(call, outbox=outbox), (RaiseInDoubt(write.key), *sent))
        if not (call.owed or call.unready):
            return move
        call, flushing = flush(move.call)
        return Move(call, (*move.effects, *flushing))
    return lose_ownership(call, "fenced")


def _pass_on_contents(call: Call, write: Write) -> Call:
    """Move the answers and notes that a refused intent carried to the next write that can carry them
    (docs/protocol.md, rule 2)."""
    notes, queue = write.drafts[:-1], call.outbox.queue
    for place, later in enumerate(queue):
        if later.op in (Op.PARK, Op.INTEND, Op.RESULT, Op.FINISH):
            drafts = later.drafts if later.op is Op.FINISH else notes + later.drafts
            answered, results = later.answered or write.answered, write.results + later.results
            carrier = replace(later, drafts=drafts, answered=answered, results=results)
            return replace(call, outbox=replace(call.outbox, queue=(*queue[:place], carrier, *queue[place + 1 :])))
    owed, sent = write.results + call.owed, call.answers_sent and write.answered is None
    return replace(call, notes=notes + call.notes, owed=owed, answers_sent=sent)


def _heal(call: Call, write: Write, event: WriteRefused, now: float) -> Move:
    """The store went back below what this frame was acknowledged: write the whole journal again (rule 7). Where a
    record is missing for longer than a tombstone lives, the call may have ended elsewhere: the frame is dropped.

    The write that found it out goes to the head of the queue, and is sent when the record stands again. A record that
    went back within this frame's round knows it by the incarnation under which it was written: a heal under a later one
    would be another's."""
    may_have_ended = event.stored is None and call.round > 0 and now >= call.written + call.ttl
    if may_have_ended or call.tries >= MAX_TRIES:
        return lose_ownership(call, "fenced")
    record = event.stored.record if event.stored else None
    seen = record.seen if record else None
    within = record is not None and (record.round, record.epoch) == (call.round, call.epoch)
    queue = (write, *call.outbox.queue) if write.op is not Op.HEAL else call.outbox.queue
    heal = Write(Op.HEAL, seen=seen, incarnation=None if within else write.incarnation)
    healing = replace(call, phase=Phase.HEALING, outbox=Outbox(heal, queue=queue), tries=call.tries + 1)
    return Move(healing, (heal,))


def heal_refused(call: Call, event: WriteRefused, now: float) -> Move:
    """The record is not as it was read when the heal was written. Where it went back again, heal again. Where it moved,
    send the write that found the store behind: its own answer says whether this frame still owns the call."""
    if event.verdict is Verdict.BEHIND:
        if call.outbox.in_flight is None:
            impossible("the store refused a heal of a call that has no write in flight")
        return _heal(call, call.outbox.in_flight, event, now)
    if event.verdict is Verdict.CHANGED and call.tries < MAX_TRIES and call.outbox.queue:
        outbox, sent = call.outbox.next()
        back = replace(call, outbox=outbox, undecided=())
        return Move(replace(back, phase=frame_phase(back)), sent, call.undecided)
    return lose_ownership(call, "fenced")


def verify_acked(call: Call, event: Acked, now: float) -> Move:
    """The frame is verified: the call is this node's under its present incarnation."""
    write = call.outbox.in_flight
    if write is None or write.incarnation is None:
        impossible("the store acknowledged a verification that names no incarnation")
    outbox, sent = call.outbox.next()
    call, effects = run_withheld(call, event.is_open)
    verified = replace(
        call,
        phase=Phase.PARKED,
        epoch=event.epoch,
        incarnation=write.incarnation,
        written=event.sent,
        outbox=outbox,
        undecided=(),
        tries=0,
    )
    return Move(verified, (*effects, *sent), call.undecided)


def renewed(call: Call, event: Renewed, now: float) -> Move:
    """The node's lease is valid again (rule 4, decision 013).

    Under the incarnation that this frame runs under, effects that waited for the window start. Under another, the frame
    is verified behind the writes in line, and they start then. A parked frame without an effect is verified when it is
    resumed: most never are."""
    call = refresh_leases(call, event, now).call
    if call.incarnation == event.lease.incarnation:
        call, effects = run_withheld(call, leases.is_open(event.lease, now))
        return Move(call, effects)
    if call.position == 0 and call.outbox.in_flight is None:
        # Nothing of it is stored: no other node can know of the call.
        call = replace(call, incarnation=event.lease.incarnation)
        return Move(*run_withheld(call, leases.is_open(event.lease, now)))
    if call.phase is Phase.PARKED and not call.intents:
        return Move(call)
    call, effects = send_verify(call, event.lease.incarnation)
    return Move(call, effects)


def rechecked(call: Call, event: Recheck, now: float) -> Move:
    """The store may have gone back: verify the frame, behind the writes in line. Where the record lacks something the
    verification is BEHIND, and the frame heals it now instead of at its next round (rule 7).

    The write in flight is no check: it may have been applied before the store went back. A heal in flight is followed
    by the write that it stands in for, and that one is."""
    outbox = call.outbox
    if call.position == 0 or outbox.has(Op.HEAL) or any(write.op is Op.VERIFY for write in outbox.queue):
        return Move(call)
    outbox, effects = send(call, Write(Op.VERIFY, incarnation=event.lease.incarnation))
    return Move(replace(call, outbox=outbox), effects)


def refresh_leases(call: Call, event: Renewed, now: float) -> Move:
    """Undecided requests are decided later under the lease as it is now."""
    if not call.undecided:
        return Move(call)
    return Move(replace(call, undecided=tuple(replace(item, lease=event.lease) for item in call.undecided)))


def heal_acked(call: Call, event: Acked, now: float) -> Move:
    """The record stands again, one epoch on: go on with the write that found the store behind."""
    heal = call.outbox.in_flight
    if heal is None or not call.outbox.queue:
        impossible("the store acknowledged a heal that no write waits for")
    undecided, blocked = call.undecided, call.outbox.queue[0]
    under = heal.incarnation or call.incarnation
    call = replace(call, epoch=event.epoch, incarnation=under, written=event.sent, undecided=(), tries=0)
    if blocked.op is not Op.VERIFY or blocked.incarnation != call.incarnation:
        outbox, sent = call.outbox.next()
        call = replace(call, outbox=outbox)
        return Move(replace(call, phase=frame_phase(call)), sent, undecided)
    # The heal was written under the present incarnation: nothing is left to verify.
    call, effects = run_withheld(call, event.is_open)
    rest = Outbox(queue=call.outbox.queue[1:])
    call = replace(call, phase=handler_phase(replace(call, outbox=rest)))
    outbox, sent = rest.next()
    ended = (call.ended,) if call.phase is Phase.RUNNING and call.ended is not None else ()
    return Move(replace(call, outbox=outbox), (*effects, *sent), (*undecided, *ended))


def write_unanswered(call: Call, event: StoreDown, now: float) -> Move:
    """The store did not answer a write: nobody hears what is not durable, and the frame stays.

    The exception of rule 1: an outcome leaves before its commit while the window is open, and is committed when the
    store is back. Not where that commit carries results: nobody hears what rests on a result that is not durable."""
    write = call.outbox.in_flight
    if write is None:
        impossible("the store left a write unanswered of a call that has none in flight")
    stalled = call.outbox.stall()
    if write.op is Op.VERIFY and call.phase is Phase.RUNNING:
        # The round goes on without the store until its next write; until then only its effects wait.
        return Move(replace(call, outbox=stalled))
    if call.round == 0 and not effect_under_way(call) and write.op is not Op.FINISH:
        # The first request runs: no question was asked, so no token exists, and nobody could come back for this frame.
        detail = _UNKEPT.format(event.why) if event.why else UNKEPT
        replies = refuse_all(call.waiting, Reason.UNAVAILABLE, call, detail)
        call, effects = drop_frame(call, "unavailable")
        return Move(replace(call, undecided=()), (*replies, *effects, Forget(NOT_KEPT)))
    # The write extended nothing: the tokens of the last round expire when they would have. While the first request
    # runs there is no token: the frame waits no longer than one would have lasted.
    expires = call.expires if call.round else now + call.ttl
    if write.op is Op.FINISH and event.is_open and not write.results:
        outcome = Outcome(write.outcome)
        replies = tuple(Respond(item.waiter, outcome) for item in call.waiting)
        counted: tuple[Effect, ...] = (Ungated(),) if replies else ()
        kept = replace(call, phase=Phase.STRANDED, outbox=stalled, waiting=(), expires=expires)
        return Move(kept, (*counted, *replies))
    detail = f"{event.why}; send the same request again" if event.why else ""
    replies = refuse_all((*call.waiting, *call.undecided), Reason.UNAVAILABLE, call, detail)
    kept = replace(
        call,
        phase=Phase.PARKED if call.phase in (Phase.PARKED, Phase.VERIFYING) else Phase.STRANDED,
        outbox=stalled,
        waiting=(),
        undecided=(),
        expires=expires,
        abandoned=call.abandoned or call.round == 0,
    )
    if kept.owed and kept.abandoned:
        kept, _ = flush(kept)
    return Move(kept, replies)


def store_back(call: Call, event: StoreBack, now: float) -> Move:
    """The store answers again: send the stalled write."""
    write = call.outbox.in_flight
    if write is None or not call.outbox.stalled:
        return Move(call)
    phase = frame_phase(call) if call.phase is Phase.STRANDED or write.op is Op.VERIFY else call.phase
    outbox, effects = call.outbox.resend()
    return Move(replace(call, phase=phase, outbox=outbox), effects)


def expired(call: Call, event: Expired, now: float) -> Move:
    """No token of this call can be valid any more: drop the frame, unless an effect of it is under way (rule 8), or a
    retry waits for the answer to its release."""
    if now < call.expires or effect_under_way(call) or call.undecided:
        return Move(call)
    return drop_and_forget(call, "expired", Ending(How.EXPIRED))


def evicted(call: Call, event: Evict, now: float) -> Move:
    """Drop the frame: its journal can rebuild it. Nothing is done to a handler that may not be entered again, nor while
    an effect or a write is under way (rule 8). A result that is owed is written, so that the frame can go next time."""
    return drop_and_forget(call, event.cause) if may_be_dropped(call) else flushed(call, Flush(), now)


def drained(call: Call, event: Drain, now: float) -> Move:
    """The node leaves: hand the call off, so that the next owner need not wait for the lease to run out. A result that
    is owed is written first."""
    if not may_be_dropped(call):
        return flushed(call, Flush(), now)
    outbox, effects = call.outbox.send(Write(Op.RELEASE))
    return Move(replace(call, phase=Phase.RELEASING, outbox=outbox), effects)


def release_refused(call: Call, event: WriteRefused, now: float) -> Move:
    """The store refused the release. Where it went back this frame is the only whole copy of the call: it heals the
    record, and is released after that (rule 7). Any other verdict says that the call is another's."""
    return write_refused(call, event, now) if event.verdict is Verdict.BEHIND else released(call, event, now)


def retried_while_released(call: Call, event: Retry, now: float) -> Move:
    """A retry came while the call is handed off: it is decided when the store has answered. A release that the store
    left unanswered is sent again."""
    outbox, effects = call.outbox.resend()
    return Move(replace(call, outbox=outbox, undecided=(*call.undecided, event)), effects)


def release_unanswered(call: Call, event: StoreDown, now: float) -> Move:
    """The store did not answer the release: nobody knows whether the call is given away. The frame stays, since it may
    be the only whole copy of the call, and takes no answers. The release is sent again when the store is back."""
    replies = refuse_all(call.undecided, Reason.UNAVAILABLE, call)
    return Move(replace(call, outbox=call.outbox.stall(), undecided=()), replies)


def released(call: Call, event: Acked | WriteRefused, now: float) -> Move:
    """The call is given away: drop the frame. Requests that came meanwhile are decided from the record."""
    call, effects = drop_frame(call, "released")
    if not call.undecided:
        return Move(call, (*effects, Forget()))
    return Move(replace(call, phase=Phase.LOOKING), (*effects, Lookup()))
