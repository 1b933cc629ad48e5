"""Transitions of a call whose frame is here and whose store answers: start, ask, park, resume, finish.

Parked becomes running in the same step that accepts answers (rule 8), so between two steps no answer is half taken. The
set of asks is frozen by `Asked`, before the commit is awaited (rule 11); what the handler does meanwhile lines up.
"""

from __future__ import annotations

from . import lease as leases
from .call import (
    Call,
    Move,
    Phase,
    carry,
    dropped,
    gone,
    home,
    landed,
    let_go,
    questions,
    refuse,
    resend,
    send,
    shielded,
    standing,
    superseded,
)
from .effects import (
    Deliver,
    Effect,
    Forget,
    Go,
    Kept,
    Op,
    Outcome,
    Reason,
    Refusal,
    Relay,
    Reply,
    Run,
    Write,
)
from .events import Acked, Asked, Finished, Intended, Left, Noted, Overran, Resulted, Retry, Start, Stop
from .journal import Draft, Kind, Lane
from .requests import Answered
from .retry import Case, Decision, decide


def start(call: Call, event: Start, now: float) -> Move:
    """Round 1: enter the handler. The store hears of it only when there is something to keep."""
    return Move(call._replace(phase=Phase.RUNNING, waiting=(event,)), (Run(call.epoch),))


def noted(call: Call, event: Noted, now: float) -> Move:
    """Keep entries for the next write to take along."""
    return Move(call._replace(notes=call.notes + event.drafts))


def asked(call: Call, event: Asked, now: float) -> Move:
    """The handler waits: commit the questions before anybody hears them. A round that comes to its end is not cancelled
    any more: its questions stand, and the retry that asks for them gets them."""
    write = Write(Op.PARK, call.notes + event.asks, event.asks, carry(call))
    call = call._replace(phase=Phase.PARKING, notes=(), carried=True, leaving=False, expires=now + call.ttl)
    call, effects = send(call, write)
    return Move(call, effects)


def intended(call: Call, event: Intended, now: float) -> Move:
    """Pending answers first, then the intent (rule 2)."""
    write = Write(Op.INTEND, (*call.notes, event.draft), answered=carry(call), key=event.key)
    call, effects = send(call._replace(notes=(), carried=True, intents=call.intents | {event.key}), write)
    return Move(call, effects)


def resulted(call: Call, event: Resulted, now: float) -> Move:
    """The effect ran: its result is written before the handler sees it, and the frame stays until it is (rule 8)."""
    call = call._replace(intents=call.intents | {event.key})
    call, effects = send(call, Write(Op.RESULT, (event.draft,), key=event.key))
    return Move(call, effects)


def finished(call: Call, event: Finished, now: float) -> Move:
    """The handler ended while a round runs. A call that never wrote anything ends without the store."""
    if call.n == 0 and call.flight is None:
        replies = tuple(Reply(item.waiter, Outcome(event.outcome, cause=event.cause)) for item in call.waiting)
        return Move(call._replace(phase=Phase.IDLE, waiting=()), (*replies, Forget()))
    write = Write(Op.FINISH, answered=carry(call), outcome=event.outcome, cause=event.cause)
    ended = (event.outcome, event.cause)
    call, effects = send(call._replace(phase=Phase.FINISHING, carried=True, ended=ended, leaving=False), write)
    return Move(call, effects)


def stopped(call: Call, event: Stop, now: float) -> Move:
    """An operator ends the call. That is written at once, whoever waits or doesn't: no retry, here or elsewhere, enters
    the handler any more, and each hears this outcome. Never with an effect or a write under way (rule 8), whose ends
    nobody could tell."""
    if call.intents or call.flight is not None:
        return Move(call)
    return finished(call, Finished(event.outcome, event.cause), now)


def ended_early(call: Call, event: Finished, now: float) -> Move:
    """The handler ended while nobody listens: the next retry gets the outcome (rule 11)."""
    return Move(call._replace(ended=(event.outcome, event.cause)))


def acked(call: Call, event: Acked, now: float) -> Move:
    """The write in flight is durable: what waited for it may leave."""
    write = call.flight
    assert write is not None, "an acknowledgement answers a write"
    if write.op is Op.FINISH:
        answer = Outcome(write.outcome, cause=write.cause)
        replies = tuple(Reply(item.waiter, answer) for item in call.waiting)
        again = call.held
        empty = Call(call.id, call.owner, call.inc, call.reentrant, call.ttl, round=call.round)
        return Move(empty, (*replies, Forget()), again)
    if write.op is Op.PARK:
        return _parked(call, write, event, now)
    call = call._replace(epoch=event.epoch, n=event.n, jh=event.jh)
    call, told = _told(call, write, event)
    if call.leaving and not shielded(call):
        return gone(call, "left")
    call, effects = landed(call)
    # An end that came while no exchange was open, or while the store was healed, is still to be committed (rule 11).
    ended = (Finished(*call.ended),) if call.phase is Phase.RUNNING and call.ended is not None else ()
    return Move(call, (*told, *effects), ended)


def _told(call: Call, write: Write, event: Acked) -> tuple[Call, tuple[Effect, ...]]:
    """What an effect's write, or a verification in line, means to the handler."""
    if write.op is Op.RESULT:
        return call._replace(intents=call.intents - {write.key}), (Kept(write.key),)
    if write.op is Op.VERIFY:
        return let_go(call._replace(inc=write.inc or call.inc, tries=0), event.is_open)
    # Rule 6: the window is looked at again between an intent's acknowledgement and its effect. Where it is shut the
    # intent stands and the effect waits: verified, this very frame may run it, since nobody can have claimed meanwhile.
    if event.is_open:
        return call, (Go(write.key),)
    return call._replace(withheld=(*call.withheld, write.key)), ()


def _parked(call: Call, write: Write, event: Acked, now: float) -> Move:
    """The questions are durable: whoever waited hears them. They last for as long as the record does, which counts from
    when it was written (rule 17): now, or at an earlier sending, which was no earlier than the asking."""
    past = call.past if call.answered is None else (*call.past, call.answered)
    waiting, again = call.waiting, call.held
    call = call._replace(
        phase=Phase.PARKED,
        round=call.round + 1,
        epoch=event.epoch,
        n=event.n,
        jh=event.jh,
        mark=event.jh,
        asks=write.asks,
        answered=None,
        carried=False,
        past=past,
        waiting=(),
        held=(),
        expires=call.expires if event.already else now + call.ttl,
    )
    replies = tuple(Reply(item.waiter, questions(call, now)) for item in waiting)
    call, effects = landed(call)
    return Move(call, (*replies, *effects), again)


def retried(call: Call, event: Retry, now: float) -> Move:
    """A retry meets the live frame: look it up in the table of `retry`."""
    decision, case = decide(event, standing(call))
    if decision in (Decision.DELIVER, Decision.ASK_AGAIN) and _ends(call):
        # The outcome is on its way to the store: nobody needs an answer any more, or is asked for one (rule 11).
        return _join(call, event)
    if decision is Decision.DELIVER:
        return _deliver(call, case, now)
    if decision is Decision.JOIN:
        return _join(call, event)
    if decision is Decision.ASK_AGAIN and call.ended is not None and call.phase is Phase.PARKED and call.flight is None:
        # Nobody waits for an answer any more: the next retry gets the outcome, whatever it brings (rule 11).
        return finished(call._replace(waiting=(event,)), Finished(*call.ended), now)
    if decision is Decision.ASK_AGAIN:
        return Move(call, (Reply(event.waiter, questions(call, now)),))
    if decision is Decision.NEWER:
        # A later owner was acknowledged: this frame is stale, whatever it thinks.
        return superseded(call, "stale", (event,))
    if decision is Decision.AHEAD:
        if event.node != call.owner:
            return Move(call, (Relay(event.waiter, event.node),))
        return Move(call, refuse((event,), Reason.LOST, call, "the store lost a later round"))
    reason = Reason.CONFLICT if decision is Decision.CONFLICT else Reason.ALREADY_ANSWERED
    return Move(call, (Reply(event.waiter, Refusal(reason, call.round)),))


def _ends(call: Call) -> bool:
    return any(write is not None and write.op is Op.FINISH for write in (call.flight, *call.queue))


def _join(call: Call, event: Retry) -> Move:
    """The round already runs with these answers: wait for its reply, and get a write going that was left unsent."""
    call = call._replace(waiting=(*call.waiting, event), leaving=False)
    if call.phase is Phase.STRANDED and call.flight is not None:
        call = call._replace(phase=home(call, call.flight))
    call, effects = resend(call)
    return Move(call, effects)


def _deliver(call: Call, case: Case, now: float) -> Move:
    """Accept a round's answers, if this node may run without asking the store (rule 6)."""
    event = case.retry
    if call.flight is not None and call.flight.op in (Op.VERIFY, Op.HEAL):
        call, effects = resend(call._replace(phase=home(call, call.flight), held=(*call.held, event)))
        return Move(call, effects)
    if event.lease.inc != call.inc:
        # Rule 4: the lease lapsed since; the epoch rises before the frame runs again.
        write = Write(Op.VERIFY, inc=event.lease.inc)
        if call.flight is not None:
            return Move(call, refuse((event,), Reason.UNAVAILABLE, call))
        call, effects = send(call._replace(phase=Phase.VERIFYING, held=(*call.held, event)), write)
        return Move(call, effects)
    if not leases.is_open(event.lease, now):
        return Move(call, refuse((event,), Reason.UNAVAILABLE, call))
    return _accept(call, case, now)


def _accept(call: Call, case: Case, now: float) -> Move:
    """Take the answers. The frame resumes when the round is complete; until then only the missing are asked (rule
    10)."""
    taken = tuple(Draft(Kind.ANSWER, a.key, call.round, Lane.MAIN, a.digest, "json", a.value) for a in case.usable)
    keys = tuple(ask.key for ask in call.asks)
    call = call._replace(
        answered=Answered(call.round, case.digest, keys),
        carried=False,
        notes=call.notes + taken,
        gathered=call.gathered + case.usable,
        waiting=(case.retry,),
        leaving=False,
    )
    call, stalled = resend(call)
    given = {answer.key for answer in case.usable}
    missing = tuple(ask._replace(round=call.round + 1) for ask in call.asks if ask.key not in given)
    if call.ended is not None:
        move = finished(call, Finished(*call.ended), now)
    elif missing:
        move = asked(call, Asked(missing), now)
    else:
        resumed = call._replace(phase=Phase.RUNNING, gathered=())
        move = Move(resumed, (Deliver(call.gathered),))
    return move._replace(effects=(*stalled, *move.effects))


def left(call: Call, event: Left, now: float) -> Move:
    """A request is gone. The round is cancelled when the last one that waited for it leaves (rule 8)."""
    waiting = tuple(item for item in call.waiting if item.waiter != event.waiter)
    held = tuple(item for item in call.held if item.waiter != event.waiter)
    alone = bool(call.waiting) and not waiting
    call = call._replace(waiting=waiting, held=held)
    if call.phase is not Phase.RUNNING or not alone:
        return Move(call)
    if shielded(call):
        return Move(call._replace(leaving=True))
    return gone(call, "left")


def overran(call: Call, event: Overran, now: float) -> Move:
    """The round ran too long: it is cancelled, and whoever waited is told which limit was met. An effect and its
    result's commit are shielded: the frame goes when they are through (rule 8)."""
    replies = refuse(call.waiting, Reason.OVERRAN, call)
    if shielded(call):
        return Move(call._replace(waiting=(), leaving=True), replies)
    call, effects = dropped(call, "overran")
    return Move(call._replace(held=()), (*replies, *effects, Forget()))
