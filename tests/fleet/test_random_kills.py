"""Nodes die all the time, by SIGKILL and at random; every call that has a token ends as if none had.

Whatever the seed does, what is asserted here must hold: this test has no flaky runs, only bugs that it has found.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx2
import pytest

from tests.fleet.ledger import VARIABLE, Ledger, note
from tests.node.nodes import NodeProcess, entries
from tests.store.server import RedisServer
from tests.wire import Caller, Reply, accepted

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

TARGET = "tests/node/reentrant_server.py"
NODES, CALLS, KILLS = 3, 40, 5
"""Nodes, calls, and how often a node is killed. Calls begin all along, an equal share before each kill: so a machine on
which a node takes long to start sees as many kills, and as many calls between them."""
SPREAD = 2.0
"""Seconds over which the calls of one share begin."""


class Herd:
    """Nodes over one store, of which one is killed again and again. `target` is what they serve, `calls` how many calls
    are made meanwhile."""

    def __init__(self, redis: RedisServer, folder: Path, target: str = TARGET, calls: int = CALLS) -> None:
        self._folder, self._target, self._calls = folder, target, calls
        self.kills, self.spread = KILLS, SPREAD
        # Where a takeover takes longer than the time between two kills, three of them would pause the tool until an
        # operator resumes it (docs/protocol.md, rule 27).
        self.settings = {"STORE_URL": redis.url, "NAMESPACE": folder.name, "LEASE_TTL": "1", "PAUSE_AFTER": "0"}
        self._rng = random.Random(4)
        self.alive: dict[int, NodeProcess] = {}
        self.killed = 0
        self._kill = asyncio.Condition()

    async def start(self, number: int) -> None:
        """Start a node, under the name that it had before."""
        named = {f"FRAMEHOLD_{name}": value for name, value in self.settings.items()}
        child = NodeProcess(self._target, self._folder / f"n{number}.log", 0, FRAMEHOLD_NODE_ID=f"n{number}", **named)
        await child.start()
        self.alive[number] = child

    async def victim(self) -> int:
        """The number of the node to kill next, at the moment when it is killed."""
        await asyncio.sleep(self._rng.uniform(0.2, 0.8))
        return self._rng.choice(sorted(self.alive))

    async def thin(self) -> None:
        """Kill and replace."""
        for _ in range(self.kills):
            number = await self.victim()
            self.alive.pop(number).kill()
            async with self._kill:
                self.killed += 1
                self._kill.notify_all()
            await self.start(number)

    async def turn(self, call: int) -> None:
        """Wait until this call may begin."""
        async with self._kill:
            await self._kill.wait_for(lambda: self.killed >= call * self.kills // self._calls)
        await asyncio.sleep(self._rng.uniform(0.0, self.spread))

    async def send(self, request: Callable[[Caller], Awaitable[Reply]], first: bool = False) -> Reply | None:
        """Send to any node until one answers; a first round has no token and is sent once (None: it was cut off)."""
        while True:
            url = self._rng.choice([child.url for child in self.alive.values()])
            try:
                async with Caller(url) as caller:
                    reply = await request(caller)
            except httpx2.TransportError:
                if first:
                    return None
                await asyncio.sleep(0.05)
                continue
            if reply.status not in (502, 503):
                return reply
            await asyncio.sleep(0.1)

    def stop(self) -> None:
        for child in self.alive.values():
            child.stop()


async def converse(herd: Herd, call: int, tool: str, hears: Callable[[str], None] = lambda turn: None) -> str | None:
    """One call to its end, each answer with the number of its question; None where its first round was cut off. `hears`
    is called with the number of each question when it comes for the first time."""
    await herd.turn(call)
    arguments = {"name": f"c{call}"}
    reply = await herd.send(lambda caller: caller.call(tool, arguments=arguments), first=True)
    asked: dict[str, str] = {}
    while reply is not None and reply.message.get("result", {}).get("resultType") == "input_required":
        turn, _, text = reply.messages[0].partition(" ")
        if turn not in asked:
            hears(turn)
        assert asked.setdefault(turn, text) == text, "a question is the same, however often it is asked"
        answers, token = {key: accepted(word=turn) for key in reply.asked}, reply.token
        again = {"name": tool, "arguments": arguments, "requestState": token, "inputResponses": answers}
        reply = await herd.send(partial(Caller.send, method="tools/call", params=again))
    return None if reply is None else reply.text


async def test_every_call_ends_and_no_effect_runs_twice(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded answers, values and results are what a rebuilt frame goes on with, wherever its node was cut off."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    herd = Herd(redis, tmp_path)
    try:
        await asyncio.gather(*map(herd.start, range(NODES)))
        _, *result = await asyncio.gather(herd.thin(), *(converse(herd, call, "errands") for call in range(CALLS)))
    finally:
        herd.stop()
    begun = [text for text in result if text is not None]
    assert herd.killed == KILLS and len(begun) >= CALLS / 2
    assert {text.replace("in-doubt ", "") for text in begun} == {"0 1 2"}
    lines = Counter(entries(tmp_path / "entries"))
    assert [line for line, times in lines.items() if line.startswith("once") and times > 1] == []
    keys = Counter(line.rpartition("-")[0] for line in lines if line.startswith("again"))
    assert set(keys.values()) == {1}, "an effect that runs again has the key that it had"
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert "met a bug" not in logs and "can't be continued" not in logs


PAYING, PAYMENTS = "tests/fleet/paying_server.py", 20
"""What the nodes serve, and how many calls are made for each kill."""


class Payers(Herd):
    """Their nodes are killed in the middle of an effect: chance would need many kills to meet one."""

    def __init__(self, redis: RedisServer, folder: Path, ledger: Ledger, kills: int) -> None:
        super().__init__(redis, folder, PAYING, kills * PAYMENTS)
        self._ledger = ledger
        self.kills, self.spread, self.settings["RESULT_DELAY"] = kills, 5.0, "0.1"

    async def victim(self) -> int:
        """A node that has just begun an effect; any, where no call is left that has one."""
        number = await super().victim()
        seen = len(self._ledger.lines(what="effect"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                while True:
                    pids = [line.pid for line in self._ledger.lines(what="effect")[seen:]]
                    if struck := [number for number, node in self.alive.items() if node.pid in pids]:
                        return struck[0]
                    await asyncio.sleep(0.01)
        return number


async def payment(herd: Herd, call: int) -> str | None:
    """One call to its end. The ledger gets a line when its client hears a question for the first time: all that was
    done before it is recorded."""
    return await converse(herd, call, "pay", lambda turn: note(f"c{call}", "heard", turn))


def run_twice_for_no_reason(ledger: Ledger, call: str) -> list[str]:
    """The effects of a call that ran after their results were recorded: its client had heard the next question."""
    turns, late = 0, []
    for line in ledger.lines(call):
        if line.what == "heard":
            turns = int(line.key)
        elif line.what == "effect" and int(line.key.split("|")[0].split("-")[1]) < turns:
            late.append(line.key)
    return late


@pytest.mark.parametrize("kills", (3, pytest.param(10, marks=pytest.mark.nightly)))
async def test_no_key_has_two_arguments_and_a_doubt_is_where_a_process_died(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    """Results ride along, and effects that may run again have no intent: what a killed node had not written is in doubt
    or runs again with the same arguments, and nothing else does (docs/protocol.md, rules 2 and 13)."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "ledger"))
    ledger, payments = Ledger(tmp_path / "ledger"), kills * PAYMENTS
    herd = Payers(redis, tmp_path, ledger, kills)
    try:
        await asyncio.gather(*map(herd.start, range(NODES)))
        _, *result = await asyncio.gather(herd.thin(), *(payment(herd, call) for call in range(payments)))
    finally:
        herd.stop()
    ends = [text for text in result if text is not None]
    assert herd.killed == herd.kills and len(ends) >= payments / 2
    assert all(re.fullmatch("(doubt|[0-9a-f]{8})/[0-9a-f]{8}/[0-9a-f]{8}", text) for text in ends)
    again = doubts = 0
    for number in range(payments):
        call = f"c{number}"
        ran = Counter(line.key for line in ledger.lines(call, "effect"))
        keys = Counter(line.split("|")[0] for line in ran)
        assert set(keys.values()) <= {1}, f"{call}: one key, two arguments: {sorted(ran)}"
        assert [key for key, times in ran.items() if key.startswith("book") and times > 1] == []
        assert run_twice_for_no_reason(ledger, call) == []
        doubtful = {line.key for line in ledger.lines(call, "doubt")}
        if doubtful or any(times > 1 for times in ran.values()):
            assert len({line.pid for line in ledger.lines(call) if line.what != "heard"}) > 1, f"{call}: nobody died"
        again, doubts = again + sum(times - 1 for times in ran.values()), doubts + len(doubtful)
    assert again + doubts, "no kill met an effect"
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert "met a bug" not in logs and "can't be continued" not in logs
