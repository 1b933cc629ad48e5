"""Scans: a walk over all records in steps, in all stores."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot
from framehold_core.requests import RecordState
from framehold_core.value import replace
from framehold_store import Store, StoreConfig
from framehold_store.base import ScanStep, Summary
from framehold_store.redis import RedisStore
from tests.kit.redis_server import RedisServer
from tests.store.calls import HEAD, PLAIN, TTL, Story, new_call

pytestmark = pytest.mark.anyio

SMALL = 50.0


async def walk(store: Store, count: int = 7) -> list[ScanStep]:
    """All steps from the beginning to the end."""
    steps = [await store.scan("", count)]
    while steps[-1].cursor:
        steps.append(await store.scan(steps[-1].cursor, count))
        assert len(steps) < 100_000
    return steps


async def found(store: Store, count: int = 7) -> dict[str, Summary]:
    return {summary.call: summary for step in await walk(store, count) for summary in step.found}


async def parked(store: Store, count: int) -> list[Story]:
    stories = [Story() for _ in range(count)]
    await asyncio.gather(*(store.run(story.ask) for story in stories))
    return stories


async def test_a_sweep_tells_what_an_orphan_hunter_needs(store: Store) -> None:
    """Who owns the call, how often it was claimed, whether it may be entered again; and when it began."""
    story = Story(replace(HEAD, tool='weather é"\\'))
    for request in (story.ask, story.claim):
        await store.run(request)
    (summary,) = (await found(store)).values()
    assert summary[:2] == (story.call, RecordState.OPEN)
    assert (summary.owner, summary.inc, summary.boot) == ("node-2", "inc-9", "boot-9")
    assert (summary.epoch, summary.round, summary.attempts) == (2, 1, 1)
    assert (summary.reentrant, summary.tool, summary.strategy) == (True, 'weather é"\\', "hold")
    assert summary.expires == pytest.approx(summary.created + TTL, abs=SMALL)


async def test_a_sweep_finds_calls_of_each_state(store: Store) -> None:
    """Open, released, done and lost: the reader chooses."""
    stories = {state: Story(PLAIN if state is RecordState.LOST else HEAD) for state in RecordState}
    ends = {RecordState.RELEASED: "release", RecordState.DONE: "finish", RecordState.LOST: "claim"}
    for state, story in stories.items():
        await store.run(story.ask)
        if state in ends:
            await store.run(getattr(story, ends[state]))
    summaries = await found(store)
    assert {summaries[story.call].state: state for state, story in stories.items()} == {s: s for s in RecordState}
    lost = summaries[stories[RecordState.LOST].call]
    assert (lost.reentrant, lost.boot) == (False, Boot("boot-1"))


async def test_a_walk_finds_every_record_in_bounded_steps(store: Store) -> None:
    """Whatever else the store holds, and no step is much larger than was asked for."""
    stories = await parked(store, 300)
    steps = await walk(store, 10)
    assert {summary.call for step in steps for summary in step.found} == {story.call for story in stories}
    assert max(len(step.found) for step in steps) <= 30
    assert len(steps) >= 30


async def test_what_stands_throughout_is_found_while_others_come_and_go(store: Store) -> None:
    """Records that expire between two steps, and new ones, hide none."""
    passing = [replace(Story().ask, ttl=0.2) for _ in range(60)]
    await asyncio.gather(*(store.run(request) for request in passing))
    staying = await parked(store, 60)
    step = await store.scan("", 10)
    seen = {summary.call for summary in step.found}
    await asyncio.sleep(0.3)
    while step.cursor:
        await parked(store, 3)
        step = await store.scan(step.cursor, 10)
        seen |= {summary.call for summary in step.found}
    assert {story.call for story in staying} <= seen


async def test_an_expired_record_is_not_found(store: Store) -> None:
    await store.run(replace(Story().ask, ttl=0.05))
    await asyncio.sleep(0.1)
    assert await found(store) == {}


async def test_a_cursor_of_no_sweep_is_refused(store: Store) -> None:
    with pytest.raises(StoreUnavailable, match="nothing was looked at"):
        await store.scan(" nonsense" if not isinstance(store, RedisStore) else await a_server(store) + " x", 10)


async def a_server(store: RedisStore) -> str:
    await parked(store, 100)
    return (await store.scan("", 1)).cursor.rpartition(" ")[0]


@pytest.fixture
async def redis_store(shared_server: RedisServer, namespace: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(StoreConfig(shared_server.url, namespace, op_timeout=5.0))
    yield store
    await store.close()


async def test_what_cant_be_read_is_counted(
    redis_store: RedisStore, shared_server: RedisServer, namespace: str
) -> None:
    """Another type, a field that is missing, a newer format, a name that is no call's: the walk goes on."""
    stories = await parked(redis_store, 7)
    key = {story.call: f"fh:{namespace}:{{{story.call}}}:r" for story in stories}
    with shared_server.client() as admin:
        admin.hdel(key[stories[0].call], "tool")
        admin.hset(key[stories[1].call], "v", "2")
        admin.hset(key[stories[2].call], "state", "odd")
        admin.hset(key[stories[3].call], "tool", b"\xff")
        admin.hset(key[stories[5].call], "expires", "9" * 400)
        admin.hset(key[stories[6].call], "created", "-1")
        admin.set(f"fh:{namespace}:{{{new_call()}}}:r", "garbage")
        admin.hset(f"fh:{namespace}:{{no call}}:r", "v", "1")
    steps = await walk(redis_store)
    assert {summary.call for step in steps for summary in step.found} == {stories[4].call}
    assert sum(step.unreadable for step in steps) == 8


@pytest.mark.parametrize("number", ["-1", "9" * 15, "9" * 400, "9" * 5000, "nan", "1e3", "1_0", " 1", "\u0661"])
async def test_a_number_that_no_script_writes_cant_be_read(
    redis_store: RedisStore, shared_server: RedisServer, namespace: str, number: str
) -> None:
    """As for whoever reads the whole record: an operator's page has no room for it."""
    stories = await parked(redis_store, 3)
    with shared_server.client() as admin:
        for story, field in zip(stories, ("epoch", "round", "attempts"), strict=True):
            admin.hset(f"fh:{namespace}:{{{story.call}}}:r", field, number)
    steps = await walk(redis_store)
    assert [step.found for step in steps if step.found] == [] and sum(step.unreadable for step in steps) == 3


async def test_namespaces_are_walked_apart(shared_server: RedisServer, namespace: str) -> None:
    stores = [RedisStore(StoreConfig(shared_server.url, f"{namespace}{tail}", op_timeout=5.0)) for tail in (".a", "xa")]
    for store in stores:
        await store.run(Story().ask)
    for store in stores:
        assert len(await found(store)) == 1
        await store.close()
