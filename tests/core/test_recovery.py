"""A call whose frame or owner is not what it was: look up, claim, rebuild, verify, evict, hand off, expire."""

from __future__ import annotations

import pytest
from framehold_core.call import Phase
from framehold_core.effects import (
    Cancel,
    Deliver,
    Forget,
    Lookup,
    Op,
    Outcome,
    Questions,
    Reason,
    Refusal,
    Relay,
    Run,
    Write,
)
from framehold_core.events import Diverged, Drain, Evict, Expired, Finished, Nudged, Rebuilt, Refused
from framehold_core.journal import Lane, decode_all
from framehold_core.recovery import MAX_TRIES
from framehold_core.replay import Cursor
from framehold_core.requests import Evidence, RecordState, Verdict

from tests.core.driver import TOKEN_TTL, Token, answer, bug, elsewhere, parked, reach, rebuild, resumed

# ---- look up


def test_a_retry_without_a_frame_reads_the_record() -> None:
    node = elsewhere(parked())
    node.retry(answer("a"))
    assert node.effects == (Lookup(),)


def test_a_token_without_a_record_enters_no_handler() -> None:
    """Rule 17."""
    first = parked()
    first.shelf.stored = None
    node = elsewhere(first)
    node.retry(answer("a"))
    assert Forget() in node.look()
    assert isinstance(node.heard[1], Refusal) and node.heard[1].reason is Reason.UNKNOWN


def test_an_owner_that_lives_elsewhere_gets_the_request() -> None:
    node = elsewhere(parked())
    node.retry(answer("a"))
    node.look()
    assert node.heard[1] == Relay(1, "n1")


def test_a_finished_call_gives_its_outcome_again() -> None:
    first = resumed()
    first.finishes("42")
    first.commit()
    node = elsewhere(first)
    node.retry(answer("a"))
    node.look(Evidence.GONE)
    assert node.heard[1] == Outcome(sealed=b"42", n=1)


def test_other_answers_conflict_with_the_record_too() -> None:
    first = resumed()
    first.asks("b")
    first.commit()
    node = elsewhere(first)
    assert node.token is not None and first.token is not None
    round_1 = first.token._replace(round=1)
    node.retry(answer("a", "no"), token=round_1)
    node.look(Evidence.GONE)
    assert node.heard[1] == Refusal(Reason.CONFLICT, 2)


def test_a_round_long_past_needs_no_frame_to_be_refused() -> None:
    first = resumed()
    old = first.token
    for key in ("b", "c"):
        first.asks(key)
        first.commit()
        first.retry(answer(key))
    node = elsewhere(first)
    node.retry(answer("a"), token=old)
    node.look(Evidence.GONE)
    assert node.heard[1] == Refusal(Reason.ALREADY_ANSWERED, 3)


def test_a_token_newer_than_the_record_goes_to_the_node_that_it_names() -> None:
    """Rule 7: a live frame there heals; without one the call is lost, never guessed."""
    node = elsewhere(parked())
    ahead = Token(3, 1, "x", "n1")
    node.retry(answer("a"), token=ahead)
    node.look(Evidence.GONE, elsewhere=("n1",))
    assert node.heard[1] == Relay(1, "n1")
    node.retry(answer("a"), token=ahead)
    node.look(Evidence.GONE)
    assert isinstance(node.heard[2], Refusal) and node.heard[2].reason is Reason.LOST


@pytest.mark.parametrize("phase", [Phase.LOOKING, Phase.CLAIMING])
def test_a_store_that_does_not_answer_a_question_is_said_to_be_unavailable(phase: Phase) -> None:
    node = reach(phase)
    node.retry(answer("a"))
    node.store_down()
    assert node.heard[1] == node.heard[2] == Refusal(Reason.UNAVAILABLE)
    assert node.call.phase is Phase.IDLE


# ---- claim


def test_a_claim_raises_the_epoch_and_replays_the_journal() -> None:
    """I1: the frame of an epoch is entered by its claim alone."""
    node = reach(Phase.CLAIMING)
    (effect,) = node.commit()
    assert effect == Run(2, decode_all(node.log)) and node.call.phase is Phase.REBUILDING
    assert node.shelf.stored is not None and node.shelf.stored.record.owner == "n2"


def test_a_rebuilt_frame_takes_the_answers_that_were_held() -> None:
    node = reach(Phase.REBUILDING)
    node.retry(answer("a"))
    assert node.feed(Rebuilt()) == (Deliver((answer("a"),)),)
    assert len(node.call.waiting) == 2
    node.finishes("42")
    node.commit()
    assert node.heard[1] == node.heard[2] == Outcome("42")


def test_a_round_that_was_recorded_as_answered_runs_its_tail_again() -> None:
    first = resumed()
    first.intends()
    first.commit()
    node = elsewhere(first)
    node.retry(answer("a"))
    rebuild(node)
    assert node.call.phase is Phase.RUNNING and node.effects == ()
    node.asks("b")
    assert node.call.flight is not None and node.call.flight.answered is None
    node.commit()
    assert isinstance(node.heard[1], Questions) and node.heard[1].epoch == 2


def test_a_claim_that_loses_its_race_looks_again() -> None:
    first = parked()
    second, third = elsewhere(first), elsewhere(first, "n3")
    for node in (second, third):
        node.retry(answer("a"))
        node.look(Evidence.GONE)
    second.commit()
    assert third.commit() == (Lookup(),)
    third.look()
    assert third.heard[1] == Relay(1, "n2")


def test_a_claim_gives_up_after_a_few_races() -> None:
    node = reach(Phase.LOOKING)
    for _ in range(MAX_TRIES):
        node.look(Evidence.GONE)
        assert node.feed(Refused(Verdict.CHANGED, None)) == (Lookup(),)
    node.look(Evidence.GONE)
    node.feed(Refused(Verdict.CHANGED, None))
    assert isinstance(node.heard[1], Refusal) and node.heard[1].reason is Reason.UNAVAILABLE


def test_an_unmarked_handler_is_never_entered_again() -> None:
    """I6: the claim is refused, and the loss recorded before anybody is told."""
    node = elsewhere(parked(reentrant=False))
    node.retry(answer("a"))
    node.look(Evidence.GONE)
    node.commit()
    assert node.heard[1] == Refusal(Reason.LOST, 1, "gone after round 1")
    assert node.shelf.stored is not None and node.shelf.stored.record.state is RecordState.LOST
    node.retry(answer("a"))
    node.look(Evidence.GONE)
    assert node.heard[2] == node.heard[1]


def test_a_handler_that_kills_its_nodes_is_stuck() -> None:
    """Rule 15."""
    node = parked()
    for count in range(node.terms.max_attempts):
        node = elsewhere(node, f"n{count + 2}")
        node.retry(answer("a"))
        node.look(Evidence.GONE)
        node.commit()
    last = elsewhere(node, "n9")
    last.retry(answer("a"))
    last.look(Evidence.GONE)
    last.commit()
    assert last.heard[1] == Refusal(Reason.STUCK, 1)


def test_a_record_that_goes_while_it_is_claimed_is_unknown() -> None:
    node = reach(Phase.CLAIMING)
    node.shelf.stored = None
    node.commit()
    assert node.heard[1] == Refusal(Reason.UNKNOWN)


def test_divergence_is_reported_by_name_and_leaves_the_record() -> None:
    node = reach(Phase.REBUILDING)
    before = node.shelf.stored
    assert Cancel("diverged") in node.feed(Diverged("entry 0 records ask 'a', ..."))
    assert node.heard[1] == Refusal(Reason.DIVERGED, 1, "entry 0 records ask 'a', ...")
    assert node.shelf.stored is before


@bug("neither the cursor nor the machine keeps what a partly answered round had gathered before a takeover")
def test_partial_answers_survive_a_takeover() -> None:
    first = parked("a", "b")
    first.retry(answer("a"))
    first.commit()
    node = elsewhere(first)
    node.retry(answer("b"))
    node.look(Evidence.GONE)
    node.commit()
    cursor = Cursor(decode_all(node.log))
    for key in ("a", "b"):
        cursor.ask(key, f"fp-{key}", Lane.MAIN)
    delivered = {entry.key for entry in cursor.ready()}
    assert cursor.live
    node.feed(Rebuilt())
    delivered |= {item.key for effect in node.effects if isinstance(effect, Deliver) for item in effect.answers}
    assert delivered == {"a", "b"}


# ---- verify


def test_after_a_lapse_a_frame_is_verified_before_it_runs() -> None:
    """Rule 4: the epoch rises, then the answers are taken."""
    node = parked()
    node.lapse()
    node.retry(answer("a"))
    (write,) = node.effects
    assert isinstance(write, Write) and write.op is Op.VERIFY
    node.retry(answer("a"))
    assert node.commit() == (Deliver((answer("a"),)),)
    assert node.call.epoch == 2 and node.call.inc == "n1-i2" and len(node.call.waiting) == 2


def test_a_frame_that_was_taken_over_meanwhile_dies_and_its_retry_finds_the_owner() -> None:
    node = parked()
    rival = elsewhere(node)
    rival.retry(answer("a"))
    rebuild(rival)
    node.lapse()
    node.retry(answer("a"))
    assert node.commit() == (Cancel("fenced"), Lookup())
    node.look()
    assert node.heard[2] == Relay(2, "n2")


@bug("a claim is written under the incarnation that the call knew, which may be gone for good (rule 4)")
def test_a_call_is_claimed_under_the_present_incarnation() -> None:
    node = parked()
    rival = elsewhere(node)
    rival.retry(answer("a"))
    rebuild(rival)
    node.lapse()
    node.retry(answer("a"))
    node.commit()
    node.look(Evidence.GONE)
    node.commit()
    assert node.shelf.stored is not None
    assert (node.shelf.stored.record.owner, node.shelf.stored.record.inc) == ("n1", "n1-i2")


def test_a_frame_with_a_write_in_flight_is_not_verified_yet() -> None:
    node = parked()
    node.intends()
    node.lapse()
    node.retry(answer("a"))
    assert node.heard[2] == Refusal(Reason.UNAVAILABLE, 1)


def test_a_call_that_ends_while_it_is_verified_answers_the_retry() -> None:
    node = reach(Phase.VERIFYING)
    node.feed(Finished("42"))
    node.commit_all()
    assert node.heard[2] == Outcome("42")


# ---- fenced


@pytest.mark.parametrize("act", [lambda n: n.intends(), lambda n: n.asks("b"), lambda n: n.finishes()])
def test_a_fenced_frame_is_cancelled_and_nothing_of_it_is_heard(act: object) -> None:
    """I1: two frames may overlap after a lapse, their writes and results never."""
    node = resumed()
    rival = elsewhere(node)
    rival.retry(answer("a"))
    rebuild(rival)
    before = node.shelf.stored
    act(node)  # type: ignore[operator]  # one of the three above
    assert node.commit() == (Cancel("fenced"), Lookup())
    assert node.shelf.stored is before and 2 not in node.heard


# ---- evict, hand off, expire


def test_an_evicted_frame_is_replayed_by_its_own_node() -> None:
    node = parked()
    assert node.feed(Evict()) == (Cancel("evicted"), Forget())
    node.retry(answer("a"))
    rebuild(node, Evidence.OWNER)
    assert node.call.epoch == 2 and node.call.phase is Phase.RUNNING


@pytest.mark.parametrize("event", [Evict(), Drain()])
def test_an_unmarked_frame_is_neither_evicted_nor_handed_off(event: Evict | Drain) -> None:
    node = parked(reentrant=False)
    assert node.feed(event) == () and node.call.phase is Phase.PARKED


@pytest.mark.parametrize("event", [Evict(), Drain()])
def test_a_frame_with_an_effect_running_is_neither_evicted_nor_handed_off(event: Evict | Drain) -> None:
    """Rule 8."""
    node = parked()
    node.intends()
    assert node.feed(event) == ()
    node.commit()
    assert node.feed(event) == () and node.call.phase is Phase.PARKED


def test_a_released_call_is_taken_without_a_wait() -> None:
    node = parked()
    node.feed(Drain())
    assert node.commit() == (Cancel("released"), Forget())
    second = elsewhere(node)
    second.retry(answer("a"))
    rebuild(second, Evidence.RELEASED)
    assert second.call.phase is Phase.RUNNING


@pytest.mark.parametrize("reply", ["acked", "refused", "down"])
def test_leaving_accepts_nothing_and_a_retry_that_comes_meanwhile_asks_the_store(reply: str) -> None:
    """Rule 8: whether the release was applied or not, the frame is gone."""
    node = reach(Phase.RELEASING)
    node.retry(answer("a"))
    node.feed(Finished("42"))
    if reply == "acked":
        node.commit()
    elif reply == "refused":
        node.feed(Refused(Verdict.FENCED, None))
    else:
        node.store_down()
    assert node.effects == (Cancel("released"), Lookup())


def test_a_frame_expires_with_its_last_token() -> None:
    node = parked()
    node.now += TOKEN_TTL - 1
    assert node.feed(Expired()) == () and node.call.phase is Phase.PARKED
    node.now += 1
    assert node.feed(Expired()) == (Cancel("expired"), Forget())


def test_asking_again_mints_a_token_that_the_frame_outlives() -> None:
    node = parked()
    node.now += 60
    node.retry()
    node.now += TOKEN_TTL - 1
    assert node.feed(Expired()) == () and node.feed(Nudged()) == ()
