"""Row 6: a call's client, or its router, disconnects in the middle of a round."""

from __future__ import annotations

import asyncio

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import Trial, Trials, ended

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]


async def left(made: FaultyFleet, call: Trial, who: str) -> None:
    """Answer a call's first question through the second router, and cut that off once the round runs."""
    second = made.routers[1]
    await call.begin(second.url)
    request = await made.at_its_gate(call, second.url)
    if who == "router":
        second.kill()
        assert await ended(request) is None
    else:
        request.cancel()
        await asyncio.wait((request,))
    await made.ledger.has(call.name, "cancelled")
    made.open(call.name)


@pytest.mark.parametrize("who", ["client", "router"])
@pytest.mark.parametrize("column", [MARKED, UNMARKED])
async def test_a_round_is_cancelled_and_the_retry_replays_it_or_is_told(
    made: FaultyFleet, router: str, trial: Trials, column: str, who: str
) -> None:
    """What it had learned by then stays: the journal is not the round's. An unmarked one is not entered again."""
    call = trial("errand", column)
    await left(made, call, who)
    if column == MARKED:
        await made.completes([call], router, entered=2)
    else:
        await made.is_lost(call, router, ran=["first", "second"])


async def test_a_client_that_leaves_again_and_again_makes_no_call_stuck(
    made: FaultyFleet, router: str, trial: Trials
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
    await made.completes([call], router)
