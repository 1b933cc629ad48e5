"""A retry that finds no frame: how many records are looked up at once, which leases are read, and what the store's
verdicts lead to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from typing import Any

import pytest

from framehold.app import assemble
from framehold.config import Settings
from framehold.engine import rechecks, records
from framehold.engine.replies import Elsewhere, Ended, Parked
from framehold.engine.runtime import Runtime
from framehold.engine.takeover_gate import TakeoverGate
from framehold.frame.frame import Frame
from framehold_core.effects import Reason
from framehold_core.errors import StoreUnavailable
from framehold_core.events import Evict
from framehold_core.ids import NodeId
from framehold_core.lease import NodeRecord, code_names
from framehold_core.requests import Claim, Commit, Finish, Read, Reply, Request, Verdict, Verify
from framehold_store import system_clock as clock
from tests.kit.effects import SOON
from tests.kit.engine import Carrier, Engine, ScriptHandler, claims, engine, question, reason, turns
from tests.kit.leases import lease
from tests.kit.processes import until

pytestmark = pytest.mark.anyio
OTHER, ADDRESS = NodeId("other"), "http://10.0.0.1:80"
KEYS = ("k" * 32,)
Done = Callable[[Reply | StoreUnavailable], None]


async def asks(frame: Frame) -> str:
    return f"{await frame.ask(question('one?'))} {await frame.ask(question('two?'))}"


class Desk(Engine):
    """A node whose calls may be entered again. It notes the requests that the store gets."""

    def __init__(self, made: Engine) -> None:
        super().__init__(made.runtime, made.store)
        self.requests, self.goes_on = list[Request](), asyncio.Event()
        self.goes_on.set()
        self._run, self._submit = self.store.run, self.store.submit
        self.changes: dict[type[Request], Callable[[Reply], Reply]] = {}
        self.store.run, self.store.submit = self._noted_run, self._noted_submit

    async def _noted_run(self, request: Request) -> Reply:
        self.requests.append(request)
        await self.goes_on.wait()
        return await self._run(request)

    def _noted_submit(self, request: Request, done: Done) -> None:
        self.requests.append(request)
        change = self.changes.pop(type(request), None)
        self._submit(request, lambda reply: done(change(reply) if change and isinstance(reply, Reply) else reply))

    def count(self, kind: type[Request]) -> int:
        return sum(isinstance(request, kind) for request in self.requests)

    async def park(self, **marks: Any) -> Parked:
        answer = await self.runtime.start(ScriptHandler(asks, **({"reentrant": True} | marks)), Carrier())
        assert isinstance(answer, Parked), answer
        return answer

    async def park_without_frame(self, **marks: Any) -> Parked:
        parked = await self.park(**marks)
        slot = self.runtime.table.get(parked.call)
        assert slot is not None
        self.runtime.feed(slot, Evict())
        return parked

    async def answer(self, parked: Parked) -> Any:
        answers, handler = dict.fromkeys(parked.questions, "a"), ScriptHandler(asks, reentrant=True)
        async with asyncio.timeout(SOON):
            return await self.runtime.retry(self.claims(parked), answers, handler, Carrier())


@pytest.fixture
async def desk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """`indirect` parameters are those of its gate."""
    monkeypatch.setattr(records, "TakeoverGate", partial(TakeoverGate, **getattr(request, "param", {})))
    async with engine(shared=True, keys=KEYS) as made:
        yield Desk(made)


@pytest.fixture
async def other(desk: Desk) -> AsyncIterator[Runtime]:
    """Another node with the same store."""
    settings = Settings(node_id=OTHER, lease_ttl=5.0, advertise_url=ADDRESS, keys=KEYS)
    made = assemble(settings, desk.store, True, clock.system_clock())
    await made.open()
    yield made
    await made.close()


@pytest.mark.parametrize("desk", [{"at_once": 2}], indirect=True)
async def test_so_many_records_are_looked_up_at_once(desk: Desk) -> None:
    calls = [await desk.park_without_frame() for _ in range(5)]
    desk.goes_on.clear()
    answers = [asyncio.create_task(desk.answer(parked)) for parked in calls]
    await turns(20)
    assert desk.count(Read) == 2
    desk.goes_on.set()
    assert all(isinstance(answer, Parked) for answer in await asyncio.gather(*answers))


@pytest.mark.parametrize("desk", [{"weight": 1}], indirect=True)
async def test_journals_beyond_the_limit_are_claimed_one_after_the_other(desk: Desk) -> None:
    calls, waiting = [await desk.park_without_frame() for _ in range(3)], list[Done]()

    def held(request: Request, done: Done) -> None:
        desk.requests.append(request)
        if isinstance(request, Claim):
            waiting.append(lambda reply: desk._submit(request, done))
        else:
            desk._submit(request, done)

    desk.store.submit = held
    answers = [asyncio.create_task(desk.answer(parked)) for parked in calls]
    for _ in calls:
        await turns(50)
        assert len(waiting) == 1
        waiting.pop()(Reply(Verdict.OK))
    assert all(isinstance(answer, Parked) for answer in await asyncio.gather(*answers))


async def test_a_lease_that_the_list_lacks_is_read(desk: Desk, other: Runtime) -> None:
    """The list of nodes is a hint: the owner of the call is alive, so it keeps it."""
    nodes = desk.store.nodes

    async def listed(named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        return await nodes(named) if named else tuple(one for one in await nodes() if one.node != OTHER)

    desk.store.nodes = listed
    parked = await other.start(ScriptHandler(asks, reentrant=True), Carrier())
    assert isinstance(parked, Parked)
    answers, handler = dict.fromkeys(parked.questions, "a"), ScriptHandler(asks, reentrant=True)
    async with asyncio.timeout(SOON):
        answer = await desk.runtime.retry(claims(parked, other), answers, handler, Carrier())
    assert answer == Elsewhere(OTHER, ADDRESS) and desk.count(Claim) == 0


@pytest.mark.parametrize("verdict", [Verdict.FENCED, Verdict.LOST])
async def test_a_write_that_is_refused_says_nothing_of_other_calls(
    desk: Desk, verdict: Verdict, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is behind does: then all frames are compared. A call that is lost is told in the log."""
    caplog.set_level(logging.INFO, records.__name__)
    parked, _ = await desk.park(), await desk.park()
    desk.requests.clear()
    submit = desk.store.submit

    def refused(request: Request, done: Done) -> None:
        desk.store.submit = submit
        asyncio.get_running_loop().call_soon(done, Reply(verdict))

    desk.store.submit = refused
    await desk.answer(parked)
    await turns(50)
    assert {request.call for request in desk.requests} == {parked.call}
    assert ("its client is told so" in caplog.text) is (verdict is Verdict.LOST)


@pytest.mark.parametrize(("size", "kept"), [(32 * 1024, True), (32 * 1024 + 1, False)])
async def test_the_largest_outcome_that_is_kept(desk: Desk, size: int, kept: bool) -> None:
    async def large(frame: Frame) -> str:
        await frame.ask(question("how large?"))
        return "x" * size

    parked = await desk.runtime.start(ScriptHandler(large), Carrier())
    assert isinstance(parked, Parked)
    ended, again = await desk.answer(parked), await desk.answer(parked)
    assert isinstance(ended, Ended) and desk.count(Finish) == 1
    assert again == ended if kept else reason(again) is Reason.ALREADY_ANSWERED


class Passable(Carrier):
    """A request that another node may answer."""

    to = ""
    may_be_passed_on = True

    def passed_on(self, address: str) -> None:
        self.to = address


class OfOtherCode(ScriptHandler):
    """A handler whose calls began with other code than this process has."""

    code = "d" * 32

    def describe(self) -> dict[str, str]:
        return {**super().describe(), "code": "c" * 32}


@pytest.mark.parametrize(("address", "passed"), [(ADDRESS, True), ("nowhere", False)])
async def test_a_call_of_other_code_goes_to_a_node_that_serves_it_and_is_reached(
    desk: Desk, other: Runtime, address: str, passed: bool
) -> None:
    parked = await other.start(OfOtherCode(asks, reentrant=True), Carrier())
    assert isinstance(parked, Parked)
    await other.drain(0.0, leaves=False)
    serving = lease("third", address=address, code=code_names(["c" * 32]))
    desk.store._nodes[serving.node] = desk.runtime.peers.seals.seal(serving)
    answers, handler, carrier = dict.fromkeys(parked.questions, "a"), OfOtherCode(asks, reentrant=True), Passable()
    answer = await desk.runtime.retry(claims(parked, other), answers, handler, carrier)
    assert answer == Elsewhere(serving.node, address) if passed else isinstance(answer, Parked)
    assert carrier.to == (address if passed else "")


async def test_a_lease_that_no_key_has_written_ends_no_owner(desk: Desk, other: Runtime) -> None:
    """What was written over the lease of an owner does not say that it is gone: its call is not claimed."""
    parked = await other.start(ScriptHandler(asks, reentrant=True), Carrier())
    assert isinstance(parked, Parked)
    desk.store._nodes[OTHER] = lease(OTHER)
    answers, handler = dict.fromkeys(parked.questions, "a"), ScriptHandler(asks, reentrant=True)
    answer = await desk.runtime.retry(claims(parked, other), answers, handler, Carrier())
    assert reason(answer) is Reason.UNAVAILABLE and desk.count(Claim) == 0


async def test_a_call_that_was_handed_off_is_sent_to_its_heir_by_the_last_view_of_the_fleet(
    desk: Desk, other: Runtime
) -> None:
    """The list of leases is a hint, and may lack it."""
    parked, nodes = await desk.park(), desk.store.nodes
    await desk.runtime.drain(0.0, leaves=False)

    async def listed(named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        return tuple(one for one in await nodes(named) if one.node != OTHER)

    desk.store.nodes = listed
    answer = await desk.answer(parked)
    assert answer == Elsewhere(OTHER, ADDRESS)


async def test_a_comparison_that_finds_the_store_behind_begins_no_other_one(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """All frames are compared already."""
    caplog.set_level(logging.INFO, rechecks.__name__)
    parked, *_ = [await desk.park() for _ in range(3)]
    desk.changes = dict.fromkeys((Commit, Verify), lambda _: Reply(Verdict.BEHIND))
    assert isinstance(await desk.answer(parked), Parked)
    await until(lambda: "were compared with the store" in caplog.text, "the end of the pass")
    await turns(5)
    assert not desk.changes and caplog.text.count("frames are compared with it") == 1
