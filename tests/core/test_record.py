"""What each script does: every precondition granted and refused, every repeat harmless.

A refused request leaves the record equal; that is asserted for every case of the table."""

from __future__ import annotations

from typing import Any

import pytest

from framehold_core import record
from framehold_core.ending import COMPLETED
from framehold_core.ids import Boot, CallId, Incarnation, NodeId
from framehold_core.journal import GENESIS, chain
from framehold_core.requests import (
    Answered,
    Batch,
    Claim,
    Commit,
    Done,
    Evidence,
    Fence,
    Finish,
    Head,
    Heal,
    Intent,
    Read,
    Record,
    RecordState,
    Release,
    Request,
    Result,
    Seen,
    Stored,
    Verdict,
    Verify,
)
from framehold_core.trail import KEPT, Moved, TrailStep
from framehold_core.value import replace

CALL = CallId("0123456789abcdef0123456789abcdef")
HEAD = Head(Boot("b1"), True, "tool", "code", "tools/call", "tool", "args", "principal")
NOW, TTL, LATER, RAN = 50.0, 10.0, 60.0, 0.25
OLD, NEW = (b"ask a",), (b"answer a", b"ask b")
JH = chain(GENESIS, OLD)
NEXT = chain(JH, NEW)
YES, NO = Answered(1, "yes", ("a",)), Answered(1, "no", ("a",))
FENCE = Fence(NodeId("n1"), Incarnation("i1"), 3, 1, 1)
BEGUN = TrailStep(Moved.PARKED, 1, 1, "n0", 1.0, 0.5)
RECORD = Record(
    *(RecordState.OPEN, HEAD, "n1", "i1", 3, 1, 1, JH, 1, 0.0, 99.0, {}, {"done": True, "open": False}),
    trail=(BEGUN,),
)
OPEN = Stored(RECORD, OLD)
DONE = Stored(replace(RECORD, state=RecordState.DONE, outcome=b"42", out_round=1, answers={1: YES}), ())
GIVEN = Stored(replace(RECORD, state=RecordState.RELEASED, owner="", incarnation=""), OLD)
LOST = Stored(replace(RECORD, state=RecordState.LOST, cause="gone after round 1"), ())
TAKEN = Stored(
    replace(RECORD, head=replace(HEAD, boot=Boot("b2")), owner="n2", incarnation="i9", epoch=4, attempts=2), OLD
)
BATCH = Batch(NEW, NEXT)


def open_with(**fields: Any) -> Stored:
    """The open record with other fields."""
    return Stored(replace(RECORD, **fields), OLD)


def fenced_as(**fields: Any) -> Fence:
    """The owner's fence with other fields."""
    return replace(FENCE, **fields)


def commit(fence: Fence = FENCE, answered: Answered | None = YES, head: Head | None = None) -> Commit:
    return Commit(CALL, fence, BATCH, TTL, answered, head, RAN)


def intent(key: str = "new", answered: Answered | None = YES, fence: Fence = FENCE) -> Intent:
    return Intent(CALL, fence, BATCH, TTL, key, answered)


def result(key: str = "open", fence: Fence = FENCE) -> Result:
    return Result(CALL, fence, BATCH, TTL, results=(Done(key),))


def finish(outcome: bytes = b"42", answered: Answered | None = YES, fence: Fence = FENCE) -> Finish:
    return Finish(CALL, fence, outcome, COMPLETED, TTL, answered, RAN)


def claim(evidence: Evidence = Evidence.GONE, seen: Seen = RECORD.seen, *, reentrant: bool = True) -> Claim:
    return Claim(CALL, seen, evidence, NodeId("n2"), Incarnation("i9"), Boot("b2"), reentrant, 5, TTL)


def verify(fence: Fence = FENCE) -> Verify:
    return Verify(CALL, fence, Incarnation("i2"), TTL)


def heal(seen: Seen | None = None, fence: Fence | None = None) -> Heal:
    fence = fence or fenced_as(round=2, position=3)
    return Heal(CALL, fence, seen, Batch(OLD + NEW, NEXT), (YES,), (("done", True),), HEAD, TTL)


def release(fence: Fence = FENCE) -> Release:
    return Release(CALL, fence, TTL)


FIRST = fenced_as(epoch=1, round=0, position=0)
OTHER = replace(claim(), owner=NodeId("n1"))
GRANTED: dict[str, tuple[Stored | None, Request]] = {
    "commit creates": (None, commit(FIRST, None, HEAD)),
    "commit": (OPEN, commit()),
    "commit, the round's answers are recorded alike": (open_with(answers={1: YES}), commit()),
    "intent creates": (None, Intent(CALL, FIRST, BATCH, TTL, "new", None, HEAD)),
    "intent": (OPEN, intent()),
    "result": (OPEN, result()),
    "finish": (OPEN, finish()),
    "finish, the round's answers are recorded alike": (open_with(answers={1: YES}), finish()),
    "claim, lease gone": (OPEN, claim()),
    "claim, released": (GIVEN, claim(Evidence.RELEASED, GIVEN.record.seen)),
    "claim, the owner's own": (OPEN, replace(OTHER, evidence=Evidence.OWNER)),
    "claim, last attempt": (open_with(attempts=4), claim()),
    "verify": (OPEN, verify()),
    "heal a missing record": (None, heal()),
    "heal a record that went back": (OPEN, heal(RECORD.seen)),
    "heal a record that was released before the call was claimed": (
        GIVEN,
        heal(GIVEN.record.seen, fenced_as(epoch=4, round=2, position=3)),
    ),
    "heal a record of an older epoch": (open_with(epoch=2, incarnation="i0"), heal(Seen(2, "n1", "i0"))),
    "release": (OPEN, release()),
}
REFUSED: dict[str, tuple[Stored | None, Request, Verdict]] = {
    "read of nothing": (None, Read(CALL), Verdict.MISSING),
    "commit to a record that went missing": (None, commit(), Verdict.BEHIND),
    "commit, created in a later epoch": (None, commit(replace(FIRST, epoch=2), None, HEAD), Verdict.BEHIND),
    "commit to a finished call": (DONE, commit(), Verdict.FENCED),
    "commit to a released call": (GIVEN, commit(), Verdict.FENCED),
    "commit to a released call, by an older epoch": (GIVEN, commit(fenced_as(epoch=2)), Verdict.FENCED),
    "commit to a call that was released before it was claimed": (GIVEN, commit(fenced_as(epoch=4)), Verdict.BEHIND),
    "commit to a lost call": (LOST, commit(), Verdict.FENCED),
    "commit by another owner": (OPEN, commit(fenced_as(owner="n2")), Verdict.FENCED),
    "commit by another incarnation": (OPEN, commit(fenced_as(incarnation="i0")), Verdict.FENCED),
    "commit by an older epoch": (OPEN, commit(fenced_as(epoch=2)), Verdict.FENCED),
    "commit by an older epoch, further on": (OPEN, commit(fenced_as(epoch=2, round=2)), Verdict.FENCED),
    "commit by a later epoch": (OPEN, commit(fenced_as(epoch=4)), Verdict.BEHIND),
    "commit by a later epoch, further back": (OPEN, commit(fenced_as(epoch=4, round=0)), Verdict.FENCED),
    "commit from another position": (OPEN, commit(fenced_as(position=0)), Verdict.FENCED),
    "commit, the store went back": (OPEN, commit(fenced_as(round=2, position=2)), Verdict.BEHIND),
    "commit of another round": (OPEN, commit(fenced_as(round=2)), Verdict.FENCED),
    "commit with other answers": (open_with(answers={1: NO}), commit(), Verdict.CONFLICT),
    "intent by an older epoch": (OPEN, intent(fence=fenced_as(epoch=2)), Verdict.FENCED),
    "intent with other answers": (open_with(answers={1: NO}), intent(), Verdict.CONFLICT),
    "intent of an intended key": (OPEN, intent("open"), Verdict.CONFLICT),
    "intent of a recorded key": (OPEN, intent("done"), Verdict.CONFLICT),
    "result to nothing": (None, result(fence=FIRST), Verdict.BEHIND),
    "result by an older epoch": (OPEN, result(fence=fenced_as(epoch=2)), Verdict.FENCED),
    "result without an intent": (OPEN, result("new"), Verdict.CONFLICT),
    "result of a recorded key": (OPEN, result("done"), Verdict.CONFLICT),
    "finish of nothing": (None, finish(fence=FIRST), Verdict.BEHIND),
    "finish by an older epoch": (OPEN, finish(fence=fenced_as(epoch=2)), Verdict.FENCED),
    "finish, the store went back": (OPEN, finish(fence=fenced_as(position=2)), Verdict.BEHIND),
    "finish with other answers": (open_with(answers={1: NO}), finish(), Verdict.CONFLICT),
    "finish again, another outcome": (DONE, finish(b"43"), Verdict.FENCED),
    "finish again, another epoch": (DONE, finish(fence=fenced_as(epoch=2)), Verdict.FENCED),
    "claim of nothing": (None, claim(), Verdict.MISSING),
    "claim, sent again by another process of the owner": (
        TAKEN,
        replace(claim(), boot=Boot("b3")),
        Verdict.CHANGED,
    ),
    "claim, sent again under another incarnation": (
        TAKEN,
        replace(claim(), incarnation=Incarnation("i8")),
        Verdict.CHANGED,
    ),
    "claim of a finished call": (DONE, claim(), Verdict.CHANGED),
    "claim of a lost call": (LOST, claim(), Verdict.LOST),
    "claim, the epoch moved": (OPEN, claim(seen=Seen(2, "n1", "i1")), Verdict.CHANGED),
    "claim, the owner changed": (OPEN, claim(seen=Seen(3, "n0", "i1")), Verdict.CHANGED),
    "claim, the incarnation changed": (OPEN, claim(seen=Seen(3, "n1", "i0")), Verdict.CHANGED),
    "claim as released, and it is open": (OPEN, claim(Evidence.RELEASED), Verdict.CHANGED),
    "claim as gone, and it is released": (GIVEN, claim(seen=GIVEN.record.seen), Verdict.CHANGED),
    "claim as the owner, by another": (OPEN, claim(Evidence.OWNER), Verdict.CHANGED),
    "claim after too many attempts": (open_with(attempts=5), claim(), Verdict.STUCK),
    "verify of nothing": (None, verify(), Verdict.BEHIND),
    "verify of a released call": (GIVEN, verify(), Verdict.FENCED),
    "verify by another owner": (OPEN, verify(fenced_as(owner="n2")), Verdict.FENCED),
    "verify by another incarnation": (OPEN, verify(fenced_as(incarnation="i0")), Verdict.FENCED),
    "verify by an older epoch": (OPEN, verify(fenced_as(epoch=2)), Verdict.FENCED),
    "verify, the store went back": (OPEN, verify(fenced_as(position=2)), Verdict.BEHIND),
    "verify, sent again and the store went back": (
        open_with(epoch=4, incarnation="i2"),
        verify(fenced_as(round=2, position=3)),
        Verdict.FENCED,
    ),
    "verify, sent again at an earlier position": (
        open_with(epoch=4, incarnation="i2"),
        verify(fenced_as(position=0)),
        Verdict.FENCED,
    ),
    "heal, not as read": (OPEN, heal(Seen(3, "n2", "i1")), Verdict.CHANGED),
    "heal, read as missing": (OPEN, heal(), Verdict.CHANGED),
    "heal, read as present": (None, heal(RECORD.seen), Verdict.CHANGED),
    "heal of what needs none": (OPEN, heal(RECORD.seen, FENCE), Verdict.CHANGED),
    "heal of a finished call": (DONE, heal(RECORD.seen), Verdict.FENCED),
    "heal of another's later epoch": (open_with(epoch=4, owner="n2"), heal(Seen(4, "n2", "i1")), Verdict.FENCED),
    "release of nothing": (None, release(), Verdict.BEHIND),
    "release by another owner": (OPEN, release(fenced_as(owner="n2")), Verdict.FENCED),
    "release by an older epoch": (OPEN, release(fenced_as(epoch=2)), Verdict.FENCED),
    "release of a finished call": (DONE, release(), Verdict.FENCED),
    "release of a released call, by another epoch": (GIVEN, release(fenced_as(epoch=2)), Verdict.FENCED),
    "release of a released call, at another position": (GIVEN, release(fenced_as(position=2)), Verdict.FENCED),
    "release of a call that was released before it was claimed": (GIVEN, release(fenced_as(epoch=4)), Verdict.BEHIND),
}


def granted(stored: Stored | None, request: Request) -> Stored:
    """What stands after a request that must be granted."""
    moved, reply = record.apply(stored, request, NOW)
    assert reply.verdict is Verdict.OK and moved is not None
    assert reply.epoch == moved.record.epoch
    return moved


@pytest.mark.parametrize(("stored", "request_"), GRANTED.values(), ids=GRANTED.keys())
def test_what_meets_its_preconditions_is_applied_and_its_repeat_is_not(
    stored: Stored | None, request_: Request
) -> None:
    moved = granted(stored, request_)
    assert moved.record.expires == LATER
    if moved.record.state is not RecordState.DONE:
        assert moved.record.position == len(moved.journal)
    before = (stored.record.epoch, stored.record.round, stored.record.position) if stored else (0, 0, 0)
    assert (moved.record.epoch, moved.record.round, moved.record.position) >= before, "I2: nothing moves backward"
    again, reply = record.apply(moved, request_, NOW + 1)
    assert (again, reply.verdict, reply.epoch) == (moved, Verdict.ALREADY, moved.record.epoch)


@pytest.mark.parametrize(("stored", "request_", "verdict"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_meet_them_leaves_the_record_equal(
    stored: Stored | None, request_: Request, verdict: Verdict
) -> None:
    after, reply = record.apply(stored, request_, NOW)
    assert reply.verdict is verdict
    assert after is stored


@pytest.mark.parametrize("kind", [Read, Commit, Intent, Result, Finish, Claim, Verify, Heal, Release])
def test_each_script_is_refused_by_some_case_and_granted_by_another(kind: type) -> None:
    assert any(type(case[1]) is kind for case in REFUSED.values())
    assert kind is Read or any(type(case[1]) is kind for case in GRANTED.values())


def test_an_expired_record_counts_as_missing() -> None:
    expired = open_with(expires=NOW)
    assert record.apply(expired, Read(CALL), NOW)[1].verdict is Verdict.MISSING
    assert record.apply(expired, Read(CALL), NOW - 0.001)[1].stored == expired
    assert granted(expired, commit(FIRST, None, HEAD)).journal == NEW


def test_a_first_commit_creates_the_record_with_its_head() -> None:
    made = granted(None, commit(FIRST, None, HEAD)).record
    assert (made.state, made.head, made.owner, made.incarnation) == (RecordState.OPEN, HEAD, "n1", "i1")
    assert (made.epoch, made.round, made.attempts, made.created) == (1, 1, 0, NOW)


def test_a_commit_moves_the_round_and_appends() -> None:
    moved = granted(OPEN, commit())
    assert moved.journal == OLD + NEW
    assert (moved.record.round, moved.record.position, moved.record.history, moved.record.attempts) == (2, 3, NEXT, 0)
    assert moved.record.answers == {1: YES}


def test_an_intent_leaves_the_round_and_carries_its_answers() -> None:
    moved = granted(OPEN, intent()).record
    assert (moved.round, moved.attempts, moved.answers) == (1, 1, {1: YES})
    assert moved.intents["new"] is False
    assert granted(OPEN, result()).record.intents["open"] is True


def test_a_finish_leaves_a_tombstone_without_a_journal() -> None:
    moved = granted(OPEN, finish())
    assert moved.journal == () and moved.record.state is RecordState.DONE
    assert (moved.record.outcome, moved.record.out_round, moved.record.answers) == (b"42", 1, {1: YES})


def test_a_claim_changes_the_owner_and_keeps_the_history() -> None:
    moved = granted(OPEN, claim())
    taken = moved.record
    assert (taken.owner, taken.incarnation, taken.head.boot, taken.epoch, taken.attempts) == ("n2", "i9", "b2", 4, 2)
    assert (moved.journal, taken.round, taken.position, taken.history) == (OLD, 1, 1, JH)


def test_attempts_count_only_claims_from_a_process_that_is_gone() -> None:
    """Rule 15 of docs/protocol.md: who released the call, or drops a frame and enters it again, has survived its
    handler."""
    again = replace(OTHER, evidence=Evidence.OWNER, boot=RECORD.head.boot)
    successor = replace(OTHER, evidence=Evidence.OWNER)
    counted = {
        "gone": granted(OPEN, claim()),
        "the same process": granted(OPEN, again),
        "another of its name": granted(OPEN, successor),
        "released": granted(GIVEN, claim(Evidence.RELEASED, GIVEN.record.seen)),
    }
    rises = {name: taken.record.attempts - RECORD.attempts for name, taken in counted.items()}
    assert rises == {"gone": 1, "the same process": 0, "another of its name": 1, "released": 0}
    assert {taken.record.epoch for taken in counted.values()} == {RECORD.epoch + 1}


@pytest.mark.parametrize("promise", ["record", "code"])
def test_re_entry_needs_both_promises_and_its_loss_is_written_first(promise: str) -> None:
    """Rule 16, and I6."""
    unmarked = open_with(head=replace(HEAD, reentrant=False), attempts=5)
    stored, request = (unmarked, claim()) if promise == "record" else (OPEN, claim(reentrant=False))
    after, reply = record.apply(stored, request, NOW)
    assert reply.verdict is Verdict.LOST and after is not None
    assert after.record.state is RecordState.LOST and after.record.cause == "gone after round 1"
    assert after.record.owner == "n1" and after.journal == ()
    assert record.apply(after, claim(), NOW + 1)[1].verdict is Verdict.LOST


def test_a_verification_raises_the_epoch_under_the_new_incarnation() -> None:
    moved = granted(OPEN, verify()).record
    assert (moved.owner, moved.incarnation, moved.epoch, moved.attempts) == ("n1", "i2", 4, 1)
    assert record.apply(Stored(moved, OLD), commit(), NOW)[1].verdict is Verdict.FENCED


def test_a_heal_writes_the_whole_journal_above_every_epoch_that_was_seen() -> None:
    moved = granted(OPEN, heal(RECORD.seen))
    whole = moved.record
    assert moved.journal == OLD + NEW and (whole.position, whole.history, whole.round, whole.epoch) == (3, NEXT, 2, 4)
    assert whole.answers == {1: YES} and whole.intents == {"done": True}
    assert whole.attempts == 1 and whole.created == RECORD.created
    assert granted(None, heal()).record.epoch == 4


def test_a_released_call_has_no_owner_until_it_is_claimed() -> None:
    moved = granted(OPEN, release())
    assert (moved.record.state, moved.record.owner, moved.record.incarnation) == (RecordState.RELEASED, "", "")
    taken = granted(moved, claim(Evidence.RELEASED, moved.record.seen)).record
    assert taken.state is RecordState.OPEN and taken.epoch == 4


def test_a_refusal_shows_who_stands_there_without_the_journal() -> None:
    _, reply = record.apply(OPEN, commit(fenced_as(epoch=2)), NOW)
    assert reply.stored == Stored(RECORD, ()) and reply.epoch == 3


TRAILS: dict[str, tuple[tuple[Stored | None, Request], TrailStep | None]] = {
    "the first park": (GRANTED["commit creates"], TrailStep(Moved.PARKED, 1, 1, "n1", NOW, RAN)),
    "a park": (GRANTED["commit"], TrailStep(Moved.PARKED, 2, 3, "n1", NOW, RAN)),
    "the first intent": (GRANTED["intent creates"], None),
    "an intent": (GRANTED["intent"], None),
    "a result": (GRANTED["result"], None),
    "an end": (GRANTED["finish"], TrailStep(Moved.FINISHED, 1, 3, "n1", NOW, RAN)),
    "a takeover": (GRANTED["claim, lease gone"], TrailStep(Moved.CLAIMED, 1, 4, "n2", NOW)),
    "a takeover after a handoff": (GRANTED["claim, released"], TrailStep(Moved.CLAIMED, 1, 4, "n2", NOW)),
    "a loss": ((OPEN, claim(reentrant=False)), TrailStep(Moved.LOST, 1, 3, "n2", NOW)),
    "a verification": (GRANTED["verify"], TrailStep(Moved.VERIFIED, 1, 4, "n1", NOW)),
    "a handoff": (GRANTED["release"], TrailStep(Moved.RELEASED, 1, 3, "n1", NOW)),
    "a heal": (GRANTED["heal a record that went back"], TrailStep(Moved.HEALED, 2, 4, "n1", NOW)),
    "a heal of nothing": (GRANTED["heal a missing record"], TrailStep(Moved.HEALED, 2, 4, "n1", NOW)),
}


@pytest.mark.parametrize(("case", "step"), TRAILS.values(), ids=TRAILS.keys())
def test_what_moves_a_call_is_the_last_step_of_its_trail(
    case: tuple[Stored | None, Request], step: TrailStep | None
) -> None:
    """Each says where the call stands after it and who wrote it; what is there already stays."""
    before, request = case
    after, _ = record.apply(before, request, NOW)
    assert after is not None
    kept = before.record.trail if before else ()
    assert after.record.trail == (kept if step is None else (*kept, step))


def test_every_way_to_move_a_call_is_in_the_table_of_trails() -> None:
    assert {step.step for _, step in TRAILS.values() if step} == set(Moved)


def test_a_trail_keeps_its_newest_steps() -> None:
    """I9: a call that is asked for ever costs the store no more than one that is asked for long."""
    stored = OPEN
    for _ in range(KEPT + 5):
        at = stored.record
        again = verify(fenced_as(epoch=at.epoch, incarnation=at.incarnation))
        again = replace(again, incarnation=Incarnation(f"i{at.epoch + 1}"))
        stored = granted(stored, again)
    assert [step.epoch for step in stored.record.trail] == [*range(3 + 6, 3 + 6 + KEPT)]


def test_how_long_a_round_ran_decides_nothing() -> None:
    """A write that is sent again later is the same write."""
    for request in (commit(), finish()):
        moved = granted(OPEN, request)
        again, reply = record.apply(moved, replace(request, ran=9.0), NOW + 1)
        assert (again, reply.verdict) == (moved, Verdict.ALREADY)


@pytest.mark.parametrize("trail", [(), (BEGUN,), tuple(replace(BEGUN, epoch=epoch) for epoch in range(KEPT))])
@pytest.mark.parametrize("request_", [case[1] for case in (*GRANTED.values(), *REFUSED.values())])
def test_no_verdict_depends_on_a_trail(request_: Request, trail: tuple[TrailStep, ...]) -> None:
    verdicts = [record.apply(stored, request_, NOW)[1].verdict for stored in (OPEN, open_with(trail=trail))]
    assert verdicts[0] is verdicts[1]
