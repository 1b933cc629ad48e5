"""Row 9: the store lost what it had acknowledged.

It is emptied, or restored from an older state, and a node with live frames leaves or dies. Or its master dies, and a
replica that lagged takes its place:

1. four calls are parked in round 1, two at a node that will live and two at one that won't
2. the replica hears no more; round 2 of each is acknowledged by the master alone
3. the master is killed, and one of the nodes; sentinels make the replica the master
4. each token names a round that the store has never heard of
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.fleet.faults import MARKED, TTL, UNMARKED, FaultyFleet, TrialFleet
from tests.fleet.trial import Client, Trial, Trials, again
from tests.kit.client import Reply
from tests.kit.processes import until
from tests.kit.redis_topologies import SentinelTrio

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

CALLS = 30
both = pytest.mark.parametrize("column", [MARKED, UNMARKED])


async def parked(made: FaultyFleet, *calls: Trial) -> str:
    name = made.other()
    await asyncio.gather(*(call.begin(made.url(name)) for call in calls))
    assert {call.owner for call in calls} == {name}
    with made.redis.client() as client:
        client.flushall()
    return name


@pytest.mark.parametrize("how", ["drained at once", "killed after the heal"])
async def test_a_node_leaves_after_the_store_was_emptied(
    made: FaultyFleet, router: str, trial: Trials, how: str
) -> None:
    """Each release finds the store behind: the frame heals the record, and only then the call is handed off. One that
    is not drained writes its frames again because it noticed: no client came meanwhile."""
    calls = [trial("errand", MARKED) for _ in range(CALLS)]
    name = await parked(made, *calls)
    if how == "drained at once":
        made.drain(name)
        await made.left(name)
    else:
        await until(lambda: all(made.record(call.heard.token) for call in calls), "the records")
        made.kill(name)
    await made.completes(calls, router)


async def test_an_unmarked_call_goes_on_in_its_frame(made: FaultyFleet, router: str, trial: Trials) -> None:
    """Whoever asks another node is not told that it is lost."""
    call = trial("errand", UNMARKED)
    name = await parked(made, call)
    assert (await call.insist(made.url(made.other(name)))).messages == [f"{call.name} two?"]
    await made.completes([call], router, entered=1)


async def test_a_call_that_nobody_holds_is_lost_and_its_client_is_told(
    made: FaultyFleet, router: str, trial: Trials
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


class FailedOver:
    """The fleet after a fail-over, and its calls by column: `kept` are those whose frames live, `orphaned` those whose
    frames died, and `early` is what was told to who came before the node of a live frame was registered again."""

    def __init__(self, made: TrialFleet, trio: SentinelTrio) -> None:
        self.made, self._trio = made, trio
        self.kept: dict[str, Trial] = {}
        self.orphaned: dict[str, Trial] = {}
        self.early: dict[str, Reply] = {}

    async def strike(self) -> None:
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
    trio, made = SentinelTrio(), None
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
    """Also through a node that finds a token which the store can't explain: it asks the one that the token names. Who
    came before the frame's node was back was asked to come again, or waited: nobody knew yet which nodes live."""
    call, made, early = after.kept[column], after.made, after.early[column]
    assert again(early) or early.text == call.done, early.text
    async with Client() as client:
        call.client = client
        await made.completes([call], made.url(made.other(call.owner)), entered=1)


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
