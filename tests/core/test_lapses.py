"""A lease that lapsed while frames were busy: they are verified in line, and their effects wait for that
(docs/protocol.md, rule 4).

Why a withheld effect may run once its frame is verified: its intent was applied at epoch e, the verification compares
owner, incarnation, epoch e and position, and raises the epoch; so between the two nobody can have claimed the call, and
nobody but this frame, which did not run the effect, knows of the intent."""

from __future__ import annotations

import pytest

from framehold_core.call import Phase
from framehold_core.effects import (
    Cancel,
    Deliver,
    Effect,
    Go,
    Lookup,
    Op,
    Outcome,
    Questions,
    Reason,
    Recorded,
    Refusal,
    Run,
    Write,
)
from framehold_core.events import Finished, Rebuilt, StoreBack
from framehold_core.requests import Evidence
from framehold_core.writes import once_digest
from tests.core.driver import Node, Token, answer, elsewhere, parked, reach, rebuild, resumed, running

K, L = once_digest("k"), once_digest("l")


def ops(effects: tuple[Effect, ...]) -> list[Op]:
    """The writes among `effects`."""
    return [effect.op for effect in effects if isinstance(effect, Write)]


def lapsed(node: Node) -> Node:
    """The node's lease lapses and is registered anew."""
    node.lapse()
    node.renew()
    return node


def stored_incarnation(node: Node) -> str:
    """The incarnation that the record names."""
    assert node.shelf.stored is not None
    return node.shelf.stored.record.incarnation


# ---- a frame that is asked for its questions again


def asked_twice() -> tuple[Node, Token]:
    """A call at round 2, and the token of round 1."""
    node = parked("a")
    token = node.token
    assert token is not None
    node.retry(answer("a"))
    node.asks("b")
    node.commit()
    return node, token


def test_questions_are_asked_again_only_by_who_may_own_the_call() -> None:
    """At once inside the window; not at all while it is shut; under another incarnation once the frame is verified."""
    node, token = asked_twice()
    inside = node.retry(answer("a"), token=token)
    assert isinstance(node.heard[inside], Questions)
    node.now = node.lease.until
    shut = node.retry(answer("a"), token=token)
    assert node.heard[shut] == Refusal(Reason.UNAVAILABLE, 2) and node.call.phase is Phase.PARKED
    lapsed(node)
    late = node.retry(answer("a"), token=token)
    assert node.phase() is Phase.VERIFYING and late not in node.heard
    node.commit()
    assert isinstance(asked := node.heard[late], Questions) and asked.epoch == 2


def test_a_round_that_runs_asks_nothing_again_under_another_incarnation() -> None:
    """It may be over before the store has answered: its client comes again."""
    node, token = asked_twice()
    node.retry(answer("b"))
    lapsed(node)
    late = node.retry(answer("a"), token=token)
    assert node.heard[late] == Refusal(Reason.UNAVAILABLE, 2) and node.call.phase is Phase.RUNNING


# ---- a frame that runs


def test_a_running_frame_is_verified_in_line_and_its_effects_run_again() -> None:
    node = resumed()
    node.lapse()
    assert ops(node.renew()) == [Op.VERIFY] and node.call.phase is Phase.RUNNING
    node.commit()
    assert (node.call.epoch, node.call.incarnation, stored_incarnation(node)) == (2, "n1-i2", "n1-i2")
    node.intends()
    assert node.commit() == (Go(K),)


def test_an_intent_acknowledged_before_the_verification_waits_for_it_and_goes() -> None:
    node = resumed()
    node.intends()
    reply = node.submit()
    lapsed(node)
    assert ops(node.hear(*reply)) == [Op.VERIFY] and node.call.withheld == (K,)
    assert node.commit() == (Go(K),)
    node.results()
    node.flush()
    assert node.commit() == (Recorded((K,)),) and node.call.intents == frozenset()


def test_an_effect_waits_on_while_the_new_window_is_shut_too() -> None:
    node = resumed()
    node.intends()
    reply = node.submit()
    lapsed(node)
    node.hear(*reply)
    node.now = node.lease.until
    assert node.commit() == () and node.call.withheld == (K,)
    assert node.renew() == (Go(K),)


def test_what_a_withheld_effect_waited_for_is_never_given_to_a_fenced_frame() -> None:
    node = resumed()
    node.intends()
    reply = node.submit()
    rival = elsewhere(node)
    lapsed(node)
    node.hear(*reply)
    rival.retry(answer("a"))
    rebuild(rival)
    assert node.commit() == (Cancel("fenced"), Lookup()) and node.call.withheld == ()


def test_a_frame_of_which_nothing_is_stored_takes_the_new_incarnation() -> None:
    node = running()
    node.lapse()
    assert node.renew() == () and node.call.incarnation == "n1-i2"
    node.intends()
    assert node.commit() == (Go(K),) and stored_incarnation(node) == "n1-i2"


def test_a_first_write_in_flight_is_waited_for() -> None:
    node = running()
    node.intends()
    assert lapsed(node).effects == ()
    assert ops(node.commit()) == [Op.VERIFY]
    assert node.commit() == (Go(K),)


def test_a_frame_is_verified_once_for_each_incarnation() -> None:
    node = resumed()
    lapsed(node)
    assert node.renew() == ()
    assert lapsed(node).effects == ()
    node.commit_all()
    assert (node.call.epoch, node.call.incarnation) == (3, "n1-i3")


# ---- the verification goes unanswered


def test_an_unanswered_verification_keeps_the_round_running() -> None:
    """The round may not need the store for long; whoever waits is not sent away."""
    node = lapsed(resumed())
    assert node.store_down() == () and node.call.phase is Phase.RUNNING and len(node.call.waiting) == 1
    assert ops(node.feed(StoreBack())) == [Op.VERIFY]
    node.commit()
    assert node.call.epoch == 2 and node.feed(StoreBack()) == ()


def test_behind_an_unanswered_verification_a_commit_is_stranded_as_ever() -> None:
    node = lapsed(resumed())
    node.store_down()
    node.finishes("42")
    node.store_down()
    assert node.call.phase is Phase.STRANDED
    node.retry(answer("a"))
    node.commit_all()
    assert node.heard[3] == Outcome("42")


# ---- a frame that is parked


def test_a_parked_frame_at_rest_is_verified_when_it_is_resumed() -> None:
    """Ten thousand of them lapse without a write."""
    node = parked()
    node.lapse()
    assert node.renew() == () and node.call.incarnation == "n1-i1"
    node.retry(answer("a"))
    assert node.commit() == (Deliver((answer("a"),)),) and node.call.incarnation == "n1-i2"


def test_a_parked_frame_with_an_effect_is_verified_for_it() -> None:
    node = parked()
    node.intends()
    reply = node.submit()
    lapsed(node)
    assert ops(node.hear(*reply)) == [Op.VERIFY] and node.call.phase is Phase.PARKED
    assert node.commit() == (Go(K),)


def test_a_lapse_during_a_verification_is_verified_again_before_the_retry() -> None:
    node = lapsed(reach(Phase.VERIFYING))
    assert ops(node.commit()) == [Op.VERIFY] and node.call.phase is Phase.VERIFYING
    assert node.commit() == (Deliver((answer("a"),)),)
    assert (node.call.epoch, node.call.incarnation) == (3, "n1-i3")


# ---- a frame that is being rebuilt


def test_a_frame_claimed_under_a_lapsed_lease_is_verified_as_soon_as_it_stands() -> None:
    node = reach(Phase.CLAIMING)
    reply = node.submit()
    lapsed(node)
    assert any(isinstance(effect, Run) for effect in node.hear(*reply)) and node.call.incarnation == "n2-i1"
    assert ops(node.feed(Rebuilt())) == [Op.VERIFY] and node.call.phase is Phase.VERIFYING
    assert node.commit() == (Deliver((answer("a"),)),) and (node.call.epoch, node.call.incarnation) == (3, "n2-i2")


def test_a_lapse_during_a_replay_is_verified_as_soon_as_the_frame_stands() -> None:
    first = resumed()
    first.intends()
    first.commit()
    node = elsewhere(first)
    node.retry(answer("a"))
    node.look(Evidence.GONE)
    node.commit()
    assert lapsed(node).effects == ()
    assert ops(node.feed(Rebuilt())) == [Op.VERIFY] and node.call.phase is Phase.RUNNING
    node.commit()
    assert (node.call.epoch, node.call.incarnation) == (3, "n2-i2") and len(node.call.waiting) == 1


@pytest.mark.parametrize("phase", [Phase.LOOKING, Phase.RELEASING])
def test_whoever_is_held_is_decided_under_the_lease_as_it_is_now(phase: Phase) -> None:
    node = reach(phase)
    if phase is Phase.RELEASING:
        node.retry(answer("a"))
    lapsed(node)
    if phase is Phase.RELEASING:
        node.commit()
    node.look(Evidence.RELEASED if phase is Phase.RELEASING else Evidence.GONE)
    node.commit()
    assert stored_incarnation(node) == node.lease.incarnation and node.call.outbox.queue == ()


# ---- the store went back as well


def test_a_heal_serves_as_the_verification() -> None:
    node = resumed()
    node.shelf.lose()
    node.lapse()
    node.renew()
    assert ops(node.commit()) == [Op.HEAL]
    assert node.commit() == () and node.call.phase is Phase.RUNNING
    assert stored_incarnation(node) == node.call.incarnation == "n1-i2"


def test_a_handler_that_ends_during_the_heal_is_heard_after_it() -> None:
    node = resumed()
    node.shelf.lose()
    lapsed(node)
    node.commit()
    node.feed(Finished("42"))
    assert ops(node.commit()) == [Op.FINISH]
    node.commit()
    assert node.heard[2] == Outcome("42")


# ---- what waits for the window holds nothing back


def withheld(node: Node) -> Node:
    """Its effect is intended, and the window is shut."""
    node.intends()
    node.now = node.lease.until
    node.commit()
    assert node.call.withheld == (K,)
    return node
