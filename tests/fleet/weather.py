"""Faults of all kinds at random, up to two at a time, never to the last node that is well.

Which faults come, and when, follows from the seed; what they meet does not.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.fleet.faults import UNMARKED, FaultyFleet
from tests.fleet.trial import Client, Trial, ended
from tests.kit.client import Reply
from tests.kit.processes import until

AT_ONCE = 2


@dataclass
class Fault:
    """What was done, to which node (empty: to none), and from when to when on the monotonic clock."""

    kind: str
    node: str
    began: float
    ended: float = math.inf


class Weather:
    """What is done to a fleet. `done` counts it, `faults` has each."""

    def __init__(self, made: FaultyFleet, seed: int) -> None:
        self._made, self._rng = made, random.Random(f"weather {seed}")
        self._struck: set[str] = set()
        """Nodes that something is done to just now."""
        self._store = asyncio.Lock()
        self._routers = asyncio.Lock()
        self.done: Counter[str] = Counter()
        self.faults: list[Fault] = []
        self._to_a_node: dict[str, Callable[[str], Awaitable[None]]] = {
            "node killed": self._kill,
            "node stopped": self._stop,
            "node drained": self._drain,
            "a tool calls os._exit": self._exit,
            "a tool calls sys.exit": self._leave,
            "partition": self._part,
        }
        self._to_the_rest: dict[str, Callable[[], Awaitable[None]]] = {
            "store paused": self._pause_store,
            "store killed": self._kill_store,
            "router killed": self._kill_router,
        }

    async def play(self, end: float) -> None:
        """Do one thing after another until `end`, on the monotonic clock, and return when all of it is over. Raises
        what went wrong with doing it."""
        gate = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < end:
                await asyncio.sleep(self._rng.uniform(0.2, 3.0))
                await gate.acquire()
                what = self._rng.choice((*self._to_a_node, *self._to_the_rest))
                group.create_task(self._strike(what, gate))

    async def _strike(self, what: str, gate: asyncio.Semaphore) -> None:
        try:
            name = "" if what in self._to_the_rest else self._victim()
            if name is None:
                return
            self.faults.append(fault := Fault(what, name, time.monotonic()))
            if not name:
                await self._to_the_rest[what]()
            else:
                self._struck.add(name)
                await self._to_a_node[what](name)
                self._struck.discard(name)
            fault.ended = time.monotonic()
            self.done[what] += 1
        finally:
            gate.release()

    def _victim(self) -> str | None:
        """A node that serves and that nothing is done to, if another one is left."""
        well = sorted((self._made.nodes.keys() & self._made.serving) - self._struck)
        return self._rng.choice(well) if len(well) > 1 else None

    async def _kill(self, name: str) -> None:
        self._made.kill(name)
        await self._made.successors()

    async def _drain(self, name: str) -> None:
        self._made.drain(name)
        await self._made.left(name)
        await self._made.successors()

    async def _exit(self, name: str) -> None:
        while await self._answered(name, "os._exit") is not None:
            pass  # The call was lost with something else that was done meanwhile.
        await until(lambda: not self._made.nodes[name].alive, f"the end of {name}")
        self._made.bury(name)
        await self._made.successors()

    async def _leave(self, name: str) -> None:
        reply = await self._answered(name, "sys.exit")
        assert reply is not None and self._made.nodes[name].alive, f"{name} was ended by a tool's sys.exit: {reply}"

    async def _answered(self, name: str, how: str) -> Reply | None:
        """Have a node answer a call of a tool that leaves its process; None where the connection broke."""
        async with Client() as client:
            call = Trial(client, "leaves", UNMARKED, how=how)
            await call.begin_at_last(self._made.url(name))
            return await ended(call.answering(self._made.url(name)))

    async def _stop(self, name: str) -> None:
        self._made.pause(name)
        await asyncio.sleep(self._rng.uniform(0.1, 3.0))
        self._made.nodes[name].resume()

    async def _part(self, name: str) -> None:
        line, way = self._made.lines[name], self._rng.choice(({}, {"requests": False}, {"replies": False}))
        line.swallow(**way)
        await asyncio.sleep(self._rng.uniform(0.2, 4.0))
        line.heal(late=self._rng.random() < 0.7)

    async def _pause_store(self) -> None:
        async with self._store:
            self._made.redis.pause()
            await asyncio.sleep(self._rng.uniform(0.1, 3.0))
            self._made.redis.resume()

    async def _kill_store(self) -> None:
        async with self._store:
            self._made.kill_store()
            await asyncio.sleep(self._rng.uniform(0.0, 2.0))
            self._made.restore()

    async def _kill_router(self) -> None:
        async with self._routers:
            router = self._rng.choice(self._made.routers)
            self._made.routers.remove(router)
            router.kill()
            await self._made.start_router()
