"""The store that the processes of a schedule share, and the line from each of them to it: it delays, loses and repeats,
and it can be cut.

The law: what a process sends arrives in the order in which it was sent, and so do the replies, as on one connection of
Redis. Whoever gets no reply within PATIENCE gets `StoreUnavailable`; what was sent may be applied all the same, later
than that.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import Context
from random import Random
from typing import Any, Protocol

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId, NodeId
from framehold_core.requests import Record, Reply, Request
from framehold_store.base import POLL, Done, Store
from framehold_store.feed import Feed
from framehold_store.memory import MemoryStore

from .loop import OWNER, SeededLoop
from .places import APPLIED, SENT, Places
from .plan import STAND

PATIENCE = 1.0
"""Seconds after which a request that got no reply is given up."""
ORDER = 1e-9
"""Seconds between two messages at least: timers of one time have no order."""
REPEATS = 0.02
"""How probably a request is applied twice."""
Watch = Callable[[CallId, str, Record | None, Record], None]
"""Sees a call, the name of a request, and the record before and after it."""
_ANNOUNCED = ("register", "renew", "unregister")


class Line:
    """The line from one process to the store. It delays what is sent, and loses it while it is cut. `context` is the
    process's own."""

    def __init__(self, loop: SeededLoop, random: Random, context: Context, store: Common, places: Places) -> None:
        self.loop, self.context = loop, context
        self._random, self._store = random, store
        self._places, self._owner = places, context[OWNER]
        self._far = loop.context("store")
        self._sent = self._answered = 0.0
        self.cut_until = 0.0
        self.slow = 0.002
        """Seconds that a message takes at most, one way, where nothing is wrong."""
        self.missing: set[str] = set()
        """The codes that the store did not have when the process read them last."""
        self.feed = Feed(POLL)
        self.receive: Callable[[bytes], None] = lambda message: None
        """What the process does with a message that another one has published."""
        store.lines.append(self)

    def is_cut(self) -> bool:
        """Whether nothing passes."""
        return max(self.cut_until, self._store.down_until) > self.loop.time()

    def delay(self) -> float:
        """Seconds that a message takes, one way."""
        return self._random.uniform(0.0002, self.slow)

    def chance(self, share: float) -> bool:
        """Whether something happens that happens so often."""
        return self._random.random() < share

    def has_read(self, code: str, found: bytes | None) -> bytes | None:
        """The process has read a kept code, and has `found` it."""
        (self.missing.add if found is None else self.missing.discard)(code)
        return found

    def strike(self, name: str, kind: str) -> None:
        """A message is at a place. One of a process that stands still before it has sent it leaves when that goes on:
        others have written by then."""
        if self._places.message(name, kind, self._owner) == STAND and kind == SENT:
            self._sent = max(self._sent, self.loop.stands_until(self._owner))

    def send(self, arrive: Callable[[], None], lost: Callable[[], None] = lambda: None) -> None:
        """Have `arrive` called at the store, after all that was sent before; `lost` if the line is cut meanwhile."""
        if self.is_cut() or self.loop.is_killed(self._owner):
            lost()
            return
        self._sent = max(self._sent + ORDER, self.loop.time() + self.delay())
        self.loop.call_at(self._sent, lambda: lost() if self.is_cut() else arrive(), context=self._far)

    def answer(self, hear: Callable[[], None], lost: Callable[[], None] = lambda: None) -> None:
        """Have `hear` called in the process, after all that was answered before; `lost` if the line is cut."""

        def leave() -> None:
            if self.is_cut():
                lost()
            else:
                self.loop.call_soon(hear, context=self.context)

        self._answered = max(self._answered + ORDER, self.loop.time() + self.delay())
        self.loop.call_at(self._answered, leave, context=self._far)

    def hear(self, message: bytes) -> None:
        """Another process has published a message."""
        if not self.is_cut():
            self.loop.call_later(self.delay(), self.receive, message, context=self.context)


class Common(Protocol):
    """The store of a schedule, as the world and the lines see it. `lines` lead to it."""

    lines: list[Line]
    down_until: float

    def record(self, call: CallId) -> Record | None:
        """The record of a call."""

    def keeps(self, code: str) -> bool:
        """Whether the store has this code."""

    def lapse(self, node: NodeId) -> None:
        """The lease of a node is gone."""

    def snapshot(self) -> Any:
        """All that is stored."""

    def go_back(self, then: Any) -> None:
        """The store is as it was at a snapshot: what was acknowledged since is lost."""

    def store(self, line: Line) -> Store:
        """The store as a process has it, at the end of a line."""


class CommonMemory(MemoryStore):
    """`Common` in memory. `watch` sees each record before and after each request."""

    def __init__(self, loop: SeededLoop, rate: float, watch: Watch) -> None:
        super().__init__(lambda: 1.7e9 + loop.time() * rate)
        self.lines: list[Line] = []
        self.down_until = 0.0
        self._watch = watch

    def apply(self, request: Request) -> Reply:
        """Apply a request."""
        before = self._calls.get(request.call)
        reply = self._apply(request)
        after = self._calls.get(request.call)
        if after is not None and after is not before:
            self._watch(request.call, type(request).__name__, None if before is None else before.record, after.record)
        return reply

    def store(self, line: Line) -> Store:
        """The store as a process has it, at the end of a line."""
        return _FarMemory(self, line)

    def record(self, call: CallId) -> Record | None:
        """The record of a call."""
        stored = self._calls.get(call)
        return None if stored is None else stored.record

    def keeps(self, code: str) -> bool:
        """Whether the store has this code."""
        return code in self._codes

    def lapse(self, node: NodeId) -> None:
        """The lease of a node is gone."""
        self._nodes.pop(node, None)

    def snapshot(self) -> dict[str, Any]:
        """All that is stored."""
        return {name: copy.copy(getattr(self, name)) for name in _DATA}

    def go_back(self, then: dict[str, Any]) -> None:
        """The store is as it was at a snapshot: what was acknowledged since is lost."""
        vars(self).update({name: copy.copy(data) for name, data in then.items()})


_DATA = ("_calls", "_due", "_tombstones", "_outcomes", "_outcome_bytes", "_nodes", "_pauses", "_deaths", "_codes")


class _FarMemory:
    """A `Store` in memory at the end of a line. Messages are repeated at times."""

    def __init__(self, store: CommonMemory, line: Line) -> None:
        self._store, self._line = store, line
        self.request_counts: Mapping[str, int] = store.request_counts
        self.unreadable_leases = 0

    def submit(self, request: Request, done: Done) -> None:
        self._send(type(request).__name__, lambda: self._store.apply(request), done)

    async def run(self, request: Request) -> Reply:
        return await self._far(type(request).__name__, lambda: self._store.apply(request))  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        async def far(*args: Any, **named: Any) -> Any:
            found = await self._far(name, lambda: _finished(method(*args, **named)))
            if name in _ANNOUNCED:
                announce(self._store, args[0].node)
            return found

        return far

    async def code(self, digest: str) -> bytes | None:
        return self._line.has_read(digest, await self._far("code", lambda: _finished(self._store.code(digest))))

    def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        return self._line.feed.changes()

    def subscribe(self, receive: Callable[[bytes], None]) -> None:
        self._line.receive = receive

    async def publish(self, message: bytes) -> None:
        await self._far("publish", lambda: spread(self._store, message))

    async def open(self) -> None:
        """Make ready."""
        self._line.feed = Feed(POLL)

    async def close(self) -> None:
        """End the feed."""
        self._line.feed.close()

    async def _far(self, name: str, act: Callable[[], Any]) -> Any:
        reply: asyncio.Future[Any] = self._line.loop.create_future()

        def done(found: Any) -> None:
            if not reply.done():
                reply.set_result(found)

        self._send(name, act, done)
        found = await reply
        if isinstance(found, StoreUnavailable):
            raise found
        return found

    def _send(self, name: str, act: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Have `act` done at the store; `done` gets what it returns, or the error, once. `name` names the message."""
        answered: list[Any] = []

        def hear(found: Any) -> None:
            if not answered:
                answered.append(found)
                done(found)

        def arrive() -> None:
            found = act()
            if self._line.chance(REPEATS):
                found = act()
            self._line.strike(name, APPLIED)
            self._line.answer(lambda: hear(found))

        late = StoreUnavailable("the store did not answer in time")
        self._line.loop.call_later(PATIENCE, hear, late, context=self._line.context)
        self._line.strike(name, SENT)
        self._line.send(arrive)


def announce(store: Common, node: NodeId) -> None:
    """All processes hear that the lease of a node has changed."""
    for line in store.lines:
        line.feed.notify(node)


def spread(store: Common, message: bytes) -> None:
    """All processes hear a message."""
    for line in store.lines:
        line.hear(message)


def _finished(coroutine: Any) -> Any:
    """What a coroutine returns that awaits nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a store in memory waits for nothing")
