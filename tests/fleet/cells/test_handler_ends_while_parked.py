"""Row 7: a handler finishes, raises or asks while it is parked."""

from __future__ import annotations

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import Trials

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]


@pytest.mark.parametrize("column", [MARKED, UNMARKED])
@pytest.mark.parametrize(("how", "comes_to"), [("finishes", "ended"), ("raises", "raised"), ("asks", "passed")])
async def test_the_next_retry_gets_what_came_of_it(
    made: FaultyFleet, router: str, trial: Trials, column: str, how: str, comes_to: str
) -> None:
    """The result or the error, whatever it answers, and so does its duplicate. A question comes once its answer is
    taken."""
    call = trial("restless", column, how=how)
    made.shut(call.name)
    assert (await call.begin(router)).messages == [f"{call.name} one?"]
    await made.ledger.has(call.name, "runs")
    made.open(call.name)
    await made.ledger.has(call.name, comes_to)
    if how == "asks":
        assert (await call.insist(router)).messages == [f"{call.name} two?"]
        assert await call.finish(router) == call.done
    else:
        replies = [await call.insist(url) for url in (router, made.routers[1].url)]
        assert [bool(reply.result.get("isError")) for reply in replies] == [how == "raises"] * 2
        text = f"{call.name} gave up" if how == "raises" else f"{call.name}: unanswered"
        assert all(text in reply.text for reply in replies)
    assert made.ledger.count(call.name, "entered") == 1
