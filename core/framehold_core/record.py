"""What each store script does, as pure functions: (stored, request, now) -> (stored, reply).

This is the one statement of the scripts' meaning. The memory store and the simulation run it; one contract suite
holds the Lua equal to it. A refused request leaves the record as it was, to the byte.

The fence, in the order in which it is asked (PROTOCOL section 2):

    record missing                     -> create if epoch = 1 and n = 0 and the request may create, else BEHIND
    state not open                     -> FENCED (a request that was applied before says ALREADY)
    owner, inc, epoch equal: n equal   -> apply
                             jh equal to the resulting one -> ALREADY
                             n lower   -> BEHIND
                             else      -> FENCED
    otherwise: round or epoch lower than the writer was acknowledged, and neither higher -> BEHIND; else FENCED
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from . import journal
from .requests import (
    Answered,
    Claim,
    Commit,
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
from .trail import Moved

Applied = tuple[Stored | None, Reply]


def apply(stored: Stored | None, request: Request, now: float) -> Applied:
    """Apply one request. `now` is in seconds on the store's clock; an expired record counts as missing."""
    if stored is not None and stored.record.expires <= now:
        stored = None
    return _SCRIPTS[type(request)](stored, request, now)


def fence(stored: Stored | None, claim: Fence, resulting: str | None, creates: bool) -> Verdict:
    """Whether a write may be applied: OK, ALREADY, BEHIND or FENCED. `resulting` is the history after the write."""
    if stored is None:
        return Verdict.OK if creates and claim.epoch == 1 and claim.n == 0 else Verdict.BEHIND
    record = stored.record
    if record.state is not RecordState.OPEN:
        return Verdict.FENCED
    if (record.owner, record.inc, record.epoch) == (claim.owner, claim.inc, claim.epoch):
        if record.n == claim.n:
            return Verdict.OK
        if resulting is not None and record.jh == resulting:
            return Verdict.ALREADY
        return Verdict.BEHIND if record.n < claim.n else Verdict.FENCED
    lower = record.round < claim.round or record.epoch < claim.epoch
    higher = record.round > claim.round or record.epoch > claim.epoch
    return Verdict.BEHIND if lower and not higher else Verdict.FENCED


def _refused(stored: Stored | None, verdict: Verdict) -> Applied:
    """A refusal; the record goes along without its journal, so that the caller sees who stands there."""
    epoch = stored.record.epoch if stored else 0
    return stored, Reply(verdict, epoch, Stored(stored.record, ()) if stored else None)


def _clashes(record: Record | None, answered: Answered | None) -> bool:
    """Whether other answers stand recorded for that round."""
    if record is None or answered is None:
        return False
    return record.answers.get(answered.round, answered).digest != answered.digest


def _advance(stored: Stored | None, request: Commit | Intent | Result, now: float, **moved: Any) -> Stored:
    """Append the batch, with the round's answers ahead of it; `moved` is what else changes in the record."""
    if stored is None:
        assert not isinstance(request, Result) and request.head is not None, "a first write carries the head"
        claim = request.fence
        fresh = Record(RecordState.OPEN, request.head, claim.owner, claim.inc, 1, 0, 0, journal.GENESIS, 0, now, now)
        stored = Stored(fresh, ())
    record = stored.record
    answers = record.answers
    if not isinstance(request, Result) and request.answered is not None:
        answers = {**answers, request.answered.round: request.answered}
    entries = stored.journal + request.batch.entries
    jh, expires = request.batch.jh, now + request.ttl
    return Stored(record._replace(n=len(entries), jh=jh, answers=answers, expires=expires, **moved), entries)


def _read(stored: Stored | None, request: Read, now: float) -> Applied:
    if stored is None:
        return None, Reply(Verdict.MISSING)
    return stored, Reply(Verdict.OK, stored.record.epoch, stored)


def _commit(stored: Stored | None, request: Commit, now: float) -> Applied:
    verdict = fence(stored, request.fence, request.batch.jh, creates=request.head is not None)
    if verdict is not Verdict.OK:
        return _refused(stored, verdict)
    record = stored.record if stored else None
    if record is not None and record.round != request.fence.round:
        return _refused(stored, Verdict.FENCED)
    if _clashes(record, request.answered):
        return _refused(stored, Verdict.CONFLICT)
    moved = _advance(stored, request, now, round=request.fence.round + 1, attempts=0)
    parked = moved.record.stepped(Moved.PARKED, request.fence.owner, now, request.ran)
    return Stored(parked, moved.journal), Reply(Verdict.OK, request.fence.epoch)


def _intent(stored: Stored | None, request: Intent, now: float) -> Applied:
    verdict = fence(stored, request.fence, request.batch.jh, creates=request.head is not None)
    if verdict is not Verdict.OK:
        return _refused(stored, verdict)
    record = stored.record if stored else None
    if _clashes(record, request.answered) or (record is not None and request.key in record.intents):
        return _refused(stored, Verdict.CONFLICT)
    intents = {**(record.intents if record else {}), request.key: False}
    return _advance(stored, request, now, intents=intents), Reply(Verdict.OK, request.fence.epoch)


def _result(stored: Stored | None, request: Result, now: float) -> Applied:
    verdict = fence(stored, request.fence, request.batch.jh, creates=False)
    if verdict is not Verdict.OK or stored is None:
        return _refused(stored, verdict)
    if stored.record.intents.get(request.key) is not False:
        return _refused(stored, Verdict.CONFLICT)
    intents = {**stored.record.intents, request.key: True}
    return _advance(stored, request, now, intents=intents), Reply(Verdict.OK, request.fence.epoch)


def _finish(stored: Stored | None, request: Finish, now: float) -> Applied:
    claim = request.fence
    if stored is not None and stored.record.state is RecordState.DONE:
        record = stored.record
        same = (record.owner, record.inc, record.epoch) == (claim.owner, claim.inc, claim.epoch)
        if same and record.outcome == request.outcome:
            return stored, Reply(Verdict.ALREADY, record.epoch)
    verdict = fence(stored, claim, None, creates=False)
    if verdict is not Verdict.OK or stored is None:
        return _refused(stored, verdict)
    if _clashes(stored.record, request.answered):
        return _refused(stored, Verdict.CONFLICT)
    answers = dict(stored.record.answers)
    if request.answered is not None:
        answers[request.answered.round] = request.answered
    done = stored.record._replace(
        state=RecordState.DONE,
        answers=answers,
        outcome=request.outcome,
        out_round=claim.round,
        cause=request.cause,
        expires=now + request.ttl,
    )
    done = done.stepped(Moved.FINISHED, claim.owner, now, request.ran)
    return Stored(done, ()), Reply(Verdict.OK, claim.epoch)


def _claim(stored: Stored | None, request: Claim, now: float) -> Applied:
    if stored is None:
        return None, Reply(Verdict.MISSING)
    record = stored.record
    mine = (record.owner, record.inc, record.head.boot) == (request.owner, request.inc, request.boot)
    if record.state is RecordState.OPEN and mine and record.epoch == request.seen.epoch + 1:
        return stored, Reply(Verdict.ALREADY, record.epoch, stored)
    if record.state is RecordState.LOST:
        return stored, Reply(Verdict.LOST, record.epoch, Stored(record, ()))
    if not _claimable(record, request):
        return stored, Reply(Verdict.CHANGED, record.epoch, stored)
    if not (record.head.reentrant and request.reentrant):
        cause = f"{request.evidence.value} after round {record.round}"
        lost = record._replace(state=RecordState.LOST, cause=cause, expires=now + request.ttl)
        lost = lost.stepped(Moved.LOST, request.owner, now)
        return Stored(lost, ()), Reply(Verdict.LOST, record.epoch, Stored(lost, ()))
    if record.attempts >= request.max_attempts:
        return stored, Reply(Verdict.STUCK, record.epoch, Stored(record, ()))
    taken = record._replace(
        state=RecordState.OPEN,
        head=replace(record.head, boot=request.boot),
        owner=request.owner,
        inc=request.inc,
        epoch=record.epoch + 1,
        attempts=record.attempts + _died(record, request),
        expires=now + request.ttl,
    )
    moved = Stored(taken.stepped(Moved.CLAIMED, request.owner, now), stored.journal)
    return moved, Reply(Verdict.OK, taken.epoch, moved)


def _died(record: Record, request: Claim) -> bool:
    """Whether the process that ran the call is gone: whoever released it, or drops a frame and enters it again, has
    survived its handler (rule 15)."""
    survived = request.evidence is Evidence.OWNER and record.head.boot == request.boot
    return not survived and request.evidence is not Evidence.RELEASED


def _claimable(record: Record, request: Claim) -> bool:
    """As the caller read it, and consistent with the evidence where the record can tell."""
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
    claim = request.fence
    record = stored.record if stored else None
    if record is not None and record.state is RecordState.OPEN:
        wanted = (claim.owner, request.inc, claim.epoch + 1, claim.n)
        if (record.owner, record.inc, record.epoch, record.n) == wanted:
            return stored, Reply(Verdict.ALREADY, record.epoch)
    verdict = fence(stored, claim, None, creates=False)
    if verdict is not Verdict.OK or stored is None:
        return _refused(stored, verdict)
    moved = stored.record._replace(inc=request.inc, epoch=claim.epoch + 1, expires=now + request.ttl)
    return Stored(moved.stepped(Moved.VERIFIED, claim.owner, now), stored.journal), Reply(Verdict.OK, moved.epoch)


def _heal(stored: Stored | None, request: Heal, now: float) -> Applied:
    claim = request.fence
    if stored is not None:
        record = stored.record
        healed = (record.owner, record.inc, record.n, record.jh) == (
            claim.owner,
            claim.inc,
            len(request.batch.entries),
            request.batch.jh,
        )
        if record.state is RecordState.OPEN and healed and record.epoch > claim.epoch:
            return stored, Reply(Verdict.ALREADY, record.epoch)
    if (stored.record.seen if stored else None) != request.seen:
        return _refused(stored, Verdict.CHANGED)
    verdict = fence(stored, claim, None, creates=False)
    if verdict is not Verdict.BEHIND:
        return _refused(stored, Verdict.CHANGED if verdict is Verdict.OK else verdict)
    epoch = max(stored.record.epoch if stored else 0, claim.epoch) + 1
    whole = Record(
        RecordState.OPEN,
        request.head,
        claim.owner,
        claim.inc,
        epoch,
        claim.round,
        len(request.batch.entries),
        request.batch.jh,
        stored.record.attempts if stored else 0,
        stored.record.created if stored else now,
        now + request.ttl,
        {item.round: item for item in request.answers},
        dict(request.intents),
        trail=stored.record.trail if stored else (),
    )
    return Stored(whole.stepped(Moved.HEALED, claim.owner, now), request.batch.entries), Reply(Verdict.OK, epoch)


def _release(stored: Stored | None, request: Release, now: float) -> Applied:
    claim = request.fence
    if stored is not None:
        record = stored.record
        if record.state is RecordState.RELEASED and (record.epoch, record.n) == (claim.epoch, claim.n):
            return stored, Reply(Verdict.ALREADY, record.epoch)
    verdict = fence(stored, claim, None, creates=False)
    if verdict is not Verdict.OK or stored is None:
        return _refused(stored, verdict)
    given = stored.record._replace(state=RecordState.RELEASED, owner="", inc="", expires=now + request.ttl)
    return Stored(given.stepped(Moved.RELEASED, claim.owner, now), stored.journal), Reply(Verdict.OK, given.epoch)


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
