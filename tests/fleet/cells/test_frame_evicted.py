"""Row 5: a frame is evicted, because its node has as many as it may."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet, standing
from tests.fleet.trial import Trials

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

MOST = 4


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyFleet]:
    """One node with room for few calls."""
    with standing(tmp_path_factory.mktemp("small"), 1, 0, max_parked=str(MOST)) as made:
        yield made


async def test_reentrant_frames_make_room_and_are_replayed(small: FaultyFleet, trial: Trials) -> None:
    """Twice as many calls as there is room for: all are begun, all complete."""
    (node,) = small.nodes.values()
    calls = [trial("errand", MARKED) for _ in range(2 * MOST)]
    for call in calls:
        assert (await call.begin(node.url)).messages == [f"{call.name} one?"]
    for call in calls:
        await small.completes([call], node.url)
    assert sum(small.ledger.count(call.name, "entered") > 1 for call in calls) >= MOST, "frames were dropped"


async def test_unmarked_frames_stay_and_new_calls_are_refused_first(small: FaultyFleet, trial: Trials) -> None:
    """With 503 and a time to come again; lists still work, and so do the rounds of who is there."""
    (node,) = small.nodes.values()
    calls = [trial("errand", UNMARKED) for _ in range(MOST)]
    await asyncio.gather(*(call.begin(node.url) for call in calls))
    new = trial("errand", UNMARKED)
    refused = await new.begin(node.url)
    assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
    assert "FRAMEHOLD_MAX_PARKED" in refused.text and small.ledger.lines(new.name) == []
    assert len((await new.list_tools(node.url)).result["tools"]) > 1
    await small.completes(calls, node.url, entered=1)
    await new.begin(node.url)
    await small.completes([new], node.url)
