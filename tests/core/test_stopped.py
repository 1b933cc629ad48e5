"""An operator ends a call: that is written like any end, whoever waits or doesn't."""

from __future__ import annotations

import pytest

from framehold_core.call import Phase
from framehold_core.effects import Cancel, Forget, Op, Outcome, Respond, Write
from framehold_core.ending import CANCELLED
from framehold_core.events import Stop
from framehold_core.ids import Waiter
from framehold_core.requests import RecordState
from tests.core.driver import answer, elsewhere, parked, rebuild, resumed, running


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_parked_call_that_is_stopped_ends_at_once_and_for_good(reentrant: bool) -> None:
    """Nobody waits for it, and it is written all the same: a retry hears it, on any node, and nothing is entered."""
    node = parked(reentrant=reentrant)
    (write,) = node.feed(Stop("cancelled by hand"))
    assert isinstance(write, Write) and write.op is Op.FINISH and write.ending == CANCELLED
    assert node.commit() == (Forget(CANCELLED),)
    assert node.shelf.stored is not None and node.shelf.stored.record.state is RecordState.DONE
    other = elsewhere(node)
    for token_answers in ((answer("a"),), ()):
        waiter = other.retry(*token_answers)
        other.look()
        assert other.heard[waiter] == Outcome(sealed=b"cancelled by hand", position=1)
        assert other.call.phase is Phase.IDLE


def test_a_retry_that_meets_the_end_of_a_stopped_call_hears_it_when_it_is_written() -> None:
    node = parked()
    node.feed(Stop("cancelled by hand"))
    waiter = node.retry(answer("a"))
    assert node.effects == () and waiter not in node.heard
    node.commit()
    assert node.heard[waiter] == Outcome("cancelled by hand")


def test_a_stopped_call_that_never_wrote_anything_ends_without_the_store() -> None:
    node = running()
    outcome = Outcome("cancelled by hand")
    assert node.feed(Stop("cancelled by hand")) == (Respond(Waiter(1), outcome), Forget(CANCELLED))
    assert node.shelf.stored is None


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.PARKED])
def test_a_call_with_an_effect_or_a_write_under_way_is_not_stopped(phase: Phase) -> None:
    """Rule 8 of docs/protocol.md: how that ends nobody could tell."""
    node = resumed() if phase is Phase.RUNNING else parked()
    node.intends()
    before = node.call
    assert node.feed(Stop("cancelled by hand")) == () and node.call is before
    node.commit()
    before = node.call
    assert node.feed(Stop("cancelled by hand")) == () and node.call is before
    node.results()
    node.flush()
    node.commit()
    node.feed(Stop("cancelled by hand"))
    assert node.call.phase is Phase.FINISHING


def test_a_frame_that_was_fenced_stops_nothing() -> None:
    """Its node was thought dead, another carries the call on: the end that is written here is refused."""
    node = parked()
    other = elsewhere(node)
    other.retry(answer("a"))
    rebuild(other)
    node.feed(Stop("cancelled by hand"))
    assert node.commit() == (Cancel("fenced"), Forget())
    other.finishes("42")
    other.commit()
    assert other.heard[1] == Outcome("42")
