"""The load: users who make one call after another and answer at once, and users who make one call and wait with it.

The first show the rate of the service; the others have parked calls when a fault begins. The load runs in a thread with
an event loop of its own, so that the thread that makes faults may block. After the end no call is begun, and calls in
progress are finished.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from dataclasses import replace

import uvloop

from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.notes import ENDED
from framehold_loadtest.tradeoff.callers import Aim, Caller, Opened
from framehold_loadtest.tradeoff.pace import ROUNDS, Pace
from framehold_loadtest.tradeoff.record import Noted

_AFTER_FAILURE = 0.2
"""Seconds until a user whose call came to nothing begins another."""
_LOOK_SECONDS = 0.05


class Load:
    """Users of one kind of client, from `start` to `stop`. `loses` is about those who think, see `Aim`."""

    def __init__(self, port: int, opened: Opened, pace: Pace, *, loses: bool = False) -> None:
        self.quick, self.slow = Noted(), Noted()
        self._quick = Aim(port, ROUNDS, pace.patience, self.quick.turns.append, _at_once)
        self._slow = replace(self._quick, turned=self.slow.turns.append, think=self._until_answered, loses=loses)
        self._opened, self._pace = opened, pace
        self._over, self._thought = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def answer(self) -> None:
        """Let those who think go on."""
        self._thought.set()

    def stop(self) -> None:
        """Let all users end the call that they are in.

        Raises:
            NotAvailable: the users themselves failed.
        """
        self._over.set()
        self._thought.set()
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
            for _ in range(self._pace.thinkers):
                users.create_task(self._slowly())
            for _ in range(self._pace.users):
                users.create_task(self._quickly())

    async def _slowly(self) -> None:
        caller = self._opened(self._slow)
        try:
            self.slow.calls.append(await caller.call(name()))
        finally:
            caller.close()

    async def _until_answered(self) -> None:
        while not self._thought.is_set():
            await asyncio.sleep(_LOOK_SECONDS)

    async def _quickly(self) -> None:
        caller = self._opened(self._quick)
        try:
            while not self._over.is_set():
                call = await caller.call(name())
                self.quick.calls.append(call)
                if call.outcome != ENDED:
                    await asyncio.sleep(_AFTER_FAILURE)
        finally:
            caller.close()


async def _at_once() -> None:
    """No thought."""


class Parked:
    """Calls that wait at their first question, for as long as this context lasts."""

    def __init__(self, port: int, opened: Opened, pace: Pace) -> None:
        aim = Aim(port, ROUNDS, pace.patience, lambda _: None, _at_once)
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
