"""Requests that come at once take turns, so that the loop gets round to everything else."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from framehold.http.pacing import Pacing

pytestmark = pytest.mark.anyio


async def test_a_crowd_goes_through_a_few_at_a_time_and_in_order() -> None:
    """Between two portions the loop turns: a timer that is due is heard long before the crowd is through."""
    turns, through, seen = Pacing(per_turn=3), [], []

    async def request(number: int) -> None:
        await turns.mine()
        through.append(number)

    tasks = [asyncio.create_task(request(number)) for number in range(30)]

    async def heartbeat() -> None:
        while len(through) < 30:
            seen.append(len(through))
            await asyncio.sleep(0)

    await heartbeat()
    await asyncio.gather(*tasks)
    assert through == list(range(30))
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 3 and len(seen) >= 10


async def test_whoever_comes_alone_waits_for_nothing() -> None:
    turns = Pacing(per_turn=1)
    for _ in range(5):
        line = turns.mine()
        with pytest.raises(StopIteration):
            line.send(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_one_that_leaves_the_line_holds_up_nobody() -> None:
    turns = Pacing(per_turn=1)
    tasks = [asyncio.create_task(turns.mine()) for _ in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    done, left = await asyncio.wait(tasks, timeout=5)
    assert not left and [task.cancelled() for task in tasks] == [False, True, False, False] and len(done) == 4
