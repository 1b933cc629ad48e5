"""Handlers that ask from a thread: while it waits for a person, it takes no thread from other handlers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from mcp.server.mcpserver import Context

import framehold
from tests.kit.engine import turns
from tests.kit.processes import until
from tests.kit.serving import Served, Word, said, serving

pytestmark = pytest.mark.anyio

THREADS = 2
"""Places of the default limiter, in these tests."""


def asks(ctx: Context) -> str:
    return said(anyio.from_thread.run(ctx.elicit, "Which word?", Word))


async def offloads(ctx: Context) -> str:
    return said(await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(ctx.elicit, "Which word?", Word)))


async def gathers(ctx: Context) -> str:
    def ask(number: int) -> str:
        return said(anyio.from_thread.run(ctx.elicit, f"Word {number}?", Word))

    return " ".join(await asyncio.gather(*(anyio.to_thread.run_sync(ask, number) for number in range(THREADS + 1))))


async def limits(ctx: Context) -> str:
    own = anyio.CapacityLimiter(THREADS + 1)

    def ask(number: int) -> str:
        return said(anyio.from_thread.run(ctx.elicit, f"Word {number}?", Word))

    words = (anyio.to_thread.run_sync(ask, number, limiter=own) for number in range(THREADS + 1))
    return " ".join(await asyncio.gather(*words))


def task_first(ctx: Context) -> str:
    return anyio.from_thread.run(two, ctx, 1)


def thread_first(ctx: Context) -> str:
    return anyio.from_thread.run(two, ctx, 0)


async def two(ctx: Context, wait: int) -> str:
    """Ask in a task, and here after `wait` turns: the other asks first if it is 0."""
    beside = asyncio.create_task(ctx.elicit("Beside?", Word))
    await turns(wait)
    return said(await ctx.elicit("Here?", Word)) + said(await beside)


def afterwards(ctx: Context) -> str:
    """Its first question makes the thread known to the tasks that ask next."""

    async def ask() -> str:
        first = await ctx.elicit("First?", Word)
        return said(first) + await two(ctx, 1)

    return anyio.from_thread.run(ask)


def adds(ctx: Context) -> str:
    return "3"


TOOLS = (asks, offloads, gathers, limits, task_first, thread_first, afterwards, adds)


@asynccontextmanager
async def narrow(limit: int) -> AsyncIterator[tuple[Served, anyio.CapacityLimiter]]:
    """A node with few threads, of which `limit` may wait for answers, and the limiter of its threads."""
    async with serving(*TOOLS, max_asking_threads=limit) as client:
        places = anyio.to_thread.current_default_thread_limiter()
        usual, places.total_tokens = places.total_tokens, THREADS
        try:
            yield client, places
            assert places.total_tokens == THREADS
        finally:
            places.total_tokens = usual


@pytest.mark.parametrize("tool", ["asks", "offloads"])
async def test_threads_that_wait_for_answers_take_no_thread_from_others(tool: str) -> None:
    async with narrow(limit=10) as (client, places):
        asked = [await client.call(tool) for _ in range(THREADS + 1)]
        with anyio.fail_after(20):
            assert (await client.call("adds")).text == "3"
        assert places.borrowed_tokens == THREADS + 1
        for number, reply in enumerate(asked):
            assert (await client.retry(tool, reply.token, reply.accept(word=f"w{number}"))).text == f"w{number}"


async def test_threads_of_one_handler_lend_a_place_each() -> None:
    async with narrow(limit=10) as (client, places):
        reply = await client.call("gathers")
        await until(lambda: places.total_tokens == 2 * THREADS + 1, "the last question")
        with anyio.fail_after(20):
            assert (await client.call("adds")).text == "3"
            while reply.result["resultType"] == "input_required":
                reply = await client.retry("gathers", reply.token, reply.accept(word="w"))
        assert reply.text == "w w w"


async def test_threads_of_one_handler_count_each(caplog: pytest.LogCaptureFixture) -> None:
    async with narrow(limit=THREADS) as (client, _):
        reply = await client.call("gathers")
        await until(lambda: any(record.exc_info for record in caplog.records), "the refusal")
        assert (await client.retry("gathers", reply.token, reply.accept(word="w"))).result["isError"] is True
        assert "FRAMEHOLD_MAX_ASKING_THREADS" in caplog.text


@pytest.mark.parametrize("tool", ["task_first", "thread_first", "afterwards"])
async def test_a_thread_that_asks_twice_at_once_counts_once(tool: str) -> None:
    """It lends its place until it has both answers."""
    async with narrow(limit=1) as (client, places):
        reply = await client.call(tool)
        if tool == "afterwards":
            reply = await client.retry(tool, reply.token, reply.accept(word="w"))
        first, second = sorted(reply.accept(word="w").items())
        assert places.total_tokens == THREADS + 1
        reply = await client.retry(tool, reply.token, dict([first]))
        assert places.total_tokens == THREADS + 1
        reply = await client.retry(tool, reply.token, dict([second]))
        assert reply.text.strip("w") == ""


async def test_a_thread_that_holds_none_of_the_places_lends_none(caplog: pytest.LogCaptureFixture) -> None:
    """One of a limiter of the author's own counts, and no more."""
    async with narrow(limit=THREADS + 1) as (client, places):
        reply = await client.call("limits")
        await until(lambda: "as many as may" in caplog.text, "the last question")
        assert places.total_tokens == THREADS
        with anyio.fail_after(20):
            while reply.result["resultType"] == "input_required":
                reply = await client.retry("limits", reply.token, reply.accept(word="w"))
        assert reply.text == "w w w"


async def test_a_thread_whose_frame_is_dropped_gives_its_place_back() -> None:
    async with narrow(limit=10) as (client, places):
        await client.call("asks")
        await client.runtime.end()
        await until(lambda: places.borrowed_tokens == 0, "the thread's end")


async def test_a_question_beyond_the_limit_fails_by_name_and_the_log_warns_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with narrow(limit=2) as (client, _):
        first, second = await client.call("asks"), await client.call("asks")
        warnings = [record for record in caplog.records if record.name == "framehold.frame.asking_threads"]
        assert [record.levelno for record in warnings] == [logging.WARNING]
        assert "FRAMEHOLD_MAX_ASKING_THREADS" in warnings[0].getMessage()
        refused = await client.call("asks")
        assert refused.result["isError"] is True
        (error,) = [record.exc_info[1] for record in caplog.records if record.exc_info]
        assert error is not None and "FRAMEHOLD_MAX_ASKING_THREADS" in str(error.__cause__)
        assert (await client.call("adds")).text == "3"
        assert (await client.retry("asks", first.token, first.accept(word="one"))).text == "one"
        third = await client.call("asks")
        for reply in (second, third):
            assert (await client.retry("asks", reply.token, reply.accept(word="x"))).text == "x"


async def test_a_question_from_a_task_of_the_handler_takes_no_place() -> None:
    """Only a handler that is in a thread lends one."""

    async def beside(ctx: Context) -> str:
        words: list[str] = []

        async def ask() -> None:
            words.append(said(await ctx.elicit("Which word?", Word)))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
        return words[0]

    async with serving(beside, max_asking_threads=1) as client:
        places = anyio.to_thread.current_default_thread_limiter()
        usual = places.total_tokens
        asked = [await client.call("beside") for _ in range(2)]
        await turns(5)
        assert places.total_tokens == usual
        for reply in asked:
            assert (await client.retry("beside", reply.token, reply.accept(word="x"))).text == "x"


def another_question(ctx: Context, entered: int) -> None:
    anyio.from_thread.run(ctx.elicit, f"question {entered}", Word)


def another_effect(ctx: Context, entered: int) -> None:
    anyio.from_thread.run(framehold.once, f"effect {entered}", str)


def an_end(ctx: Context, entered: int) -> None:
    assert entered == 1, "it ends here when it is entered again"


def never_tires(ctx: Context, entered: int) -> None:
    """Comes to another question, and takes its error for no reason to stop."""
    for _ in range(1 if entered == 1 else 20):
        with contextlib.suppress(Exception):
            anyio.from_thread.run(ctx.elicit, f"question {entered}", Word)


@pytest.mark.parametrize("way", [another_question, another_effect, an_end, never_tires], ids=lambda way: way.__name__)
@pytest.mark.parametrize("offloads", [False, True], ids=["def tool", "thread of an async tool"])
async def test_a_thread_that_goes_another_way_is_answered_at_once(
    way: Callable[[Context, int], None], offloads: bool
) -> None:
    """When its handler is entered again, as for an async handler. The thread's next calls into Framehold raise."""
    entered: list[int] = []

    def work(ctx: Context) -> str:
        entered.append(1)
        way(ctx, len(entered))
        return said(anyio.from_thread.run(ctx.elicit, "last?", Word))

    async def work_in_a_thread(ctx: Context) -> str:
        return await anyio.to_thread.run_sync(work, ctx)

    tool = framehold.reentrant(work_in_a_thread if offloads else work)
    async with serving(tool, rehearse=True) as client:
        reply = await client.call(tool.__name__)
        with anyio.fail_after(20):
            while reply.result["resultType"] == "input_required":
                reply = await client.retry(tool.__name__, reply.token, reply.accept(word="a"))
        assert reply.result["_meta"]["framehold/reason"] == "diverged", reply.message
        places = anyio.to_thread.current_default_thread_limiter()
        await until(lambda: places.borrowed_tokens == 0, "the thread's end")
