"""Row 6: a call's client, or its router, disconnects in the middle of a round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial, ended

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

leavers = pytest.mark.parametrize("who", ["client", "router"])


async def left(made: FaultyFleet, call: Trial, who: str) -> None:
    """Answer a call's first question through the second router, and cut that off once the round runs."""
    second = made.routers[1]
    made.shut(call.name)
    await call.begin(second.url)
    request = call.answering(second.url)
    await made.ledger.has(call.name, "runs")
    if who == "router":
        second.kill()
        assert await ended(request) is None
    else:
        request.cancel()
        await asyncio.wait((request,))
    await made.ledger.has(call.name, "cancelled")
    made.open(call.name)


@leavers
async def test_a_reentrant_round_is_cancelled_and_the_retry_replays_it(
    made: FaultyFleet, router: str, trial: Callable[..., Trial], who: str
) -> None:
    """What it had learned by then stays: the journal is not the round's."""
    call = trial("errand", MARKED)
    await left(made, call, who)
    assert await call.finish(router) == call.done
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
    assert made.ledger.count(call.name, "entered") == 2


@leavers
async def test_an_unmarked_round_is_cancelled_and_the_retry_is_told(
    made: FaultyFleet, router: str, trial: Callable[..., Trial], who: str
) -> None:
    """Its frame is gone and nobody enters it again."""
    call = trial("errand", UNMARKED)
    await left(made, call, who)
    result = await call.insist(router)
    assert result.result["isError"] and LOST in result.text
    assert made.ledger.effects(call.name) == ["first", "second"]


async def test_a_client_that_leaves_again_and_again_makes_no_call_stuck(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """Attempts count nodes that died of a handler, and none has: more leavings than a call has attempts are none."""
    call = trial("errand", MARKED)
    made.shut(call.name)
    await call.begin(router)
    for number in range(1, 8):
        request = call.answering(router)
        await made.ledger.has(call.name, "runs", number)
        request.cancel()
        await asyncio.wait((request,))
        await made.ledger.has(call.name, "cancelled", number)
    made.open(call.name)
    assert await call.finish(router) == call.done
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
