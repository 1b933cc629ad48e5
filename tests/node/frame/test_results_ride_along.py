"""The handler hears the result of an effect at once; the next write of its call takes it along."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.engine.slot import Slot
from framehold_core.requests import Request
from framehold_store.base import Done
from tests.kit.client import Reply
from tests.kit.effects import SOON, Effects
from tests.kit.processes import until
from tests.kit.serving import Served, Word, said, serving

pytestmark = pytest.mark.anyio

NEVER = 1
"""A delay within which each of these tests is over, in seconds."""


def holding_back_results(client: Served) -> list[partial[None]]:
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


@pytest.mark.parametrize("delay", [0, 0.002])
async def test_a_result_that_no_write_takes_along_is_written_by_itself(delay: float) -> None:
    effects, over = Effects(), asyncio.Event()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        await framehold.once("k", effects.note)
        await over.wait()
        return "done"

    async with serving(work, result_delay=delay) as client:
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

    async with serving(work, result_delay=NEVER) as client:
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

    async with serving(work, result_delay=NEVER) as client:
        call = asyncio.create_task(client.call("work"))
        await until(lambda: any(slot.call.owed for slot in client.runtime.table), "the effect")
        await asyncio.wait_for(client.runtime.end(), SOON)
        assert client.runtime.store.request_counts["result"] == 1
        await asyncio.wait([call])


async def test_the_writes_of_three_rounds_with_two_effects_that_may_run_again() -> None:
    effects = Effects()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        await framehold.once("before", effects.note, idempotent=True)
        words = [said(await ctx.elicit(word, Word)) for word in ("one", "two")]
        await framehold.once("after", effects.note, idempotent=True)
        return " ".join(words)

    async with serving(work, result_delay=NEVER) as client:
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


def asks_then_acts(effects: Effects) -> Callable[[Context], Awaitable[str]]:

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        word = said(await ctx.elicit("first?", Word))
        return f"{word} {await framehold.once('k', effects.held)}"

    return work


async def left_during_the_effect(client: Served, effects: Effects) -> tuple[Reply, Slot]:
    """Answer `work`, and close the connection while its effect runs. Returns the question and the slot of the call."""
    reply = await client.call("work")
    request = asyncio.create_task(client.retry("work", reply.token, reply.accept(word="x")))
    await effects.started.wait()
    (slot,) = client.runtime.table
    request.cancel()
    await asyncio.wait([request])
    await until(lambda: slot.call.abandoned, "the disconnect")
    return reply, slot


async def test_a_client_that_leaves_while_an_effect_runs() -> None:
    effects = Effects()
    async with serving(asks_then_acts(effects)) as client:
        reply, _ = await left_during_the_effect(client, effects)
        assert len(client.runtime.table) == 1 and client.runtime.store.request_counts["result"] == 0
        effects.go.set()
        await until(lambda: not len(client.runtime.table), "the frame to go")
        assert client.runtime.store.request_counts["result"] == 1 and client.runtime.counts["left"] == 1
        done = await client.retry("work", reply.token, reply.accept(word="x"))
        assert done.text == "x ['it']"
    assert effects.ran == ["it"]


async def test_one_write_for_an_effect_and_none_for_a_recorded_one() -> None:
    """An intent each, and the next write has the result with it; an effect that is replayed, or joined, costs no write
    at all."""
    effects = Effects()

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        for number in range(3):
            await framehold.once(f"k{number}", effects.note)
            await framehold.once(f"k{number}", effects.note)
        for word in ("one", "two", "three"):
            said(await ctx.elicit(word, Word))
        await framehold.once("k0", effects.note)
        return "fine"

    async with serving(work, rehearse=True, result_delay=1) as client:
        reply = await client.call("work")
        writes = client.runtime.store.request_counts
        assert (writes["intent"], writes["result"], writes["commit"]) == (3, 0, 1)
        while reply.message["result"]["resultType"] == "input_required":
            reply = await client.retry("work", reply.token, reply.accept(word="x"))
        assert (writes["intent"], writes["result"], writes["commit"], writes["finish"]) == (3, 0, 3, 1)
    assert len(effects.ran) == 3
