"""Nodes die all the time, by SIGKILL and in the middle of an effect; every call that has a token ends as if none had.

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
from tests.kit.client import Caller, Reply, accepted
from tests.kit.fleet import Fleet
from tests.kit.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

TARGET = "tests/fleet/paying_server.py"
NODES, PAYMENTS = 3, 20
"""Nodes, and calls for each kill. Calls begin all along, an equal share before each kill: so a machine on which a node
takes long to start sees as many kills, and as many calls between them."""
SPREAD = 5.0
"""Seconds over which the calls of one share begin."""


class Payers:
    """Nodes of which one is killed again and again, in the middle of an effect: chance would need many kills to meet
    one."""

    def __init__(self, redis: RedisServer, folder: Path, ledger: Ledger, kills: int) -> None:
        # Where a takeover takes longer than the time between two kills, three of them would pause the tool until an
        # operator resumes it (docs/protocol.md, rule 27).
        self.fleet = Fleet(folder, redis, TARGET, lease_ttl="1", pause_after="0", result_delay="0.1")
        self._ledger, self.kills = ledger, kills
        self._rng = random.Random(4)
        self.killed = 0
        self._kill = asyncio.Condition()

    async def _victim(self) -> str:
        """A node that has just begun an effect; any, where no call is left that has one."""
        await asyncio.sleep(self._rng.uniform(0.2, 0.8))
        name, seen = self._rng.choice(sorted(self.fleet.nodes)), len(self._ledger.lines(what="effect"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                while True:
                    pids = [line.pid for line in self._ledger.lines(what="effect")[seen:]]
                    if struck := [name for name, node in self.fleet.nodes.items() if node.pid in pids]:
                        return struck[0]
                    await asyncio.sleep(0.01)
        return name

    async def thin(self) -> None:
        """Kill and replace."""
        for _ in range(self.kills):
            name = await self._victim()
            self.fleet.nodes.pop(name).kill()
            async with self._kill:
                self.killed += 1
                self._kill.notify_all()
            await self.fleet.start_nodes(name)

    async def _send(self, request: Callable[[Caller], Awaitable[Reply]], first: bool = False) -> Reply | None:
        """Send to any node until one answers; a first round has no token and is sent once (None: it was cut off)."""
        while True:
            url = self._rng.choice([node.url for node in self.fleet.nodes.values() if node.url])
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

    async def payment(self, call: int) -> str | None:
        """One call to its end, each answer with the number of its question; None where its first round was cut off. The
        ledger gets a line when its client hears a question for the first time: all that was done before is recorded."""
        async with self._kill:
            await self._kill.wait_for(lambda: self.killed >= call // PAYMENTS)
        await asyncio.sleep(self._rng.uniform(0.0, SPREAD))
        arguments = {"name": f"c{call}"}
        reply = await self._send(lambda caller: caller.call("pay", arguments=arguments), first=True)
        asked: dict[str, str] = {}
        while reply is not None and reply.message.get("result", {}).get("resultType") == "input_required":
            turn, _, text = reply.messages[0].partition(" ")
            if turn not in asked:
                note(f"c{call}", "heard", turn)
            assert asked.setdefault(turn, text) == text, "a question is the same, however often it is asked"
            answers, token = {key: accepted(word=turn) for key in reply.asked}, reply.token
            again = {"name": "pay", "arguments": arguments, "requestState": token, "inputResponses": answers}
            reply = await self._send(partial(Caller.send, method="tools/call", params=again))
        return None if reply is None else reply.text


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
    payers = Payers(redis, tmp_path, ledger, kills)
    try:
        await payers.fleet.start_nodes(*(f"n{number}" for number in range(NODES)))
        _, *result = await asyncio.gather(payers.thin(), *(payers.payment(call) for call in range(payments)))
    finally:
        payers.fleet.stop()
    ends = [text for text in result if text is not None]
    assert payers.killed == kills and len(ends) >= payments / 2
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
