"""Row 8 on a Redis Cluster: the slots of parked calls, and of a node's lease, move to another server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from framehold_store.keys import Keys
from tests.fleet.faults import MARKED, UNMARKED, TrialFleet
from tests.fleet.trial import Trial, Trials
from tests.kit.redis_topologies import ClusterTrio

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

both = pytest.mark.parametrize("column", [MARKED, UNMARKED])


class Sharded(TrialFleet):
    """Nodes over three primaries: one more than these tests kill."""

    def __init__(self, folder: pytest.TempPathFactory, trio: ClusterTrio) -> None:
        self.trio = trio
        super().__init__(folder.mktemp("cluster"), trio)

    def record(self, call: Trial) -> str:
        """The key of a call's record."""
        return Keys(self.folder.name).call(call.heard.token.split(".")[1])[0]


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharded]:
    """For all of these tests."""
    trio = ClusterTrio()
    made = None
    try:
        trio.start()
        made = Sharded(tmp_path_factory, trio)
        asyncio.run(made.grow(3))
        yield made
        made.judge()
    finally:
        if made is not None:
            made.stop()
        trio.remove()


@both
async def test_parked_calls_go_on_while_their_slots_move_and_after(
    sharded: Sharded, trial: Trials, column: str
) -> None:
    """One is answered when its slot has moved, one while some of it is here and some there."""
    moved, moving = trial("errand", column), trial("errand", column)
    for call in (moved, moving):
        await call.begin(sharded.url(sharded.other()))
    trio = sharded.trio
    await asyncio.to_thread(trio.move_slot, sharded.record(moved))
    await moved.insist(sharded.url(moved.owner))
    key = sharded.record(moving)
    to = (trio.owner(key) + 1) % 3
    source = await asyncio.to_thread(trio.begin_move, key, to)
    request = moving.answering(sharded.url(moving.owner))
    await asyncio.to_thread(trio.carry_keys, key, source, to)
    await asyncio.to_thread(trio.end_move, key, source, to)
    await asyncio.gather(request, return_exceptions=True)
    for call in (moved, moving):
        await sharded.completes([call], sharded.url(sharded.other(call.owner)), entered=1)


@both
async def test_a_call_whose_slot_moved_is_found_when_its_node_dies(
    sharded: Sharded, trial: Trials, column: str
) -> None:
    """Its record and the lease of its node, both elsewhere by then."""
    call = trial("errand", column)
    await call.begin(sharded.url(sharded.other()))
    await asyncio.to_thread(sharded.trio.move_slot, sharded.record(call))
    await asyncio.to_thread(sharded.trio.move_slot, Keys(sharded.folder.name).node(call.owner))
    sharded.kill(call.owner)
    url = sharded.url(sharded.other())
    if column == MARKED:
        await sharded.completes([call], url)
    else:
        await sharded.is_lost(call, url, ran=["first"])
