"""Transitions of a call whose frame is here and whose lease or store is not what it was: verify, heal, strand, release.

A fenced frame is dropped, its waiting retries are decided again from the record: executors are fenced, answers never.
A write that the store did not answer waits as it was; the same retry, or the store's return, sends it again.
"""

from __future__ import annotations

from . import lease as leases
from .call import (
    Call,
    Move,
    Phase,
    at_rest,
    dropped,
    gone,
    home,
    landed,
    let_go,
    refuse,
    resend,
    send,
    shielded,
    stance,
    superseded,
    verify,
)
from .effects import Effect, Forget, InDoubt, Lookup, Op, Outcome, Reason, Reply, Ungated, Write
from .events import Acked, Drain, Evict, Expired, Finished, Nudged, Refused, Renewed, StoreDown
from .requests import Verdict
from .takeover import MAX_TRIES

UNKEPT = (
    "the store did not answer, so the call's first round could not be kept; its handler was cancelled where it stood; "
    "start a new call if that is safe"
)


def refused(call: Call, event: Refused, now: float) -> Move:
    """A write of a live frame was refused."""
    write = call.flight
    assert write is not None, "a refusal answers a write"
    if event.verdict is Verdict.BEHIND and write.op is not Op.RELEASE:
        return _heal(call, write, event)
    if write.op is Op.INTEND and event.verdict is Verdict.CONFLICT:
        call, effects = landed(_handed_on(call._replace(intents=call.intents - {write.key}), write))
        return Move(call, (InDoubt(write.key), *effects))
    return superseded(call, "fenced")


def _handed_on(call: Call, write: Write) -> Call:
    """What a refused intent took along, answers and notes, goes with the next write that can carry it (rule 2)."""
    notes = write.drafts[:-1]
    for place, later in enumerate(call.queue):
        if later.op in (Op.PARK, Op.INTEND, Op.FINISH):
            drafts = later.drafts if later.op is Op.FINISH else notes + later.drafts
            taken = later._replace(drafts=drafts, answered=later.answered or write.answered)
            return call._replace(queue=(*call.queue[:place], taken, *call.queue[place + 1 :]))
    return call._replace(notes=notes + call.notes, carried=call.carried and write.answered is None)


def _heal(call: Call, write: Write, event: Refused) -> Move:
    """The store went back below what this frame was acknowledged: write the whole journal again (rule 7)."""
    if call.tries >= MAX_TRIES:
        return superseded(call, "fenced")
    seen = event.stored.record.seen if event.stored else None
    queue = (write, *call.queue) if write.op is not Op.HEAL else call.queue
    heal = Write(Op.HEAL, seen=seen, inc=write.inc)
    healing = call._replace(phase=Phase.HEALING, flight=heal, stalled=False, queue=queue, tries=call.tries + 1)
    return Move(healing, (heal,))


def unhealed(call: Call, event: Refused, now: float) -> Move:
    """The record moved while it was healed: try the write itself again, it finds out."""
    if event.verdict is Verdict.BEHIND:
        assert call.flight is not None
        return _heal(call, call.flight, event)
    if event.verdict is Verdict.CHANGED and call.tries < MAX_TRIES and call.queue:
        again = call.queue[0]
        held = call.held
        back = call._replace(flight=again, queue=call.queue[1:], tries=call.tries + 1, held=())
        return Move(back._replace(phase=home(back, again)), (again,), held)
    return superseded(call, "fenced")


def verified(call: Call, event: Acked, now: float) -> Move:
    """The frame is ours again, under the present incarnation."""
    write = call.flight
    assert write is not None and write.inc is not None, "a verification names its incarnation"
    held = call.held
    call = call._replace(phase=Phase.PARKED, epoch=event.epoch, inc=write.inc, held=(), tries=0)
    call, told = let_go(call, event.is_open)
    call, effects = landed(call)
    return Move(call, (*told, *effects), held)


def renewed(call: Call, event: Renewed, now: float) -> Move:
    """The node's lease is valid again. Under the incarnation that this frame runs under, effects that waited for it go;
    under another the frame is verified in line, and they go then (rule 4). A parked frame at rest is verified when it
    is resumed: most never need it."""
    call = refreshed(call, event, now).call
    if call.inc == event.lease.inc:
        call, told = let_go(call, leases.is_open(event.lease, now))
        return Move(call, told)
    if call.n == 0 and call.flight is None:
        # Nothing of it is stored: no other node can know of the call.
        return Move(call._replace(inc=event.lease.inc))
    if call.phase is Phase.PARKED and not call.intents:
        return Move(call)
    call, effects = verify(call, event.lease.inc)
    return Move(call, effects)


def refreshed(call: Call, event: Renewed, now: float) -> Move:
    """Whoever is held is decided later, under the lease as it is now."""
    if not call.held:
        return Move(call)
    return Move(call._replace(held=tuple(item._replace(lease=event.lease) for item in call.held)))


def healed(call: Call, event: Acked, now: float) -> Move:
    """The record stands again, one epoch on: go on with the write that found it missing."""
    heal = call.flight
    assert heal is not None, "an acknowledgement answers a write"
    call = call._replace(epoch=event.epoch, inc=heal.inc or call.inc, tries=0)
    held, blocked = call.held, call.queue[0]
    call = call._replace(held=())
    if blocked.op is not Op.VERIFY:
        call, effects = landed(call)
        return Move(call._replace(phase=home(call, blocked)), effects, held)
    # The heal was written under the present incarnation: nothing is left to verify.
    call, told = let_go(call._replace(queue=call.queue[1:]), event.is_open)
    call, effects = landed(call._replace(phase=stance(call)))
    ended = (Finished(*call.ended),) if call.phase is Phase.RUNNING and call.ended is not None else ()
    return Move(call, (*told, *effects), (*held, *ended))


def stranded(call: Call, event: StoreDown, now: float) -> Move:
    """The store did not answer a write: nobody hears what is not durable, and the frame keeps.

    The exception of rule 1: an outcome leaves ungated while the window is open, and is written when the store is back.
    """
    write = call.flight
    assert write is not None, "only a write can fail"
    if write.op is Op.VERIFY and call.phase is Phase.RUNNING:
        # The round needs the store for its next write; until then only its effects wait.
        return Move(call._replace(stalled=True))
    if call.round == 0 and not shielded(call) and write.op is not Op.FINISH:
        # Round 1 has no token yet: nobody could ever come back for this frame.
        replies = refuse(call.waiting, Reason.UNAVAILABLE, call, UNKEPT)
        call, effects = dropped(call, "unavailable")
        return Move(call._replace(held=()), (*replies, *effects, Forget()))
    # Nothing was written: a round's tokens last no longer, and whoever brings none can't come back.
    expires = call.expires if call.round else now + call.ttl
    if write.op is Op.FINISH and event.is_open:
        answer = Outcome(write.outcome, cause=write.cause)
        replies = tuple(Reply(item.waiter, answer) for item in call.waiting)
        counted: tuple[Effect, ...] = (Ungated(),) if replies else ()
        kept = call._replace(phase=Phase.STRANDED, stalled=True, waiting=(), expires=expires)
        return Move(kept, (*counted, *replies))
    replies = refuse((*call.waiting, *call.held), Reason.UNAVAILABLE, call)
    phase = Phase.PARKED if call.phase in (Phase.PARKED, Phase.VERIFYING) else Phase.STRANDED
    leaving = call.leaving or call.round == 0
    kept = call._replace(phase=phase, stalled=True, waiting=(), held=(), leaving=leaving, expires=expires)
    return Move(kept, replies)


def nudged(call: Call, event: Nudged, now: float) -> Move:
    """The store is back: send what was left."""
    write = call.flight
    if write is None or not call.stalled:
        return Move(call)
    if call.phase is Phase.STRANDED or write.op is Op.VERIFY:
        call = call._replace(phase=home(call, write))
    call, effects = resend(call)
    return Move(call, effects)


def expired(call: Call, event: Expired, now: float) -> Move:
    """No token of this call can be valid any more: the frame goes, when no effect of it runs (rule 8)."""
    return gone(call, "expired") if now >= call.expires and not shielded(call) else Move(call)


def evicted(call: Call, event: Evict, now: float) -> Move:
    """Drop the frame; its journal can rebuild it. Never an unmarked one, never with a `once` in flight (rule 8)."""
    if not at_rest(call):
        return Move(call)
    return gone(call, event.cause)


def drained(call: Call, event: Drain, now: float) -> Move:
    """Hand the call off: the next owner need not wait for the lease."""
    if not at_rest(call):
        return Move(call)
    call, effects = send(call._replace(phase=Phase.RELEASING), Write(Op.RELEASE))
    return Move(call, effects)


def released(call: Call, event: Acked | Refused | StoreDown, now: float) -> Move:
    """Given away, or not known to be: either way the frame goes, and whoever came meanwhile asks the store."""
    held = call.held
    call, effects = dropped(call, "released")
    if not held:
        return Move(call._replace(held=()), (*effects, Forget()))
    return Move(call._replace(phase=Phase.LOOKING, held=held), (*effects, Lookup()))
