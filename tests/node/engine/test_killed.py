"""A parked call outlives its process: SIGKILL, and a second process with the same store goes on, each effect once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.client import Caller, Reply
from tests.kit.nodes import Heir, NodeProcess, Start, entries, heirs
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio

TARGET = "tests/node/reentrant_server.py"


@pytest.fixture(autouse=True)
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which effects leave their lines."""
    path = tmp_path / "entries"
    monkeypatch.setenv("ENTRIES", str(path))
    return path


class Mortal:
    """A server of which each process is killed as soon as its call is parked, and replaced."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._node: NodeProcess | None = None

    async def send(self, method: str, params: dict[str, Any]) -> Reply:
        """One request, to a process that lives for it alone."""
        if self._node is not None:
            self._node.kill()
        self._node = await self._start()
        async with Caller(self._node.url) as caller:
            return await caller.send(method, params)

    async def told(self, method: str, **params: Any) -> Reply:
        """A whole call, each question answered with itself."""
        reply = await self.send(method, params)
        while reply.message.get("result", {}).get("resultType") == "input_required":
            answers = {
                key: {"action": "accept", "content": {"word": f"<{asked['params']['message']}>".replace(" ", "-")}}
                for key, asked in reply.asked.items()
            }
            again = {**params, "inputResponses": answers}
            if "requestState" in reply.result:
                again["requestState"] = reply.token
            reply = await self.send(method, again)
        return reply


@pytest.fixture
async def mortal(redis: RedisServer, tmp_path: Path) -> AsyncIterator[Mortal]:
    """Node after node over one store, each under a name of its own."""
    async with heirs(TARGET, tmp_path, redis.url) as start:
        yield Mortal(start)


async def test_questions_in_a_row(mortal: Mortal, noted: Path) -> None:
    reply = await mortal.told("tools/call", name="sequence", arguments={"name": "Ada"})
    one = "<Ada-one?>"
    words = reply.text.split()
    assert words[:3] == [one, f"<{one}-two?>", f"<<{one}-two?>-three?>"], reply.text
    assert words[3:6] == ["first-Ada#1", "second-Ada#1", "third-Ada#1"]
    assert entries(noted) == ["first-Ada", "second-Ada", "third-Ada"]


CASES: dict[str, tuple[str, dict[str, Any], str, list[str]]] = {
    "two branches of a gather, each with an effect on either side of its question": (
        *("tools/call", {"name": "together", "arguments": {"name": "Bo"}}),
        "book-left-Bo-<Which-seat?>#1 book-right-Bo-<Which-seat?>#1 <Sure?>",
        [f"{verb}-Bo" for verb in ("book-left", "book-right", "hold-left", "hold-right")],
    ),
    "a parameter that asks and a body that asks": (
        *("tools/call", {"name": "resolved", "arguments": {"name": "Cy"}}),
        "<May-Cy?> <And-now?> done-Cy-<May-Cy?>#1",
        ["done-Cy-<May-Cy?>"],
    ),
    "a prompt": (
        *("prompts/get", {"name": "poem", "arguments": {"name": "Di"}}),
        "A poem for Di about <About-what?>, poem-Di#1",
        ["poem-Di"],
    ),
}


@pytest.mark.parametrize(("method", "params", "text", "ran"), CASES.values(), ids=CASES)
async def test_each_kind_of_handler(
    mortal: Mortal, noted: Path, method: str, params: dict[str, Any], text: str, ran: list[str]
) -> None:
    reply = await mortal.told(method, **params)
    messages = reply.result.get("messages")
    assert (messages[0]["content"]["text"] if messages else reply.text) == text
    assert sorted(line.removesuffix("-<Which-seat?>") for line in entries(noted)) == ran


async def test_a_handler_that_parks_by_hand(mortal: Mortal, noted: Path) -> None:
    reply = await mortal.told("tools/call", name="by_hand", arguments={"name": "Ed"})
    assert reply.text.split()[:4] == ["<one?>", "<two?>", "one-by-hand-Ed#1", "two-by-hand-Ed#1"]
    assert entries(noted) == ["one-by-hand-Ed", "two-by-hand-Ed"]


DOUBTFUL = "tests/node/doubtful_server.py"


@pytest.fixture
async def start(redis: RedisServer, tmp_path: Path, noted: Path) -> AsyncIterator[Start]:
    """Node after node over one store. While there is a file `hold` beside what is noted, effects hang."""
    (tmp_path / "hold").touch()
    async with heirs(DOUBTFUL, tmp_path, redis.url) as starting:
        yield starting


async def answer(at: NodeProcess, tool: str, reply: Reply) -> Reply:
    """Answer the questions of `heard` with `aye`; sent again while the dead node's lease lasts."""
    async with Caller(at.url) as caller:
        async with asyncio.timeout(20):
            while (result := await caller.retry(tool, reply.token, reply.accept(word="aye"))).status == 503:
                await asyncio.sleep(0.05)
    return result


async def interrupted(start: Start, tool: str, noted: Path) -> Reply:
    """Park a call, answer it, and kill its node as soon as its effect has left its line."""
    first = await start()
    async with Caller(first.url) as caller:
        reply = await caller.call(tool)
        assert reply.messages == ["begin?"]
        running = asyncio.create_task(caller.retry(tool, reply.token, reply.accept(word="aye")))
        await until(lambda: entries(noted), "the effect")
        first.kill()
        await asyncio.wait([running])
        assert running.exception() is not None
    return reply


def lines(noted: Path) -> list[str]:
    return [line.split(":")[0] for line in entries(noted)]


async def test_an_effect_that_may_have_run_is_not_run_again(start: Start, noted: Path) -> None:
    """InDoubt in the handler, in each later entry and on each later node; the effect has run no second time, though
    nothing holds it up any more."""
    reply = await interrupted(start, "careful", noted)
    (noted.parent / "hold").unlink()
    texts = []
    for _ in range(3):
        at = await start()
        reply = await answer(at, "careful", reply)
        assert reply.result["resultType"] == "input_required", reply.message
        texts += reply.messages
        at.kill()
    last = await answer(await start(), "careful", reply)
    assert texts == ["InDoubt 1?", "InDoubt 2?", "InDoubt 3?"]
    assert last.text == "InDoubt to the end"
    assert lines(noted) == ["careful"]


async def test_an_idempotent_effect_is_run_again_under_its_key(start: Start, noted: Path) -> None:
    reply = await interrupted(start, "bold", noted)
    second = await start()
    running = asyncio.create_task(answer(second, "bold", reply))
    await until(lambda: len(entries(noted)) == 2, "the second run")
    second.kill()
    await asyncio.wait([running])
    assert running.exception() is not None
    (noted.parent / "hold").unlink()
    for number in range(1, 4):
        at = await start()
        reply = await answer(at, "bold", reply)
        assert reply.messages == [f"done {number}?"], reply.message
        at.kill()
    last = await answer(await start(), "bold", reply)
    assert last.text == "done to the end"
    assert lines(noted) == ["bold"] * 3, "once on each node that had no result"
    keys = {line.split(":")[1] for line in entries(noted)}
    assert len(keys) == 1 and len(keys.pop()) == 32


async def test_a_duplicate_retry_of_an_interrupted_round_runs_nothing_twice(start: Start, noted: Path) -> None:
    """Two nodes are asked to go on with the same round at once: one frame enters, both hear the same, the effect stays
    in doubt."""
    reply = await interrupted(start, "careful", noted)
    (noted.parent / "hold").unlink()
    pair = [await start(), await start()]
    result = await asyncio.gather(*(answer(at, "careful", reply) for at in pair))
    assert [one.messages for one in result] == [["InDoubt 1?"]] * 2
    assert lines(noted) == ["careful"]


SKEWED = "tests/node/skewed_server.py"
CALLS = 5
"""Calls that are begun on each node with a wrong clock."""


class Machine(Heir):
    """A node whose wall clock is wrong by `wrong` seconds, until it `jumps`."""

    def __init__(self, folder: Path, store_url: str, name: str, wrong: float) -> None:
        self.named, self._file = name, folder / f"{name}.wrong"
        self.jumps(wrong)
        super().__init__(SKEWED, folder, store_url, name)
        assert self._env is not None
        self._env = {**self._env, "WRONG_BY": str(self._file)}

    def jumps(self, wrong: float) -> None:
        """Its wall clock is set."""
        self._file.write_text(str(wrong))


@pytest.fixture
async def machines(redis: RedisServer, tmp_path: Path) -> AsyncIterator[list[Machine]]:
    """A machine whose clock is right, one that is fast, one that is slow, and one that will jump."""
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
