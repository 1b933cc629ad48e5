"""Row 2: a node is killed while a call's round runs on it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial, again, ended
from tests.wire import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]


async def killed_at_its_gate(made: FaultyFleet, call: Trial, router: str) -> Reply | None:
    """Answer a call's first question, and kill its node in the round that follows; what whoever waited for it hears,
    None for nothing. A router may have gone on to another node by itself."""
    made.shut(call.name)
    await call.begin(router)
    request = call.answering(router)
    await made.ledger.has(call.name, "runs")
    made.kill(call.owner)
    made.open(call.name)
    result = await ended(request)
    return None if result is None or again(result) else result


async def test_a_reentrant_call_goes_on_from_its_last_commit(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """The answer and the effect of the round that was cut off are on record: neither is asked for or run again."""
    call = trial("errand", MARKED)
    result = await killed_at_its_gate(made, call, router)
    assert result is None or result.messages == [f"{call.name} two?"]
    assert await call.finish(router) == call.done
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
    assert made.ledger.count(call.name, "entered") == 2


async def test_an_unmarked_call_is_lost_and_its_client_is_told(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """It stopped at an unknown point: nobody goes on from there."""
    call = trial("errand", UNMARKED)
    result = await killed_at_its_gate(made, call, router)
    for reply in (result or await call.insist(router), await call.insist(router)):
        assert reply.result["isError"] and LOST in reply.text
    assert made.ledger.effects(call.name) == ["first", "second"] and made.ledger.count(call.name, "entered") == 1
