"""Transitions of a call whose frame, owner or store is not what it was: look up, claim, rebuild, verify, heal, release.

A fenced frame is dropped, its waiting retries are decided again from the record: executors are fenced, answers never.
A write that the store did not answer waits as it was; the same retry, or the store's return, sends it again.
"""

from __future__ import annotations

from dataclasses import replace

from .call import Call, Move, Phase, dropped, gone, home, landed, refuse, resend, send, superseded
from .effects import Effect, Forget, InDoubt, Lookup, Op, Outcome, Reason, Refusal, Relay, Reply, Run, Ungated, Write
from .events import Acked, Claimed, Diverged, Drain, Evict, Expired, Found, Nudged, Rebuilt, Refused, Retry, StoreDown
from .ids import Incarnation
from .journal import Draft, Entry, Kind, mark
from .requests import Record, RecordState, Stored, Verdict
from .retry import Decision, Standing, decide

UNKEPT = (
    "the store did not answer, so the call's first round could not be kept; its handler was cancelled where it stood; "
    "start a new call if that is safe"
)
MAX_TRIES = 3
"""How often a compare-and-set that lost its race is tried again before the client is asked to come back."""


def look(call: Call, event: Retry, now: float) -> Move:
    """A retry without a frame: the store knows."""
    return Move(call._replace(phase=Phase.LOOKING, held=(event,)), (Lookup(),))


def hold(call: Call, event: Retry, now: float) -> Move:
    """Decide this one when the store has answered."""
    return Move(call._replace(held=(*call.held, event)))


def recorded(stored: Stored, entries: tuple[Entry, ...]) -> Standing:
    """How far a record has come."""
    record = stored.record
    asks = tuple(item.key for item in entries if item.kind is Kind.ASK and item.round == record.round)
    answered = tuple(record.answers[round_] for round_ in sorted(record.answers))
    done, lost = record.state is RecordState.DONE, record.state is RecordState.LOST
    at = mark(stored.journal, entries, record.round)
    return Standing(record.epoch, record.round, at, asks, answered, done, lost)


def found(call: Call, event: Found, now: float) -> Move:
    """The record was read: answer each retry from it, or claim the call for those that need a frame."""
    if event.stored is None:
        replies = tuple(_strayed(retry, call, event, Reason.UNKNOWN) for retry in call.held)
        return _done_looking(call, replies, ())
    record = event.stored.record
    at = recorded(event.stored, event.entries)
    effects: list[Effect] = []
    needy: list[Retry] = []
    for retry in call.held:
        decision, _ = decide(retry, at)
        answer = _from_record(decision, record)
        if answer is not None:
            effects.append(Reply(retry.waiter, answer))
        elif decision in (Decision.NEWER, Decision.AHEAD):
            effects.append(_strayed(retry, call, event, Reason.LOST))
        elif event.evidence is None:
            effects.append(Relay(retry.waiter, record.owner))
        else:
            needy.append(retry)
    if not needy:
        return _done_looking(call, tuple(effects), ())
    write = Write(Op.CLAIM, seen=record.seen, evidence=event.evidence)
    # The latest lease that is known of here: the call may have been looked up under one that lapsed since (rule 4).
    call = call._replace(phase=Phase.CLAIMING, inc=needy[-1].lease.inc, held=tuple(needy), flight=write)
    return Move(call, (*effects, write))


def _from_record(decision: Decision, record: Record) -> Outcome | Refusal | None:
    """What a record alone can answer."""
    if decision is Decision.CONFLICT:
        return Refusal(Reason.CONFLICT, record.round)
    if decision is Decision.OUTCOME:
        return Outcome(sealed=record.outcome, n=record.n, cause=record.cause)
    if decision is Decision.LOST:
        return Refusal(Reason.LOST, record.round, record.cause)
    if decision is Decision.ALREADY:
        return Refusal(Reason.ALREADY_ANSWERED, record.round)
    return None


def _strayed(retry: Retry, call: Call, event: Found, reason: Reason) -> Effect:
    """A token that the record can't explain goes to the node that it names; a live frame there heals (rule 7)."""
    if retry.node in event.elsewhere:
        return Relay(retry.waiter, retry.node)
    return Reply(retry.waiter, Refusal(reason, call.round, "the store has no trace of it"))


def _done_looking(call: Call, replies: tuple[Effect, ...], held: tuple[Retry, ...]) -> Move:
    return Move(call._replace(phase=Phase.IDLE, held=held, flight=None, tries=0), (*replies, Forget()))


def claimed(call: Call, event: Claimed, now: float) -> Move:
    """The call is ours: rebuild its frame from the journal. The incarnation is the one that it was claimed under: if
    the lease lapsed meanwhile, the frame must be verified like any other."""
    record = event.stored.record
    asks = tuple(
        Draft(item.kind, item.key, item.round, item.lane, item.fp, item.codec, item.value)
        for item in event.entries
        if item.kind is Kind.ASK and item.round == record.round
    )
    rounds = sorted(record.answers)
    fresh = call._replace(
        phase=Phase.REBUILDING,
        inc=Incarnation(record.inc),
        epoch=record.epoch,
        round=record.round,
        n=record.n,
        jh=record.jh,
        mark=mark(event.stored.journal, event.entries, record.round),
        asks=asks,
        answered=record.answers.get(record.round),
        carried=True,
        past=tuple(record.answers[round_] for round_ in rounds if round_ != record.round),
        flight=None,
        expires=now + call.ttl,
        tries=0,
    )
    return Move(fresh, (Run(record.epoch, event.entries),))


def unclaimed(call: Call, event: Refused, now: float) -> Move:
    """The claim was refused: another was faster, or nobody may enter this handler again."""
    if event.verdict is Verdict.CHANGED and call.tries < MAX_TRIES:
        return Move(call._replace(phase=Phase.LOOKING, flight=None, tries=call.tries + 1), (Lookup(),))
    reasons = {Verdict.LOST: Reason.LOST, Verdict.STUCK: Reason.STUCK, Verdict.MISSING: Reason.UNKNOWN}
    reason = reasons.get(event.verdict, Reason.UNAVAILABLE)
    record = event.stored.record if event.stored else None
    refusal = Refusal(reason, record.round if record else 0, record.cause if record else "")
    return _done_looking(call, tuple(Reply(retry.waiter, refusal) for retry in call.held), ())


def unanswered(call: Call, event: StoreDown, now: float) -> Move:
    """The store did not answer a lookup or a claim."""
    return _done_looking(call, refuse(call.held, Reason.UNAVAILABLE, call), ())


def rebuilt(call: Call, event: Rebuilt, now: float) -> Move:
    """The frame stands where the journal ends: running where the round was answered, else parked."""
    phase = Phase.PARKED if call.answered is None else Phase.RUNNING
    return Move(call._replace(phase=phase, held=()), (), call.held)


def diverged(call: Call, event: Diverged, now: float) -> Move:
    """The handler is not what was recorded: say so; the journal stays for the code that wrote it."""
    replies = refuse(call.held, Reason.DIVERGED, call, event.why)
    call, effects = dropped(call, "diverged")
    return Move(call._replace(held=()), (*replies, *effects, Forget()))


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
            taken = replace(later, drafts=drafts, answered=later.answered or write.answered)
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
    call, effects = landed(call)
    return Move(call, effects, held)


def healed(call: Call, event: Acked, now: float) -> Move:
    """The record stands again, one epoch on: go on with the write that found it missing."""
    heal = call.flight
    assert heal is not None, "an acknowledgement answers a write"
    call = call._replace(epoch=event.epoch, inc=heal.inc or call.inc, tries=0)
    held, blocked = call.held, call.queue[0] if call.queue else None
    call = call._replace(held=())
    if blocked is not None and blocked.op is Op.VERIFY:
        # The heal was written under the present incarnation: nothing is left to verify.
        call, effects = landed(call._replace(phase=Phase.PARKED, queue=call.queue[1:]))
        return Move(call, effects, held)
    call, effects = landed(call)
    return Move(call._replace(phase=Phase.PARKED if blocked is None else home(call, blocked)), effects, held)


def stranded(call: Call, event: StoreDown, now: float) -> Move:
    """The store did not answer a write: nobody hears what is not durable, and the frame keeps.

    The exception of rule 1: an outcome leaves ungated while the window is open, and is written when the store is back.
    """
    write = call.flight
    assert write is not None, "only a write can fail"
    if call.round == 0 and not call.intents and write.op is not Op.FINISH:
        # Round 1 has no token yet: nobody could ever come back for this frame.
        replies = refuse(call.waiting, Reason.UNAVAILABLE, call, UNKEPT)
        call, effects = dropped(call, "unavailable")
        return Move(call._replace(held=()), (*replies, *effects, Forget()))
    if write.op is Op.FINISH and event.is_open:
        answer = Outcome(write.outcome, cause=write.cause)
        replies = tuple(Reply(item.waiter, answer) for item in call.waiting)
        counted: tuple[Effect, ...] = (Ungated(),) if replies else ()
        kept = call._replace(phase=Phase.STRANDED, stalled=True, waiting=(), expires=now + call.ttl)
        return Move(kept, (*counted, *replies))
    replies = refuse((*call.waiting, *call.held), Reason.UNAVAILABLE, call)
    phase = Phase.PARKED if call.phase in (Phase.PARKED, Phase.VERIFYING) else Phase.STRANDED
    leaving = call.leaving or call.round == 0
    kept = call._replace(phase=phase, stalled=True, waiting=(), held=(), leaving=leaving, expires=now + call.ttl)
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
    return gone(call, "expired") if now >= call.expires and not call.intents else Move(call)


def evicted(call: Call, event: Evict, now: float) -> Move:
    """Drop the frame; its journal can rebuild it. Never an unmarked one, never with a `once` in flight (rule 8)."""
    if not call.reentrant or call.intents or call.flight is not None:
        return Move(call)
    return gone(call, "evicted")


def drained(call: Call, event: Drain, now: float) -> Move:
    """Hand the call off: the next owner need not wait for the lease."""
    if not call.reentrant or call.intents or call.flight is not None:
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
