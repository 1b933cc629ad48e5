"""Transitions of a call whose frame is not here: look up, claim, rebuild.

A retry that finds no frame is decided from the record; where it needs a frame the call is claimed, which raises its
epoch, and its journal replayed (rules 3, 5, 12 and 16). What can't be read, or is not what was recorded, ends the
attempt and leaves the journal as it is.
"""

from __future__ import annotations

from .call import Call, Move, Phase, dropped, landed, refuse, verify
from .effects import Effect, Forget, Lookup, Op, Outcome, Reason, Refusal, Relay, Reply, Run, Write
from .events import Claimed, Diverged, Found, Rebuilt, Refused, Retry, StoreDown, Unreadable
from .ids import Incarnation
from .journal import Draft, Entry, Kind, mark
from .requests import Record, RecordState, Stored, Verdict
from .retry import Decision, Standing, decide

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
    return Reply(retry.waiter, Refusal(reason, retry.round, "the store has no trace of it"))


def _done_looking(call: Call, replies: tuple[Effect, ...], held: tuple[Retry, ...]) -> Move:
    return Move(call._replace(phase=Phase.IDLE, held=held, flight=None, tries=0), (*replies, Forget()))


def claimed(call: Call, event: Claimed, now: float) -> Move:
    """The call is ours: rebuild its frame from the journal. The incarnation is the one that it was claimed under: if
    the lease lapsed meanwhile, the frame is verified as soon as it stands."""
    record = event.stored.record
    # Without their values: those are sealed for where they stand, and a question that is asked again needs none.
    asks = tuple(
        Draft(item.kind, item.key, item.round, item.lane, item.fp, "none", b"")
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
    fresh, _ = verify(fresh, event.lease.inc)
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
    if call.queue and call.answered is None:
        call, effects = landed(call._replace(phase=Phase.VERIFYING))
        return Move(call, effects)
    held, phase = call.held, Phase.PARKED if call.answered is None else Phase.RUNNING
    call, effects = landed(call._replace(phase=phase, held=()))
    return Move(call, effects, held)


def diverged(call: Call, event: Diverged, now: float) -> Move:
    """The handler is not what was recorded: say so; the journal stays for the code that wrote it."""
    return _given_up(call, Reason.DIVERGED, event.why)


def unreadable(call: Call, event: Unreadable, now: float) -> Move:
    """What is recorded can't be read here: say so; the record stays for a node that can."""
    return _given_up(call, Reason.UNREADABLE, event.why)


def _given_up(call: Call, reason: Reason, why: str) -> Move:
    replies = refuse(call.held, reason, call, why)
    call, effects = dropped(call, reason.value)
    return Move(call._replace(held=()), (*replies, *effects, Forget()))
