"""Transitions of a call whose frame is here and whose store answers: start, ask, park, resume, finish.

Parked becomes running in the same step that accepts answers (docs/protocol.md, rule 8), so between two steps no answer
is half taken. The questions of a round are fixed by `Asked`, before their commit is awaited (rule 11). What the handler
writes meanwhile goes to the end of the outbox's queue.
"""

from __future__ import annotations

from . import lease as leases
from .call import (
    Call,
    Move,
    Phase,
    drop_and_forget,
    effect_under_way,
    flush,
    frame_phase,
    lose_ownership,
    progress,
    questions,
    recorded,
    refuse_all,
    run_withheld,
    send,
    unsent_answers,
    without_frame,
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
    Respond,
    Run,
    Write,
)
from .ending import CANCELLED, LOST, Ending
from .errors import impossible
from .events import Acked, Asked, Finished, Flush, Intended, Left, Noted, Overran, Resulted, Retry, Start, Stop
from .journal import Draft, EntryKind, EntryLane
from .requests import Answered, Done
from .retry import Decision, RetryCase, decide
from .value import replace


def start(call: Call, event: Start, now: float) -> Move:
    """The first request: enter the handler. The store gets a record only when there is something to keep."""
    return Move(replace(call, phase=Phase.RUNNING, waiting=(event,)), (Run(call.epoch),))


def noted(call: Call, event: Noted, now: float) -> Move:
    """Keep entries for the next write to take along."""
    return Move(replace(call, notes=call.notes + event.drafts))


def asked(call: Call, event: Asked, now: float) -> Move:
    """The handler waits for answers: commit the questions before anybody hears them. From here on the round is not
    cancelled any more: its questions stand, and a retry that asks for them gets them."""
    write = Write(Op.PARK, call.notes + event.asks, event.asks, unsent_answers(call), results=call.owed)
    outbox, effects = call.outbox.send(write)
    call = replace(call, phase=Phase.PARKING, outbox=outbox, abandoned=False, expires=now + call.ttl)
    return Move(replace(call, notes=(), owed=(), answers_sent=True), effects)


def intended(call: Call, event: Intended, now: float) -> Move:
    """`once` is to run an effect: write this round's answers first, then the intent (rule 2)."""
    call = replace(call, intents=call.intents | {event.key})
    if event.draft is None:
        return _run_without_intent(call, event)
    drafts, answered = (*call.notes, event.draft), unsent_answers(call)
    outbox, effects = send(call, Write(Op.INTEND, drafts, answered=answered, key=event.key, results=call.owed))
    return Move(replace(call, notes=(), owed=(), answers_sent=True, outbox=outbox), effects)


def _run_without_intent(call: Call, event: Intended) -> Move:
    """An effect that may run again under its key is to run: what the handler has learned is written first, so that
    whoever runs it again comes to the same arguments (rule 2)."""
    if call.outbox.has(Op.RELEASE) or call.outbox.has(Op.FINISH):
        # The frame goes: nothing of it begins any more (rule 8).
        return Move(replace(call, unready=(*call.unready, event.key)))
    if call.round == 0 and not call.outbox.has(Op.PARK):
        # The first request runs: nobody can come back for this call, so its key is used by this frame alone.
        return Move(*_let_run(call, event.key, event.is_open))
    effects: tuple[Effect, ...] = ()
    if call.notes or unsent_answers(call) is not None:
        call, effects = flush(call)
    if call.outbox.carries:
        return Move(replace(call, unready=(*call.unready, event.key)), effects)
    return Move(*_let_run(call, event.key, event.is_open))


def _let_run(call: Call, key: str, is_open: bool) -> tuple[Call, tuple[Effect, ...]]:
    """Let an effect run, if the window is open; else it is withheld.

    Rule 6: the window is looked at again between an intent's acknowledgement and its effect. Where it is shut:
      1. the intent stands recorded, applied at this frame's epoch, and the effect waits in `withheld`
      2. the node is registered under a new incarnation, and this frame is verified (`recovery.renewed`)
      3. the verification compares owner, incarnation, epoch and position: no claim lies between 1 and 2
      4. so nobody else has run the effect, and this very frame may (decision 013)"""
    if is_open:
        return call, (Go(key),)
    return replace(call, withheld=(*call.withheld, key)), ()


def resulted(call: Call, event: Resulted, now: float) -> Move:
    """The effect ran: the handler hears its result at once, and the next write carries it. The frame stays until it is
    written (rule 8). In a round that is given up the handler hears nothing more before the write is acknowledged."""
    done = Done(event.key, event.draft.kind is EntryKind.RESULT)
    intents = call.intents | {event.key}
    call = replace(call, notes=(*call.notes, event.draft), owed=(*call.owed, done), intents=intents)
    if not call.abandoned:
        return Move(call, (Kept(event.key),))
    write = Write(Op.RESULT, call.notes, answered=unsent_answers(call), key=event.key, results=call.owed)
    outbox, effects = send(call, write)
    return Move(replace(call, notes=(), owed=(), answers_sent=True, outbox=outbox), effects)


def flushed(call: Call, event: Flush, now: float) -> Move:
    """The results that no write carries are written, by a write of their own."""
    return Move(*flush(call)) if call.owed else Move(call)


def finished(call: Call, event: Finished, now: float) -> Move:
    """The handler ended while a round runs: commit its outcome. A call that never wrote anything ends without the
    store."""
    if call.position == 0 and call.outbox.in_flight is None:
        replies = tuple(Respond(item.waiter, Outcome(event.outcome)) for item in call.waiting)
        return Move(replace(call, phase=Phase.IDLE, waiting=()), (*replies, Forget(event.ending)))
    answered, outcome = unsent_answers(call), event.outcome
    write = Write(Op.FINISH, answered=answered, results=call.owed, outcome=outcome, ending=event.ending)
    outbox, effects = call.outbox.send(write)
    call = replace(call, phase=Phase.FINISHING, outbox=outbox, ended=event, abandoned=False)
    return Move(replace(call, notes=(), owed=(), answers_sent=True), effects)


def stopped(call: Call, event: Stop, now: float) -> Move:
    """An operator ends the call: its outcome is committed at once, whether or not a request waits. From then on no
    retry enters the handler, here or elsewhere, and each gets this outcome.

    Nothing is done while an effect or a write is under way (rule 8): nobody could say whether it took place."""
    if call.intents or call.outbox.in_flight is not None:
        return Move(call)
    return finished(call, Finished(event.outcome, event.ending), now)


def finished_unheard(call: Call, event: Finished, now: float) -> Move:
    """The handler ended while no round runs: keep its outcome for the next retry (rule 11)."""
    return Move(replace(call, ended=event))


def acked(call: Call, event: Acked, now: float) -> Move:
    """The write in flight is durable: what waited for it may leave."""
    write = call.outbox.in_flight
    if write is None:
        impossible("the store acknowledged a write of a call that has none in flight")
    if write.op is Op.FINISH:
        outcome = Outcome(write.outcome)
        replies = tuple([Respond(item.waiter, outcome) for item in call.waiting])
        return Move(without_frame(call), (*replies, Forget(write.ending)), call.undecided)
    if write.op is Op.PARK:
        return _parked(call, write, event, now)
    outbox, sent = call.outbox.next()
    call = replace(
        call,
        epoch=event.epoch,
        position=event.position,
        history=event.history,
        written=event.sent,
        outbox=outbox,
    )
    call, stored = recorded(call, write) if write.results else (call, ())
    call, effects = _tell_handler(call, write, event)
    call, ready = _run_ready(call, event) if call.unready else (call, ())
    if call.abandoned and not effect_under_way(call):
        return drop_and_forget(call, "left", _left_behind(call, CANCELLED))
    # An end that came while no exchange was open, or while the store was healed, is still to be committed (rule 11).
    ended = (call.ended,) if call.phase is Phase.RUNNING and call.ended is not None else ()
    return Move(call, (*stored, *effects, *ready, *sent), ended)


def _run_ready(call: Call, event: Acked) -> tuple[Call, tuple[Effect, ...]]:
    """Let the effects run that waited until all was stored that the handler had learned."""
    if not call.unready or call.outbox.carries:
        return call, ()
    keys, call = call.unready, replace(call, unready=())
    effects: tuple[Effect, ...] = ()
    for key in keys:
        call, go = _let_run(call, key, event.is_open)
        effects += go
    return call, effects


def _tell_handler(call: Call, write: Write, event: Acked) -> tuple[Call, tuple[Effect, ...]]:
    """What the acknowledgement of an intent, a result or a verification means to the handler."""
    if write.op is Op.RESULT:
        return call, (Kept(write.key),) if write.key else ()
    if write.op is Op.VERIFY:
        verified = replace(call, incarnation=write.incarnation or call.incarnation, tries=0)
        return run_withheld(verified, event.is_open)
    return _let_run(call, write.key, event.is_open)


def _parked(call: Call, write: Write, event: Acked, now: float) -> Move:
    """The questions are durable: each request that waited gets them.

    Their tokens last for as long as the record does, which counts from when it was written (rule 17): now, or at an
    earlier sending of this write, which was no earlier than the asking (decision 014)."""
    answered = call.answered_before if call.answered is None else (*call.answered_before, call.answered)
    asked, waiting, follow_ups = call, call.waiting, call.undecided
    outbox, sent = call.outbox.next()
    call = replace(
        call,
        phase=Phase.PARKED,
        round=call.round + 1,
        epoch=event.epoch,
        position=event.position,
        history=event.history,
        round_history=event.history,
        written=event.sent,
        asks=write.asks,
        answered=None,
        answers_sent=False,
        answered_before=answered,
        outbox=outbox,
        waiting=(),
        undecided=(),
        expires=call.expires if event.already else now + call.ttl,
    )
    call, stored = recorded(call, write) if write.results else (call, ())
    call, ready = _run_ready(call, event) if call.unready else (call, ())
    if call.abandoned and not effect_under_way(call):
        # The first request was refused while the store was away: nobody has a token for these questions.
        return drop_and_forget(call, "left", _left_behind(asked, CANCELLED))
    replies = tuple([Respond(item.waiter, questions(call, now)) for item in waiting])
    return Move(call, (*stored, *replies, *ready, *sent), follow_ups)


def retried(call: Call, event: Retry, now: float) -> Move:
    """A retry meets the live frame: decide it by the table of `retry`."""
    decision, case = decide(event, progress(call))
    if decision in (Decision.DELIVER, Decision.ASK_AGAIN) and call.outbox.has(Op.FINISH):
        # The outcome is on its way to the store: nobody needs an answer any more, or is asked for one (rule 11).
        return _join(call, event)
    if decision is Decision.DELIVER:
        return _ask_store_first(call, event, now) or _accept(call, case, now)
    if decision is Decision.JOIN:
        return _join(call, event)
    if decision is Decision.ASK_AGAIN:
        if call.ended is not None and call.phase is Phase.PARKED and call.outbox.in_flight is None:
            # Nobody waits for an answer any more: this retry gets the outcome, whatever it brings (rule 11).
            return finished(replace(call, waiting=(event,)), call.ended, now)
        return _ask_again(call, event, now)
    if decision is Decision.NEWER:
        # A later owner was acknowledged: this frame is stale, whatever it knows.
        return lose_ownership(call, "stale", (event,))
    if decision is Decision.AHEAD:
        if event.node != call.owner:
            return Move(call, (Relay(event.waiter, event.node),))
        return Move(call, (Respond(event.waiter, Refusal(Reason.FORGOTTEN, event.round)),))
    reason = Reason.CONFLICT if decision is Decision.CONFLICT else Reason.ALREADY_ANSWERED
    return Move(call, (Respond(event.waiter, Refusal(reason, call.round)),))


def _join(call: Call, event: Retry) -> Move:
    """The round already runs with these answers: wait for its reply, and send a stalled write again."""
    call = replace(call, waiting=(*call.waiting, event), abandoned=False)
    phase = frame_phase(call) if call.phase is Phase.STRANDED else call.phase
    outbox, effects = call.outbox.resend()
    return Move(replace(call, phase=phase, outbox=outbox), effects)


def _ask_again(call: Call, event: Retry, now: float) -> Move:
    """Ask the current questions again, if no other node can have taken them over (rule 6). Only a parked frame waits
    for the store first: one that runs may be gone before the store has answered."""
    if call.phase is Phase.PARKED:
        first = _ask_store_first(call, event, now)
    else:
        first = None if _is_sure(call, event, now) else Move(call, refuse_all((event,), Reason.UNAVAILABLE, call))
    return first or Move(call, (Respond(event.waiter, questions(call, now)),))


def _is_sure(call: Call, event: Retry, now: float) -> bool:
    """Whether this node may act without asking the store: the window that the frame runs under is open."""
    return event.lease.incarnation == call.incarnation and leases.is_open(event.lease, now)


def _ask_store_first(call: Call, event: Retry, now: float) -> Move | None:
    """What a frame that waits for answers does first where it may not act without asking the store (rule 6): it is
    verified, or refuses. None where it may act."""
    write = call.outbox.in_flight
    if write is not None and write.op in (Op.VERIFY, Op.HEAL):
        outbox, effects = call.outbox.resend()
        undecided = (*call.undecided, event)
        return Move(replace(call, phase=frame_phase(call), outbox=outbox, undecided=undecided), effects)
    if event.lease.incarnation != call.incarnation:
        # Rule 4: the lease lapsed since; the epoch rises before the frame runs again.
        if write is not None:
            return Move(call, refuse_all((event,), Reason.UNAVAILABLE, call))
        outbox, effects = call.outbox.send(Write(Op.VERIFY, incarnation=event.lease.incarnation))
        undecided = (*call.undecided, event)
        return Move(replace(call, phase=Phase.VERIFYING, outbox=outbox, undecided=undecided), effects)
    return None if _is_sure(call, event, now) else Move(call, refuse_all((event,), Reason.UNAVAILABLE, call))


def _accept(call: Call, case: RetryCase, now: float) -> Move:
    """Take the answers. The frame resumes when the round is complete; until then only the missing are asked (rule
    10)."""
    taken = tuple(
        [Draft(EntryKind.ANSWER, a.key, call.round, EntryLane.MAIN, a.digest, "json", a.value) for a in case.usable]
    )
    keys = tuple([ask.key for ask in call.asks])
    given = {answer.key for answer in case.usable}
    missing = tuple([replace(ask, round=call.round + 1) for ask in call.asks if ask.key not in given])
    answers = call.undelivered + case.usable
    resumes = call.ended is None and not missing
    outbox, resent = call.outbox.resend()
    call = replace(
        call,
        phase=Phase.RUNNING if resumes else call.phase,
        answered=Answered(call.round, case.digest, keys),
        answers_sent=False,
        notes=call.notes + taken,
        undelivered=() if resumes else answers,
        outbox=outbox,
        waiting=(case.retry,),
        abandoned=False,
    )
    if call.ended is not None:
        move = finished(call, call.ended, now)
    elif missing:
        move = asked(call, Asked(missing), now)
    else:
        move = Move(call, (Deliver(answers),))
    return replace(move, effects=(*resent, *move.effects)) if resent else move


def left(call: Call, event: Left, now: float) -> Move:
    """A request is gone. The round is cancelled when the last one that waited for it leaves (rule 8)."""
    waiting = tuple(item for item in call.waiting if item.waiter != event.waiter)
    undecided = tuple(item for item in call.undecided if item.waiter != event.waiter)
    was_last = bool(call.waiting) and not waiting
    call = replace(call, waiting=waiting, undecided=undecided)
    if call.phase is not Phase.RUNNING or not was_last:
        return Move(call)
    if effect_under_way(call):
        return flushed(replace(call, abandoned=True), Flush(), now)
    return drop_and_forget(call, "left", _left_behind(call, CANCELLED))


def _left_behind(call: Call, unasked: Ending) -> Ending | None:
    """How a call ends whose frame is dropped in the middle of a round. `unasked` is how one ends that has asked
    nothing: nobody has a token to come back with. A marked call goes on with its next retry."""
    if call.round == 0:
        return unasked
    return None if call.reentrant else LOST


def overran(call: Call, event: Overran, now: float) -> Move:
    """The round ran longer than it may: it is cancelled, and each request that waited is told which limit was met. A
    frame whose effect is under way goes when the result is stored (rule 8)."""
    replies = refuse_all(call.waiting, Reason.OVERRAN, call)
    if effect_under_way(call):
        move = flushed(replace(call, waiting=(), abandoned=True), Flush(), now)
        return replace(move, effects=(*replies, *move.effects))
    dropped = drop_and_forget(call, "overran", _left_behind(call, LOST))
    return replace(dropped, effects=(*replies, *dropped.effects))
