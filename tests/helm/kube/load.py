"""Clients of a fleet in a cluster: a program that does what it is told on standard input, a line a command, and answers
each with a line of JSON.

    park SHAPE COLUMN N     begin N calls of that tool, and answer nothing yet
    finish COLUMN           answer all there is to answer of those that are parked
    start N                 N clients call without a pause, and ten times a second somebody new comes to the door
    stop                    they begin no more calls; when all have their ends: what they saw

Its clients keep connections open, send a round without a token once, and come again with one that has a token. Who
comes to the door asks for nothing but /healthz.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

from tests.fleet.load import Load
from tests.fleet.trial import Client, Trial
from tests.helm.kube.probes import status
from tests.wire import Reply


class Front:
    """The one address of the fleet, where a `Load` looks for routers."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}/mcp"
        self.routers = [self]


class Clients:
    """All clients of one program."""

    def __init__(self, url: str) -> None:
        self._front, self._client = Front(url), Client()
        self._parked: dict[str, list[Trial]] = {}
        self._load, self._running = self._fresh(), asyncio.create_task(asyncio.sleep(0))
        self._knocking = self._running
        self._turned_away = 0

    async def park(self, shape: str, column: str, count: str) -> dict[str, Any]:
        """Begin calls; the nodes that asked."""
        calls = [Trial(self._client, shape, column) for _ in range(int(count))]
        await asyncio.gather(*(call.begin(self._front.url) for call in calls))
        self._parked.setdefault(column, []).extend(calls)
        return {"owners": [call.owner for call in calls], "tokens": [call.heard.token for call in calls]}

    async def finish(self, column: str) -> dict[str, Any]:
        """What became of those that were parked."""
        calls = self._parked.pop(column, [])
        output = await asyncio.gather(*(call.finish(self._front.url) for call in calls), return_exceptions=True)
        wrong = [f"{call.name}: {text!r}" for call, text in zip(calls, output, strict=True) if text != call.done]
        return {"finished": len(calls) - len(wrong), "wrong": wrong}

    async def start(self, count: str) -> dict[str, Any]:
        """Call from now on."""
        self._load = self._fresh()
        self._running = asyncio.create_task(self._load.run(int(count)))
        self._turned_away, self._knocking = 0, asyncio.create_task(self._knock())
        return {"since": time.time()}

    async def stop(self) -> dict[str, Any]:
        """What was seen."""
        self._load.stop()
        await self._running
        self._knocking.cancel()
        seen = self._load
        return {
            "completed": len(seen.completed),
            "begun": seen.begun,
            "unborn": seen.unborn,
            "turned_away": self._turned_away,
            "told_lost": seen.told_lost,
            "lost": seen.lost,
            "wrong": seen.wrong,
            "longest": seen.longest,
        }

    async def _knock(self) -> None:
        """Each time over a new connection: one that stands hardly notices a door that is shut too early."""
        door = urlsplit(self._front.url)
        while True:
            try:
                async with asyncio.timeout(5):
                    open_ = await status(str(door.hostname), door.port or 80, "/healthz") == 200
            except (OSError, TimeoutError):
                open_ = False
            if not open_:
                self._turned_away += 1
                _say("a new connection was turned away")
            await asyncio.sleep(0.1)

    def _fresh(self) -> Load:
        # A front has all that a `Load` asks of a fleet.
        return _Load(self._front, 1)


class _Load(Load):
    """Says on standard error what went otherwise than well, and when."""

    async def _begin(self, call: Trial) -> bool:
        before = self.unborn
        begun = await super()._begin(call)
        if self.unborn > before:
            _say(f"{call.name} came to nothing at its begin")
        return begun

    async def _answered(self, call: Trial) -> Reply:
        since = time.monotonic()
        reply = await super()._answered(call)
        if (waited := time.monotonic() - since) > 1:
            _say(f"{call.name} waited {waited:.2f} s; {reply.status} {dict(reply.headers)}")
        return reply

    def _end(self, call: Trial, reply: Reply) -> None:
        before = len(self.completed)
        super()._end(call, reply)
        if len(self.completed) == before:
            _say(f"{call.name}, parked on {call.owner}, ended with {reply.message}")


def _say(text: str) -> None:
    print(f"{time.strftime('%X')} {text}", file=sys.stderr, flush=True)


async def _main(url: str) -> None:
    clients = Clients(url)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().split():
        answer = await getattr(clients, line[0])(*line[1:])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
