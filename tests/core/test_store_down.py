"""A store that is away or went back: frames keep, nothing is heard that is not durable, and a live frame heals."""

from __future__ import annotations

import pytest
from framehold_core.call import Phase
from framehold_core.effects import (
    Cancel,
    Deliver,
    Effect,
    Forget,
    Go,
    Kept,
    Lookup,
    Op,
    Outcome,
    Questions,
    Reason,
    Refusal,
    Ungated,
    Write,
)
from framehold_core.events import Expired, Finished, Nudged, Refused
from framehold_core.journal import Kind, decode_all
from framehold_core.recovery import MAX_TRIES
from framehold_core.requests import Verdict
from framehold_core.writes import once_digest

from tests.core.driver import TOKEN_TTL, Node, answer, bug, parked, reach, resumed, running

K = once_digest("k")


def ops(effects: tuple[Effect, ...]) -> list[Op]:
    """The writes among `effects`."""
    return [effect.op for effect in effects if isinstance(effect, Write)]


# ---- the store does not answer


def test_round_1_without_a_store_keeps_nothing() -> None:
    """No token was minted: nobody could ever come back."""
    node = running()
    node.asks("a")
    assert node.store_down()[-2:] == (Cancel("unavailable"), Forget())
    assert node.heard[1] == Refusal(Reason.UNAVAILABLE)


def test_a_failed_park_keeps_its_frame_and_the_same_retry_joins_it() -> None:
    node = resumed()
    node.asks("b")
    node.submit()
    node.store_down()
    assert node.heard[2] == Refusal(Reason.UNAVAILABLE, 1) and node.call.phase is Phase.STRANDED
    node.retry(answer("a"))
    assert ops(node.effects) == [Op.PARK]
    node.commit()
    assert isinstance(node.heard[3], Questions) and node.call.phase is Phase.PARKED


def test_a_write_that_was_applied_unheard_is_not_applied_twice() -> None:
    node = resumed()
    node.asks("b")
    node.submit()
    applied = node.shelf.stored
    node.store_down()
    node.feed(Nudged())
    node.commit()
    assert node.shelf.stored is applied and node.call.phase is Phase.PARKED


def test_an_outcome_leaves_ungated_inside_the_window_and_is_counted() -> None:
    """Rule 1's exception; the write is made up for when the store is back."""
    node = resumed()
    node.finishes("42")
    assert node.store_down(is_open=True)[0] == Ungated()
    assert node.heard[2] == Outcome("42")
    assert ops(node.feed(Nudged())) == [Op.FINISH]
    assert node.commit() == (Forget(),)


def test_outside_the_window_an_outcome_waits_for_its_commit() -> None:
    node = resumed()
    node.finishes("42")
    node.store_down(is_open=False)
    assert node.heard[2] == Refusal(Reason.UNAVAILABLE, 1)
    node.retry(answer("a"))
    node.commit()
    assert node.heard[3] == Outcome("42")


def test_a_stranded_call_that_nobody_wants_ends_with_its_tokens() -> None:
    node = reach(Phase.STRANDED)
    assert node.feed(Expired()) == ()
    node.now += TOKEN_TTL
    assert node.feed(Expired()) == (Cancel("expired"), Forget())


def test_parked_frames_resume_while_the_store_is_away() -> None:
    node = parked()
    node.intends()
    node.store_down()
    assert node.call.phase is Phase.PARKED
    node.retry(answer("a"))
    assert Deliver((answer("a"),)) in node.effects and ops(node.effects) == [Op.INTEND]


def test_a_verification_without_a_store_leaves_the_frame_parked() -> None:
    node = reach(Phase.VERIFYING)
    node.store_down()
    assert node.heard[2] == Refusal(Reason.UNAVAILABLE, 1) and node.call.phase is Phase.PARKED
    node.retry(answer("a"))
    assert ops(node.effects) == [Op.VERIFY]
    assert node.commit() == (Deliver((answer("a"),)),)


def test_the_store_s_return_alone_sends_a_verification_again() -> None:
    node = reach(Phase.VERIFYING)
    node.store_down()
    assert ops(node.feed(Nudged())) == [Op.VERIFY]
    node.commit()
    assert node.call.phase is Phase.PARKED and node.call.epoch == 2


def test_an_effect_in_flight_is_kept_with_its_frame_in_round_1_too() -> None:
    """Rule 8: the result is written although nobody can come back, then the frame goes."""
    node = running()
    node.intends()
    node.commit()
    node.results()
    node.store_down()
    assert node.call.phase is Phase.STRANDED
    node.feed(Nudged())
    assert node.commit() == (Cancel("left"), Forget())


def test_a_handler_that_ends_while_its_questions_are_stranded_answers_the_retry() -> None:
    node = reach(Phase.STRANDED)
    node.feed(Finished("42"))
    node.feed(Nudged())
    node.commit()
    assert node.call.phase is Phase.PARKED
    node.retry(answer("b"), token=node.token._replace(round=2, mark=node.call.mark) if node.token else None)
    node.commit()
    assert node.heard[3] == Outcome("42")


def stranded_result() -> Node:
    """The store is away while a result is written and the handler goes on."""
    node = resumed()
    node.intends()
    node.commit()
    node.results()
    return node


def test_an_outcome_behind_a_stranded_result_arrives() -> None:
    node = stranded_result()
    node.finishes("42")
    node.store_down()
    node.retry(answer("a"))
    node.commit_all()
    assert node.heard[3] == Outcome("42") and node.call.phase is Phase.IDLE


@bug("the phase after a strand follows the write in flight alone: a park that waits behind it is acknowledged to RUNNING")
def test_questions_behind_a_stranded_result_arrive() -> None:
    node = stranded_result()
    node.asks("b")
    node.store_down()
    node.retry(answer("a"))
    node.commit_all()
    assert node.call.phase is Phase.PARKED


@bug("`Finished` in STRANDED is noted, but no row looks at `ended` when the round runs again: its request hangs")
def test_a_handler_that_ends_while_its_intent_is_stranded_answers_the_retry() -> None:
    node = resumed()
    node.intends()
    node.store_down()
    node.feed(Finished("42"))
    node.retry(answer("a"))
    node.commit_all()
    assert node.heard.get(3) == Outcome("42")


# ---- the store went back


@pytest.mark.parametrize("act", [lambda n: n.asks("b"), lambda n: n.intends(), lambda n: n.finishes()])
def test_a_live_frame_heals_a_record_that_is_missing(act: object) -> None:
    """Rule 7: the whole journal again, one epoch on, then the write that found it out."""
    node = resumed()
    node.shelf.stored = None
    act(node)  # type: ignore[operator]  # one of the three above
    blocked = node.call.flight
    assert ops(node.commit()) == [Op.HEAL]
    assert node.commit() == (blocked,)
    assert node.shelf.stored is not None and node.shelf.stored.record.epoch == node.call.epoch == 2
    node.commit()
    assert node.call.phase in (Phase.PARKED, Phase.IDLE, Phase.RUNNING)


def test_a_live_frame_heals_a_record_that_lost_its_last_round() -> None:
    node = parked()
    older = node.shelf.stored
    node.retry(answer("a"))
    node.asks("b")
    node.commit()
    node.shelf.stored = older
    node.retry(answer("b"))
    node.asks("c")
    node.commit_all()
    kinds = [item.kind for item in decode_all(node.shelf.stored.journal if node.shelf.stored else ())]
    assert kinds == [Kind.ASK, Kind.ANSWER, Kind.ASK, Kind.ANSWER, Kind.ASK]
    assert isinstance(node.heard[3], Questions) and node.heard[3].epoch == 2


def test_healing_stands_in_for_verification() -> None:
    """A lapse and a store that went back at once: one raise of the epoch is enough."""
    node = parked()
    node.shelf.stored = None
    node.lapse()
    node.retry(answer("a"))
    assert ops(node.commit()) == [Op.HEAL]
    node.retry(answer("a"))
    assert node.commit() == (Deliver((answer("a"),)),)
    assert node.call.inc == node.shelf.stored.record.inc == "n1-i2"  # type: ignore[union-attr]  # a missing one fails


def test_an_intent_of_a_parked_call_heals_and_stays_parked() -> None:
    node = parked()
    node.shelf.stored = None
    node.intends()
    node.commit()
    node.commit()
    assert node.call.phase is Phase.PARKED
    assert node.commit() == (Go(K),)


def test_a_result_heals_too() -> None:
    node = parked()
    node.intends()
    node.commit()
    node.shelf.stored = None
    node.results()
    node.commit()
    node.commit()
    assert node.commit() == (Kept(K),)


def test_a_record_that_moved_while_it_was_healed_is_written_to_again() -> None:
    node = reach(Phase.HEALING)
    blocked = node.call.queue[0]
    assert node.feed(Refused(Verdict.CHANGED, None)) == (blocked,)
    assert node.call.phase is Phase.PARKING


def test_a_heal_that_finds_the_store_further_back_is_made_again() -> None:
    node = reach(Phase.HEALING)
    assert ops(node.feed(Refused(Verdict.BEHIND, None))) == [Op.HEAL]


def test_a_heal_that_finds_another_owner_fences_the_frame() -> None:
    node = reach(Phase.HEALING)
    assert node.feed(Refused(Verdict.FENCED, None)) == (Cancel("fenced"), Lookup())


def test_a_store_that_keeps_going_back_is_given_up_on() -> None:
    node = reach(Phase.HEALING)
    for _ in range(MAX_TRIES - 1):
        node.feed(Refused(Verdict.BEHIND, None))
    assert node.feed(Refused(Verdict.BEHIND, None)) == (Cancel("fenced"), Lookup())


def test_a_retry_that_comes_while_a_record_is_healed_is_decided_after_it() -> None:
    node = reach(Phase.HEALING)
    node.retry(answer("a"))
    node.commit_all()
    assert isinstance(node.heard[2], Questions) and node.heard[3] == node.heard[2]


def test_a_heal_without_a_store_is_stranded_and_goes_on_later() -> None:
    node = reach(Phase.HEALING)
    node.store_down()
    assert node.call.phase is Phase.STRANDED and isinstance(node.heard[2], Refusal)
    assert ops(node.feed(Nudged())) == [Op.HEAL]
    node.commit_all()
    assert node.call.phase is Phase.PARKED


def test_the_frame_survives_whoever_waited_while_its_questions_heal() -> None:
    node = reach(Phase.HEALING)
    node.leave(2)
    node.commit_all()
    assert node.call.phase is Phase.PARKED


@bug("`healed` takes a running handler without a waiting request for a parked one")
def test_a_running_handler_runs_on_after_a_heal_that_everybody_left() -> None:
    node = resumed()
    node.shelf.stored = None
    node.intends()
    node.commit()
    node.leave(2)
    node.commit_all()
    assert node.call.phase in (Phase.RUNNING, Phase.IDLE)


@bug("a handler that ends while its intent is healed is noted, and never looked at again: its request hangs")
def test_a_handler_that_ends_while_its_intent_is_healed_answers() -> None:
    node = resumed()
    node.shelf.stored = None
    node.intends()
    node.commit()
    node.feed(Finished("42"))
    node.commit_all()
    assert node.heard.get(2) == Outcome("42")


@bug("the phase after a heal follows the blocked write alone: one that ends the round waits in the queue")
def test_a_healed_result_does_not_hide_the_end_of_the_round() -> None:
    node = resumed()
    node.intends()
    node.commit()
    node.shelf.stored = None
    node.results()
    node.asks("b")
    node.commit_all()
    assert node.call.phase is Phase.PARKED


def healing_with_two_requests() -> Node:
    """An intent heals; request 2 waits for the round, request 3 is held."""
    node = resumed()
    node.shelf.stored = None
    node.intends()
    node.commit()
    node.retry(answer("a"))
    node.commit()
    assert node.call.phase is Phase.RUNNING and node.call.held
    return node


@bug("a held request does not keep its round: the last *waiting* one takes the frame along, and the held one hangs")
def test_a_held_request_is_not_forgotten_when_the_waiting_one_leaves() -> None:
    node = healing_with_two_requests()
    node.commit()
    node.results()
    node.commit()
    node.leave(2)
    assert 3 in {item.waiter for item in (*node.call.waiting, *node.call.held)} or 3 in node.heard


@bug("an outcome that leaves ungated is not told to the held requests, which wait for the store")
def test_a_held_request_hears_an_ungated_outcome_too() -> None:
    node = healing_with_two_requests()
    node.commit()
    node.results()
    node.commit()
    node.finishes("42")
    node.store_down(is_open=True)
    assert 3 in node.heard


@bug("a retry that finds a stranded heal runs at once; the heal is then acknowledged to RUNNING, as a result")
def test_answers_wait_for_a_heal_that_is_stranded() -> None:
    node = parked()
    node.shelf.stored = None
    node.intends()
    node.commit()
    node.store_down()
    node.retry(answer("a"))
    assert Kept("") not in node.commit()
