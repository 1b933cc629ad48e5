"""The memory store stays small, and forgets on time."""

import pytest

from framehold_core.lease import Renewal
from framehold_core.requests import RecordState, Verdict
from framehold_core.value import replace
from framehold_store import memory
from framehold_store.base import MAX_EVENT_AGE
from framehold_store.memory import MemoryStore
from tests.kit.leases import lease
from tests.store.calls import PLAIN, Story

pytestmark = pytest.mark.anyio


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_expired_records_are_forgotten_unasked() -> None:
    """Each later request drops expired records; no structure grows with the number of past calls."""
    clock = Clock()
    store = MemoryStore(clock)
    for number in range(20_000):
        clock.now += 0.01
        await store.run(replace(Story().ask, ttl=1.0))
        if number == 200:
            small = len(store._calls)
    assert len(store._calls) <= small + 1
    assert len(store._due) <= 3 * small + 2000


async def test_a_record_that_lives_on_keeps_its_place() -> None:
    """A write moves its expiry, and the sweep finds it later."""
    clock = Clock()
    store, story = MemoryStore(clock), Story()
    await store.run(replace(story.ask, ttl=1.0))
    await store.run(replace(story.ask_again, ttl=10.0))
    clock.now += 5
    await store.run(Story().read)
    assert (await store.run(story.read)).verdict is Verdict.OK
    clock.now += 5
    await store.run(Story().read)
    assert not store._calls


async def test_tombstones_are_bounded() -> None:
    """The oldest go first; calls that are open are never dropped for them."""
    store = MemoryStore(Clock(), max_tombstones=2)
    first, *others = [Story() for _ in range(4)]
    await store.run(first.ask)
    lost = Story(PLAIN)
    await store.run(lost.ask)
    await store.run(lost.claim)
    for story in others:
        await store.run(story.ask)
        await store.run(story.finish)
    verdicts = [(await store.run(story.read)).verdict for story in (first, lost, *others)]
    assert verdicts == [Verdict.OK, Verdict.MISSING, Verdict.MISSING, Verdict.OK, Verdict.OK]


async def test_the_outcomes_of_finished_calls_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 outcomes of the largest size would take 3 GB. That a call has finished is known on."""
    monkeypatch.setattr(memory, "MAX_OUTCOME_BYTES", 100)
    clock = Clock()
    store = MemoryStore(clock)
    stories = [Story() for _ in range(4)]
    for story in stories:
        await store.run(story.ask)
        await store.run(replace(story.finish, outcome=b"x" * 40))
    found = [(await store.run(story.read)).stored for story in stories]
    records = [stored.record for stored in found if stored is not None]
    assert [record.state for record in records] == [RecordState.DONE] * 4
    assert [len(record.outcome) for record in records] == [0, 0, 40, 40]
    clock.now += 10_000
    for _ in stories:
        await store.run(Story().read)
    assert not store._calls and store._outcome_bytes == 0


async def test_the_heap_does_not_grow_with_dropped_tombstones() -> None:
    """They leave no place behind, however long their time to live."""
    store = MemoryStore(Clock(), max_tombstones=10)
    for _ in range(5000):
        story = Story()
        await store.run(story.ask)
        await store.run(story.finish)
    assert len(store._calls) == 10
    assert len(store._due) < 1100


async def test_as_much_is_kept_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of finished calls and of their outcomes, however many come."""
    monkeypatch.setattr(memory, "MAX_OUTCOME_BYTES", 80)
    store, stories = MemoryStore(Clock(), max_tombstones=3), list[Story]()
    for number in range(1, 9):
        stories.append(story := Story())
        await store.run(story.ask)
        await store.run(replace(story.finish, outcome=b"x" * 40))
        found = [(await store.run(each.read)).stored for each in stories]
        outcomes = [stored.record.outcome for stored in found if stored is not None]
        assert len(outcomes) == min(number, 3) and sum(map(bool, outcomes)) == min(number, 2)


async def test_what_ends_at_an_instant_is_gone_then() -> None:
    """And no sooner: codes, samples, events, leases and records, as in Redis."""
    clock = Clock()
    store, held = MemoryStore(clock), lease(expires=clock.now + 10)
    await store.keep_code("c" * 32, b"code", 10.0)
    await store.keep_sample(1, 0, b"sample", 10.0)
    await store.append_events([b"event"])
    await store.register(held, 10.0)
    await store.run(replace(Story().ask, ttl=10.0))

    async def seen() -> tuple[object, ...]:
        code, samples, nodes = await store.code("c" * 32), await store.samples(1, [0]), await store.nodes()
        return code, samples, len(nodes), len((await store.scan()).found), len(await store.events())

    assert await seen() == (b"code", (b"sample",), 1, 1, 1)
    clock.now += 10
    reply = await store.renew(replace(held, beat=1, expires=clock.now + 10), 0, 10.0)
    assert (reply.result, reply.stored, reply.raw) == (Renewal.LAPSED, None, b"")
    assert await seen() == (None, (None,), 0, 0, 1)
    clock.now += MAX_EVENT_AGE["log"] - 10
    assert await seen() == (None, (None,), 0, 0, 1)
    clock.now += 0.001
    assert await seen() == (None, (None,), 0, 0, 0)
