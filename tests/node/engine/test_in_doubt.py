"""A node that is killed while an effect runs: its heirs know that it may have run, and act on that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.node.nodes import NodeProcess, Start, entries, heirs
from tests.processes import until
from tests.store.server import RedisServer
from tests.wire import Caller, Reply

pytestmark = pytest.mark.anyio

TARGET = "tests/node/doubtful_server.py"


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which effects leave their lines. While there is a file `hold` beside it they hang."""
    path = tmp_path / "entries"
    monkeypatch.setenv("ENTRIES", str(path))
    (tmp_path / "hold").touch()
    return path


@pytest.fixture
async def start(redis: RedisServer, tmp_path: Path, noted: Path) -> AsyncIterator[Start]:
    """Node after node over one store, each under a name of its own."""
    async with heirs(TARGET, tmp_path, redis.url) as starting:
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
    """Until its result is recorded, each time under the same idempotency key, and never after that."""
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


async def test_a_killed_node_between_two_effects(start: Start, noted: Path) -> None:
    """What has its result recorded is not in doubt: the heir is given it, and runs only what was not begun."""
    first = await start()
    async with Caller(first.url) as caller:
        reply = await caller.call("steps")
        running = asyncio.create_task(caller.retry("steps", reply.token, reply.accept(word="aye")))
        await until(lambda: lines(noted) == ["one", "between"], "the first effect's result")
        first.kill()
        await asyncio.wait([running])
        assert running.exception() is not None
    (noted.parent / "hold").unlink()
    last = await answer(await start(), "steps", reply)
    assert last.text == "one two"
    assert lines(noted) == ["one", "between", "between", "two"], "what stands below no once runs in each entry"
