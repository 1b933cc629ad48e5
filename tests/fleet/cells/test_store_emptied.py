"""Row 9, once more: the store is emptied, or restored from an older state, and a node with live frames leaves or dies.

1. calls are parked at one node; nobody answers
2. the store forgets everything: records, journals, leases
3. the node is drained at once, or killed when it has written again what it holds
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import Trial
from tests.processes import until

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

CALLS = 30
EFFECTS = ["first", "second", "third", "fourth"]


async def parked(made: FaultyFleet, *calls: Trial) -> str:
    """Park calls at one node, empty the store, and return the node's name."""
    name = made.other()
    await asyncio.gather(*(call.begin(made.url(name)) for call in calls))
    assert {call.owner for call in calls} == {name}
    with made.redis.client() as client:
        client.flushall()
    return name


async def healed(made: FaultyFleet, *calls: Trial) -> None:
    """Wait until the store has all of these again."""
    await until(lambda: all(made.record(call.heard.token) for call in calls), "the records")


async def test_a_node_is_drained_right_after(made: FaultyFleet, router: str, trial: Callable[..., Trial]) -> None:
    """Each release finds the store behind: the frame heals the record, and only then the call is handed off."""
    calls = [trial("errand", MARKED) for _ in range(CALLS)]
    name = await parked(made, *calls)
    made.drain(name)
    await made.left(name)
    assert await asyncio.gather(*(call.finish(router) for call in calls)) == [call.done for call in calls]
    for call in calls:
        assert made.ledger.effects(call.name) == EFFECTS


async def test_a_node_is_killed_after_the_heal(made: FaultyFleet, router: str, trial: Callable[..., Trial]) -> None:
    """No client came meanwhile: the node wrote its frames again because it noticed."""
    calls = [trial("errand", MARKED) for _ in range(CALLS)]
    name = await parked(made, *calls)
    await healed(made, *calls)
    made.kill(name)
    assert await asyncio.gather(*(call.finish(router) for call in calls)) == [call.done for call in calls]
    for call in calls:
        assert made.ledger.effects(call.name) == EFFECTS


async def test_an_unmarked_call_goes_on_in_its_frame(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """Whoever asks another node is not told that it is lost."""
    call = trial("errand", UNMARKED)
    name = await parked(made, call)
    assert (await call.insist(made.url(made.other(name)))).messages == [f"{call.name} two?"]
    assert await call.finish(router) == call.done
    assert made.ledger.count(call.name, "entered") == 1


async def test_a_call_that_nobody_holds_is_lost_and_its_client_is_told(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """Its node is killed before the store forgets. The token is good: it proves that the call was asked."""
    call = trial("errand", MARKED)
    await call.begin(router)
    made.kill(call.owner)
    with made.redis.client() as client:
        client.flushall()
    result = await call.insist(router)
    assert result.result["isError"] and "This call was lost: the store of this node has no trace of it" in result.text
    assert "stopped at an unknown point after round 1 of its questions" in result.text
    assert made.ledger.count(call.name, "entered") == 1
