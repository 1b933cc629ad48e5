"""What a task of a request leaves behind when it is cancelled, or when what it awaits raises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from framehold.frame import contained
from tests.kit.cycles import cycles
from tests.kit.engine import turns

pytestmark = pytest.mark.anyio


@pytest.fixture
async def containing() -> AsyncIterator[asyncio.AbstractEventLoop]:
    """A loop that contains the tasks of this test."""
    loop = asyncio.get_running_loop()
    contained.contain(loop)
    yield loop
    contained.release(loop)


async def _cancelled(task: asyncio.Task[None], awaited: asyncio.Future[None]) -> None:
    task.cancel()


async def _cancelled_while_it_waits(task: asyncio.Task[None], awaited: asyncio.Future[None]) -> None:
    await turns(3)
    task.cancel()


async def _failed(task: asyncio.Task[None], awaited: asyncio.Future[None]) -> None:
    await turns(3)
    awaited.set_exception(LookupError("no"))


async def _ended(task: asyncio.Task[None], awaited: asyncio.Future[None]) -> None:
    await turns(3)
    awaited.set_exception(SystemExit(3))


Ending = Callable[[asyncio.Task[None], asyncio.Future[None]], Awaitable[None]]


@pytest.mark.parametrize("ending", [_cancelled, _cancelled_while_it_waits, _failed, _ended])
async def test_what_is_raised_in_a_contained_task_is_in_no_cycle(
    ending: Ending, containing: asyncio.AbstractEventLoop
) -> None:
    """Nodes cancel such a task with nearly each request: what watches its client."""

    async def waits(given: list[asyncio.Future[None]]) -> None:
        # It keeps none: a future that raised refers to the frame.
        await given.pop()

    async def each_once() -> str:
        awaited = containing.create_future()
        task = containing.create_task(waits([awaited]))
        await ending(task, awaited)
        [raised] = await asyncio.gather(task, return_exceptions=True)
        return type(raised).__name__

    contained.begin()
    with cycles() as found:
        names = [await each_once() for _ in range(3)]
        await turns(3)
        assert found() == []
    assert len({*names}) == 1 and names[0] in ("CancelledError", "LookupError", "RuntimeError")
