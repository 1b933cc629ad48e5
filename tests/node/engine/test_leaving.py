"""A runtime that leaves: what it lets go of, what it keeps, and what it says to whoever still comes."""

from __future__ import annotations

import asyncio
import math
import time
from functools import partial
from typing import Any

import pytest

from framehold.engine import token_claims
from framehold.engine.replies import Elsewhere, Parked
from framehold.engine.takeover_gate import MAX_TAKEOVERS
from framehold.frame.frame import Frame
from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import NodeId
from framehold_core.requests import Read, Reply, Request
from framehold_core.value import replace
from framehold_store.base import Done
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question, shielded, turns
from tests.kit.processes import until

pytestmark = pytest.mark.anyio


async def asks(frame: Frame) -> object:
    return f"heard {await frame.ask(question('a?'))}"


async def parked(at: Engine, reentrant: bool = True) -> Parked:
    answer = await at.runtime.start(ScriptHandler(asks, reentrant=reentrant), Carrier())
    assert isinstance(answer, Parked)
    return answer


async def retry(at: Engine, call: Parked, script: Any = asks) -> Any:
    return await at.runtime.retry(
        at.claims(call), dict.fromkeys(call.questions, "yes"), ScriptHandler(script, reentrant=True), Carrier()
    )


class SlowReads:
    """A store that answers no read until `over` is set; `reading` is set when one has come."""

    def __init__(self, at: Engine) -> None:
        self.reading, self.over, self.read = asyncio.Event(), asyncio.Event(), at.store.run
        at.store.run = self._slowly

    async def _slowly(self, request: Request) -> Reply:
        self.reading.set()
        await self.over.wait()
        return await self.read(request)


async def test_a_call_that_was_let_go_at_the_end_is_not_claimed_afterwards() -> None:
    """Its record was being read when the node closed: what the store says then comes too late."""
    entered: list[str] = []

    async def enters(frame: Frame) -> object:
        entered.append("again")
        return await asks(frame)

    async with engine(shared=True) as at:
        call = await parked(at)
        slot = at.runtime.table.get(call.call)
        assert slot is not None
        at.runtime.feed(slot, ev.Evict("evicted"))
        slow = SlowReads(at)
        coming = asyncio.create_task(retry(at, call, enters))
        await slow.reading.wait()
        await at.runtime.end()
        refused = await coming
        assert isinstance(refused, fx.Refusal) and "nothing was done" in refused.detail
        slow.over.set()
        await turns(20)
        assert entered == []
        found = (await slow.read(Read(call.call))).stored
        assert found is not None and found.record.epoch == call.at.epoch


@pytest.mark.parametrize("shared", [True, False])
async def test_a_node_that_has_closed_tells_each_what_became_of_its_request(shared: bool) -> None:
    """A new call was not started. One that was begun goes on elsewhere, or another node knows what became of it; but
    with a process that shares no store it is gone."""
    async with engine(shared=shared) as at:
        calls = await parked(at), await parked(at, reentrant=False)
        await at.runtime.end()
        new = await at.runtime.start(ScriptHandler(asks), Carrier())
        assert isinstance(new, fx.Refusal) and "nothing was started" in new.detail
        for call in calls:
            result = await retry(at, call)
            assert isinstance(result, fx.Refusal)
            assert ("send the same request again" if shared else "the call ends with it") in result.detail


@pytest.mark.parametrize("leaves", ["drains", "has closed"])
async def test_a_new_call_that_waited_for_a_lease_is_not_entered_by_a_node_that_leaves(leaves: str) -> None:
    """It came before. It is told that nothing was started (docs/protocol.md, rule 9)."""
    async with engine(shared=True) as at:
        beat = at.runtime.heartbeat
        beat.lease = replace(beat.lease, until=-math.inf)
        coming = asyncio.create_task(at.runtime.start(ScriptHandler(asks, reentrant=True), Carrier()))
        await turns(5)
        await (at.runtime.drain(0.0) if leaves == "drains" else at.runtime.end())
        # The next heartbeat is answered.
        beat.announce(beat.state)
        answer = await coming
        assert isinstance(answer, fx.Refusal) and answer.reason is fx.Reason.NOT_TAKEN
        assert "nothing was started" in answer.detail and not len(at.runtime.table)


async def test_a_node_that_has_closed_passes_on_what_still_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over connections that are not closed yet, while another node is live: nobody sees that this one goes."""
    async with engine(shared=True) as at:
        monkeypatch.setattr(at.runtime.peers, "heir", lambda call: (NodeId("b"), "http://b:1"))
        call = await parked(at)
        await at.runtime.end()
        assert await at.runtime.start(ScriptHandler(asks), Carrier()) == Elsewhere(NodeId("b"), "http://b:1")
        assert await retry(at, call) == Elsewhere(NodeId("b"), "http://b:1")


async def test_a_node_that_closes_passes_on_what_it_still_looks_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The retry came when all calls were handed off, and the node closes before the store has answered."""
    async with engine(shared=True) as at:
        monkeypatch.setattr(at.runtime.peers, "heir", lambda call: (NodeId("b"), "http://b:1"))
        call = await parked(at)
        await at.runtime.drain(10.0)
        slow = SlowReads(at)
        coming = asyncio.create_task(retry(at, call))
        await slow.reading.wait()
        await at.runtime.end()
        assert await coming == Elsewhere(NodeId("b"), "http://b:1")
        slow.over.set()


async def test_a_call_that_is_in_its_token_outlives_any_node() -> None:
    """Strategy replay needs no store: also where there is none, whoever comes or waits may send the same again."""
    stands = asyncio.Event()

    async def lingers(frame: Frame) -> object:
        await frame.ask(question("a?"))
        stands.set()
        return await asyncio.get_running_loop().create_future()

    async with engine() as at:
        entry = partial(ScriptHandler, lingers, reentrant=True, strategy="replay")
        asked = await at.runtime.start(entry(), Carrier())
        assert isinstance(asked, Parked)
        carried = token_claims.carried(asked.state)
        assert carried is not None
        answers = dict.fromkeys(asked.questions, "yes")
        waits = asyncio.create_task(at.runtime.replay(carried, answers, entry(), Carrier()))
        await stands.wait()
        await at.runtime.end()
        for result in (await waits, await at.runtime.replay(carried, answers, entry(), Carrier())):
            assert isinstance(result, fx.Refusal) and "send the same request again" in result.detail


class Silence:
    """A store that answers no write until `over` is set; `refused` is set when it has left a portion unanswered."""

    def __init__(self, at: Engine) -> None:
        self.writes, self.over, self.refused = 0, False, asyncio.Event()
        self._submit = at.store.submit
        at.store.submit = self.submit

    def submit(self, request: Request, done: Done) -> None:
        self.writes += 1
        if self.over:
            self._submit(request, done)
        else:
            asyncio.get_running_loop().call_later(0.2, self._refuse, done)

    def _refuse(self, done: Done) -> None:
        done(StoreUnavailable("no answer"))
        self.refused.set()


async def test_calls_are_handed_off_when_a_silent_store_answers_before_the_deadline() -> None:
    """The frames stay meanwhile. Only one portion of the calls asks a store that does not answer."""
    async with engine(shared=True) as at:
        for _ in range(1200):
            await parked(at)
        silence = Silence(at)
        leaving = asyncio.create_task(at.runtime.drain(30.0))
        await silence.refused.wait()
        assert silence.writes == 500 and at.runtime.table.frames == 1200 and not leaving.done()
        silence.over = True
        async with asyncio.timeout(20):
            await leaving
        assert at.runtime.draining.released == 1200 and not len(at.runtime.table)


async def test_a_store_that_is_silent_until_the_deadline_holds_a_drain_up_until_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line says how many calls were not handed off. They are neither lost nor cut."""
    async with engine(shared=True) as at:
        for _ in range(1200):
            await parked(at)
        Silence(at)
        began = time.monotonic()
        await at.runtime.drain(6.0)
        assert 6 <= time.monotonic() - began < 12
        assert at.runtime.draining.released == 0 and at.runtime.table.frames == 1200
        [line] = [line for line in caplog.messages if "were not handed off" in line]
        assert "1200 calls were not handed off" in line and at.counts["deadline"] == 0


async def test_a_retry_while_a_release_waits_for_the_store_is_refused_and_goes_on_later() -> None:
    """The release may have been applied, so the frame takes no answer."""
    async with engine(shared=True) as at:
        call = await parked(at)
        silence = Silence(at)
        leaving = asyncio.create_task(at.runtime.drain(30.0))
        await silence.refused.wait()
        refused = await retry(at, call)
        assert isinstance(refused, fx.Refusal) and refused.reason is fx.Reason.UNAVAILABLE
        silence.over = True
        async with asyncio.timeout(20):
            await leaving
        assert at.runtime.draining.released == 1


async def test_a_lookup_that_is_cut_off_gives_its_place_back() -> None:
    """A runtime may be opened again: what it closes with is what it began with."""
    async with engine(shared=True) as at:
        call = await parked(at)
        slot = at.runtime.table.get(call.call)
        assert slot is not None
        at.runtime.feed(slot, ev.Evict("evicted"))

        async def never(request: Request) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError("nobody sets it")

        at.store.run = never
        at.runtime.draining.begun = True
        coming = asyncio.create_task(retry(at, call))
        await asyncio.sleep(0)
        # The lookup is under way and has no place yet when its call goes.
        await at.runtime.end()
        await coming
    assert at.runtime._gate._free == MAX_TAKEOVERS


async def test_a_drain_ends_with_the_last_request_that_is_served_elsewhere() -> None:
    """Its call is in no table of this node: a round that is passed on, or a request of a session."""
    async with engine() as at:
        with at.runtime.draining.visited():
            drain = asyncio.create_task(at.runtime.drain(600.0))
            await turns(20)
            assert at.runtime.draining.begun and not drain.done()
        async with asyncio.timeout(10.0):
            await drain


@pytest.mark.parametrize("left", [False, True], ids=["its client waits", "its client has left before"])
async def test_a_node_whose_name_was_taken_ends_within_one_ttl(left: bool) -> None:
    """Whatever runs on: it is waited for once, at the end of its calls or at that of its runtime."""
    over = asyncio.Event()

    async def pays(frame: Frame) -> object:
        return await frame.recorded.effects.once("pay", over.wait, (), {}, False)

    async with engine(shared=True) as at:
        at.runtime.settings = at.runtime.settings.model_copy(update={"lease_ttl": 2.0})
        stubborn, paying = (asyncio.create_task(at.start(script)) for script in (lambda _: shielded(over), pays))
        await until(lambda: at.runtime.table.frames == 2, "both handlers")
        await turns(5)
        if left:
            stubborn.cancel()
            await until(lambda: at.runtime.tasks.cancelling, "its cancellation")
        at.runtime.heartbeat.lost.set()
        began = time.monotonic()
        await at.runtime.end()
        await at.runtime.close()
        assert time.monotonic() - began < at.runtime.settings.lease_ttl
        over.set()
        await asyncio.gather(stubborn, paying, return_exceptions=True)
