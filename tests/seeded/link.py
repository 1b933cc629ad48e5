"""One process's connection to the common store: it delays, loses and repeats, and it can be cut.

The law: what a process sends arrives in the order in which it was sent, and so do the replies, as on one connection of
Redis. Whoever gets no reply within PATIENCE gets `StoreUnavailable`; what was sent may be applied all the same, later
than that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import Context
from random import Random
from typing import Any

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import NodeId
from framehold_core.requests import Reply, Request
from framehold_store.base import POLL, Done
from framehold_store.feed import Feed
from framehold_store.memory import MemoryStore

from .loop import SeededLoop

PATIENCE = 1.0
"""Seconds after which a request that got no reply is given up."""
REPEATS = 0.02
"""How probably a request is applied twice."""
_ANNOUNCED = ("register", "renew", "unregister")


class CommonStore:
    """The store of a schedule. `links` are the connections to it."""

    def __init__(self, loop: SeededLoop, rate: float) -> None:
        self.memory = MemoryStore(lambda: 1.7e9 + loop.time() * rate)
        self.links: list[Link] = []
        self.down_until = 0.0


class Link:
    """A `Store` for one process. `context` is the process's own."""

    def __init__(self, loop: SeededLoop, random: Random, context: Context, store: CommonStore) -> None:
        self._loop, self._random, self._context, self._store = loop, random, context, store
        self._world = loop.context("store")
        self._sent = self._answered = 0.0
        self.cut_until = 0.0
        self.slow = 0.002
        """Seconds that a message takes at most, one way, where nothing is wrong."""
        self._feed = Feed(POLL)
        self._receive: Callable[[bytes], None] = lambda message: None
        self.request_counts: Mapping[str, int] = store.memory.request_counts
        self.unreadable_leases = 0
        store.links.append(self)

    def submit(self, request: Request, done: Done) -> None:
        self._send(lambda: self._store.memory._apply(request), done)

    async def run(self, request: Request) -> Reply:
        return await self._far(lambda: self._store.memory._apply(request))  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store.memory, name)

        async def far(*args: Any, **named: Any) -> Any:
            found = await self._far(lambda: _finished(method(*args, **named)))
            if name in _ANNOUNCED:
                for link in self._store.links:
                    link._feed.notify(args[0].node)
            return found

        return far

    def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        return self._feed.changes()

    def subscribe(self, receive: Callable[[bytes], None]) -> None:
        self._receive = receive

    async def publish(self, message: bytes) -> None:
        def spread() -> None:
            for link in self._store.links:
                link._hear(message)

        await self._far(spread)

    def _hear(self, message: bytes) -> None:
        if not self._is_cut():
            self._loop.call_later(self._delay(), self._receive, message, context=self._context)

    async def open(self) -> None:
        """Make ready."""
        self._feed = Feed(POLL)

    async def close(self) -> None:
        """End the feed."""
        self._feed.close()

    async def _far(self, act: Callable[[], Any]) -> Any:
        reply: asyncio.Future[Any] = self._loop.create_future()

        def done(found: Any) -> None:
            if not reply.done():
                reply.set_result(found)

        self._send(act, done)
        found = await reply
        if isinstance(found, StoreUnavailable):
            raise found
        return found

    def _send(self, act: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Have `act` done at the store; `done` gets what it returns, or the error, once."""
        answered: list[Any] = []

        def hear(found: Any) -> None:
            if not answered:
                answered.append(found)
                done(found)

        def arrive() -> None:
            if self._is_cut():
                return
            found = act()
            if self._random.random() < REPEATS:
                found = act()
            self._answered = max(self._answered, self._loop.time() + self._delay())
            self._loop.call_at(self._answered, leave, found, context=self._world)

        def leave(found: Any) -> None:
            if not self._is_cut():
                self._loop.call_soon(hear, found, context=self._context)

        self._loop.call_later(
            PATIENCE, hear, StoreUnavailable("the store did not answer in time"), context=self._context
        )
        if not self._is_cut():
            self._sent = max(self._sent, self._loop.time() + self._delay())
            self._loop.call_at(self._sent, arrive, context=self._world)

    def _is_cut(self) -> bool:
        return max(self.cut_until, self._store.down_until) > self._loop.time()

    def _delay(self) -> float:
        return self._random.uniform(0.0002, self.slow)


def _finished(coroutine: Any) -> Any:
    """What a coroutine returns that awaits nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a store in memory waits for nothing")
