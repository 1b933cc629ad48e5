"""A frame that may no longer be this node's: verify, fence, evict, hand off, expire."""

from __future__ import annotations

import pytest

from framehold_core.call import Phase
from framehold_core.effects import Cancel, Deliver, Forget, Lookup, Op, Outcome, Questions, Reason, Refusal, Write
from framehold_core.ending import Ending, How
from framehold_core.events import Drain, Evict, Expired, Finished, StoreBack, WriteRefused
from framehold_core.requests import Evidence, Verdict
from tests.core.driver import LEFT_OPEN, TOKEN_TTL, answer, elsewhere, parked, reach, rebuild, resumed

# ---- verify


def test_after_a_lapse_a_frame_is_verified_before_it_runs() -> None:
    """Rule 4 of docs/protocol.md: the epoch rises, then the answers are taken."""
    node = parked()
    node.lapse()
    node.retry(answer("a"))
    (write,) = node.effects
    assert isinstance(write, Write) and write.op is Op.VERIFY
    node.retry(answer("a"))
    assert node.commit() == (Deliver((answer("a"),)),)
    assert node.call.epoch == 2 and node.call.incarnation == "n1-i2" and len(node.call.waiting) == 2


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
    assert (node.shelf.stored.record.owner, node.shelf.stored.record.incarnation) == ("n1", "n1-i2")


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


def test_a_frame_is_evicted_for_the_cause_that_is_given() -> None:
    """A rehearsal, or a strategy that keeps no frames, says so instead of blaming memory; the call goes on alike."""
    node = parked()
    node.retry(answer("a"))
    node.asks("b")
    node.commit()
    assert node.feed(Evict("rehearsed")) == (Cancel("rehearsed"), LEFT_OPEN)
    node.retry(answer("b"))
    rebuild(node, Evidence.OWNER)
    assert node.effects == (Deliver((answer("b"),)),) and node.call.epoch == 2


@pytest.mark.parametrize("event", [Evict(), Evict("rehearsed"), Drain()])
def test_an_unmarked_frame_is_neither_evicted_nor_handed_off(event: Evict | Drain) -> None:
    node = parked(reentrant=False)
    assert node.feed(event) == () and node.call.phase is Phase.PARKED


@pytest.mark.parametrize("event", [Evict(), Evict("rehearsed"), Drain()])
def test_a_frame_with_an_effect_running_is_neither_evicted_nor_handed_off(event: Evict | Drain) -> None:
    """Rule 8: nobody could say afterwards whether the effect took place."""
    node = parked()
    node.intends()
    assert node.feed(event) == ()
    node.commit()
    assert node.feed(event) == () and node.call.phase is Phase.PARKED


@pytest.mark.parametrize("reply", ["acked", "refused"])
def test_leaving_accepts_nothing_and_a_retry_that_comes_meanwhile_asks_the_store(reply: str) -> None:
    """Rule 8: whether the release was applied or not, the frame is gone."""
    node = reach(Phase.RELEASING)
    node.retry(answer("a"))
    node.feed(Finished("42"))
    if reply == "acked":
        node.commit()
    else:
        node.feed(WriteRefused(Verdict.FENCED, None))
    assert node.effects == (Cancel("released"), Lookup())
    assert [item.waiter for item in node.call.undecided] == [2], "who came meanwhile is kept"


def test_a_release_without_an_answer_keeps_the_frame_and_is_sent_again() -> None:
    """Rule 8: it may have been applied, so no answer is taken, and a retry is refused. The frame may be the only whole
    copy of the call."""
    node = reach(Phase.RELEASING)
    first = node.retry(answer("a"))
    node.store_down()
    assert node.call.phase is Phase.RELEASING and node.heard[first] == Refusal(Reason.UNAVAILABLE, 1)
    node.retry(answer("a"))
    assert node.call.outbox.in_flight is not None and not node.call.outbox.stalled, "the retry has sent it again"
    node.store_down()
    node.feed(StoreBack())
    assert node.commit() == (Cancel("released"), Forget())


def test_a_release_that_waits_for_the_store_ends_with_the_last_token() -> None:
    """A retry that waits for the answer is answered first."""
    node = reach(Phase.RELEASING)
    node.store_down()
    node.now += TOKEN_TTL
    node.retry(answer("a"))
    assert node.feed(Expired()) == () and node.call.phase is Phase.RELEASING
    node.store_down()
    assert node.feed(Expired()) == (Cancel("expired"), Forget(Ending(How.EXPIRED)))


def test_a_frame_expires_with_its_last_token() -> None:
    node = parked()
    node.now += TOKEN_TTL - 1
    assert node.feed(Expired()) == () and node.call.phase is Phase.PARKED
    node.now += 1
    assert node.feed(Expired()) == (Cancel("expired"), Forget(Ending(How.EXPIRED)))


def test_a_frame_does_not_expire_in_the_middle_of_an_effect() -> None:
    """Rule 8: it goes when the result is stored, and the next sweep finds it due."""
    node = parked()
    node.intends()
    node.commit()
    node.now += TOKEN_TTL
    assert node.feed(Expired()) == () and node.call.phase is Phase.PARKED
    node.results()
    assert node.feed(Expired()) == (), "the result is owed"
    node.flush()
    assert node.feed(Expired()) == (), "the result is on its way"
    node.commit()
    assert node.feed(Expired()) == (Cancel("expired"), Forget(Ending(How.EXPIRED)))


def test_asking_again_mints_a_token_that_ends_with_the_round() -> None:
    """Nothing is written, so the record lives no longer: a token that outlived it would find nothing once its frame is
    gone (rule 17)."""
    node = parked()
    node.now += 60
    second = node.retry()
    asked = node.heard[second]
    assert isinstance(asked, Questions) and asked.lasts == TOKEN_TTL - 60
    node.now += TOKEN_TTL - 61
    assert node.feed(Expired()) == () and node.feed(StoreBack()) == ()
    node.now += 1
    assert node.feed(Expired()) == (Cancel("expired"), Forget(Ending(How.EXPIRED)))


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.PARKING, Phase.FINISHING, Phase.VERIFYING, Phase.HEALING])
def test_a_fenced_frame_that_nobody_waits_for_goes_without_a_lookup(phase: Phase) -> None:
    node = reach(phase)
    if phase is Phase.RUNNING:
        node.intends()
    for item in (*node.call.waiting, *node.call.undecided):
        node.leave(item.waiter)
    assert node.feed(WriteRefused(Verdict.FENCED, None)) == (Cancel("fenced"), Forget())


def test_a_parked_frame_is_fenced_by_the_write_of_a_branch() -> None:
    node = parked()
    node.intends()
    assert node.feed(WriteRefused(Verdict.FENCED, None)) == (Cancel("fenced"), Forget())


def test_a_release_that_is_fenced_drops_the_frame_too() -> None:
    node = reach(Phase.RELEASING)
    assert node.feed(WriteRefused(Verdict.FENCED, None)) == (Cancel("released"), Forget())
