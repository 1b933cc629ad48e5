"""Nodes die all the time, by SIGKILL and at random; every call that has a token ends as if none had.

Whatever the seed does, what is asserted here must hold: this test has no flaky runs, only bugs that it has found.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from tests.node.nodes import NodeProcess, entries
from tests.store.server import RedisServer
from tests.wire import Caller, Heard, accepted

pytestmark = pytest.mark.anyio

TARGET = "tests/node/reentrant_server.py"
NODES, CALLS, KILLS = 3, 40, 5
"""Nodes, calls, and how often a node is killed. Calls begin all along, an equal share before each kill: so a machine on
which a node takes long to start sees as many kills, and as many calls between them."""
SPREAD = 2.0
"""Seconds over which the calls of one share begin."""


class Herd:
    """Nodes over one store, of which one is killed again and again."""

    def __init__(self, redis: RedisServer, folder: Path) -> None:
        self._redis, self._folder = redis, folder
        self._rng = random.Random(4)
        self.alive: dict[int, NodeProcess] = {}
        self.killed = 0
        self._kill = asyncio.Condition()

    async def start(self, number: int) -> None:
        """Start a node, under the name that it had before."""
        settings = {"STORE_URL": self._redis.url, "NAMESPACE": self._folder.name, "LEASE_TTL": "1"}
        named = {f"FRAMEHOLD_{name}": value for name, value in settings.items()}
        child = NodeProcess(TARGET, self._folder / f"n{number}.log", FRAMEHOLD_NODE_ID=f"n{number}", **named)
        await child.start()
        self.alive[number] = child

    async def thin(self) -> None:
        """Kill and replace."""
        for _ in range(KILLS):
            await asyncio.sleep(self._rng.uniform(0.2, 0.8))
            number = self._rng.choice(sorted(self.alive))
            self.alive.pop(number).kill()
            async with self._kill:
                self.killed += 1
                self._kill.notify_all()
            await self.start(number)

    async def turn(self, call: int) -> None:
        """Wait until this call may begin."""
        async with self._kill:
            await self._kill.wait_for(lambda: self.killed >= call * KILLS // CALLS)
        await asyncio.sleep(self._rng.uniform(0.0, SPREAD))

    async def send(self, request: Callable[[Caller], Awaitable[Heard]], first: bool = False) -> Heard | None:
        """Send to any node until one answers; a first round has no token and is sent once (None: it was cut off)."""
        while True:
            url = self._rng.choice([child.url for child in self.alive.values()])
            try:
                async with Caller(url) as caller:
                    heard = await request(caller)
            except httpx2.TransportError:
                if first:
                    return None
                await asyncio.sleep(0.05)
                continue
            if heard.status not in (502, 503):
                return heard
            await asyncio.sleep(0.1)

    def stop(self) -> None:
        for child in self.alive.values():
            child.stop()


async def errand(herd: Herd, call: int) -> str | None:
    """One call to its end, each answer with the number of its question; None where its first round was cut off."""
    await herd.turn(call)
    arguments = {"name": f"c{call}"}
    heard = await herd.send(lambda caller: caller.call("errands", arguments=arguments), first=True)
    asked: dict[str, str] = {}
    while heard is not None and heard.message.get("result", {}).get("resultType") == "input_required":
        turn, _, number = heard.messages[0].partition(" ")
        assert asked.setdefault(turn, number) == number, "a question is the same, however often it is asked"
        answers, token = {key: accepted(word=turn) for key in heard.asked}, heard.token
        again = {"name": "errands", "arguments": arguments, "requestState": token, "inputResponses": answers}
        heard = await herd.send(lambda caller, again=again: caller.send("tools/call", again))
    return None if heard is None else heard.text


async def test_every_call_ends_and_no_effect_runs_twice(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded answers, values and results are what a rebuilt frame goes on with, wherever its node was cut off."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    herd = Herd(redis, tmp_path)
    try:
        await asyncio.gather(*map(herd.start, range(NODES)))
        _, *told = await asyncio.gather(herd.thin(), *(errand(herd, call) for call in range(CALLS)))
    finally:
        herd.stop()
    begun = [text for text in told if text is not None]
    assert herd.killed == KILLS and len(begun) >= CALLS / 2
    assert {text.replace("in-doubt ", "") for text in begun} == {"0 1 2"}
    lines = Counter(entries(tmp_path / "entries"))
    assert [line for line, times in lines.items() if line.startswith("once") and times > 1] == []
    keys = Counter(line.rpartition("-")[0] for line in lines if line.startswith("again"))
    assert set(keys.values()) == {1}, "an effect that runs again has the key that it had"
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert "met a bug" not in logs and "can't be continued" not in logs
