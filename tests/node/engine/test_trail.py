"""A node writes into a call's trail how long its rounds ran, and not how long people thought."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from mcp.server.mcpserver import Context

from framehold.engine.replies import Ended
from framehold.frame.frame import Frame
from framehold_core.ids import CallId
from framehold_core.requests import Read
from framehold_core.trail import Moved
from framehold_core.value import astuple
from tests.kit.client import Reply
from tests.kit.engine import engine, question, turns
from tests.kit.serving import Word, serving

pytestmark = pytest.mark.anyio

WORK, THOUGHT, ROUNDED = 0.05, 0.3, 0.001


async def work(ctx: Context) -> str:
    await asyncio.gather(ctx.elicit("one?", Word), ctx.elicit("two?", Word))
    await asyncio.sleep(WORK)
    return "done"


async def timed(asking: Any) -> tuple[Reply, float]:
    began = time.monotonic()
    return await asking, time.monotonic() - began


async def test_a_step_says_how_long_its_round_ran() -> None:
    """From the request's coming on, also where answers came in parts and the handler did not run in between."""
    async with serving(work) as caller:
        response, first = await timed(caller.call("work"))
        given = response.accept(word="yes")
        one, two = given
        await asyncio.sleep(THOUGHT)
        response, second = await timed(caller.retry("work", response.token, {one: given[one]}))
        assert list(response.asked) == [two]
        await asyncio.sleep(THOUGHT)
        call = CallId(response.token.split(".")[1])
        response, third = await timed(caller.retry("work", response.token, {two: given[two]}))
        assert response.text == "done"
        reply = await caller.runtime.store.run(Read(call))
    assert reply.stored is not None
    trail = reply.stored.record.trail
    assert [astuple(step)[:4] for step in trail] == [
        (Moved.PARKED, 1, 1, "stage"),
        (Moved.PARKED, 2, 1, "stage"),
        (Moved.FINISHED, 2, 1, "stage"),
    ]
    assert all(0 <= step.ran <= took + ROUNDED for step, took in zip(trail, (first, second, third), strict=True))
    assert trail[-1].ran >= WORK - ROUNDED
    assert trail[1].at - trail[0].at >= THOUGHT - ROUNDED


async def test_a_round_runs_from_the_first_of_its_requests() -> None:
    """A client that sends its retry again does not make the round shorter."""
    goes_on = asyncio.Event()

    async def script(frame: Frame) -> str:
        await frame.ask(question("q"))
        await goes_on.wait()
        return "done"

    async with engine() as at:
        parked = await at.parked(script)
        answers = dict.fromkeys(parked.questions, "a")
        both = [asyncio.create_task(at.retry(parked, answers))]
        await asyncio.sleep(WORK)
        both.append(asyncio.create_task(at.retry(parked, answers)))
        await turns(20)
        goes_on.set()
        assert await asyncio.gather(*both) == [Ended("done")] * 2
        stored = (await at.store.run(Read(parked.call))).stored
    assert stored is not None and stored.record.trail[-1].ran >= WORK - ROUNDED
