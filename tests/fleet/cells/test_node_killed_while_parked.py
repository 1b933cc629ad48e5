"""Row 1: a node is killed while a call is parked on it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.fleet.faults import MARKED, TTL, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial

pytestmark = [pytest.mark.anyio, pytest.mark.fleet, pytest.mark.alone]


async def test_a_reentrant_call_waits_the_lease_out_and_completes_elsewhere(
    made: FaultyFleet, router: str, trial: Callable[..., Trial], capsys: pytest.CaptureFixture[str]
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
    assert await call.finish(router) == call.done
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
    assert made.ledger.count(call.name, "entered") == 2


async def test_an_unmarked_call_is_lost_and_its_client_is_told(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """An error result of the tool, in the words of docs/protocol.md, I6; told again as often as it is asked for."""
    call = trial("errand", UNMARKED)
    await call.begin(router)
    made.kill(call.owner)
    for url in (router, made.routers[1].url):
        result = await call.insist(url)
        assert result.result["isError"], result.message
        assert LOST in result.text
    assert made.ledger.effects(call.name) == ["first"] and made.ledger.count(call.name, "entered") == 1
