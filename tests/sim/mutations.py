"""The core, broken on purpose: each mutation takes one rule of PROTOCOL away by replacing a function or a row.

`RED` must turn the simulation red within a bounded number of schedules. `MASKED` stay green alone, for the reason that
stands beside each; where a pair breaks, the pair is in `RED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from framehold_core import continuation, lease, record, replay, retry, rounds
from framehold_core.call import Call, Move, Phase, send
from framehold_core.effects import Go, Op, Outcome, Questions, Reply, Write
from framehold_core.events import Asked, Finished, Intended, Resulted
from framehold_core.requests import Claim, Evidence, Fence, Intent, Record, RecordState, Stored, Verdict, Verify
from framehold_core.writes import once_digest

from .driver import Driver
from .handlers import Frame
from .node import Process
from .scripts import Slot

Patch = tuple[Any, Any, Any]
"""A place (an object and an attribute, or a mapping and a key), and what stands there instead."""

_ASKED, _FINISHED = (Phase.RUNNING, Asked), (Phase.RUNNING, Finished)


def _ungated_questions(call: Call, event: Asked, now: float) -> Move:
    move = rounds.asked(call, event, now)
    early = Questions(call.round + 1, call.epoch, call.n, call.jh)
    replies = tuple(Reply(item.waiter, early) for item in call.waiting)
    return Move(move.call._replace(waiting=()), (*move.effects, *replies))


def _ungated_outcome(call: Call, event: Finished, now: float) -> Move:
    move = rounds.finished(call, event, now)
    replies = tuple(Reply(item.waiter, Outcome(event.outcome)) for item in move.call.waiting)
    return Move(move.call._replace(waiting=()), (*move.effects, *replies))


def _hasty_effect(call: Call, event: Intended, now: float) -> Move:
    move = rounds.intended(call, event, now)
    return move._replace(effects=(*move.effects, Go(event.key)))


def _answers_left_behind(call: Call, event: Intended, now: float) -> Move:
    """The intent alone: the round's answers go with the next questions, or with the outcome."""
    write = Write(Op.INTEND, (event.draft,), key=event.key)
    call, effects = send(call._replace(intents=call.intents | {event.key}), write)
    return Move(call, effects)


def _result_first(driver: Driver, slot: Slot, frame: Frame, name: str) -> None:
    """The result is written as soon as the effect may run; it runs a moment later, if this process still lives."""
    frame.pending[name] = f"{slot.call.id}:{name}"
    driver.feed(slot, Resulted(once_digest(name), frame.result_draft(name, slot.call.round)))
    slot.process.later(0.02, _RIGHT_EFFECT, driver, slot, frame, name)


def _another_text(cursor: replay.Cursor, place: replay.Place, fp: str, *args: Any) -> Any:
    """What was recorded under a key is taken for the same, whatever it said."""
    owed = cursor._owed.get(place)
    return _RIGHT_MEET(cursor, place, owed.fp if owed else fp, *args)


def _fence(*blind: str) -> Callable[..., Verdict]:
    """The fence, blind to some of what a write claims."""
    seeing = record.fence

    def fence(stored: Stored | None, claim: Fence, resulting: str | None, creates: bool) -> Verdict:
        if stored is not None:
            claim = claim._replace(**{name: getattr(stored.record, name) for name in blind})
        return seeing(stored, claim, resulting, creates)

    return fence


def _keeps_epoch(script: type[Verify] | type[Claim]) -> Callable[..., Any]:
    """Verify or claim, without raising the epoch."""
    right = record._SCRIPTS[script]

    def wrong(stored: Stored | None, request: Any, now: float) -> Any:
        after, reply = right(stored, request, now)
        if reply.verdict is not Verdict.OK or after is None or stored is None:
            return after, reply
        same = Stored(replace(after.record, epoch=stored.record.epoch), after.journal)
        return same, reply._replace(epoch=stored.record.epoch, stored=same if reply.stored else None)

    return wrong


def _forgetful_intent(stored: Stored | None, request: Intent, now: float) -> Any:
    if stored is not None and request.key in stored.record.intents:
        intents = {key: done for key, done in stored.record.intents.items() if key != request.key}
        blind = Stored(replace(stored.record, intents=intents), stored.journal)
        after, reply = _RIGHT_INTENT(blind, request, now)
        return (after if after is not blind else stored), reply
    return _RIGHT_INTENT(stored, request, now)


def _claims_anything(stored: Stored | None, request: Claim, now: float) -> Any:
    if stored is not None and stored.record.state is RecordState.OPEN:
        request = replace(request, seen=stored.record.seen, evidence=Evidence.GONE)
    return _RIGHT_CLAIM(stored, request, now)


def _claims_unmarked(stored: Stored | None, request: Claim, now: float) -> Any:
    if stored is None:
        return _RIGHT_CLAIM(stored, request, now)
    marked = Stored(replace(stored.record, head=replace(stored.record.head, reentrant=True)), stored.journal)
    return _RIGHT_CLAIM(marked, replace(request, reentrant=True), now)


def _revives(stored: Any, wanted: Any, acknowledged: int, now: float) -> Any:
    return wanted._replace(beat=acknowledged + 1), lease.Renewal.RENEWED


def _never_in_doubt(cursor: replay.Cursor, *args: Any) -> Any:
    found = _RIGHT_ONCE(cursor, *args)
    return replay.Once.LIVE if found is replay.Once.IN_DOUBT else found


def _hasty_evidence(process: Process, record_: Record, *_: object) -> Evidence:
    return Evidence.RELEASED if record_.state is RecordState.RELEASED else Evidence.GONE


def _skips_verify(call: Call, case: retry.Case, now: float) -> Move:
    return rounds._accept(call, case, now)


_RIGHT_INTENT, _RIGHT_CLAIM = record._SCRIPTS[Intent], record._SCRIPTS[Claim]
_RIGHT_ONCE, _RIGHT_MEET, _RIGHT_EFFECT = replay.Cursor.once, replay.Cursor._meet, Driver._begin_effect
_SCRIPTS, _TABLE = record._SCRIPTS, continuation.TABLE

RED: dict[str, tuple[Patch, ...]] = {
    "gate-off": ((_TABLE, _ASKED, _TABLE[_ASKED]._replace(move=_ungated_questions)),),
    "finish-gate-off": ((_TABLE, _FINISHED, _TABLE[_FINISHED]._replace(move=_ungated_outcome)),),
    "both-fences-off": ((record, "fence", _fence("owner", "inc", "epoch")),),
    "position-off": ((record, "fence", _fence("n")),),
    "digest-off": (
        (retry, "ROWS", tuple(row for row in retry.ROWS if row.then is not retry.Decision.CONFLICT)),
        (record, "_clashes", lambda *_: False),
    ),
    "verify-keeps-epoch": ((_SCRIPTS, Verify, _keeps_epoch(Verify)),),
    "claim-keeps-epoch": ((_SCRIPTS, Claim, _keeps_epoch(Claim)),),
    "claim-ignores-the-mark": ((_SCRIPTS, Claim, _claims_unmarked),),
    "answers-not-carried": ((rounds, "carry", lambda _: None),),
    "effect-before-intent": (
        (_TABLE, (Phase.RUNNING, Intended), _TABLE[Phase.RUNNING, Intended]._replace(move=_hasty_effect)),
    ),
    "answers-not-with-the-intent": tuple(
        (_TABLE, key, row._replace(move=_answers_left_behind)) for key, row in _TABLE.items() if key[1] is Intended
    ),
    "result-before-effect": ((Driver, "_begin_effect", _result_first),),
    "changed-text-accepted": ((replay.Cursor, "_meet", _another_text),),
    "end-before-the-record-accepted": ((replay.Cursor, "finish", lambda _: None), (replay.Cursor, "live", True)),
    "doubt-forgotten": ((replay.Cursor, "once", _never_in_doubt), (_SCRIPTS, Intent, _forgetful_intent)),
    # The window mostly saves work, but it also bounds rule 1's exception, and that is what turns red.
    "window-off": ((lease, "is_open", lambda *_: True),),
    # Claims from an owner that lives: its window is open, so an effect that it was let go for runs after its successor
    # has recorded it. The epoch fences its writes, but nothing fences an effect.
    "owner-thought-gone": ((Process, "evidence", _hasty_evidence),),
    "no-second-asking": ((retry, "ROWS", tuple(row for row in retry.ROWS if row.when != "r = R - 1")),),
}
"""Mutations that must be found."""

MASKED: dict[str, tuple[str, tuple[Patch, ...]]] = {
    "epoch-fence-off": (
        "the owner fence and the position refuse the same writes",
        ((record, "fence", _fence("epoch")),),
    ),
    "owner-fence-off": ("each change of owner raises the epoch", ((record, "fence", _fence("owner", "inc")),)),
    "lapse-ignored": ("whoever claimed meanwhile raised the epoch", ((lease, "renew", _revives),)),
    "verify-skipped": ("the same: the frame's next write is fenced", ((rounds, "_deliver", _skips_verify),)),
    "claim-of-anything": (
        "the claim still raises the epoch, so the loser is fenced; only work is lost",
        ((_SCRIPTS, Claim, _claims_anything),),
    ),
    "doubt-live": ("the store refuses the second intent", ((replay.Cursor, "once", _never_in_doubt),)),
}
"""Mutations that something else makes up for, and what that is."""


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Run with one mutation."""
    patches = () if name is None else RED[name] if name in RED else MASKED[name][1]
    undo: list[Patch] = []
    for place, key, value in patches:
        undo.append((place, key, place[key] if isinstance(place, dict) else getattr(place, key)))
        _put(place, key, value)
    try:
        yield
    finally:
        for place, key, value in undo:
            _put(place, key, value)


def _put(place: Any, key: Any, value: Any) -> None:
    if isinstance(place, dict):
        place[key] = value
    else:
        setattr(place, key, value)
