"""Calls that may have ended several processes are entered one at a time on a node, and behind others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold_core import suspects
from tests.node.engine.test_paused import ended
from tests.node.operating import Node, call_of, pair
from tests.node.stage import Word, said
from tests.processes import until
from tests.store.server import RedisServer
from tests.wire import Reply

pytestmark = pytest.mark.anyio


class Room:
    """Who was let in, in order, and who may go on."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.doors: dict[str, asyncio.Event] = {}

    async def wait(self, name: str) -> None:
        self.entered.append(name)
        await self.doors.setdefault(name, asyncio.Event()).wait()

    def open(self, name: str) -> None:
        self.doors.setdefault(name, asyncio.Event()).set()


ROOM = Room()


@framehold.reentrant
async def slow(ctx: Context, name: str) -> str:
    """Asks, waits in the room, and asks again."""
    await ctx.elicit(f"{name} one?", Word)
    await ROOM.wait(name)
    return f"{name} {said(await ctx.elicit(f'{name} two?', Word))}"


async def once_only(ctx: Context, name: str) -> str:
    """Asks, and is not entered again."""
    return said(await ctx.elicit(f"{name} one?", Word))


@pytest.fixture(autouse=True)
def empty_room() -> None:
    ROOM.entered.clear()
    ROOM.doors.clear()


@pytest.fixture
async def node(redis: RedisServer, tmp_path: Path) -> AsyncIterator[Node]:
    async with pair(redis, tmp_path.name, slow, once_only, lease_ttl=3.0, pause_after=0) as (a, _):
        yield a


async def parked(node: Node, redis: RedisServer, namespace: str, name: str, attempts: int, tool: str = "slow") -> Reply:
    """A parked call that a process which is gone had taken over, if there were attempts."""
    held = await node.caller.call(tool, arguments={"name": name})
    ended(redis, namespace, node, held, f"boot-{name}", attempts)
    return held


def answer(node: Node, held: Reply, tool: str = "slow") -> asyncio.Task[Reply]:
    return asyncio.create_task(
        node.caller.retry(tool, held.token, held.accept(word="x"), arguments={"name": held.messages[0].split()[0]})
    )


def waiting(node: Node) -> int:
    """How many calls of a node wait to be entered alone."""
    return node.runtime._gate.suspects.waiting


async def entered(*names: str) -> None:
    await until(lambda: ROOM.entered == list(names), f"{names} to be entered")


async def test_a_suspect_waits_for_the_one_before_it(node: Node, redis: RedisServer, tmp_path: Path) -> None:
    """Others do not wait: not for it, and not with it."""
    first, second, other = [
        await parked(node, redis, tmp_path.name, name, attempts)
        for name, attempts in (("first", 1), ("second", 2), ("other", 0))
    ]
    replies = [answer(node, first)]
    await entered("first")
    replies += [answer(node, second)]
    await until(lambda: waiting(node) == 1, "the second to wait")
    replies += [answer(node, other)]
    await entered("first", "other")
    ROOM.open("first")
    assert (await replies[0]).messages == ["first two?"]
    await entered("first", "other", "second")
    ROOM.open("second")
    ROOM.open("other")
    assert [(await reply).messages for reply in replies[1:]] == [["second two?"], ["other two?"]]


async def test_an_unmarked_call_waits_for_no_suspect(node: Node, redis: RedisServer, tmp_path: Path) -> None:
    """Somebody has altered its attempts. It is never entered again, so its client hears at once that it is lost."""
    first = await parked(node, redis, tmp_path.name, "first", 1)
    lost = await parked(node, redis, tmp_path.name, "lost", 7, "once_only")
    running = answer(node, first)
    await entered("first")
    async with asyncio.timeout(suspects.PATIENCE / 2):
        assert "This call was lost" in (await answer(node, lost, "once_only")).text
    ROOM.open("first")
    assert (await running).messages == ["first two?"]


async def test_a_suspect_that_waited_for_too_long_is_told_to_come_again(
    node: Node, redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = [await parked(node, redis, tmp_path.name, name, 1) for name in ("first", "second")]
    running = answer(node, first)
    await entered("first")
    monkeypatch.setattr(suspects, "PATIENCE", 0.05)
    refused = await answer(node, second)
    assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
    assert "it is entered alone" in refused.text
    assert waiting(node) == 0 and ROOM.entered == ["first"]
    ROOM.open("first")
    await running
    ROOM.open("second")
    assert (await answer(node, second)).messages == ["second two?"]


async def test_one_that_ends_or_goes_lets_the_next_in(node: Node, redis: RedisServer, tmp_path: Path) -> None:
    """The first is ended by its operator, the second by its client, which leaves while it waits."""
    first, second, third = [await parked(node, redis, tmp_path.name, name, 1) for name in ("first", "second", "third")]
    replies = [answer(node, first)]
    await entered("first")
    replies += [answer(node, second)]
    await until(lambda: waiting(node) == 1, "the second to wait")
    replies += [answer(node, third)]
    await until(lambda: waiting(node) == 2, "the third to wait")
    replies[1].cancel()
    ended_by = await node.operator.cancel(call_of(first.token))
    assert ended_by.status == 200
    await replies[0]
    ROOM.open("third")
    assert (await replies[2]).messages == ["third two?"]
