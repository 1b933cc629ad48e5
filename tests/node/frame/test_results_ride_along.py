"""The handler hears the result of an effect at once; the next write of its call takes it along."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold_core.requests import Request
from framehold_store.base import Done
from tests.node.acting import SOON, Effects
from tests.node.stage import Stage, Word, said, stage
from tests.processes import until

pytestmark = pytest.mark.anyio

NEVER = 1
"""A delay within which each of these tests is over, in seconds."""


def holding_back_results(client: Stage) -> list[partial[None]]:
    """The writes of results alone that the store did not get: each is called to let it through."""
    store = client.runtime.store
    held, submit = list[partial[None]](), store.submit

    def hold(request: Request, done: Done) -> None:
        if type(request).__name__ == "Result":
            held.append(partial(submit, request, done))
        else:
            submit(request, done)

    store.submit = hold
    return held


async def test_a_handler_goes_on_before_its_result_is_written() -> None:
    """It is written with the question that the handler asks next."""
    effects = Effects()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        done = await framehold.once("k", effects.note)
        return f"{done} {said(await ctx.elicit('go on?', Word))}"

    async with stage(work, result_delay=NEVER) as client:
        reply = await client.call("work")
        counts = client.runtime.store.request_counts
        assert (counts["intent"], counts["result"], counts["commit"]) == (1, 0, 1)
        (slot,) = client.runtime.table
        assert not slot.call.owed and not slot.call.intents
        assert (await client.retry("work", reply.token, reply.accept(word="x"))).text == "['it'] x"


@pytest.mark.parametrize("delay", [0, 0.002])
async def test_a_result_that_no_write_takes_along_is_written_by_itself(delay: float) -> None:
    effects, over = Effects(), asyncio.Event()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        await framehold.once("k", effects.note)
        await over.wait()
        return "done"

    async with stage(work, result_delay=delay) as client:
        call = asyncio.create_task(client.call("work"))
        await until(lambda: client.runtime.store.request_counts["result"] == 1, "the result's write")
        over.set()
        assert (await asyncio.wait_for(call, SOON)).text == "done"


async def test_a_notification_waits_for_the_result_that_it_may_rest_on() -> None:
    """Nothing that a client hears rests on an effect that could be in doubt later."""
    effects, passed = Effects(), list[str]()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        await framehold.once("k", effects.note)
        await ctx.report_progress(0.5)
        passed.append("reported")
        return "done"

    async with stage(work, result_delay=NEVER) as client:
        held = holding_back_results(client)
        call = asyncio.create_task(client.call("work", meta={"progressToken": "mine"}))
        await until(lambda: held, "the result's write")
        assert passed == [] and not call.done()
        held.pop()()
        reply = await asyncio.wait_for(call, SOON)
    assert reply.text == "done" and len(reply.events) == 1


async def test_a_node_that_ends_writes_what_its_calls_owe() -> None:
    effects = Effects()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        await framehold.once("k", effects.note)
        await asyncio.Event().wait()
        return "never"

    async with stage(work, result_delay=NEVER) as client:
        call = asyncio.create_task(client.call("work"))
        await until(lambda: any(slot.call.owed for slot in client.runtime.table), "the effect")
        await asyncio.wait_for(client.runtime.end(), SOON)
        assert client.runtime.store.request_counts["result"] == 1
        await asyncio.wait([call])


async def test_effects_that_may_run_again_need_no_write_in_the_first_round() -> None:
    effects = Effects()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        done = await framehold.once("k", effects.note, idempotent=True)
        more = await framehold.once("l", effects.note, idempotent=True)
        return f"{done} {more}"

    async with stage(work, result_delay=NEVER) as client:
        assert (await client.call("work")).text == "['it'] ['it']"
        assert not client.runtime.store.request_counts["result"] and not client.runtime.store.request_counts["finish"]


async def test_the_writes_of_three_rounds_with_two_effects_that_may_run_again() -> None:
    """Two commits, one write of the last answers, and the outcome."""
    effects = Effects()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        await framehold.once("before", effects.note, idempotent=True)
        words = [said(await ctx.elicit(word, Word)) for word in ("one", "two")]
        await framehold.once("after", effects.note, idempotent=True)
        return " ".join(words)

    async with stage(work, result_delay=NEVER) as client:
        reply = await client.call("work")
        while reply.message["result"]["resultType"] == "input_required":
            reply = await client.retry("work", reply.token, reply.accept(word="x"))
        counts = client.runtime.store.request_counts
        assert reply.text == "x x"
        assert {name: counts[name] for name in ("commit", "result", "intent", "finish")} == {
            "commit": 2,
            "result": 1,
            "intent": 0,
            "finish": 1,
        }


async def test_results_that_are_owed_count_for_the_limit_of_the_journal() -> None:
    ran = list[int]()

    async def large() -> str:
        ran.append(1)
        return "x" * 1000

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        try:
            for number in range(9):
                await framehold.once(f"k{number}", large, idempotent=True)
        except framehold.LimitExceeded as error:
            return error.limit
        return "never"

    async with stage(work, result_delay=NEVER, max_journal=3000, max_value=2000) as client:
        reply = await client.call("work")
    assert reply.text == "MAX_JOURNAL" and len(ran) == 3
