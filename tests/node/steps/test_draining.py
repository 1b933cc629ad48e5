"""How a node drains, a step at a time: what a drain waits for, what takes it back, and what it says."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from framehold.app import assemble
from framehold.config import Settings
from framehold.engine import drain
from framehold.engine.drain import NodeDrain
from framehold.engine.observer import Observer
from framehold.engine.replies import Elsewhere, Ended, Parked
from framehold.engine.runtime import Runtime
from framehold.frame.frame import Frame
from framehold.frame.rehearsal import rehearsal_observer
from framehold_core.clock import Clock
from framehold_core.effects import Reason, Refusal
from framehold_core.ids import CallId
from framehold_core.requests import Release
from framehold_fleet.members.membership import LIVE
from framehold_store import system_clock as clock
from tests.kit.effects import SOON, Effects
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question, turns

pytestmark = pytest.mark.anyio


async def asks(frame: Frame) -> object:
    return await frame.ask(question("a?"))


class Told(Observer):
    """How many calls were told to end with the process, at each event of an operator's log."""

    def __init__(self) -> None:
        self.lost: list[int] = []

    def happened(self, kind: str, text: str, slot: Any = None, lost: int = 0) -> None:
        self.lost.append(lost)


class Leaver(Engine):
    """A node that may drain, with calls of each kind."""

    def __init__(self, made: Engine, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__(made.runtime, made.store)
        self.draining: NodeDrain = made.runtime.draining
        self.effects, self.told, self._log = Effects(), Told(), caplog
        made.runtime.observers.add(self.told)

    async def parks(self, count: int = 1, *, marked: bool = False) -> list[Parked]:
        """Calls that wait for answers. Others may carry on the marked ones."""
        handlers = [ScriptHandler(asks, reentrant=marked) for _ in range(count)]
        found = [await self.runtime.start(handler, Carrier()) for handler in handlers]
        calls = [answer for answer in found if isinstance(answer, Parked)]
        assert len(calls) == count
        return calls

    async def runs(self) -> asyncio.Task[Any]:
        """A call whose first round runs until its effect is let go."""

        async def held(frame: Frame) -> object:
            return await self.effects.held()

        waiting = asyncio.create_task(self.start(held))
        await self.effects.started.wait()
        return waiting

    def drains(self, patience: float = SOON, *, parked: bool = True, leaves: bool = False) -> asyncio.Task[None]:
        return asyncio.create_task(self.runtime.drain(patience, parked, leaves))

    async def answers(self, parked: Parked) -> Any:
        """A client answers the questions of a call."""
        handler = ScriptHandler(asks, reentrant=True)
        return await self.runtime.retry(self.claims(parked), dict.fromkeys(parked.questions, "yes"), handler, Carrier())

    def said(self, text: str) -> int:
        """How many log lines have this text."""
        return sum(text in record.getMessage() for record in self._log.records)


@pytest.fixture
def shared() -> bool:
    return True


@pytest.fixture
async def at(shared: bool, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Leaver]:
    caplog.set_level(logging.INFO, drain.__name__)
    async with engine(shared=shared, keys=("k" * 32,)) as made, asyncio.timeout(SOON):
        leaver = Leaver(made, caplog)
        yield leaver
        leaver.store.down = False
        leaver.effects.go.set()


async def is_done(task: asyncio.Task[Any]) -> bool:
    """Whether a task ends without anything else."""
    await turns(30)
    return task.done()


# What a drain waits for


@pytest.mark.parametrize("waits", ["a round", "a request whose call is not here"])
async def test_a_drain_that_waits_for_no_people_waits_for_what_runs(at: Leaver, waits: str) -> None:
    await at.parks()
    if waits == "a round":
        await at.runs()
        draining = at.drains(parked=False)
        assert not await is_done(draining)
        at.effects.go.set()
    else:
        with at.draining.visited():
            draining = at.drains(parked=False)
            assert not await is_done(draining)
    await draining
    assert at.said("1 parked calls that only this process can carry on")


async def test_responses_are_waited_for(at: Leaver) -> None:
    at.draining.unanswered = 1
    waiting = asyncio.create_task(at.draining.wait_for_responses(SOON))
    assert not await is_done(waiting)
    at.draining.unanswered = 0
    at.draining.responded()
    await waiting


async def test_a_second_drain_waits_for_the_first_one(at: Leaver) -> None:
    """For its calls, or only for what runs and what is handed off."""
    (parked,) = await at.parks()
    first = at.drains()
    await turns(20)
    assert await is_done(at.drains(parked=False))
    second = at.drains()
    assert not await is_done(second) and not at.draining.over
    await at.answers(parked)
    await asyncio.gather(first, second)


@pytest.mark.parametrize("waits", ["a round", "a release"])
async def test_a_second_drain_that_waits_for_no_people_waits_for_what_moves(at: Leaver, waits: str) -> None:
    await at.parks(marked=waits == "a release")
    at.store.hold(Release)
    if waits == "a round":
        await at.runs()
    first = at.drains(parked=False)
    await turns(20)
    second = at.drains(parked=False)
    assert not await is_done(second)
    at.effects.go.set()
    at.store.let_go()
    await asyncio.gather(first, second)


async def test_the_drain_begins_when_it_is_known_who_carries_calls_on(at: Leaver) -> None:
    known = asyncio.Event()
    at.runtime.peers.follow = known.wait  # type: ignore[assignment]
    await at.parks(marked=True)
    first = at.drains()
    await turns(20)
    assert at.draining.begun and not at.draining.on and at.draining.unready() == "it drains"
    second = at.drains(parked=False)
    assert not await is_done(second), "a call is to be handed off"
    known.set()
    await asyncio.gather(first, second)
    assert at.draining.on


# What does not work


async def test_a_bug_while_a_drain_begins_delays_it(at: Leaver) -> None:
    follow, outcomes = at.runtime.peers.follow, itertools.chain([RuntimeError("a bug")], itertools.repeat(None))

    async def follows() -> None:
        if (error := next(outcomes)) is not None:
            raise error
        await follow()

    at.runtime.peers.follow = follows
    await at.parks(3, marked=True)
    await at.drains()
    assert at.draining.released == 3


async def test_a_bug_that_comes_again_and_again_holds_a_drain_up_until_its_deadline(at: Leaver) -> None:
    async def follows() -> None:
        raise RuntimeError("a bug")

    at.runtime.peers.follow = follows
    now = at.runtime.clock.now()
    at.draining._clock = Clock(lambda: now, lambda: now, os.urandom)
    await at.drains(0.0)
    assert at.draining.over


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are handed off one at a time, and the store is waited for at once."""
    monkeypatch.setattr(drain, "_PORTION", 1)
    monkeypatch.setattr(drain, "_RELEASE_TIMEOUT", 0.0)


@pytest.mark.usefixtures("one_by_one")
async def test_no_further_call_is_handed_off_before_a_silent_store_has_answered(at: Leaver) -> None:
    """Not if a retry comes for the one that waits."""
    first, *_ = await at.parks(3, marked=True)
    at.store.hold(Release)
    draining = at.drains()
    while not at.said("the store takes no release"):
        await asyncio.sleep(0.001)
    retrying = asyncio.create_task(at.answers(first))
    await turns(50)
    assert len(at.store.held) == 1
    at.store.let_go()
    await draining
    assert at.draining.released == 3 and await retrying == Ended("yes")


@pytest.mark.usefixtures("one_by_one")
async def test_no_further_call_is_handed_off_behind_the_deadline(at: Leaver) -> None:
    """That the store is waited for is not said then."""
    await at.parks(3, marked=True)
    at.store.hold(Release)
    now = at.runtime.clock.now()
    at.draining._clock = Clock(lambda: now, lambda: now, os.urandom)
    await at.drains(0.0)
    assert len(at.store.held) == 1 and not at.said("the store takes no release: no call is handed off until")
    at.store.let_go()


async def test_a_store_that_refuses_a_release_is_not_waited_for_before_it_is_told(at: Leaver) -> None:
    await at.parks(3, marked=True)
    at.store.down = True
    at.drains()
    await turns(50)
    assert at.said("the store takes no release")


# What takes a drain back


@pytest.mark.parametrize("undone", ["before it knows the fleet", "while a call is handed off", "while it waits"])
@pytest.mark.usefixtures("one_by_one")
async def test_a_drain_that_is_taken_back_goes_no_further(at: Leaver, undone: str) -> None:
    known = asyncio.Event()
    if undone == "before it knows the fleet":
        at.runtime.peers.follow = known.wait  # type: ignore[assignment]
    calls = await at.parks(3, marked=undone != "while it waits")
    at.store.hold(Release)
    draining = at.drains()
    await turns(20)
    assert at.draining.undo()
    known.set()
    await turns(20)
    held = len(at.store.held)
    at.store.let_go()
    await draining
    await turns(20)
    assert (at.draining.on, at.draining.over, at.runtime.heartbeat.state) == (False, False, LIVE)
    assert held == (undone == "while a call is handed off")
    assert at.runtime.table.frames == len(calls) - held


@pytest.mark.parametrize("first", [True, False])
async def test_a_process_that_leaves_takes_no_drain_back(at: Leaver, first: bool) -> None:
    """Whichever drain says so."""
    await at.parks()
    both = at.drains(leaves=first), at.drains(0.0, leaves=not first)
    await turns(20)
    assert not at.draining.undo()
    for one in both:
        one.cancel()


async def test_a_node_that_has_closed_takes_no_drain_back(at: Leaver) -> None:
    await at.drains()
    at.draining.closed = True
    assert not at.draining.undo()
    at.draining.closed = False


# What it says


@pytest.mark.parametrize(
    ("waits", "runs", "parked", "said"),
    [
        (True, False, True, "3 calls handed off; 1 parked calls and 0 rounds that run have"),
        (False, True, False, "3 calls handed off; 0 parked calls and 1 rounds that run have"),
        (True, True, False, "3 calls handed off; 0 parked calls and 1 rounds that run have"),
        (True, False, False, ""),
        (False, False, True, ""),
    ],
)
async def test_what_is_waited_for_is_told(at: Leaver, waits: bool, runs: bool, parked: bool, said: str) -> None:
    await at.parks(3, marked=True)
    await at.parks(int(waits))
    if runs:
        await at.runs()
    draining = at.drains(parked=parked)
    await turns(50)
    assert at.said(said) if said else not at.said("rounds that run have")
    draining.cancel()


async def test_what_ends_with_the_process_is_told_once(at: Leaver) -> None:
    """A drain after which it goes on may leave calls that are answered before it ends."""
    await at.parks(2)
    await at.runs()
    with at.draining.visited():
        await at.drains(0.0)
        assert at.said("2 parked calls that only this process can carry on are lost when it ends, 2 rounds") == 1
        assert at.said("; lost: ") == at.said("; cut: ") == 1 and max(at.told.lost) == 0
        await at.drains(0.0)
        assert at.said("drain met its deadline") == 1
        for _ in range(2):
            await at.drains(0.0, leaves=True)
            assert at.said("drain met its deadline") == 2 and sorted(at.told.lost)[-2:] == [0, 2]


async def test_what_ends_with_the_process_is_told_when_its_first_drain_is_over(at: Leaver) -> None:
    await at.parks()
    first = at.drains()
    await turns(20)
    await at.drains(0.0, leaves=True)
    assert not at.said("drain met its deadline")
    first.cancel()


async def test_a_request_whose_call_is_elsewhere_is_cut_too(at: Leaver) -> None:
    with at.draining.visited():
        await at.drains(0.0)
    assert at.said("0 parked calls that only this process can carry on are lost when it ends, 1 rounds")


async def test_a_rehearsal_tells_nothing_of_lost_calls(at: Leaver) -> None:
    await at.parks()
    rehearsal_observer.set(object())  # type: ignore[arg-type]  # nothing is told it here
    await at.drains(0.0)
    assert not at.said("drain met its deadline")


@pytest.mark.parametrize(("count", "more"), [(20, ""), (21, "1 more")])
async def test_so_many_calls_are_named(at: Leaver, count: int, more: str) -> None:
    await at.parks(count)
    await at.drains(0.0)
    assert at.said("more") == bool(more) and at.said(more)


# Where calls go


async def test_a_new_call_goes_where_its_id_belongs(at: Leaver) -> None:
    """As its retries do."""
    others = [await _joined(at, name) for name in ("b", "c", "d")]
    await at.drains()
    calls = [CallId(f"{number:032x}") for number in range(20)]
    heirs = [at.draining.heir(call) for call in calls]
    assert len({heir for heir in heirs if heir is not None}) > 1
    assert [at.draining.divert_start(call) for call in calls] == [heir and Elsewhere(*heir) for heir in heirs]
    for other in others:
        await other.close()


async def _joined(at: Leaver, name: str) -> Runtime:
    made = assemble(
        Settings(node_id=name, lease_ttl=5.0, advertise_url=f"http://10.0.0.1:{ord(name)}", keys=("k" * 32,)),
        at.store,
        True,
        clock.system_clock(),
    )
    await made.open()
    return made


async def test_a_node_whose_name_was_taken_takes_nothing(at: Leaver) -> None:
    at.runtime.heartbeat.lost.set()
    refused = at.draining.divert_start(None)
    assert isinstance(refused, Refusal) and refused.reason is Reason.NOT_TAKEN
    assert refused.detail == at.draining.unready() and "another process runs under this node's name" in refused.detail
    at.runtime.heartbeat.lost.clear()


@pytest.mark.parametrize("shared", [False])
async def test_a_node_without_others_hands_nothing_off(at: Leaver) -> None:
    """Its calls end with it, and are told so; of a first round it is not known how much was done."""

    async def asks_and_runs(frame: Frame) -> object:
        return await asks(frame), await at.effects.held()

    parked = await at.runtime.start(ScriptHandler(asks_and_runs, reentrant=True), Carrier())
    assert isinstance(parked, Parked)
    (waits,), first = await at.parks(marked=True), await at.runs()
    second = asyncio.create_task(at.answers(parked))
    await at.drains(0.0)
    assert at.draining.released == 0 and at.said("1 parked calls that only this process can carry on")
    await at.runtime.end()
    assert "the call's first round was cut off" in (await first).detail
    assert "the call ends with it" in (await second).detail
    assert "the call ends with it" in (await at.answers(waits)).detail
