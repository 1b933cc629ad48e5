"""Random stories told to all three stores: after each request the replies and the whole records are equal.

`record.apply` over a dict (the memory store) is what the Lua must equal. Each step is drawn from what stands in the
store, a little off in most cases, so that most preconditions are met or missed by one; earlier requests are sent
again at random.
"""

import asyncio
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framehold_core import journal
from framehold_core.ending import COMPLETED, Ending, How
from framehold_core.ids import Boot, CallId, Incarnation, NodeId
from framehold_core.requests import (
    Answered,
    Batch,
    Claim,
    Commit,
    Done,
    Evidence,
    Fence,
    Finish,
    Head,
    Heal,
    Intent,
    Read,
    Record,
    Release,
    Reply,
    Request,
    Result,
    Seen,
    Stored,
    Verify,
)
from framehold_core.value import replace
from framehold_store import Store, StoreConfig
from framehold_store.embedded import EmbeddedStore
from framehold_store.memory import MemoryStore
from framehold_store.redis import RedisStore
from tests.kit.redis_server import RedisServer
from tests.store.calls import assert_alike, new_call

OWNERS = st.sampled_from([NodeId("node-1"), NodeId("node-2")])
INCS = st.sampled_from([Incarnation("inc-1"), Incarnation("inc-2")])
TTLS = st.sampled_from([60.0, 600.0, 3600.0])
ENDINGS = st.sampled_from([COMPLETED, Ending(How.TOOL_ERROR, "ValueError", "shop:refund:41")])
RANS = st.sampled_from([0.0, 0.25, 90.5])
DIGESTS = st.sampled_from(["yes", "no"])
KEYS = st.sampled_from(["once", "twice"])
FIRST = Seen(1, "node-1", "inc-1")
KINDS: list[type] = [Commit, Commit, Intent, Result, Finish, Claim, Verify, Heal, Release]
OFF = st.sampled_from([0, 0, 0, 0, 0, 0, -1, 1])
HEADS = st.builds(
    Head,
    *[st.just(Boot("boot-1")), st.booleans(), st.text(max_size=5)],
    *[st.just("code"), st.just("tools/call"), st.text(max_size=5), st.just("args"), st.just("alice")],
)


class Drawer:
    """Draws requests about one call, near to what stands there."""

    def __init__(self, data: st.DataObject, call: CallId) -> None:
        self.data = data
        self.call = call
        self.head = data.draw(HEADS)
        self.said: list[Request] = []

    def request(self, stored: Stored | None) -> Request:
        draw = self.data.draw
        if self.said and draw(st.integers(0, 4)) == 0:
            return draw(st.sampled_from(self.said))
        self.said.append(self.drawn(stored, draw(st.sampled_from(KINDS))))
        return self.said[-1]

    def drawn(self, stored: Stored | None, kind: type) -> Request:
        draw, fence, ttl = self.data.draw, self.fence(stored.record if stored else None), self.data.draw(TTLS)
        if kind is Claim:
            seen, evidence = self.seen(stored) or FIRST, draw(st.sampled_from(Evidence))
            node, is_marked = (draw(OWNERS), draw(INCS), Boot("boot-2")), draw(st.integers(0, 3)) > 0
            return Claim(self.call, seen, evidence, *node, is_marked, 3, ttl, draw(st.booleans()))
        if kind is Verify:
            return Verify(self.call, fence, draw(INCS), ttl)
        if kind is Release:
            return Release(self.call, fence, ttl)
        if kind is Heal:
            return self.heal(stored, fence, ttl)
        answered = draw(st.sampled_from([None, Answered(fence.round, draw(DIGESTS), self.keys())]))
        done = draw(st.lists(KEYS, max_size=2, unique=True))
        results = tuple(Done(key, draw(st.booleans())) for key in done)
        if kind is Finish:
            outcome = draw(st.binary(max_size=3)), draw(ENDINGS)
            return Finish(self.call, fence, *outcome, ttl, answered, draw(RANS), results)
        batch = self.batch(stored, 0 if kind is Commit else 1)
        if kind is Commit:
            return Commit(self.call, fence, batch, ttl, answered, self.head, draw(RANS), results)
        if kind is Intent:
            return Intent(self.call, fence, batch, ttl, draw(KEYS), answered, self.head, results)
        return Result(self.call, fence, batch, ttl, answered, self.head, results)

    def fence(self, record: Record | None) -> Fence:
        draw, fence = self.data.draw, Fence(NodeId("node-1"), Incarnation("inc-1"), 1, 0, 0)
        if record is not None:
            owner = NodeId(record.owner), Incarnation(record.incarnation)
            fence = Fence(*owner, record.epoch, record.round, record.position)
        if draw(st.integers(0, 2)):
            return fence
        names = draw(st.sampled_from([(fence.owner, fence.incarnation), (draw(OWNERS), draw(INCS))]))
        off = [max(0, number + draw(OFF)) for number in (fence.epoch, fence.round, fence.position)]
        return Fence(*names, *off)

    def batch(self, stored: Stored | None, least: int = 1) -> Batch:
        entries = tuple(self.data.draw(st.lists(st.binary(max_size=4), min_size=least, max_size=3)))
        return Batch(entries, journal.chain(stored.record.history if stored else journal.GENESIS, entries))

    def keys(self) -> tuple[str, ...]:
        return tuple(self.data.draw(st.lists(st.text(max_size=3), max_size=2)))

    def heal(self, stored: Stored | None, fence: Fence, ttl: float) -> Heal:
        draw = self.data.draw
        if draw(st.booleans()):
            fence = replace(fence, epoch=fence.epoch + draw(st.integers(0, 2)), position=fence.position + 1)
        answers = tuple(Answered(round_, draw(DIGESTS), ("k",)) for round_ in range(draw(st.integers(0, 3))))
        intents = tuple((key, draw(st.booleans())) for key in draw(st.sets(KEYS)))
        return Heal(self.call, fence, self.seen(stored), self.batch(None), answers, intents, self.head, ttl)

    def seen(self, stored: Stored | None) -> Seen | None:
        if stored is None or self.data.draw(st.integers(0, 7)) == 0:
            return self.data.draw(st.sampled_from([None, FIRST]))
        return stored.record.seen


class Stores:
    """The memory store and those that must equal it, on a loop of their own."""

    def __init__(self, url: str, namespace: str) -> None:
        self.runner = asyncio.Runner()
        self.model: Store = MemoryStore(time.time)
        self.others: list[Store] = [
            EmbeddedStore(StoreConfig("embedded://", namespace, op_timeout=10.0)),
            RedisStore(StoreConfig(url, namespace, op_timeout=10.0)),
        ]

    def ask(self, request: Request) -> Reply:
        """What all of them answer; fails where one differs."""
        return self.runner.run(self._ask(request))

    async def _ask(self, request: Request) -> Reply:
        expected = await self.model.run(request)
        for store in self.others:
            reply = await store.run(request)
            assert_alike(reply, expected)
        return expected

    def close(self) -> None:
        for store in self.others:
            self.runner.run(store.close())
        self.runner.close()


@pytest.fixture
def stores(shared_server: RedisServer, namespace: str) -> Iterator[Stores]:
    built = Stores(shared_server.url, namespace)
    yield built
    built.close()


@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_every_store_tells_the_same_story(stores: Stores, data: st.DataObject) -> None:
    drawer = Drawer(data, new_call())
    stored = None
    for _ in range(data.draw(st.integers(1, 14))):
        stores.ask(drawer.request(stored))
        stored = stores.ask(Read(drawer.call)).stored
