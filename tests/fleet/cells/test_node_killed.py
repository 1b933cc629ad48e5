"""Rows 1 and 2: a node is killed while calls are parked on it, and while a round runs."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.fleet.faults import EFFECTS, MARKED, TTL, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial, Trials, again, ended
from tests.kit.client import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

CALLS = 200


@pytest.mark.alone
async def test_a_reentrant_call_waits_the_lease_out_and_completes_elsewhere(
    made: FaultyFleet, router: str, trial: Trials, capsys: pytest.CaptureFixture[str]
) -> None:
    """The retry that is sent at once is held until the lease has run out, and answered then: nobody tries twice."""
    call = trial("errand", MARKED)
    await call.begin(router)
    dead = call.owner
    started = time.monotonic()
    made.kill(dead)
    reply = await call.insist(router)
    took = time.monotonic() - started
    with capsys.disabled():
        print(f"\nfirst resume of a call whose node was killed: {took:.2f} s after SIGKILL (lease {TTL:g} s)")
    assert reply.messages == [f"{call.name} two?"]
    assert reply.headers["framehold-route"] == "takeover" and call.owner != dead
    # docs/guarantees.md: at most lease TTL + 1 s.
    assert took <= TTL + 1.0
    await made.completes([call], router, entered=2)


async def test_of_many_calls_none_is_lost_and_no_effect_runs_twice(
    made: FaultyFleet, router: str, trial: Trials
) -> None:
    """Half of them come through the router, half to a node that never heard of them. Those that are not marked are told
    that they are lost, in the words of docs/protocol.md, I6. `python -m framehold_loadtest.bench --only survival` does
    it with 10,000, and prints what that takes."""
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
    assert all(done[call.name] == set(EFFECTS) for call in calls)
    for call in unmarked:
        await made.is_lost(call, router, made.routers[1].url, ran=["first"])


async def killed_at_its_gate(made: FaultyFleet, call: Trial, router: str) -> Reply | None:
    """Answer a call's first question, and kill its node in the round that follows; what whoever waited for it hears,
    None for nothing. A router may have gone on to another node by itself."""
    await call.begin(router)
    request = await made.at_its_gate(call, router)
    made.kill(call.owner)
    made.open(call.name)
    result = await ended(request)
    return None if result is None or again(result) else result


async def test_a_reentrant_call_goes_on_from_its_last_commit(made: FaultyFleet, router: str, trial: Trials) -> None:
    """The answer and the effect of the round that was cut off are on record: neither is asked for or run again."""
    call = trial("errand", MARKED)
    result = await killed_at_its_gate(made, call, router)
    assert result is None or result.messages == [f"{call.name} two?"]
    await made.completes([call], router, entered=2)


async def test_an_unmarked_call_is_lost_and_its_client_is_told(made: FaultyFleet, router: str, trial: Trials) -> None:
    """It stopped at an unknown point: nobody goes on from there."""
    call = trial("errand", UNMARKED)
    result = await killed_at_its_gate(made, call, router)
    assert result is None or (result.result["isError"] and LOST in result.text)
    await made.is_lost(call, router, ran=["first", "second"])
