"""One contract, every store: each precondition of each script is granted and refused as `cases` says, and what each
store answers and keeps is what the memory store has, which is core's `record` over a dict."""

import asyncio
import time
from collections.abc import Callable

import pytest

from framehold_core.clock import Clock
from framehold_core.ids import Incarnation
from framehold_core.requests import Evidence, Read, Reply, Request, Seen, Verdict
from framehold_core.trail import KEPT
from framehold_core.value import replace
from framehold_store import Store
from framehold_store.memory import MemoryStore
from framehold_store.system_clock import measure
from tests.store.calls import E0, E1, E2, E3, Story, assert_alike, batch, fence
from tests.store.cases import ALREADY, BEHIND, CASES, FENCED, LOST, OK, Case, lost

pytestmark = pytest.mark.anyio


class Held:
    """A store that is held to its model: what it answers, the model must answer too."""

    def __init__(self, store: Store) -> None:
        self.store, self.model = store, MemoryStore(time.time)

    async def run(self, request: Request) -> Reply:
        reply = await self.store.run(request)
        assert_alike(reply, await self.model.run(request))
        return reply


@pytest.fixture
def held(store: Store) -> Held:
    return Held(store)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
async def test_a_script_grants_and_refuses(held: Held, case: Case, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is told to look for another writer: there is none."""
    story = Story(case.head)
    for step in case.before(story):
        assert (await held.run(step)).verdict in (OK, LOST)
    before = await held.run(story.read)
    reply = await held.run(case.request(story))
    assert reply.verdict is case.verdict
    after = await held.run(story.read)
    if reply.verdict is not OK and (reply.verdict is not LOST or case.before is lost):
        assert after == before
        if reply.stored is not None:
            assert before.stored is not None and reply.stored.record == before.stored.record
            assert reply.epoch == before.epoch
    assert not caplog.records


@pytest.mark.parametrize("case", [case for case in CASES if case.verdict is OK], ids=lambda case: case.label)
async def test_a_request_may_be_sent_again(store: Store, case: Case) -> None:
    """A caller that lost the reply sends the request again: nothing is applied twice, and no failure is reported."""
    story = Story(case.head)
    for step in case.before(story):
        await store.run(step)
    request = case.request(story)
    first = await store.run(request)
    between = await store.run(story.read)
    second = await store.run(request)
    if case.name == "no entries":
        assert second.verdict is FENCED  # a commit without entries has no position of its own; no park is without one
    else:
        assert second.verdict in ((OK,) if isinstance(request, Read) else (ALREADY,))
        assert second.epoch == first.epoch
    assert await store.run(story.read) == between


def across_nodes(s: Story) -> list[Request]:
    """A whole life on three nodes."""
    second, third = fence(2, 2, 2, "node-2", "inc-9"), fence(2, 2, 4, "node-3", "inc-9")
    return [
        replace(s.ask, ran=0.25),
        replace(s.ask_again, ran=90.5),
        s.claim,
        replace(s.verify, fence=second, incarnation=Incarnation("inc-3")),
        replace(s.release, fence=replace(second, epoch=3, incarnation=Incarnation("inc-3"))),
        s.claims(Seen(3, "", ""), Evidence.RELEASED, "node-3"),
        replace(s.ask_again, fence=third, batch=batch((E0, E1), E2), answered=None),
        replace(s.finish, fence=replace(third, round=3, position=3), answered=None, ran=1.5),
    ]


def healed_between(s: Story) -> list[Request]:
    """A heal keeps the steps that the store still knows, and the next park goes behind it."""
    heal = s.heals(Seen(1, "node-1", "inc-1"), fence(2, 3), E0, E1, E2)
    parked = replace(s.ask_again, fence=fence(2, 3, 2), batch=batch((E0, E1, E2), E3), answered=None, ran=90.5)
    return [replace(s.ask, ran=0.25), heal, parked]


def verified_for_ever(s: Story) -> list[Request]:
    """I9 of docs/protocol.md: more steps than a trail keeps, and a heal finds them as they are."""
    steps: list[Request] = [s.ask]
    for epoch in range(1, KEPT + 8):
        owner = fence(1, 1, epoch, inc=f"inc-{epoch}")
        steps.append(replace(s.verify, fence=owner, incarnation=Incarnation(f"inc-{epoch + 1}")))
    seen = Seen(KEPT + 8, "node-1", f"inc-{KEPT + 8}")
    return [*steps, s.heals(seen, fence(1, 3, KEPT + 8, inc=seen.incarnation), E0, E1, E2)]


def longer_than_luas_stack(s: Story) -> list[Request]:
    entries = [b"%d" % number for number in range(9000)]
    return [s.heals(None, fence(3, len(entries)), *entries)]


def lost_later(s: Story) -> list[Request]:
    """It can't be entered again: its last step is of whoever found that out."""
    return [s.ask, s.ask_again, replace(s.claim, reentrant=False)]


@pytest.mark.parametrize("life", [across_nodes, healed_between, verified_for_ever, longer_than_luas_stack, lost_later])
async def test_a_long_life_is_the_same_in_every_store(held: Held, life: Callable[[Story], list[Request]]) -> None:
    story = Story()
    for request in life(story):
        assert (await held.run(request)).verdict in (OK, LOST)
        assert (await held.run(story.read)).verdict is OK


async def test_a_claim_gives_the_whole_call(store: Store) -> None:
    """The new owner needs no second read."""
    story = Story()
    for request in (story.ask, story.intent):
        await store.run(request)
    reply = await store.run(story.claim)
    assert reply == await store.run(story.read) and reply.stored is not None
    assert reply.stored.journal == (E0, E1, E2)


async def test_a_record_expires(store: Store) -> None:
    """After its TTL it is missing, and the call id may begin anew, with a trail of its own."""
    story = Story()
    await store.run(replace(story.ask, ttl=0.05))
    while (await store.run(story.read)).verdict is OK:
        pass
    assert (await store.run(story.ask_again)).verdict is BEHIND
    assert (await store.run(story.claim)).verdict is Verdict.MISSING
    assert (await store.run(story.ask)).verdict is OK
    stored = (await store.run(story.read)).stored
    assert stored is not None and len(stored.record.trail) == 1


async def test_the_store_tells_its_time(store: Store) -> None:
    """In seconds since 1970; each step of a trail is stamped by that clock."""
    clock = Clock(time.monotonic, lambda: 0.0, bytes)
    await measure(clock, store)
    assert clock.time() == pytest.approx(time.time(), abs=5.0)
    first, second = await store.time(), await store.time()
    assert first <= second < first + 5.0
    story = Story()
    await store.run(story.ask)
    reply = await store.run(story.claim)
    assert reply.stored is not None
    record = reply.stored.record
    begun, last = (step.at for step in record.trail)
    assert begun == pytest.approx(record.created, abs=1e-6)
    assert begun <= last == pytest.approx(record.expires - story.claim.ttl, abs=1e-6)


async def test_submit_tells_once(store: Store) -> None:
    """In the order of submission within a call; requests are counted by script."""
    story = Story()
    result: list[Verdict] = []
    last = asyncio.get_running_loop().create_future()
    for request in (story.ask, story.intent, story.result):
        store.submit(request, lambda reply: result.append(reply.verdict))  # type: ignore[union-attr]  # a reply, no error
    store.submit(story.read, last.set_result)
    assert (await last).stored.record.position == 4
    assert result == [OK, OK, OK]
    assert store.request_counts == {"commit": 1, "intent": 1, "result": 1, "read": 1}


async def test_a_caller_that_fails_on_its_reply(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    result = [loop.create_future() for _ in range(2)]
    failed = asyncio.Event()

    def fail(_: object) -> None:
        failed.set()
        raise RuntimeError("a bug of the caller")

    for done in (result[0].set_result, fail, result[1].set_result):
        store.submit(Story().ask, done)
    assert [reply.verdict for reply in await asyncio.gather(*result)] == [OK, OK]
    # In a cluster each call's reply comes from a server of its own.
    await failed.wait()
    assert "a bug of the caller" in caplog.text
