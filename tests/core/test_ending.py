"""How a call ended: said by whoever forgets it, and kept in its record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framehold_core.effects import Effect, Forget
from framehold_core.ending import CANCELLED, COMPLETED, LOST, Ending
from framehold_core.events import Overran
from framehold_core.requests import Evidence, RecordState
from framehold_core.value import replace
from tests.core.driver import Node, answer, elsewhere, parked, resumed, running


def ending(effects: tuple[Effect, ...]) -> Ending | None:
    """What is said by whoever forgets the call."""
    (forgotten,) = (effect for effect in effects if isinstance(effect, Forget))
    return forgotten.ending


def unmarked() -> Node:
    """A handler in its second round that may not be entered again."""
    return resumed(reentrant=False)


@pytest.mark.parametrize(
    ("begun", "left", "overran"),
    [(running, CANCELLED, LOST), (resumed, None, None), (unmarked, LOST, LOST)],
    ids=["nobody has a token", "a retry replays it", "it may not be entered again"],
)
def test_a_round_that_is_dropped_ends_the_call_where_nothing_can_follow(
    begun: Callable[[], Node], left: Ending | None, overran: Ending | None
) -> None:
    node = begun()
    (waiting,) = node.call.waiting
    assert ending(node.leave(waiting.waiter)) == left
    assert ending(begun().feed(Overran())) == overran


def test_a_claim_that_finds_the_call_lost_says_how_far_it_had_come() -> None:
    node = elsewhere(parked(reentrant=False))
    node.retry(answer("a"))
    node.look(Evidence.GONE)
    assert ending(node.commit()) == LOST
    assert node.call.round == 1
    assert node.shelf.stored is not None and node.shelf.stored.record.ending == LOST


def test_a_record_of_an_earlier_release_does_not_say_how_it_ended() -> None:
    node = resumed()
    node.finishes("42")
    node.commit()
    stored = node.shelf.stored
    assert stored is not None and stored.record.ending == COMPLETED
    assert replace(stored.record, cause="").ending is None
    assert replace(stored.record, cause="cancelled").ending == CANCELLED
    assert replace(stored.record, state=RecordState.RELEASED).ending is None
