"""Row 7: a handler finishes, raises or asks while it is parked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import Trial

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

both = pytest.mark.parametrize("column", [MARKED, UNMARKED])


async def moved_on(made: FaultyFleet, call: Trial, router: str) -> None:
    """A call that is parked, and whose handler went on meanwhile."""
    made.shut(call.name)
    reply = await call.begin(router)
    assert reply.messages == [f"{call.name} one?"]
    await made.ledger.has(call.name, "runs")
    made.open(call.name)
    await made.ledger.has(call.name, "passed")


@both
async def test_the_next_retry_gets_the_result(
    made: FaultyFleet, router: str, trial: Callable[..., Trial], column: str
) -> None:
    """Whatever it answers; and so does its duplicate."""
    call = trial("restless", column, how="finishes")
    await moved_on(made, call, router)
    await made.ledger.has(call.name, "ended")
    result = [(await call.insist(url)).text for url in (router, made.routers[1].url)]
    assert result == [f"{call.name}: unanswered"] * 2
    assert made.ledger.count(call.name, "entered") == 1


@both
async def test_the_next_retry_gets_the_error(
    made: FaultyFleet, router: str, trial: Callable[..., Trial], column: str
) -> None:
    """As a tool's error result."""
    call = trial("restless", column, how="raises")
    await moved_on(made, call, router)
    await made.ledger.has(call.name, "raised")
    for url in (router, made.routers[1].url):
        result = await call.insist(url)
        assert result.result["isError"] and f"{call.name} gave up" in result.text
    assert made.ledger.count(call.name, "entered") == 1


@both
async def test_the_next_retry_gets_the_question(
    made: FaultyFleet, router: str, trial: Callable[..., Trial], column: str
) -> None:
    """Its answer is taken, and then it hears what was asked while nobody listened."""
    call = trial("restless", column, how="asks")
    await moved_on(made, call, router)
    assert (await call.insist(router)).messages == [f"{call.name} two?"]
    assert await call.finish(router) == call.done
    assert made.ledger.count(call.name, "entered") == 1
