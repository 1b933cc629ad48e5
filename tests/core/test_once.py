"""`once` beside a call's rounds, and what leaves when the requests that wait have left."""

from __future__ import annotations

from framehold_core.call import Phase
from framehold_core.effects import Cancel, Forget, Go, Kept, Op, Outcome, RaiseInDoubt, Reason, Recorded, Refusal, Write
from framehold_core.ending import CANCELLED
from framehold_core.events import Drain, Evict, Overran, StoreBack, StoreDown
from framehold_core.journal import EntryKind, decode_all
from framehold_core.writes import once_digest
from tests.core.driver import LEFT_OPEN, Node, answer, elsewhere, parked, rebuild, resumed, running

K = once_digest("k")


def test_an_effect_runs_only_after_its_intent_is_acknowledged() -> None:
    """I5, first half."""
    node = resumed()
    (write,) = node.intends()
    assert isinstance(write, Write) and write.op is Op.INTEND
    node.submit()
    assert node.commit() == (Go(K),)


def test_a_result_reaches_the_handler_at_once_and_is_written_when_no_write_takes_it_along() -> None:
    """I5, second half."""
    node = resumed()
    node.intends()
    node.commit()
    assert node.results() == (Kept(K),)
    (write,) = node.flush()
    assert isinstance(write, Write) and write.op is Op.RESULT
    assert node.commit() == (Recorded((K,)),)
    assert node.shelf.stored is not None and node.shelf.stored.record.intents == {K: True}
    assert node.flush() == ()


def with_a_result() -> Node:
    """A handler in its second round that has heard the result of an effect; no write has it yet."""
    node = resumed()
    node.intends()
    node.commit()
    node.results()
    return node


def kinds(node: Node) -> list[EntryKind]:
    """The kinds of the entries in the node's journal."""
    return [item.kind for item in decode_all(node.log)]


def test_the_next_questions_take_a_result_along() -> None:
    node = with_a_result()
    node.asks("b")
    assert Recorded((K,)) in node.commit()
    assert kinds(node) == [EntryKind.ASK, EntryKind.ANSWER, EntryKind.INTENT, EntryKind.RESULT, EntryKind.ASK]
    assert node.shelf.stored is not None and node.shelf.stored.record.intents == {K: True}


def test_the_next_intent_takes_a_result_along() -> None:
    node = with_a_result()
    node.intends("l")
    assert node.commit() == (Recorded((K,)), Go(once_digest("l")))
    assert kinds(node) == [EntryKind.ASK, EntryKind.ANSWER, EntryKind.INTENT, EntryKind.RESULT, EntryKind.INTENT]


def test_the_outcome_takes_a_result_along() -> None:
    node = with_a_result()
    node.finishes("42")
    node.commit()
    assert node.heard[2] == Outcome("42")
    assert node.shelf.stored is not None and node.shelf.stored.record.intents == {K: True}


def test_an_outcome_does_not_leave_ungated_before_the_result_that_it_rests_on() -> None:
    """Rule 1: the exception is for outcomes whose effects are recorded."""
    node = with_a_result()
    node.finishes("42")
    node.store_down(is_open=True)
    assert node.heard[2] == Refusal(Reason.UNAVAILABLE, 1)
    node.retry(answer("a"))
    node.commit()
    assert node.heard[3] == Outcome("42")


def test_a_frame_that_owes_a_result_is_written_before_it_is_handed_off() -> None:
    node = parked()
    node.intends()
    node.commit()
    node.results()
    (write,) = node.feed(Drain())
    assert isinstance(write, Write) and write.op is Op.RESULT
    node.commit()
    (write,) = node.feed(Drain())
    assert isinstance(write, Write) and write.op is Op.RELEASE


def test_a_frame_that_owes_a_result_is_not_evicted() -> None:
    node = parked()
    node.intends()
    node.commit()
    node.results()
    node.feed(Evict())
    assert node.call.phase is Phase.PARKED
    node.commit()
    assert node.feed(Evict()) == (Cancel("evicted"), LEFT_OPEN)


def test_a_result_whose_owner_is_another_by_now_does_not_count() -> None:
    node = with_a_result()
    other = elsewhere(node)
    other.retry(answer("a"))
    rebuild(other)
    node.flush()
    assert Cancel("fenced") in node.commit()
    assert node.shelf.stored is not None and node.shelf.stored.record.intents == {K: False}


def test_a_refused_intent_loses_no_result() -> None:
    node = with_a_result()
    node.intends()
    node.commit()
    node.commit()
    assert node.shelf.stored is not None and node.shelf.stored.record.intents == {K: True}


# ---- effects that may run again


def test_an_effect_that_needs_no_intent_runs_at_once_in_the_first_round() -> None:
    node = running()
    assert node.wants() == (Go(K),)
    assert node.results(kind=EntryKind.EFFECT) == (Kept(K),)
    node.asks("a")
    node.commit()
    assert kinds(node) == [EntryKind.EFFECT, EntryKind.ASK]
    assert node.shelf.stored is not None and node.shelf.stored.record.intents == {K: True}


def test_the_answers_of_a_round_are_written_before_such_an_effect_runs() -> None:
    """Rule 2: whoever runs it again comes to the same arguments."""
    node = resumed()
    (write,) = node.wants()
    assert isinstance(write, Write) and write.op is Op.RESULT and write.answered is not None
    assert node.commit() == (Go(K),)
    assert node.shelf.stored is not None and 1 in node.shelf.stored.record.answers


def test_effects_that_begin_together_wait_for_one_write() -> None:
    node = resumed()
    node.wants("k")
    assert node.wants("l") == ()
    assert node.commit() == (Go(K), Go(once_digest("l")))


def test_a_result_is_written_before_the_next_such_effect_runs() -> None:
    node = with_a_result()
    (write,) = node.wants("l")
    assert isinstance(write, Write) and write.results
    assert node.commit() == (Recorded((K,)), Go(once_digest("l")))


def test_such_an_effect_waits_for_the_window() -> None:
    """Rule 6, also where nothing of the call is stored."""
    node = running()
    assert node.wants(is_open=False) == () and node.call.withheld == (K,)
    assert node.renew() == (Go(K),)


def test_such_an_effect_is_shielded() -> None:
    node = resumed()
    node.wants()
    node.commit()
    assert node.leave(2) == ()
    node.results(kind=EntryKind.EFFECT)
    assert node.commit() == (Cancel("left"), LEFT_OPEN)


def test_an_effect_that_waits_is_let_go_when_the_intent_before_it_is_refused() -> None:
    node = with_a_result()
    node.flush()
    node.commit()
    node.intends()
    node.wants("l")
    node.commit()
    assert Go(once_digest("l")) in (*node.effects, *node.commit())


def test_an_effect_does_not_run_when_the_window_closed_on_the_way() -> None:
    """Rule 6 of docs/protocol.md: looked at between an intent's acknowledgement and its effect. The intent stands;
    the effect waits."""
    node = resumed()
    node.intends()
    node.now = node.lease.until
    assert node.commit() == () and node.call.withheld == (K,)


def test_writes_of_one_call_leave_one_after_the_other() -> None:
    node = resumed()
    node.intends("k")
    assert node.intends("l") == () and node.asks("b") == ()
    node.commit_all()
    assert [item.kind for item in decode_all(node.log)] == [
        EntryKind.ASK, EntryKind.ANSWER, EntryKind.INTENT, EntryKind.INTENT, EntryKind.ASK,
    ]  # fmt: skip
    assert node.call.phase is Phase.PARKED


def test_a_second_intent_for_a_recorded_key_is_in_doubt() -> None:
    node = resumed()
    node.intends()
    node.commit()
    node.intends()
    assert node.commit() == (RaiseInDoubt(K),)
    assert node.call.phase is Phase.RUNNING


def test_a_refused_intent_loses_no_answers() -> None:
    """Rule 2: the first write *that is applied* after a resume carries the answers."""
    node = parked()
    node.intends()
    node.commit()
    node.retry(answer("a"))
    node.intends()
    node.commit()
    node.asks("b")
    node.commit()
    assert node.shelf.stored is not None and 1 in node.shelf.stored.record.answers


# ---- the requests that wait leave


def test_the_round_is_cancelled_when_the_last_request_leaves() -> None:
    """Rule 8: others that wait for the round keep it alive."""
    node = resumed()
    second = node.retry(answer("a"))
    assert node.leave(second - 1) == ()
    assert node.leave(second) == (Cancel("left"), LEFT_OPEN)
    assert node.call.phase is Phase.IDLE


def test_cancellation_lands_after_a_running_effect_and_its_result() -> None:
    """Rule 8: an effect and its result's commit are shielded."""
    node = resumed()
    node.intends()
    node.commit()
    assert node.leave(2) == ()
    node.results()
    node.flush()
    assert node.commit() == (Cancel("left"), LEFT_OPEN)
    assert node.shelf.stored is not None and node.shelf.stored.record.intents == {K: True}


def test_a_round_that_runs_too_long_is_cancelled_and_says_which_limit() -> None:
    node = resumed()
    assert Cancel("overran") in node.feed(Overran())
    assert node.heard[2] == Refusal(Reason.OVERRAN, 1)
    assert node.call.phase is Phase.IDLE


def test_an_overrun_lands_after_a_running_effect_and_its_result() -> None:
    """Rule 8 again: the shield holds whatever cancels."""
    node = resumed()
    node.intends()
    node.commit()
    node.feed(Overran())
    node.results()
    node.flush()
    node.commit()
    assert node.shelf.stored is not None and node.shelf.stored.record.intents == {K: True}


def test_a_first_round_whose_result_found_no_store_goes_once_it_is_written() -> None:
    """Nobody has a token of round 1: the effect's result is kept, then the frame goes, questions and all."""
    node = running()
    node.intends()
    node.commit()
    node.results()
    node.asks("a")
    node.feed(StoreDown(True))
    node.feed(StoreBack())
    assert node.commit() == (Cancel("left"), Forget(CANCELLED))


def test_a_first_round_that_parked_unheard_goes_with_its_last_result() -> None:
    """Its client was refused while the store was away, so nobody has a token for its questions."""
    node = running()
    node.intends()
    node.commit()
    node.asks("a")
    node.feed(StoreDown(True))
    node.results()
    node.feed(StoreBack())
    node.commit()
    assert node.call.phase is Phase.PARKED
    assert node.commit() == (Cancel("left"), LEFT_OPEN)
