"""The traffic of the day: bookings through all routers without a pause, of which one in twenty fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import httpx2

from tests.fleet.trial import again
from tests.kit.client import Caller, Reply

ONE_IN = 20
"""One booking in so many fails: 5 %."""
_WORKERS = 2
_PAUSE = 0.1


class Figures(NamedTuple):
    """What the clients have met: calls that ended, those of them that failed, and requests that were refused or cut."""

    ended: int
    failed: int
    refused: int


class Traffic:
    """Clients that book until they are cancelled."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._numbers = itertools.count(1)
        self._ended = self._failed = self._refused = 0

    @property
    def figures(self) -> Figures:
        """The counts since the start."""
        return Figures(self._ended, self._failed, self._refused)

    async def run(self) -> None:
        """Book until `stop`; calls that began are carried to their ends."""
        async with AsyncExitStack() as stack:
            callers = [await stack.enter_async_context(Caller(url)) for url in self._urls]
            async with asyncio.TaskGroup() as group:
                for number in range(_WORKERS):
                    group.create_task(self._work(itertools.cycle([*callers[number:], *callers[:number]])))

    async def _work(self, callers: itertools.cycle[Caller]) -> None:
        while True:
            arguments = {"fails": next(self._numbers) % ONE_IN == 0}
            reply = await self._taken(next(callers).call("book", arguments=arguments))
            if reply is not None:
                await self._answered(callers, arguments, reply)
            await asyncio.sleep(_PAUSE)

    async def _answered(self, callers: itertools.cycle[Caller], arguments: dict[str, Any], asked: Reply) -> None:
        """Answer until the answer is taken, at each router in turn."""
        while True:
            sent = next(callers).retry("book", asked.token, asked.accept(word="Monday"), arguments=arguments)
            reply = await self._taken(sent)
            if reply is not None:
                break
            await asyncio.sleep(_PAUSE)
        self._ended += 1
        self._failed += arguments["fails"]

    async def _taken(self, request: Coroutine[Any, Any, Reply]) -> Reply | None:
        """The response; None if the request was refused or cut, and is to be sent again."""
        try:
            reply = await request
        except httpx2.TransportError:
            reply = None
        if reply is None or again(reply):
            self._refused += 1
            return None
        return reply
