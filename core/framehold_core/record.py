"""What each store script does, as pure functions: (stored, request, now) -> (stored, reply).

This is the one statement of the scripts' meaning. The memory store and the simulation run it; one contract suite
holds the Lua equal to it. A refused request leaves the record as it was, to the byte.

The fence, in the order in which it is asked (docs/protocol-store.md, "The fence"):

    record missing                     -> create if epoch = 1, position = 0 and the request may create, else BEHIND
    state done or lost                 -> FENCED (a request that was applied before says ALREADY)
    owner, incarnation, epoch equal:
        position equal                 -> apply
        history equal to the next one  -> ALREADY
        position lower                 -> BEHIND
        else                           -> FENCED
    round or epoch lower than the writer was acknowledged, and neither higher -> BEHIND
    else                               -> FENCED
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import journal
from .errors import impossible
from .requests import (
    Answered,
    Claim,
    Commit,
    Done,
    Evidence,
    Fence,
    Finish,
    Heal,
    Intent,
    Read,
    Record,
    RecordState,
    Release,
    Reply,
    Request,
    Result,
    Stored,
    Verdict,
    Verify,
)
from .suspects import has_died
from .trail import Moved
from .value import replace

Applied = tuple[Stored | None, Reply]


def apply(stored: Stored | None, request: Request, now: float) -> Applied:
    """Apply one request. `now` is in seconds on the store's clock; an expired record counts as missing."""
    if stored is not None and stored.record.expires <= now:
        stored = None
    return _SCRIPTS[type(request)](stored, request, now)


def check_fence(stored: Stored | None, fence: Fence, resulting: str | None, creates: bool) -> Verdict:
    """Whether a write may be applied: OK, ALREADY, BEHIND or FENCED. `resulting` is the history after the write."""
    if stored is None:
        return Verdict.OK if creates and fence.epoch == 1 and fence.position == 0 else Verdict.BEHIND
    record = stored.record
    if record.is_over:
        return Verdict.FENCED
    if (record.owner, record.incarnation, record.epoch) == (fence.owner, fence.incarnation, fence.epoch):
        if record.position == fence.position:
            return Verdict.OK
        if resulting is not None and record.history == resulting:
            return Verdict.ALREADY
        return Verdict.BEHIND if record.position < fence.position else Verdict.FENCED
    lower = record.round < fence.round or record.epoch < fence.epoch
    higher = record.round > fence.round or record.epoch > fence.epoch
    return Verdict.BEHIND if lower and not higher else Verdict.FENCED


def _refused(stored: Stored | None, verdict: Verdict) -> Applied:
    """Refuse a request. The record is returned without its journal, so that the caller sees who owns the call."""
    epoch = stored.record.epoch if stored else 0
    return stored, Reply(verdict, epoch, Stored(stored.record, ()) if stored else None)


def _clashes(record: Record | None, answered: Answered | None) -> bool:
    """Whether other answers than `answered` are recorded for its round."""
    if record is None or answered is None:
        return False
    return record.answers.get(answered.round, answered).digest != answered.digest


def _is_unfit(record: Record | None, results: tuple[Done, ...]) -> bool:
    """Whether one of `results` can't be recorded: its effect has a result already, or lacks the intent that it had."""
    known = record.intents if record is not None else {}
    return any(known.get(done.key) is not False if done.intended else known.get(done.key, False) for done in results)


def _with_results(intents: Mapping[str, bool], results: tuple[Done, ...]) -> Mapping[str, bool]:
    """The intents of a record after these results, of which there is one at least."""
    return {**intents, **{done.key: True for done in results}}


def _advance(stored: Stored | None, request: Commit | Intent | Result, now: float, **moved: Any) -> Stored:
    """Append the batch, and record the digest of the round's answers; `moved` is what else changes in the record."""
    if stored is None:
        if request.head is None:
            impossible("a first write carries no head")
        fence = request.fence
        who = (fence.owner, fence.incarnation)
        fresh = Record(RecordState.OPEN, request.head, *who, 1, 0, 0, journal.GENESIS, 0, now, now)
        stored = Stored(fresh, ())
    record = stored.record
    answers = record.answers
    if request.answered is not None:
        answers = {**answers, request.answered.round: request.answered}
    entries = stored.journal + request.batch.entries
    history, expires = request.batch.history, now + request.ttl
    intents = _with_results(record.intents, request.results) if request.results else record.intents
    learned = replace(record, answers=answers, intents=intents)
    advanced = replace(learned, position=len(entries), history=history, expires=expires, **moved)
    return Stored(advanced, entries)


def _read(stored: Stored | None, request: Read, now: float) -> Applied:
    if stored is None:
        return None, Reply(Verdict.MISSING)
    return stored, Reply(Verdict.OK, stored.record.epoch, stored)


def _commit(stored: Stored | None, request: Commit, now: float) -> Applied:
    verdict = check_fence(stored, request.fence, request.batch.history, creates=request.head is not None)
    if verdict is not Verdict.OK:
        return _refused(stored, verdict)
    record = stored.record if stored else None
    if record is not None and record.round != request.fence.round:
        return _refused(stored, Verdict.FENCED)
    if _clashes(record, request.answered) or (request.results and _is_unfit(record, request.results)):
        return _refused(stored, Verdict.CONFLICT)
    moved = _advance(stored, request, now, round=request.fence.round + 1, attempts=0)
    parked = moved.record.stepped(Moved.PARKED, request.fence.owner, now, request.ran)
    return Stored(parked, moved.journal), Reply(Verdict.OK, request.fence.epoch)


def _intent(stored: Stored | None, request: Intent, now: float) -> Applied:
    verdict = check_fence(stored, request.fence, request.batch.history, creates=request.head is not None)
    if verdict is not Verdict.OK:
        return _refused(stored, verdict)
    record = stored.record if stored else None
    if _clashes(record, request.answered) or (record is not None and request.key in record.intents):
        return _refused(stored, Verdict.CONFLICT)
    if _is_unfit(record, request.results):
        return _refused(stored, Verdict.CONFLICT)
    moved = _advance(stored, request, now)
    intents = {**moved.record.intents, request.key: False}
    return Stored(replace(moved.record, intents=intents), moved.journal), Reply(Verdict.OK, request.fence.epoch)


def _result(stored: Stored | None, request: Result, now: float) -> Applied:
    verdict = check_fence(stored, request.fence, request.batch.history, creates=request.head is not None)
    if verdict is not Verdict.OK:
        return _refused(stored, verdict)
    record = stored.record if stored else None
    if _clashes(record, request.answered) or (request.results and _is_unfit(record, request.results)):
        return _refused(stored, Verdict.CONFLICT)
    return _advance(stored, request, now), Reply(Verdict.OK, request.fence.epoch)


def _finish(stored: Stored | None, request: Finish, now: float) -> Applied:
    fence = request.fence
    if stored is not None and stored.record.state is RecordState.DONE:
        record = stored.record
        same = (record.owner, record.incarnation, record.epoch) == (fence.owner, fence.incarnation, fence.epoch)
        if same and record.outcome == request.outcome:
            return stored, Reply(Verdict.ALREADY, record.epoch)
    verdict = check_fence(stored, fence, None, creates=False)
    if verdict is not Verdict.OK or stored is None:
        return _refused(stored, verdict)
    if _clashes(stored.record, request.answered) or (request.results and _is_unfit(stored.record, request.results)):
        return _refused(stored, Verdict.CONFLICT)
    answers = dict(stored.record.answers)
    if request.answered is not None:
        answers[request.answered.round] = request.answered
    intents = stored.record.intents
    done = replace(
        stored.record,
        state=RecordState.DONE,
        answers=answers,
        intents=_with_results(intents, request.results) if request.results else intents,
        outcome=request.outcome,
        out_round=fence.round,
        cause=request.ending.how,
        error=request.ending.error,
        place=request.ending.place,
        expires=now + request.ttl,
    )
    done = done.stepped(Moved.FINISHED, fence.owner, now, request.ran)
    return Stored(done, ()), Reply(Verdict.OK, fence.epoch)


def _claim(stored: Stored | None, request: Claim, now: float) -> Applied:
    if stored is None:
        return None, Reply(Verdict.MISSING)
    record = stored.record
    mine = (record.owner, record.incarnation, record.head.boot) == (request.owner, request.incarnation, request.boot)
    if record.state is RecordState.OPEN and mine and record.epoch == request.seen.epoch + 1:
        return stored, Reply(Verdict.ALREADY, record.epoch, stored)
    if record.state is RecordState.LOST:
        return stored, Reply(Verdict.LOST, record.epoch, Stored(record, ()))
    if not _claimable(record, request):
        return stored, Reply(Verdict.CHANGED, record.epoch, stored)
    if not (record.head.reentrant and request.reentrant):
        cause = f"{request.evidence.value} after round {record.round}"
        lost = replace(record, state=RecordState.LOST, cause=cause, expires=now + request.ttl)
        lost = lost.stepped(Moved.LOST, request.owner, now)
        return Stored(lost, ()), Reply(Verdict.LOST, record.epoch, Stored(lost, ()))
    if record.attempts >= request.max_attempts:
        return stored, Reply(Verdict.STUCK, record.epoch, Stored(record, ()))
    taken = replace(
        record,
        state=RecordState.OPEN,
        head=replace(record.head, boot=request.boot),
        owner=request.owner,
        incarnation=request.incarnation,
        epoch=record.epoch + 1,
        attempts=record.attempts + has_died(record, request.evidence, request.boot),
        expires=now + request.ttl,
    )
    moved = Stored(taken.stepped(Moved.CLAIMED, request.owner, now, kept=request.kept), stored.journal)
    return moved, Reply(Verdict.OK, taken.epoch, moved)


def _claimable(record: Record, request: Claim) -> bool:
    """Whether the record is as the caller read it, and does not contradict the caller's evidence."""
    if record.seen != request.seen:
        return False
    if record.state is RecordState.RELEASED:
        return request.evidence is Evidence.RELEASED
    if record.state is not RecordState.OPEN:
        return False
    if request.evidence is Evidence.OWNER:
        return record.owner == request.owner
    return request.evidence is not Evidence.RELEASED


def _verify(stored: Stored | None, request: Verify, now: float) -> Applied:
    fence = request.fence
    record = stored.record if stored else None
    if record is not None and record.state is RecordState.OPEN:
        wanted = (fence.owner, request.incarnation, fence.epoch + 1, fence.position)
        if (record.owner, record.incarnation, record.epoch, record.position) == wanted:
            return stored, Reply(Verdict.ALREADY, record.epoch)
    verdict = check_fence(stored, fence, None, creates=False)
    if verdict is not Verdict.OK or stored is None:
        return _refused(stored, verdict)
    moved = replace(stored.record, incarnation=request.incarnation, epoch=fence.epoch + 1, expires=now + request.ttl)
    return Stored(moved.stepped(Moved.VERIFIED, fence.owner, now), stored.journal), Reply(Verdict.OK, moved.epoch)


def _heal(stored: Stored | None, request: Heal, now: float) -> Applied:
    fence = request.fence
    if stored is not None:
        record = stored.record
        wanted = (fence.owner, fence.incarnation, len(request.batch.entries), request.batch.history)
        healed = (record.owner, record.incarnation, record.position, record.history) == wanted
        if record.state is RecordState.OPEN and healed and record.epoch > fence.epoch:
            return stored, Reply(Verdict.ALREADY, record.epoch)
    if (stored.record.seen if stored else None) != request.seen:
        return _refused(stored, Verdict.CHANGED)
    verdict = check_fence(stored, fence, None, creates=False)
    if verdict is not Verdict.BEHIND:
        return _refused(stored, Verdict.CHANGED if verdict is Verdict.OK else verdict)
    epoch = fence.epoch + 1
    whole = Record(
        RecordState.OPEN,
        request.head,
        fence.owner,
        fence.incarnation,
        epoch,
        fence.round,
        len(request.batch.entries),
        request.batch.history,
        stored.record.attempts if stored else 0,
        stored.record.created if stored else now,
        now + request.ttl,
        {item.round: item for item in request.answers},
        dict(request.intents),
        trail=stored.record.trail if stored else (),
    )
    return Stored(whole.stepped(Moved.HEALED, fence.owner, now), request.batch.entries), Reply(Verdict.OK, epoch)


def _release(stored: Stored | None, request: Release, now: float) -> Applied:
    fence = request.fence
    if stored is not None:
        record = stored.record
        if record.state is RecordState.RELEASED and (record.epoch, record.position) == (fence.epoch, fence.position):
            return stored, Reply(Verdict.ALREADY, record.epoch)
    verdict = check_fence(stored, fence, None, creates=False)
    if verdict is not Verdict.OK or stored is None:
        return _refused(stored, verdict)
    given = replace(stored.record, state=RecordState.RELEASED, owner="", incarnation="", expires=now + request.ttl)
    return Stored(given.stepped(Moved.RELEASED, fence.owner, now), stored.journal), Reply(Verdict.OK, given.epoch)


_SCRIPTS: dict[type[Any], Callable[[Stored | None, Any, float], Applied]] = {
    Read: _read,
    Commit: _commit,
    Intent: _intent,
    Result: _result,
    Finish: _finish,
    Claim: _claim,
    Verify: _verify,
    Heal: _heal,
    Release: _release,
}
