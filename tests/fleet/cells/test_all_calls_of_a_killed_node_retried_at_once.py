"""Row 1, many times over: all calls of a node that was killed are retried at once. `python -m
framehold_loadtest.bench --only survival` does it with 10,000, and prints what that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

CALLS = 200


async def test_none_is_lost_and_no_effect_runs_twice(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """Half of them come through the router, half to a node that never heard of them. Those that are not marked are told
    that they are lost."""
    dead, heir = made.other(), made.other(made.other())
    calls = [trial("errand", MARKED) for _ in range(CALLS)]
    unmarked = [trial("errand", UNMARKED) for _ in range(10)]
    await asyncio.gather(*(call.begin(made.url(dead)) for call in (*calls, *unmarked)))
    assert {call.owner for call in calls} == {dead}
    made.kill(dead)
    places = (router, made.url(heir))
    texts = await asyncio.gather(*(call.finish(places[number % 2]) for number, call in enumerate((*calls, *unmarked))))
    assert texts[:CALLS] == [call.done for call in calls]
    assert all(LOST in text for text in texts[CALLS:])
    done = made.ledger.settled()
    assert all(done[call.name] == {"first", "second", "third", "fourth"} for call in calls)
    assert all(done[call.name] == {"first"} for call in unmarked)
