"""Machines whose wall clocks are wrong, and jump: every call goes on, on whichever node. The store's clock counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.node.nodes import Heir, entries
from tests.store.server import RedisServer
from tests.wire import Caller, Reply

pytestmark = pytest.mark.anyio

TARGET = "tests/node/skewed_server.py"
CALLS = 5
"""Calls that are begun on each node with a wrong clock."""


class Machine(Heir):
    """A node whose wall clock is wrong by `wrong` seconds, until it `jumps`."""

    def __init__(self, folder: Path, store_url: str, name: str, wrong: float) -> None:
        self.named, self._file = name, folder / f"{name}.wrong"
        self.jumps(wrong)
        super().__init__(TARGET, folder, store_url, name)
        assert self._env is not None
        self._env = {**self._env, "WRONG_BY": str(self._file)}

    def jumps(self, wrong: float) -> None:
        """Its wall clock is set."""
        self._file.write_text(str(wrong))


@pytest.fixture
async def machines(redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Machine]]:
    """A machine whose clock is right, one that is fast, one that is slow, and one that will jump."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    wrong = {"right": 0.0, "fast": 90.0, "slow": -90.0, "jumps": 0.0}
    made = [Machine(tmp_path, redis.url, name, by) for name, by in wrong.items()]
    try:
        await asyncio.gather(*(machine.start() for machine in made))
        yield made
    finally:
        for machine in made:
            machine.stop()


class Call:
    """One call of three questions."""

    def __init__(self, name: str) -> None:
        self.name, self.reply = name, Reply(0, {}, {})

    async def begin(self, at: Machine) -> None:
        """Start it at a node."""
        async with Caller(at.url) as caller:
            self.reply = await caller.call("sequence", arguments={"name": self.name})

    async def go_on(self, at: Machine) -> None:
        """Answer its question at a node."""
        reply = self.reply
        async with Caller(at.url) as caller:
            answers = reply.accept(word="x")
            self.reply = await caller.retry("sequence", reply.token, answers, arguments={"name": self.name})


@pytest.mark.parametrize("end", [Machine.kill, Machine.stop])
async def test_no_call_is_lost_with_a_machine_whose_clock_is_wrong(
    machines: list[Machine], tmp_path: Path, end: Callable[[Machine], object]
) -> None:
    """Killed or stopped. A second round went through another machine with a wrong clock before, one that jumped."""
    right, *wrong = machines
    jumps = wrong[-1]
    calls = {machine: [Call(f"{machine.named}{number}") for number in range(CALLS)] for machine in wrong}
    every = [call for mine in calls.values() for call in mine]
    await asyncio.gather(*(call.begin(machine) for machine, mine in calls.items() for call in mine))
    jumps.jumps(90.0)
    await asyncio.gather(*(call.go_on(jumps) for call in every))
    jumps.jumps(-90.0)
    await asyncio.gather(*(call.go_on(wrong[0]) for call in every))
    jumps.jumps(0.0)
    for machine in wrong:
        end(machine)
    await asyncio.gather(*(call.go_on(right) for call in every))
    assert [call.reply.text.split()[:3] for call in every] == [["x", "x", "x"]] * len(every)
    assert sorted(entries(tmp_path / "entries")) == sorted(
        f"{place}-{call.name}" for call in every for place in ("first", "second", "third")
    )
