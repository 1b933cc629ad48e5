"""What each script does: every precondition granted and refused, every repeat harmless. Stores are held equal to it."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framehold_core import record
from framehold_core.ids import Incarnation
from framehold_core.requests import (
    Answered,
    Claim,
    Commit,
    Evidence,
    Finish,
    Heal,
    Intent,
    Read,
    RecordState,
    Release,
    Request,
    Result,
    Seen,
    Stored,
    Verdict,
    Verify,
)
from framehold_core.trail import KEPT, Moved, TrailStep, followed, ordered
from framehold_core.value import replace
from tests.store.calls import E0, E1, E2, PLAIN, RAISED, TTL, Story, answers, batch, fence
from tests.store.cases import (
    ALREADY,
    BEHIND,
    CASES,
    CHANGED,
    CONFLICT,
    FENCED,
    LOST,
    OK,
    OPEN,
    Case,
    claimed,
    intended,
    lost,
    parked,
    released,
)

NOW, LATER = 50.0, 50.0 + TTL


def stands(*requests: Request) -> Stored | None:
    """What the store has after `requests`."""
    stored: Stored | None = None
    for request in requests:
        stored, _ = record.apply(stored, request, NOW)
    return stored


def granted(stored: Stored | None, request: Request) -> Stored:
    """What stands after a request that must be granted."""
    moved, reply = record.apply(stored, request, NOW)
    assert reply.verdict is OK and moved is not None
    assert reply.epoch == moved.record.epoch
    return moved


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.verdict is OK and "read" not in case.label], ids=lambda case: case.label
)
def test_what_meets_its_preconditions_is_applied_and_its_repeat_is_not(case: Case) -> None:
    story = Story(case.head)
    stored, request = stands(*case.before(story)), case.request(story)
    moved = granted(stored, request)
    assert moved.record.expires == LATER
    if moved.record.state is not RecordState.DONE:
        assert moved.record.position == len(moved.journal)
    before = (stored.record.epoch, stored.record.round, stored.record.position) if stored else (0, 0, 0)
    assert (moved.record.epoch, moved.record.round, moved.record.position) >= before, "I2: nothing moves backward"
    again, reply = record.apply(moved, request, NOW + 1)
    repeated = FENCED if case.name == "no entries" else ALREADY  # it has no position of its own; no park is without one
    assert (again, reply.verdict, reply.epoch) == (moved, repeated, moved.record.epoch)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.verdict is not OK and (case.verdict is not LOST or case.before is lost)],
    ids=lambda case: case.label,
)
def test_what_does_not_meet_them_leaves_the_record_equal(case: Case) -> None:
    story = Story(case.head)
    stored = stands(*case.before(story))
    after, reply = record.apply(stored, case.request(story), NOW)
    assert reply.verdict is case.verdict
    assert after is stored


def test_every_verdict_of_every_script_is_in_the_table() -> None:
    """A new precondition without a case would be held equal by luck alone."""
    written = {OK, ALREADY, BEHIND, FENCED}
    wanted: dict[type, set[Verdict]] = {
        Read: {OK, Verdict.MISSING},
        **{script: {*written, CONFLICT} for script in (Commit, Intent, Result, Finish)},
        Claim: {OK, ALREADY, CHANGED, LOST, Verdict.STUCK, Verdict.MISSING},
        Verify: written,
        Release: written,
        Heal: {OK, ALREADY, CHANGED, FENCED},
    }
    found: dict[type, set[Verdict]] = {script: set() for script in wanted}
    for case in CASES:
        found[type(case.request(Story()))].add(case.verdict)
    assert found == wanted


def test_an_expired_record_counts_as_missing() -> None:
    story = Story()
    expired = granted(None, story.ask)
    assert record.apply(expired, story.read, LATER)[1].verdict is Verdict.MISSING
    assert record.apply(expired, story.read, LATER - 0.001)[1].stored == expired
    anew, reply = record.apply(expired, story.ask, LATER)
    assert reply.verdict is OK and anew is not None and anew.record.created == LATER


def test_a_first_commit_creates_the_record_with_its_head() -> None:
    story = Story()
    made = granted(None, story.ask)
    assert (made.record.state, made.record.head, made.record.seen) == (RecordState.OPEN, story.head, OPEN)
    assert (made.record.round, made.record.attempts, made.record.created) == (1, 0, NOW)
    assert (made.journal, made.record.history) == ((E0,), story.ask.batch.history)


def test_a_commit_moves_the_round_and_appends() -> None:
    story = Story()
    moved = granted(stands(*claimed(story)), replace(story.ask_again, fence=fence(1, 1, 2, "node-2", "inc-9")))
    assert moved.journal == (E0, E1)
    assert (moved.record.round, moved.record.position, moved.record.attempts) == (2, 2, 0)
    assert (moved.record.history, moved.record.answers) == (story.ask_again.batch.history, {1: answers(1)})


def test_an_intent_leaves_the_round_and_carries_its_answers() -> None:
    story = Story()
    moved = granted(stands(*claimed(story)), replace(story.intent, fence=fence(1, 1, 2, "node-2", "inc-9")))
    assert (moved.record.round, moved.record.attempts, moved.record.answers) == (1, 1, {1: answers(1)})
    assert moved.record.intents == {"once": False}
    result = replace(story.result, fence=fence(1, 3, 2, "node-2", "inc-9"))
    assert granted(moved, result).record.intents == {"once": True}
    assert granted(None, story.first_result).record.intents == {"once": True}


def test_a_finish_leaves_a_tombstone_without_a_journal() -> None:
    story = Story()
    moved = granted(stands(story.ask), replace(story.finish, ttl=60.0))
    assert moved.journal == () and moved.record.state is RecordState.DONE
    assert (moved.record.outcome, moved.record.out_round, moved.record.answers) == (b"\x00out\xff", 1, {1: answers(1)})
    assert (moved.record.ending, moved.record.expires) == (RAISED, NOW + 60.0)


def test_a_claim_changes_the_owner_and_keeps_the_history() -> None:
    story = Story()
    before = stands(*intended(story))
    assert before is not None
    moved = granted(before, story.claim)
    taken = moved.record
    assert (taken.seen, taken.head.boot, taken.attempts) == (Seen(2, "node-2", "inc-9"), "boot-9", 1)
    assert (moved.journal, taken.round, taken.position) == ((E0, E1, E2), 1, 3)
    assert taken.history == before.record.history


def test_attempts_count_only_claims_from_a_process_that_is_gone() -> None:
    """Rule 15 of docs/protocol.md: who released the call, or drops a frame and enters it again, has survived its
    handler."""
    story = Story()
    own = story.claims(OPEN, Evidence.OWNER, "node-1")
    counted = {
        "gone": granted(stands(*parked(story)), story.claim),
        "the same process": granted(stands(*parked(story)), replace(own, boot=story.head.boot)),
        "another of its name": granted(stands(*parked(story)), own),
        "released": granted(stands(*released(story)), story.take),
    }
    rises = {name: taken.record.attempts for name, taken in counted.items()}
    assert rises == {"gone": 1, "the same process": 0, "another of its name": 1, "released": 0}
    assert {taken.record.epoch for taken in counted.values()} == {2}


@pytest.mark.parametrize("promise", ["record", "code"])
def test_re_entry_needs_both_promises_and_its_loss_is_written_first(promise: str) -> None:
    """Rule 16, and I6: a loss counts for more than too many attempts."""
    story = Story(PLAIN) if promise == "record" else Story()
    stored = granted(None, story.ask)
    stored = replace(stored, record=replace(stored.record, attempts=5))
    after, reply = record.apply(stored, replace(story.claim, reentrant=promise == "record"), NOW)
    assert reply.verdict is LOST and after is not None
    assert after.record.state is RecordState.LOST and after.record.cause == "gone after round 1"
    assert after.record.seen == OPEN and after.journal == ()
    assert record.apply(after, story.claim, NOW + 1)[1].verdict is LOST


def test_a_verification_raises_the_epoch_under_the_new_incarnation() -> None:
    story = Story()
    before = granted(None, story.ask)
    moved = granted(before, story.verify)
    verified = replace(before.record, incarnation="inc-2", epoch=2, trail=moved.record.trail)
    assert moved == replace(before, record=verified)
    assert record.apply(moved, story.ask_again, NOW)[1].verdict is FENCED


def test_a_heal_writes_the_whole_journal_above_every_epoch_that_was_seen() -> None:
    story = Story()
    before = stands(*claimed(story))
    assert before is not None
    heal = story.heals(before.record.seen, fence(4, 3, 6, "node-2", "inc-7"), E2, E1, E0)
    moved, _ = record.apply(before, heal, NOW + 5)
    assert moved is not None
    whole = moved.record
    assert moved.journal == (E2, E1, E0) and whole.history == batch((), E2, E1, E0).history
    assert (whole.seen, whole.round, whole.position) == (Seen(7, "node-2", "inc-7"), 4, 3)
    assert whole.answers == {1: answers(1), 2: Answered(2, "no", ())} and whole.intents == {"once": True, "two": False}
    assert (whole.attempts, whole.created, whole.head) == (1, before.record.created, story.head)
    assert granted(None, replace(heal, seen=None)).record.epoch == 7


def test_a_released_call_has_no_owner_until_it_is_claimed() -> None:
    story = Story()
    before = granted(None, story.ask)
    moved = granted(before, story.release)
    trail = moved.record.trail
    nobodys = replace(before.record, state=RecordState.RELEASED, owner="", incarnation="", trail=trail)
    assert moved == replace(before, record=nobodys)
    taken = granted(moved, story.take).record
    assert taken.state is RecordState.OPEN and taken.epoch == 2


def test_a_refusal_shows_who_stands_there_without_the_journal() -> None:
    story = Story()
    stored = stands(*claimed(story))
    assert stored is not None
    _, reply = record.apply(stored, story.ask_again, NOW)
    assert reply.stored == Stored(stored.record, ()) and reply.epoch == 2


def step(moved: Moved, round_: int, epoch: int, node: str = "node-1", ran: float = 0.0) -> TrailStep:
    return TrailStep(moved, round_, epoch, node, NOW, ran)


STORY = Story()
UNMARKED = Story(PLAIN)
TRAILS: dict[str, tuple[list[Request], Request, TrailStep | None]] = {
    "the first park": ([], replace(STORY.ask, ran=0.25), step(Moved.PARKED, 1, 1, ran=0.25)),
    "a park": ([STORY.ask], replace(STORY.ask_again, ran=0.25), step(Moved.PARKED, 2, 1, ran=0.25)),
    "the first intent": ([], STORY.first_intent, None),
    "an intent": ([STORY.ask], STORY.intent, None),
    "a result": ([STORY.ask, STORY.intent], STORY.result, None),
    "an end": ([STORY.ask], replace(STORY.finish, ran=0.25), step(Moved.FINISHED, 1, 1, ran=0.25)),
    "a takeover": ([STORY.ask], STORY.claim, step(Moved.CLAIMED, 1, 2, "node-2")),
    "a takeover after a handoff": ([STORY.ask, STORY.release], STORY.take, step(Moved.CLAIMED, 1, 2, "node-2")),
    "a takeover with kept code": (
        [STORY.ask],
        replace(STORY.claim, kept=True),
        replace(step(Moved.CLAIMED, 1, 2, "node-2"), kept=True),
    ),
    "a loss": ([UNMARKED.ask], UNMARKED.claim, step(Moved.LOST, 1, 1, "node-2")),
    "a verification": ([STORY.ask], STORY.verify, step(Moved.VERIFIED, 1, 2)),
    "a handoff": ([STORY.ask], STORY.release, step(Moved.RELEASED, 1, 1)),
    "a heal": ([STORY.ask], STORY.heals(OPEN, fence(2, 3), E0, E1, E2), step(Moved.HEALED, 2, 2)),
    "a heal of nothing": ([], STORY.heals(None, fence(2, 3), E0, E1, E2), step(Moved.HEALED, 2, 2)),
}


@pytest.mark.parametrize(("requests", "request_", "last"), TRAILS.values(), ids=TRAILS.keys())
def test_what_moves_a_call_is_the_last_step_of_its_trail(
    requests: list[Request], request_: Request, last: TrailStep | None
) -> None:
    """Each says where the call stands after it and who wrote it; what is there already stays."""
    before = stands(*requests)
    after, _ = record.apply(before, request_, NOW)
    assert after is not None
    kept = before.record.trail if before else ()
    assert after.record.trail == (kept if last is None else (*kept, last))


def test_every_way_to_move_a_call_is_in_the_table_of_trails() -> None:
    assert {last.step for *_, last in TRAILS.values() if last} == set(Moved)


def test_a_trail_keeps_its_newest_steps() -> None:
    """I9: a call that is asked for ever costs the store no more than one that is asked for long."""
    story = Story()
    stored = granted(None, story.ask)
    for epoch in range(1, KEPT + 6):
        owner = fence(1, 1, epoch, inc=stored.record.incarnation)
        stored = granted(stored, replace(story.verify, fence=owner, incarnation=Incarnation(f"inc-{epoch + 1}")))
        assert len(stored.record.trail) <= KEPT
    assert [step.epoch for step in stored.record.trail] == [*range(7, 7 + KEPT)]


STEPS = st.builds(
    TrailStep, st.sampled_from(Moved), st.integers(0, 80), st.integers(1, 80), st.just("n1"), st.floats(0, 99)
)
NO_STEPS: tuple[TrailStep, ...] = ()


@given(st.lists(STEPS, max_size=12))
def test_a_trail_that_grows_step_by_step_is_the_one_that_is_put_in_order_at_once(steps: list[TrailStep]) -> None:
    *_, whole = accumulate(steps, followed, initial=NO_STEPS)
    assert whole == ordered(steps)
