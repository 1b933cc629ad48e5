"""A store that is away: frames keep, and nothing is heard that is not durable (docs/protocol.md, rule 1)."""

from __future__ import annotations

from framehold_core.call import Phase
from framehold_core.effects import (
    Cancel,
    Deliver,
    Effect,
    Forget,
    Op,
    Outcome,
    Questions,
    Reason,
    Refusal,
    Ungated,
    Write,
)
from framehold_core.ending import CANCELLED, COMPLETED, NOT_KEPT, Ending, How
from framehold_core.events import Expired, Finished, StoreBack
from framehold_core.recovery import UNKEPT
from framehold_core.writes import once_digest
from tests.core.driver import TOKEN_TTL, Node, answer, parked, reach, resumed, running

K = once_digest("k")


def ops(effects: tuple[Effect, ...]) -> list[Op]:
    """The writes among `effects`."""
    return [effect.op for effect in effects if isinstance(effect, Write)]


# ---- the store does not answer


def test_round_1_without_a_store_keeps_nothing() -> None:
    """No token was minted: nobody could ever come back."""
    node = running()
    node.asks("a")
    assert node.store_down()[-2:] == (Cancel("unavailable"), Forget(NOT_KEPT))
    assert node.heard[1] == Refusal(Reason.UNAVAILABLE, detail=UNKEPT)


def test_a_failed_park_keeps_its_frame_and_the_same_retry_joins_it() -> None:
    node = resumed()
    node.asks("b")
    node.submit()
    node.store_down()
    assert node.heard[2] == Refusal(Reason.UNAVAILABLE, 1) and node.call.phase is Phase.STRANDED
    node.retry(answer("a"))
    assert ops(node.effects) == [Op.PARK]
    node.commit()
    assert isinstance(node.heard[3], Questions) and node.phase() is Phase.PARKED


def test_a_parked_round_lasts_no_longer_for_a_write_that_failed() -> None:
    """Its record was not written, so it lives no longer either (rule 17)."""
    node = parked()
    node.intends()
    node.now += 60
    node.store_down()
    again = node.retry()
    asked = node.heard[again]
    assert isinstance(asked, Questions) and asked.lasts == TOKEN_TTL - 60


def test_a_round_that_was_committed_unheard_lasts_from_its_asking() -> None:
    """Its record counts from some earlier sending, nobody knows which (rule 17)."""
    node = resumed()
    node.asks("b")
    node.submit()
    node.store_down()
    node.now += 60
    again = node.retry(answer("a"))
    node.commit()
    asked = node.heard[again]
    assert isinstance(asked, Questions) and asked.lasts == TOKEN_TTL - 60


def test_a_write_that_was_applied_unheard_is_not_applied_twice() -> None:
    node = resumed()
    node.asks("b")
    node.submit()
    applied = node.shelf.stored
    node.store_down()
    node.feed(StoreBack())
    node.commit()
    assert node.shelf.stored is applied and node.call.phase is Phase.PARKED


def test_an_outcome_leaves_ungated_inside_the_window_and_is_counted() -> None:
    """Rule 1's exception; the write is made up for when the store is back."""
    node = resumed()
    node.finishes("42")
    assert node.store_down(is_open=True)[0] == Ungated()
    assert node.heard[2] == Outcome("42")
    assert ops(node.feed(StoreBack())) == [Op.FINISH]
    assert node.commit() == (Forget(COMPLETED),)


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
    assert node.feed(Expired()) == (Cancel("expired"), Forget(Ending(How.EXPIRED)))


def test_parked_frames_resume_while_the_store_is_away() -> None:
    node = parked()
    node.intends()
    node.store_down()
    assert node.call.phase is Phase.PARKED
    node.retry(answer("a"))
    assert Deliver((answer("a"),)) in node.effects and ops(node.effects) == [Op.INTEND]


def test_the_store_s_return_alone_sends_a_verification_again() -> None:
    node = reach(Phase.VERIFYING)
    node.store_down()
    assert ops(node.feed(StoreBack())) == [Op.VERIFY]
    node.commit()
    assert node.call.phase is Phase.PARKED and node.call.epoch == 2


def test_an_effect_in_flight_is_kept_with_its_frame_in_round_1_too() -> None:
    """Rule 8: the result is written although nobody can come back, then the frame goes."""
    node = running()
    node.intends()
    node.commit()
    node.results()
    node.flush()
    node.store_down()
    assert node.call.phase is Phase.STRANDED
    node.feed(StoreBack())
    assert node.commit() == (Cancel("left"), Forget(CANCELLED))


def stranded_result() -> Node:
    """The store is away while a result is written and the handler goes on."""
    node = resumed()
    node.intends()
    node.commit()
    node.results()
    return node


def test_a_handler_that_ends_while_its_intent_is_stranded_answers_the_retry() -> None:
    node = resumed()
    node.intends()
    node.store_down()
    node.feed(Finished("42"))
    node.retry(answer("a"))
    node.commit_all()
    assert node.heard.get(3) == Outcome("42")


def test_what_a_stranded_call_can_answer_without_the_store_it_answers() -> None:
    node = reach(Phase.STRANDED)
    node.retry(answer("a", "no"))
    assert node.heard[3] == Refusal(Reason.CONFLICT, 1) and node.call.phase is Phase.STRANDED
