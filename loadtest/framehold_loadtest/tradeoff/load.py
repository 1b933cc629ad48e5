"""The load: users who make one call after another and answer at once, and users who make one call and wait with it.

The first show the rate of the service; the others have parked calls when a fault begins. Half of the others answer
while the fault lasts, and half when all is well again. The load runs in a thread with an event loop of its own, so that
the thread that makes faults may block. After the end no call is begun, and calls in progress are finished.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import uvloop

from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.notes import ENDED, UNBORN, Call
from framehold_loadtest.tradeoff.callers import Aim, Caller, Opened
from framehold_loadtest.tradeoff.pace import PLAIN, Pace, Shape
from framehold_loadtest.tradeoff.record import Noted, Turn

_AFTER_FAILURE = 0.2
"""Seconds until a user whose call came to nothing begins another."""
_LOOK_SECONDS = 0.05
_ARRIVAL_SECONDS = 0.5
"""The time in which users who think begin their first calls at most. Later ones would not be there while a short point
of a series is measured."""
_THOUGHT = (0.5, 1.5)
"""The shortest and the longest thought, as parts of the mean one. Users who all thought alike would come in bursts,
and requests that come together cost a fleet less."""


class Load:
    """Users of one kind of client, from `start` to `stop`. `loses` is about those who think, see `Aim`."""

    def __init__(self, port: int, opened: Opened, pace: Pace, shape: Shape = PLAIN, *, loses: bool = False) -> None:
        self.quick, self.slow = Noted(), Noted()
        self._aim = Aim(port, shape.rounds, pace.patience, _unnoticed, _at_once, shape.size)
        self._opened, self._pace, self._shape, self._loses = opened, pace, shape, loses
        self._over, self._early, self._late = threading.Event(), threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def answer_early(self) -> None:
        """Let the first half of those who think go on, one after another."""
        self._early.set()

    def answer(self) -> None:
        """Let all who think go on."""
        self._early.set()
        self._late.set()

    def stop(self) -> None:
        """Let all users end the call that they are in.

        Raises:
            NotAvailable: the users themselves failed.
        """
        self._over.set()
        self.answer()
        self._thread.join()
        if self._failure is not None:
            raise NotAvailable(f"the load failed: {type(self._failure).__name__}: {self._failure}")

    def _work(self) -> None:
        try:
            uvloop.run(self._all())
        except Exception as error:
            self._failure = error

    async def _all(self) -> None:
        async with asyncio.TaskGroup() as users:
            for number in range(self._pace.thinkers):
                users.create_task(self._slowly(number))
            for number in range(self._pace.users):
                users.create_task(self._quickly(random.Random(number)))

    async def _slowly(self, number: int) -> None:
        user = _User(self._opened, replace(self._aim, loses=self._loses), self.slow, self._answering(number))
        try:
            await user.call()
        finally:
            user.close()

    def _answering(self, number: int) -> Callable[[], Awaitable[None]]:
        """When the thinker of this number answers."""
        half = self._pace.thinkers // 2
        delay = number / half * self._pace.spread if number < half else 0.0

        async def until_answered() -> None:
            nonlocal delay
            await self._until(self._early if number < half else self._late)
            if delay and not self._late.is_set():
                await asyncio.sleep(delay)
            delay = 0.0  # it is the first answer that is put off

        return until_answered

    async def _quickly(self, chance: random.Random) -> None:
        think = partial(self._thinking, chance) if self._shape.think else _at_once
        user = _User(self._opened, self._aim, self.quick, think)
        try:
            await self._until(self._over, chance.random() * min(self._shape.think, _ARRIVAL_SECONDS))
            while not self._over.is_set():
                if (await user.call()).outcome != ENDED:
                    await asyncio.sleep(_AFTER_FAILURE)
        finally:
            user.close()

    async def _thinking(self, chance: random.Random) -> None:
        """As long as a user thinks, but no longer than the load lasts."""
        await self._until(self._over, self._shape.think * chance.uniform(*_THOUGHT))

    async def _until(self, happened: threading.Event, longest: float = float("inf")) -> None:
        over = time.monotonic() + longest
        while not happened.is_set() and (left := over - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _LOOK_SECONDS))


class _User:
    """One user, who notes each call and how long they waited for it. A call that was refused at its beginning is begun
    again, and the wait for it goes on."""

    def __init__(self, opened: Opened, aim: Aim, noted: Noted, think: Callable[[], Awaitable[None]]) -> None:
        self._noted, self._think = noted, think
        self._caller = opened(replace(aim, turned=noted.turns.append, think=self._thinks))
        self._thought = 0.0
        self._wanted: float | None = None

    async def call(self) -> Call:
        """Make one."""
        self._thought = 0.0
        self._wanted = time.time() if self._wanted is None else self._wanted
        call = await self._caller.call(name())
        self._noted.calls.append(call)
        if call.outcome == ENDED:
            self._noted.waits.append(call.ended - self._wanted - self._thought)
        if call.outcome != UNBORN:
            self._wanted = None
        return call

    def close(self) -> None:
        """Leave."""
        self._caller.close()

    async def _thinks(self) -> None:
        began = time.time()
        await self._think()
        self._thought += time.time() - began


async def _at_once() -> None:
    """No thought."""


def _unnoticed(_: Turn) -> None:
    """Nobody looks."""


class Parked:
    """Calls that wait at their first question, for as long as this context lasts."""

    def __init__(self, port: int, opened: Opened, pace: Pace, shape: Shape = PLAIN) -> None:
        aim = Aim(port, shape.rounds, pace.patience, _unnoticed, _at_once, shape.size)
        self._callers = [opened(aim) for _ in range(pace.users)]
        self._loop = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def __enter__(self) -> Parked:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._close())
        self._loop.close()

    def park(self, calls: int) -> int:
        """Begin so many; how many came to their question."""
        return self._loop.run(self._park(calls))

    async def _park(self, calls: int) -> int:
        left = iter(range(calls))

        async def some(caller: Caller) -> int:
            return sum([await caller.park(name()) for _ in left])

        return sum(await asyncio.gather(*(some(caller) for caller in self._callers)))

    async def _close(self) -> None:
        for caller in self._callers:
            caller.close()


def name() -> str:
    """A name for a call, which the ledger knows it by."""
    return uuid.uuid4().hex[:16]
