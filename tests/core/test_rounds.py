"""The life of a call whose frame is here and whose store answers."""

from __future__ import annotations

from collections.abc import Callable

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
    Respond,
    Run,
    Write,
)
from framehold_core.ending import COMPLETED, Ending, How
from framehold_core.journal import EntryKind, decode_all
from framehold_core.requests import RecordState
from tests.core.driver import TOKEN_TTL, Node, answer, parked, resumed, running

# ---- start and finish


def test_a_call_that_never_asks_never_touches_the_store() -> None:
    node = Node()
    waiter = node.start()
    assert node.effects == (Run(1),)
    assert node.finishes("42") == (Respond(waiter, Outcome("42")), Forget(COMPLETED))
    assert node.call.phase is Phase.IDLE
    assert node.shelf.stored is None


def test_the_record_of_a_handler_that_raised_says_so() -> None:
    """The class and the place, from the handler's end to the record; whoever forgets the call hears it too."""
    raised = Ending(How.TOOL_ERROR, "ValueError", "shop:refund:41")
    node = resumed()
    node.finishes("boom", raised)
    assert node.commit()[-1] == Forget(raised)
    assert node.heard[2] == Outcome("boom")
    assert node.shelf.stored is not None and node.shelf.stored.record.ending == raised


def test_no_result_leaves_before_its_commit_is_acknowledged() -> None:
    """I3, for an outcome."""
    node = resumed()
    (write,) = node.finishes("42")
    assert isinstance(write, Write) and write.op is Op.FINISH
    node.submit()
    assert 2 not in node.heard
    node.commit()
    assert node.heard[2] == Outcome("42")
    assert node.shelf.stored is not None and node.shelf.stored.record.state is RecordState.DONE


# ---- ask and park


def test_no_question_leaves_before_its_commit_is_acknowledged() -> None:
    """I3, for a question."""
    node = running()
    (write,) = node.asks("a")
    assert isinstance(write, Write) and write.op is Op.PARK
    assert node.call.phase is Phase.PARKING and not node.heard
    node.commit()
    assert node.phase() is Phase.PARKED
    assert node.heard[1] == Questions(1, 1, 1, node.call.history, TOKEN_TTL)


def test_asks_of_one_turn_leave_in_one_round_and_one_write() -> None:
    node = running()
    assert len(node.asks("a", "b", "c")) == 1
    node.commit()
    assert node.call.round == 1 and node.call.position == 3


# ---- resume


def test_parked_becomes_running_in_the_step_that_accepts_the_answers() -> None:
    """I4: answers are taken once, without a store read."""
    node = parked()
    node.retry(answer("a", "metric"))
    assert node.effects == (Deliver((answer("a", "metric"),)),)
    assert node.call.phase is Phase.RUNNING


def test_answers_go_ahead_of_what_the_resumed_round_writes() -> None:
    """Rule 2 of docs/protocol.md, for each kind of write that may be a round's first."""
    acts: list[Callable[[Node], object]] = [lambda n: n.asks("b"), lambda n: n.intends(), lambda n: n.finishes()]
    for act in acts:
        node = resumed()
        act(node)
        assert node.call.outbox.in_flight is not None and node.call.outbox.in_flight.answered is not None
        node.commit()
        assert node.shelf.stored is not None and 1 in node.shelf.stored.record.answers
        if node.log[1:]:
            assert decode_all(node.log)[1].kind is EntryKind.ANSWER


def test_the_frame_does_not_resume_outside_the_window() -> None:
    node = parked()
    node.now = node.lease.until
    node.retry(answer("a"))
    assert node.heard[2] == Refusal(Reason.UNAVAILABLE, 1)
    assert node.call.phase is Phase.PARKED


# ---- partial answers


def test_no_usable_answer_asks_the_same_round_again_and_writes_nothing() -> None:
    node = parked("a", "b")
    before = node.shelf.stored
    node.retry(answer("stranger"))
    assert node.heard[2] == node.heard[1]
    assert node.call.outbox.in_flight is None and node.shelf.stored is before


def test_some_answers_move_the_round_and_only_the_missing_are_asked() -> None:
    """Rule 10: the frame resumes when the round is complete, with everything that was gathered."""
    node = parked("a", "b")
    node.retry(answer("a", "1"))
    assert node.call.phase is Phase.PARKING
    node.commit()
    assert [item.key for item in node.call.asks] == ["b"] and node.call.round == 2
    assert isinstance(node.heard[2], Questions)
    node.retry(answer("b", "2"))
    assert node.effects == (Deliver((answer("a", "1"), answer("b", "2"))),)


# ---- duplicates


def test_duplicates_of_a_running_round_share_its_reply() -> None:
    node = resumed()
    node.retry(answer("a"))
    node.asks("b")
    node.retry(answer("a"), token=node.token)
    node.commit()
    assert node.heard[2] == node.heard[3] == node.heard[4]


def test_a_duplicate_that_comes_while_the_outcome_is_committed_gets_it_too() -> None:
    node = resumed()
    node.finishes("42")
    node.retry(answer("a"))
    node.commit()
    assert node.heard[2] == node.heard[3] == Outcome("42")


def test_other_answers_for_a_round_conflict() -> None:
    node = resumed()
    node.retry(answer("a", "no"))
    assert node.heard[3] == Refusal(Reason.CONFLICT, 1)


def test_a_token_of_a_later_epoch_proves_the_frame_stale() -> None:
    node = parked()
    assert node.token is not None
    node.retry(answer("a"), token=node.token._replace(epoch=2))
    assert node.effects == (Cancel("stale"), Lookup())
    assert node.call.phase is Phase.LOOKING


@pytest.mark.parametrize("act", [lambda n: None, lambda n: n.asks("b"), lambda n: n.finishes()])
def test_whoever_waited_for_a_stale_frame_is_decided_from_the_record(act: object) -> None:
    node = resumed()
    act(node)  # type: ignore[operator]  # one of the three above
    assert node.token is not None
    node.retry(answer("a"), token=node.token._replace(epoch=2))
    assert {item.waiter for item in node.call.undecided} == {2, 3}


def test_a_token_ahead_of_the_frame_goes_to_the_node_that_minted_it() -> None:
    node = parked()
    assert node.token is not None
    node.retry(answer("a"), token=node.token._replace(round=5, node="n9"))
    assert isinstance(node.heard[2], Relay) and node.heard[2].node == "n9"
    node.retry(answer("a"), token=node.token._replace(round=5))
    assert node.heard[3] == Refusal(Reason.FORGOTTEN, 5)


# ---- a finish while nobody listens


def test_a_call_that_finishes_while_parked_answers_the_next_retry_with_its_outcome() -> None:
    """Rule 11."""
    node = parked()
    assert node.finishes("42") == ()
    node.retry(answer("a"))
    assert node.call.phase is Phase.FINISHING
    node.commit()
    assert node.heard[2] == Outcome("42")


def test_a_call_that_finishes_while_its_questions_are_committed_still_parks() -> None:
    node = running()
    node.asks("a")
    node.finishes("42")
    node.commit()
    assert isinstance(node.heard[1], Questions)
    node.retry(answer("a"))
    node.commit()
    assert node.heard[2] == Outcome("42")
