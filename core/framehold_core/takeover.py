"""Transitions of a call whose frame is not here: look up, claim, rebuild.

A retry that finds no frame is decided from the record; where it needs a frame the call is claimed, which raises its
epoch, and its journal replayed (docs/protocol.md, rules 3, 5, 12 and 16). What can't be read, or is not what was
recorded, ends the attempt and leaves the journal as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from .call import Call, Move, Phase, drop_and_forget, refuse_all, send_verify
from .effects import Effect, Forget, Lookup, Op, Outcome, Reason, Refusal, Relay, Respond, Run, Write
from .ending import Ending, How
from .events import Claimed, Diverged, Found, MayClaim, Pass, Rebuilt, Retry, StoreDown, Unreadable, WriteRefused
from .ids import Incarnation
from .journal import Draft, EntryKind, round_history
from .outbox import EMPTY, Outbox
from .requests import Record, RecordState, Verdict
from .retry import Decision, Progress, decide
from .value import replace

MAX_TRIES = 3
"""How often a compare-and-set that lost its race is tried again before the client is asked to come back."""
_AGAIN = Refusal(Reason.UNAVAILABLE, detail="it came while the call was looked up; send the same request again")
"""For a retry of another record than the one that is claimed."""
_EXCHANGED = "another record stood in its place when it was claimed; check who else writes this store"


def look_up(call: Call, event: Retry, now: float) -> Move:
    """A retry came and there is no frame: read the record."""
    return Move(replace(call, phase=Phase.LOOKING, undecided=(event,)), (Lookup(),))


def decide_later(call: Call, event: Retry, now: float) -> Move:
    """A retry came while the store is asked: it is decided when the store has answered."""
    return Move(replace(call, undecided=(*call.undecided, event)))


def is_of(retry: Retry, record: Record) -> bool:
    """Whether a record is the one that the token of a retry names, and not another one under the id of its call."""
    return retry.head == record.head.seal


def _recorded_progress(record: Record) -> Progress:
    """How far the call has come by its record. What its present round asks, and from which history, decides nothing
    here: whatever a retry of that round brings, it needs a frame."""
    answered = tuple(record.answers[round_] for round_ in sorted(record.answers))
    done, lost = record.state is RecordState.DONE, record.state is RecordState.LOST
    return Progress(record.epoch, record.round, "", (), answered, done, lost)


def found(call: Call, event: Found, now: float) -> Move:
    """The record was read: answer each retry that had come before that, or claim the call for those that need a frame.
    Those that came since are decided with the claim, or by another read (docs/protocol.md, rule 5)."""
    late = tuple(retry for retry in call.undecided if _came_since(retry, event))
    replies, need_frame = _decided([retry for retry in call.undecided if retry not in late], event)
    if not need_frame:
        if late:
            return Move(replace(call, undecided=late), (*replies, Lookup()))
        return _end_without_frame(call, replies)
    assert event.stored is not None and isinstance(event.judged, MayClaim), "what needs a frame here claims the call"
    record = event.stored.record
    write = Write(Op.CLAIM, seen=record.seen, evidence=event.judged.evidence, kept=event.kept)
    others = tuple(Respond(retry.waiter, _AGAIN) for retry in late if not is_of(retry, record))
    # The latest lease that is known of here: the call may have been looked up under one that lapsed since (rule 4).
    claiming = replace(
        call,
        phase=Phase.CLAIMING,
        reentrant=event.reentrant,
        incarnation=need_frame[-1].lease.incarnation,
        outbox=Outbox(write),
        undecided=(*need_frame, *(retry for retry in late if is_of(retry, record))),
    )
    return Move(claiming, (*replies, *others, write))


def _came_since(retry: Retry, event: Found) -> bool:
    """Whether a retry came after the record was read: what was judged of the record is not judged for it."""
    return retry.waiter not in event.waiters


def _decided(retries: Sequence[Retry], event: Found) -> tuple[tuple[Effect, ...], tuple[Retry, ...]]:
    """The replies to retries by the record that was read, and those of them that need a frame here."""
    if event.stored is None:
        return tuple(_beyond_record(retry, event) for retry in retries), ()
    judged, record = event.judged, event.stored.record
    at = _recorded_progress(record)
    effects: list[Effect] = []
    need_frame: list[Retry] = []
    for retry in retries:
        if not is_of(retry, record):
            effects.append(_beyond_record(retry, event))
            continue
        decision, _ = decide(retry, at)
        response = _from_record(decision, record)
        if response is not None:
            effects.append(Respond(retry.waiter, response))
        elif decision in (Decision.NEWER, Decision.AHEAD):
            effects.append(_beyond_record(retry, event))
        elif isinstance(judged, Pass):
            effects.append(Relay(retry.waiter, judged.node))
        else:
            need_frame.append(retry)
    return tuple(effects), tuple(need_frame)


def _from_record(decision: Decision, record: Record) -> Outcome | Refusal | None:
    """The response that the record alone gives; None where the retry needs a frame, or another node."""
    if decision is Decision.CONFLICT:
        return Refusal(Reason.CONFLICT, record.round)
    if decision is Decision.OUTCOME:
        return Outcome(sealed=record.outcome, position=record.position)
    if decision is Decision.LOST:
        return Refusal(Reason.LOST, record.round, record.cause)
    if decision is Decision.ALREADY:
        return Refusal(Reason.ALREADY_ANSWERED, record.round)
    return None


def _beyond_record(retry: Retry, event: Found) -> Effect:
    """A retry whose token is newer than the record, or whose call has no record of its own, is relayed to the node that
    minted the token: a live frame there heals the record (rule 7). Where that node is not alive the call is lost: its
    token proves that it was asked `retry.round`, and nobody knows what ran since."""
    if retry.node in event.elsewhere:
        return Relay(retry.waiter, retry.node)
    return Respond(retry.waiter, Refusal(Reason.FORGOTTEN, retry.round))


_ENDS = {Reason.LOST: How.LOST, Reason.FORGOTTEN: How.LOST, Reason.STUCK: How.STUCK}
"""How a call has ended by a refusal that is final."""


def _end_without_frame(call: Call, responses: tuple[Effect, ...]) -> Move:
    """Each request is answered, and no frame is made here."""
    idle = replace(call, phase=Phase.IDLE, outbox=EMPTY, undecided=(), tries=0)
    refusals = (item.response for item in responses if isinstance(item, Respond))
    for refusal in refusals:
        if isinstance(refusal, Refusal) and refusal.reason in _ENDS:
            ended = replace(idle, round=max(call.round, refusal.round))
            return Move(ended, (*responses, Forget(Ending(_ENDS[refusal.reason]))))
    return Move(idle, (*responses, Forget()))


def claim_granted(call: Call, event: Claimed, now: float) -> Move:
    """The call is this node's: rebuild its frame from the journal, under the incarnation that the claim named. If the
    lease lapsed since the claim was sent, the frame is verified as soon as it stands. Where another record was claimed
    than the one that was looked up it can't be read, and nothing is entered."""
    record = event.stored.record
    if not all(is_of(retry, record) for retry in call.undecided) or _was_cut(record, call.undecided):
        return _give_up(call, Reason.UNREADABLE, _EXCHANGED)
    # Without their values: a value is sealed for its position, and a question that is asked again needs none.
    asks = tuple(
        Draft(item.kind, item.key, item.round, item.lane, item.fp, "none", b"")
        for item in event.entries
        if item.kind is EntryKind.ASK and item.round == record.round
    )
    rounds = sorted(record.answers)
    fresh = replace(
        call,
        phase=Phase.REBUILDING,
        incarnation=Incarnation(record.incarnation),
        epoch=record.epoch,
        round=record.round,
        position=record.position,
        history=record.history,
        round_history=round_history(event.stored.journal, event.entries, record.round),
        written=event.sent,
        asks=asks,
        answered=record.answers.get(record.round),
        answers_sent=True,
        answered_before=tuple(record.answers[round_] for round_ in rounds if round_ != record.round),
        outbox=EMPTY,
        expires=now + call.ttl,
        tries=0,
    )
    fresh, _ = send_verify(fresh, event.lease.incarnation)
    return Move(fresh, (Run(record.epoch, event.entries),))


def _was_cut(record: Record, waiting: tuple[Retry, ...]) -> bool:
    """Whether a claimed record stands at an earlier round than each retry that waits for it. It was claimed for one of
    them that it had the questions of."""
    return bool(waiting) and all(retry.round > record.round for retry in waiting)


def claim_refused(call: Call, event: WriteRefused, now: float) -> Move:
    """The claim was refused: another was faster, or nobody may enter this handler again."""
    if event.verdict is Verdict.CHANGED and call.tries < MAX_TRIES:
        return Move(replace(call, phase=Phase.LOOKING, outbox=EMPTY, tries=call.tries + 1), (Lookup(),))
    if event.verdict is Verdict.MISSING:
        forgotten = (Respond(retry.waiter, Refusal(Reason.FORGOTTEN, retry.round)) for retry in call.undecided)
        return _end_without_frame(call, tuple(forgotten))
    reason = {Verdict.LOST: Reason.LOST, Verdict.STUCK: Reason.STUCK}.get(event.verdict, Reason.UNAVAILABLE)
    record = event.stored.record if event.stored else None
    refusal = Refusal(reason, record.round if record else 0, record.cause if record else "")
    return _end_without_frame(call, tuple(Respond(retry.waiter, refusal) for retry in call.undecided))


def lookup_unanswered(call: Call, event: StoreDown, now: float) -> Move:
    """The store did not answer a lookup or a claim, or the call must not be claimed now."""
    if event.paused:
        return _end_without_frame(call, refuse_all(call.undecided, Reason.WAITS, call, event.paused))
    detail = f"{event.why}; send the same request again later" if event.why else ""
    return _end_without_frame(call, refuse_all(call.undecided, Reason.UNAVAILABLE, call, detail))


def rebuilt(call: Call, event: Rebuilt, now: float) -> Move:
    """The frame stands where the journal ends: running where the round was answered, else parked."""
    outbox, sent = call.outbox.next()
    if sent and call.answered is None:
        # The verification that `claim_granted` lined up: the requests wait until it is acknowledged.
        return Move(replace(call, phase=Phase.VERIFYING, outbox=outbox), sent)
    phase = Phase.PARKED if call.answered is None else Phase.RUNNING
    return Move(replace(call, phase=phase, outbox=outbox, undecided=()), sent, call.undecided)


def diverged(call: Call, event: Diverged, now: float) -> Move:
    """The handler is not what was recorded: say so; the journal stays for the code that wrote it."""
    return _give_up(call, Reason.DIVERGED, event.why)


def unreadable(call: Call, event: Unreadable, now: float) -> Move:
    """What is recorded can't be read here: say so; the record stays for a node that can."""
    return _give_up(call, Reason.UNREADABLE, event.why)


def _give_up(call: Call, reason: Reason, why: str) -> Move:
    """Drop the frame that could not be rebuilt, and refuse each request that waited for it."""
    replies = refuse_all(call.undecided, reason, call, why)
    dropped = drop_and_forget(call, reason.value, Ending(How.DIVERGED))
    return replace(dropped, effects=(*replies, *dropped.effects))
