"""Effects under `once`, and what clients, limits and side tasks do meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.engine import runtime
from framehold.engine.slot import Slot
from tests.node.acting import SOON, Effects, each_way, told
from tests.node.stage import Stage, Word, said, stage
from tests.processes import until
from tests.wire import Reply

pytestmark = pytest.mark.anyio


def asks_then_acts(effects: Effects) -> Callable[[Context], Awaitable[str]]:
    """A tool `work` that asks for a word, then runs an effect until the test lets it go."""

    @framehold.reentrant
    async def work(ctx: Context) -> str:
        word = said(await ctx.elicit("first?", Word))
        return f"{word} {await framehold.once('k', effects.held)}"

    return work


async def left_during_the_effect(client: Stage, effects: Effects) -> tuple[Reply, Slot]:
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
    """The effect runs on, its result is written, then the frame goes; the same retry is given the recorded result."""
    effects = Effects()
    async with stage(asks_then_acts(effects)) as client:
        reply, _ = await left_during_the_effect(client, effects)
        assert len(client.runtime.table) == 1 and client.runtime.store.request_counts["result"] == 0
        effects.go.set()
        await until(lambda: not len(client.runtime.table), "the frame to go")
        assert client.runtime.store.request_counts["result"] == 1 and client.runtime.counts["left"] == 1
        done = await client.retry("work", reply.token, reply.accept(word="x"))
        assert done.text == "x ['it']"
    assert effects.ran == ["it"]


async def test_a_client_that_leaves_and_comes_back_while_an_effect_runs() -> None:
    """The same retry joins the round that it had left, and nothing is cancelled."""
    effects = Effects()
    async with stage(asks_then_acts(effects)) as client:
        reply, slot = await left_during_the_effect(client, effects)
        again = asyncio.create_task(client.retry("work", reply.token, reply.accept(word="x")))
        await until(lambda: not slot.call.abandoned, "the return")
        effects.go.set()
        assert (await again).text == "x ['it']" and client.runtime.counts["left"] == 0
    assert effects.ran == ["it"] and client.runtime.counts["entered"] == 1


async def test_a_round_that_overruns_while_an_effect_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits hears the limit at once; the effect ends, its result is written, and the retry is given it."""
    monkeypatch.setattr(runtime, "SWEEP", 0.02)
    effects = Effects()
    async with stage(asks_then_acts(effects), max_round=1) as client:
        reply = await client.call("work")
        told_ = await client.retry("work", reply.token, reply.accept(word="x"))
        assert told_.result["isError"] and "FRAMEHOLD_MAX_ROUND" in told_.text
        assert len(client.runtime.table) == 1
        effects.go.set()
        await until(lambda: not len(client.runtime.table), "the frame to go")
        assert (await client.retry("work", reply.token, reply.accept(word="x"))).text == "x ['it']"
    assert effects.ran == ["it"]


@each_way
async def test_an_effect_and_a_question_in_one_round(settings: dict[str, Any]) -> None:
    """Gathered: the question is asked, the effect runs once, the handler hears both."""
    effects = Effects()

    @framehold.reentrant
    async def both(ctx: Context) -> str:
        async def act() -> str:
            await framehold.once("before", effects.note, "before")
            effects.go.set()
            return str(await framehold.once("k", effects.held))

        done, answer = await asyncio.gather(act(), ctx.elicit("well?", Word))
        return f"{done} {said(answer)} {said(await ctx.elicit('sure?', Word))}"

    async with stage(both, **settings) as client:
        assert (await asyncio.wait_for(told(client, "both"), SOON)).text == "['it'] <well?> <sure?>"
    assert effects.ran == ["before", "it"]


async def test_a_held_call_is_parked_while_its_effect_runs() -> None:
    """The client hears the question while the effect still runs; answered first, the handler waits for the effect."""
    effects = Effects()

    @framehold.reentrant
    async def both(ctx: Context) -> str:
        done, answer = await asyncio.gather(framehold.once("k", effects.held), ctx.elicit("well?", Word))
        return f"{done} {said(answer)}"

    async with stage(both) as client:
        reply = await asyncio.wait_for(client.call("both"), SOON)
        retry = asyncio.create_task(client.retry("both", reply.token, reply.accept(word="x")))
        await until(lambda: client.runtime.counts["resumed"], "the answer")
        assert not retry.done()
        effects.go.set()
        assert (await asyncio.wait_for(retry, SOON)).text == "['it'] x"
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

    async with stage(work, rehearse=True, result_delay=1) as client:
        reply = await client.call("work")
        writes = client.runtime.store.request_counts
        assert (writes["intent"], writes["result"], writes["commit"]) == (3, 0, 1)
        while reply.message["result"]["resultType"] == "input_required":
            reply = await client.retry("work", reply.token, reply.accept(word="x"))
        assert (writes["intent"], writes["result"], writes["commit"], writes["finish"]) == (3, 0, 3, 1)
    assert len(effects.ran) == 3
