"""An event loop that stands is noticed, and the code that it stands in is named."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.admin.probes import node_state
from framehold.config import Settings
from framehold.telemetry import stalls
from framehold.telemetry.stalls import PAUSE, Stall, StallWatch
from framehold_store.system_clock import system_clock
from tests.kit.client import Caller
from tests.kit.nodes import served
from tests.kit.processes import DEADLINE, until
from tests.kit.serving import Word, said, server_of

SHORT = 0.3
"""Seconds by which the loop of these tests is late when it counts as standing."""


@asynccontextmanager
async def watching(limit: float = SHORT) -> AsyncIterator[StallWatch]:
    """A watch of the running loop; code belongs to the tool that the variable `TOOL` names."""
    made = StallWatch(lambda variables: variables.get(TOOL, ""), system_clock(), limit=limit)
    task = asyncio.create_task(made.watch())
    await asyncio.sleep(0)
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


TOOL = contextvars.ContextVar[str]("TOOL")


async def ended(watch: StallWatch) -> Stall:
    """The stall that has just ended."""
    found = await until(lambda: watch.last, "a stall")
    assert isinstance(found, Stall)
    return found


def block(seconds: float) -> None:
    time.sleep(seconds)


LINE = block.__code__.co_firstlineno + 1


def test_the_code_that_the_loop_stood_in_is_named(
    run: Callable[[Awaitable[None]], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def stands() -> None:
        async with watching() as watch:
            TOOL.set("book")
            began = time.time()
            block(3 * SHORT)
            found = await ended(watch)
            assert found.where == f"{__name__}:block:{LINE}" and (found.file, found.line) == (__file__, LINE)
            assert found.stack[0] == found.where and found.stack[1].startswith(f"{__name__}:")
            assert found.tool == "book"
            assert 2 * SHORT - PAUSE < found.seconds < 60 and abs(found.at - began) < PAUSE + 1

    run(stands())
    [line] = [record for record in caplog.records if record.name == stalls.__name__]
    assert "tool 'book'" in line.message and f"{__file__}:{LINE}" in line.message and "await" in line.message
    assert line.levelno == logging.WARNING and line.__dict__["tool"] == "book" and line.__dict__["seconds"] > 0


def test_a_stall_is_known_before_its_line_is_written(
    run: Callable[[Awaitable[None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked while the loop stood is answered next, and is not told that some handler blocks it."""
    monkeypatch.setattr(StallWatch, "_ended", lambda watch: None)

    async def stands() -> None:
        async with watching() as watch:
            block(3 * SHORT)
            assert (await ended(watch)).where == f"{__name__}:block:{LINE}"

    run(stands())


def test_a_call_that_keeps_the_interpreter_is_named(run: Callable[[Awaitable[None]], None]) -> None:
    """Nobody can look while it runs; whoever waits for the interpreter gets it before the loop goes on. On a busy
    machine the thread may wait for a processor instead: then it is kept again."""
    end = time.monotonic() + 30

    def keep() -> None:
        kept = time.monotonic() + SHORT + PAUSE
        while time.monotonic() < kept:
            sum(range(20_000_000))

    async def stands() -> None:
        named = ""
        while not named and time.monotonic() < end:
            async with watching() as watch:
                keep()
                named = (await ended(watch)).where
        assert named.split(":")[:2] == [__name__, "test_a_call_that_keeps_the_interpreter_is_named.<locals>.keep"]

    run(stands())


def test_work_that_gives_way_is_no_stall(run: Callable[[Awaitable[None]], None]) -> None:
    async def works() -> None:
        async with watching(limit=2.0) as watch:
            end = time.monotonic() + 4 * PAUSE
            while time.monotonic() < end:
                block(0.02)
                await asyncio.sleep(0)
            assert watch.last is None

    run(works())


def test_the_thread_ends_with_its_watch(run: Callable[[Awaitable[None]], None]) -> None:
    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "framehold-stalls"]

    async def watches() -> None:
        before = len(threads())
        async with watching():
            assert len(threads()) == before + 1
        assert len(threads()) == before

    run(watches())


def test_a_loop_that_goes_on_standing_is_logged_while_it_stands(
    run: Callable[[Awaitable[None]], None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may be killed for it, and would never log the end."""
    monkeypatch.setattr(stalls, "LONG", 2 * SHORT)

    async def stands() -> None:
        async with watching() as watch:
            block(6 * SHORT)
            await ended(watch)

    run(stands())
    lines = [(record.levelname, record.message) for record in caplog.records if record.name == stalls.__name__]
    assert [level for level, _ in lines] == ["ERROR", "WARNING"]
    assert "still stands" in lines[0][1] and all(f":{LINE}" in text for _, text in lines)


def test_the_task_of_the_watch_is_never_to_blame(run: Callable[[Awaitable[None]], None]) -> None:
    """It runs when the loop goes on: a thread that looks at this moment sees what ran after the stall."""
    blocks = iter([3 * SHORT])

    async def looked_at() -> None:
        made = StallWatch(lambda variables: "", system_clock(), late=lambda _: block(next(blocks, 0)), limit=SHORT)
        task = asyncio.create_task(made.watch())
        found = await ended(made)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (found.where, found.stack) == ("", ())

    run(looked_at())


STOPPED = """
import asyncio
import time
from framehold.telemetry.stalls import StallWatch
from framehold_store.system_clock import system_clock

def until_it_ends(watch):
    while watch.last is None:
        time.sleep(0.01)

async def main():
    watch = StallWatch(lambda variables: "", system_clock(), limit=0.3)
    watching = asyncio.create_task(watch.watch())
    print("watches", flush=True)
    # The loop has no other task that a look could find.
    await asyncio.to_thread(until_it_ends, watch)
    print(repr(watch.last.where), flush=True)

asyncio.run(main())
"""


def test_a_process_that_was_stopped_blames_no_code() -> None:
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "watches\n"
        end, result = time.monotonic() + DEADLINE, False
        try:
            # It may be stopped before its watch has begun: then it is stopped again.
            while not result and time.monotonic() < end:
                child.send_signal(signal.SIGSTOP)
                time.sleep(4 * SHORT)
                child.send_signal(signal.SIGCONT)
                result = bool(select.select([child.stdout], [], [], 4 * SHORT)[0])
            assert result and child.stdout.readline() == "''\n"
        finally:
            child.kill()


# ---- on a node


async def direct(ctx: Context) -> str:
    """A tool that blocks."""
    block(3 * SHORT)
    return said(await ctx.elicit("Which word?", Word))


async def beside(ctx: Context) -> str:
    """A tool whose other task blocks."""

    async def other() -> None:
        block(3 * SHORT)

    await asyncio.gather(other(), other())
    return "done"


async def within_once(ctx: Context) -> str:
    """A tool whose effect blocks."""

    async def effect() -> None:
        block(3 * SHORT)

    await framehold.once("effect", effect)
    return "done"


@pytest.mark.anyio
@pytest.mark.parametrize("tool", [direct, beside, within_once])
@pytest.mark.parametrize("metrics", [True, False])
async def test_a_node_keeps_its_last_stall_and_the_tool_that_blocked(
    tool: Callable[..., Awaitable[str]], metrics: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the node may stand for want of a processor, before or after, or its thread may look too late:
    then the tool blocks again."""
    app = framehold.asgi(server_of("stage", tool), Settings(node_id="stage", metrics=metrics))
    monkeypatch.setattr(app.attached.stalls, "_limit", SHORT)
    assert node_state(app.attached).last_stall is None
    async with served(app) as url, Caller(url) as client, asyncio.timeout(DEADLINE):
        found = None
        while found is None or found.where != f"{__name__}:block:{LINE}":
            await client.call(tool.__name__)
            await ended(app.attached.stalls)
            found = node_state(app.attached).last_stall
        assert found.tool == tool.__name__
        assert found.seconds > SHORT and found.stack[0] == found.where and len(found.stack) > 2
