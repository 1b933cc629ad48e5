"""A retry that meets no frame: look the record up, answer from it, or claim the call and replay it."""

from __future__ import annotations

import pytest

from framehold_core.call import Phase
from framehold_core.effects import Cancel, Forget, Lookup, Outcome, Reason, Refusal, Relay, Run
from framehold_core.ending import LOST, Ending, How
from framehold_core.events import Diverged, Rebuilt, StoreDown, Unreadable, WriteRefused
from framehold_core.ids import NodeId, Waiter
from framehold_core.journal import decode_all
from framehold_core.requests import Evidence, RecordState, Verdict
from framehold_core.takeover import MAX_TRIES
from framehold_core.value import replace
from tests.core.driver import Node, Token, answer, elsewhere, parked, reach, rebuild, resumed

# ---- look up


def test_a_token_without_a_record_enters_no_handler() -> None:
    """Rule 17 of docs/protocol.md."""
    first = parked()
    first.shelf.lose()
    node = elsewhere(first)
    node.retry(answer("a"))
    assert Forget(LOST) in node.look()
    assert isinstance(node.heard[1], Refusal) and node.heard[1].reason is Reason.FORGOTTEN


def test_a_finished_call_gives_its_outcome_again() -> None:
    first = resumed()
    first.finishes("42")
    first.commit()
    node = elsewhere(first)
    node.retry(answer("a"))
    node.look(Evidence.GONE)
    assert node.heard[1] == Outcome(sealed=b"42", position=1)


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
    assert node.heard[1] == Relay(Waiter(1), NodeId("n1"))
    node.retry(answer("a"), token=ahead)
    node.look(Evidence.GONE)
    assert isinstance(node.heard[2], Refusal) and node.heard[2].reason is Reason.FORGOTTEN


def test_a_record_with_another_head_than_its_token_names_is_none() -> None:
    """Rule 22 of docs/protocol.md: not even where it may be claimed, or has an outcome."""
    node = elsewhere(parked())
    node.shelf.exchange()
    node.retry(answer("a"))
    node.look(Evidence.GONE, elsewhere=("n1",), kept=True)
    assert node.heard[1] == Relay(Waiter(1), NodeId("n1"))
    first = resumed()
    first.finishes("42")
    first.commit()
    for named in (node, elsewhere(first)):
        named.shelf.exchange()
        waiter = named.retry(answer("a"))
        assert Forget(LOST) in named.look(Evidence.GONE)
        refusal = named.heard[waiter]
        assert isinstance(refusal, Refusal) and refusal.reason is Reason.FORGOTTEN


def test_a_read_decides_nothing_for_a_retry_that_came_since() -> None:
    """Rule 5: neither that its call is lost, nor that this node's own code may be entered."""
    node = elsewhere(parked())
    gone = node.retry(answer("a"))
    came, token = node.call.undecided, node.token
    node.leave(gone)
    late = node.retry(answer("a"), token=Token(3, 1, "x", "n1"))
    assert node.look(Evidence.GONE, waiting=came) == (Lookup(),)
    node.retry(answer("a"), token=token)
    assert node.look(Evidence.GONE, waiting=came) == (Lookup(),)
    node.look(Evidence.GONE)
    refusal = node.heard[late]
    assert isinstance(refusal, Refusal) and refusal.reason is Reason.FORGOTTEN
    assert node.call.phase is Phase.CLAIMING


def test_a_retry_is_the_same_when_the_lease_of_its_node_was_renewed() -> None:
    """Rule 5. Else a node that is slower than its heartbeat would read for ever."""
    node = elsewhere(parked())
    node.retry(answer("a"))
    came = node.call.undecided
    node.lapse()
    node.renew()
    assert node.call.undecided != came
    node.look(Evidence.GONE, waiting=came)
    assert node.call.phase is Phase.CLAIMING


def test_a_retry_that_came_since_waits_with_those_for_which_the_call_is_claimed() -> None:
    """Rule 5. One of another record is not kept: the claim would look as if it met an exchanged record."""
    node = elsewhere(parked())
    first = node.retry(answer("a"))
    came = node.call.undecided
    late = node.retry(answer("a"))
    other = node.arrive()
    node.feed(replace(came[0], waiter=other, head="of another record"))
    node.look(Evidence.GONE, waiting=came)
    assert [retry.waiter for retry in node.call.undecided] == [first, late]
    refusal = node.heard[other]
    assert isinstance(refusal, Refusal) and refusal.reason is Reason.UNAVAILABLE


@pytest.mark.parametrize("phase", [Phase.LOOKING, Phase.CLAIMING])
def test_a_store_that_does_not_answer_a_question_is_said_to_be_unavailable(phase: Phase) -> None:
    node = reach(phase)
    node.retry(answer("a"))
    node.store_down()
    assert node.heard[1] == node.heard[2] == Refusal(Reason.UNAVAILABLE)
    assert node.call.phase is Phase.IDLE


def test_a_tool_that_is_paused_is_said_to_wait() -> None:
    node = reach(Phase.LOOKING)
    node.feed(StoreDown(True, paused="an operator"))
    assert node.heard[1] == Refusal(Reason.WAITS, 0, "an operator")


def test_why_the_store_was_not_asked_is_said() -> None:
    node = reach(Phase.LOOKING)
    node.feed(StoreDown(True, why="this process has no file descriptor left"))
    refusal = node.heard[1]
    assert isinstance(refusal, Refusal) and refusal.reason is Reason.UNAVAILABLE
    assert refusal.detail == "this process has no file descriptor left; send the same request again later"


# ---- claim


def test_a_claim_goes_on_though_its_client_has_left() -> None:
    """The call is this node's: its frame waits for the client's next request."""
    node = reach(Phase.CLAIMING)
    node.leave(1)
    node.commit()
    assert node.call.phase is Phase.REBUILDING


def test_after_a_takeover_the_answers_of_each_earlier_round_count() -> None:
    """A copy of an old request is no conflict, and one with other answers is."""
    first = resumed()
    old = first.token
    first.asks("b")
    first.commit()
    node = elsewhere(first)
    node.retry(answer("b"))
    rebuild(node)
    same = node.retry(answer("a"), token=old)
    other = node.retry(answer("a", "no"), token=old)
    assert node.heard[other] == Refusal(Reason.CONFLICT, 2) and node.heard.get(same) != node.heard[other]


def test_a_claim_raises_the_epoch_and_replays_the_journal() -> None:
    """I1: the frame of an epoch is entered by its claim alone."""
    node = reach(Phase.CLAIMING)
    (effect,) = node.commit()
    assert effect == Run(2, decode_all(node.log)) and node.call.phase is Phase.REBUILDING
    assert node.shelf.stored is not None and node.shelf.stored.record.owner == "n2"


def claims_in_vain(node: Node) -> None:
    """The claim is granted, and the record that it gives back can't be read: no handler is entered."""
    effects = node.commit()
    assert node.call.phase is Phase.IDLE and not any(isinstance(effect, Run) for effect in effects)
    refusal = node.heard[1]
    assert isinstance(refusal, Refusal) and refusal.reason is Reason.UNREADABLE


def test_a_record_that_was_exchanged_before_its_claim_is_not_entered() -> None:
    """Rule 22: the answers are not taken, and the call goes on when its record is back."""
    node = reach(Phase.CLAIMING)
    node.shelf.exchange()
    claims_in_vain(node)
    node.shelf.exchange("")
    other = elsewhere(node, "n3")
    other.retry(answer("a"))
    rebuild(other)
    assert other.phase() is Phase.RUNNING


def test_a_record_that_was_cut_before_its_claim_is_not_entered() -> None:
    """Somebody without keys cut the journal to an earlier round, and the record with it: the token is beyond both."""
    node = reach(Phase.CLAIMING)
    node.shelf.cut()
    claims_in_vain(node)


def test_a_claim_that_loses_its_race_looks_again() -> None:
    first = parked()
    second, third = elsewhere(first), elsewhere(first, "n3")
    for node in (second, third):
        node.retry(answer("a"))
        node.look(Evidence.GONE)
    second.commit()
    assert third.commit() == (Lookup(),)
    third.look()
    assert third.heard[1] == Relay(Waiter(1), NodeId("n2"))


def test_a_claim_gives_up_after_a_few_races() -> None:
    node = reach(Phase.LOOKING)
    for _ in range(MAX_TRIES):
        node.look(Evidence.GONE)
        assert node.feed(WriteRefused(Verdict.CHANGED, None)) == (Lookup(),)
    node.look(Evidence.GONE)
    node.feed(WriteRefused(Verdict.CHANGED, None))
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


@pytest.mark.parametrize("kept", [True, False])
def test_kept_code_brings_its_own_promise(kept: bool) -> None:
    """Rules 16 and 28: the present code is not marked, or the tool is gone; the code that is entered was marked."""
    node = elsewhere(parked(), reentrant=False)
    node.retry(answer("a"))
    node.look(Evidence.GONE, kept=kept)
    node.commit()
    assert node.shelf.stored is not None
    assert node.shelf.stored.record.state is (RecordState.OPEN if kept else RecordState.LOST)
    assert node.call.phase is (Phase.REBUILDING if kept else Phase.IDLE)


def test_the_promise_of_kept_code_ends_with_its_frame() -> None:
    """Rule 16: the code can't be had again, so the present code would be entered, which is not marked."""
    node = elsewhere(parked(), reentrant=False)
    node.retry(answer("a"))
    node.look(Evidence.GONE, kept=True)
    node.commit()
    node.feed(Rebuilt())
    node.asks("b")
    node.feed(WriteRefused(Verdict.FENCED, None))
    node.look(Evidence.OWNER, kept=False)
    node.commit()
    assert node.shelf.stored is not None and node.shelf.stored.record.state is RecordState.LOST
    assert node.call.phase is Phase.IDLE


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


def test_a_record_that_goes_while_it_is_claimed_is_forgotten() -> None:
    node = reach(Phase.CLAIMING)
    node.shelf.lose()
    node.commit()
    assert node.heard[1] == Refusal(Reason.FORGOTTEN, 1)


def test_divergence_is_reported_by_name_and_leaves_the_record() -> None:
    node = reach(Phase.REBUILDING)
    before = node.shelf.stored
    assert Cancel("diverged") in node.feed(Diverged("entry 0 records ask 'a', ..."))
    assert node.heard[1] == Refusal(Reason.DIVERGED, 1, "entry 0 records ask 'a', ...")
    assert node.shelf.stored is before


UNREADABLE = "journal entry 0 has format 2, this release reads up to 1"


@pytest.mark.parametrize("phase", [Phase.LOOKING, Phase.CLAIMING, Phase.REBUILDING])
def test_what_can_not_be_read_is_said_and_left_as_it_is(phase: Phase) -> None:
    """A record, a claimed journal, or a value in it: whoever waits hears why, and no handler goes on."""
    node = reach(phase)
    node.retry(answer("a"))
    before = node.shelf.stored
    effects = node.feed(Unreadable(UNREADABLE))
    assert node.heard[1] == node.heard[2]
    refusal = node.heard[1]
    assert isinstance(refusal, Refusal) and (refusal.reason, refusal.detail) == (Reason.UNREADABLE, UNREADABLE)
    endings = [effect.ending for effect in effects if isinstance(effect, Forget)]
    assert Cancel("unreadable") in effects and endings == [Ending(How.DIVERGED)]
    assert node.call.phase is Phase.IDLE and node.call.outbox.in_flight is None and node.call.undecided == ()
    assert node.shelf.stored is before
