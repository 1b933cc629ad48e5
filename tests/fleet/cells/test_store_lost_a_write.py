"""Row 9: the store lost a write that it had acknowledged: its master dies, and a replica that lagged takes its place.

1. four calls are parked in round 1, two at a node that will live and two at one that won't
2. the replica hears no more; round 2 of each is acknowledged by the master alone
3. the master is killed, and one of the nodes; sentinels make the replica the master
4. each token names a round that the store has never heard of
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.fleet.faults import MARKED, TTL, UNMARKED, TrialFleet
from tests.fleet.trial import Client, Trial, again
from tests.store.topologies import SentinelTrio
from tests.wire import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

both = pytest.mark.parametrize("column", [MARKED, UNMARKED])


class FailedOver:
    """The fleet after the fact, and its calls."""

    def __init__(self, made: TrialFleet, trio: SentinelTrio) -> None:
        self.made, self._trio = made, trio
        self.kept: dict[str, Trial] = {}
        """Calls whose frames live, by column."""
        self.orphaned: dict[str, Trial] = {}
        """Calls whose frames died."""
        self.early: dict[str, Reply] = {}
        """What was told to who came before the node of a live frame was registered again, by column."""

    async def strike(self) -> None:
        """Do it."""
        alive, dead, third = await self.made.grow(3)
        async with Client() as client:
            for column in (MARKED, UNMARKED):
                for calls, name in ((self.kept, alive), (self.orphaned, dead)):
                    call = calls[column] = Trial(client, "errand", column)
                    await call.begin(self.made.url(name))
            with self._trio.lagging():
                for call in (*self.kept.values(), *self.orphaned.values()):
                    assert (await call.insist(self.made.url(call.owner))).messages == [f"{call.name} two?"]
                former = self._trio.kill_master()
                self.made.kill(dead)
            # Its next heartbeat is later than the third node's, as it may be anyway by a third of a lease and more.
            self.made.nodes[alive].pause()
            await asyncio.to_thread(self._trio.await_master, former)
            await self.made.ready(third)
            early = {column: call.answering(self.made.url(third)) for column, call in self.kept.items()}
            await asyncio.wait(early.values(), timeout=TTL / 5)
            self.made.nodes[alive].resume()
            self.early = {column: await request for column, request in early.items()}


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailedOver]:
    """One fail-over for all four cells."""
    trio = SentinelTrio()
    made = None
    try:
        trio.start()
        made = TrialFleet(tmp_path_factory.mktemp("sentinel"), trio)
        done = FailedOver(made, trio)
        asyncio.run(done.strike())
        yield done
        made.judge()
    finally:
        if made is not None:
            made.stop()
        trio.remove()


@both
async def test_a_live_frame_heals_the_record_and_goes_on(after: FailedOver, column: str) -> None:
    """Also through a node that finds a token which the store can't explain: it asks the one that the token names."""
    call, made = after.kept[column], after.made
    async with Client() as client:
        call.client = client
        assert await call.finish(made.url(made.other(call.owner))) == call.done
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
    assert made.ledger.count(call.name, "entered") == 1


@both
async def test_a_live_frame_is_not_called_lost_before_its_node_is_back(after: FailedOver, column: str) -> None:
    """Whoever comes too early is asked to come again, or waits: nobody knows yet which nodes live."""
    result = after.early[column]
    assert again(result) or result.text == after.kept[column].done, result.text


@both
async def test_without_a_frame_the_call_is_lost_and_its_client_is_told(after: FailedOver, column: str) -> None:
    """What became of its second round is not guessed at: it is not entered again, marked or not."""
    call, made = after.orphaned[column], after.made
    async with Client() as client:
        call.client = client
        for name in made.nodes:
            result = await call.insist(made.url(name))
            assert result.result["isError"] and "This call was lost" in result.text, result.message
    assert made.ledger.effects(call.name) == ["first", "second", "third"]
    assert made.ledger.count(call.name, "entered") == 1
