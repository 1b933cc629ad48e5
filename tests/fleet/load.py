"""Clients that never stop: each begins a call, answers whatever is asked for as long as it takes, and keeps what it was
told."""

from __future__ import annotations

import asyncio
import random
import time

import httpx2

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import AGAIN, Client, Trial, again
from tests.kit.client import Reply

SHAPES = {"errand": 4, "talk": 0}
"""What is called, and how many effects it has."""
_LOST = "This call was lost. Its handler was entered once"


class Load:
    """What all clients of a fleet saw."""

    def __init__(self, made: FaultyFleet, seed: int) -> None:
        self._made, self._rng = made, random.Random(f"load {seed}")
        self._over = asyncio.Event()
        self.begun = self.unborn = self.told_lost = 0
        self.longest = (0.0, "-")
        """The longest wait for a reply to an answer, in seconds, and whose it was."""
        self.completed: list[str] = []
        self.unmarked: list[str] = []
        self.lost: list[str] = []
        self.wrong: list[str] = []

    async def run(self, clients: int) -> None:
        """Call until `stop`, and then until every call has its end."""
        async with Client() as client, asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._work(client))

    def stop(self) -> None:
        """Begin no more calls."""
        self._over.set()

    def effects(self, call: str) -> int:
        """How many effects a call has that came to its end."""
        return SHAPES[call.partition("-")[0]]

    async def _work(self, client: Client) -> None:
        while not self._over.is_set():
            call = Trial(client, self._rng.choice(tuple(SHAPES)), self._rng.choice((MARKED, MARKED, UNMARKED)))
            if call.tool.endswith(UNMARKED):
                self.unmarked.append(call.name)
            if await self._begin(call):
                await self._through(call)
            await asyncio.sleep(self._rng.random() / 10)

    async def _begin(self, call: Trial) -> bool:
        """Round 1, which has no token: it is sent once, and what becomes of it is nobody's promise."""
        try:
            reply = await call.begin(self._router())
        except (httpx2.TransportError, TimeoutError):
            self.unborn += 1
            return False
        if "inputRequests" not in reply.message.get("result", {}):
            self.unborn += 1
            if reply.status not in AGAIN and reply.message.get("error", {}).get("code") != -32603:
                self.wrong.append(f"{call.name} at its begin: {reply.message}")
            return False
        self.begun += 1
        return True

    async def _through(self, call: Trial) -> None:
        while True:
            await asyncio.sleep(self._rng.random() / 5)
            started = time.monotonic()
            try:
                reply = await self._answered(call)
            except TimeoutError:
                self.lost.append(f"{call.name}: no answer to {call.heard.messages}")
                return
            waited = time.monotonic() - started
            self.longest = max(self.longest, (waited, f"{call.name} until {time.strftime('%H:%M:%S')}"))
            if "inputRequests" not in reply.message.get("result", {}):
                self._end(call, reply)
                return

    async def _answered(self, call: Trial) -> Reply:
        """Routers die too: whichever is there is asked, until one passes an answer on."""
        async with asyncio.timeout(120):
            while True:
                try:
                    reply = await call.answer(self._router())
                except (httpx2.TransportError, TimeoutError):
                    await asyncio.sleep(0.1)
                    continue
                if not again(reply):
                    call.heard = reply if "inputRequests" in reply.message.get("result", {}) else call.heard
                    return reply
                await asyncio.sleep(0.1)

    def _end(self, call: Trial, reply: Reply) -> None:
        if reply.status == 200 and "result" in reply.message and reply.text == call.done:
            self.completed.append(call.name)
        elif call.tool.endswith(UNMARKED) and _LOST in reply.text:
            self.told_lost += 1
        else:
            (self.wrong if call.tool.endswith(UNMARKED) else self.lost).append(f"{call.name}: {reply.message}")

    def _router(self) -> str:
        return self._rng.choice(self._made.routers).url
