"""A `once` without `await` runs nothing. The call ends with an error, instead of a success without its effect."""

from __future__ import annotations

import gc
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context

import framehold
from tests.kit.processes import until
from tests.kit.serving import Word, said, serving

pytestmark = pytest.mark.anyio

RAN: list[str] = []


def pay(name: str) -> None:
    RAN.append(name)


@framehold.reentrant
async def forgets(ctx: Context) -> str:
    framehold.once("pay", pay, "a")  # type: ignore[unused-coroutine]  # that is the point
    return "paid"


@framehold.reentrant
async def forgets_and_asks(ctx: Context) -> str:
    framehold.once("pay", pay, "a")  # type: ignore[unused-coroutine]  # that is the point
    try:
        word = said(await ctx.elicit("Well?", Word))
        await framehold.once("ship", pay, "b")
    except Exception:
        word = "it can't be caught"
    return word


@framehold.reentrant
async def keeps_it(ctx: Context) -> str:
    word = said(await ctx.elicit("Well?", Word))
    paying = framehold.once("pay", pay, "a")
    del word
    return f"paid: {paying is not None}"


@framehold.reentrant
async def awaits_it_later(ctx: Context) -> str:
    paying = framehold.once("pay", pay, "a")
    word = said(await ctx.elicit("Well?", Word))
    await paying
    framehold.once("not used", pay, "b").close()
    return word


TOOLS = (forgets, forgets_and_asks, keeps_it, awaits_it_later)


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@pytest.mark.parametrize("tool", ["forgets", "forgets_and_asks"])
async def test_the_call_ends_with_an_error(tool: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(*TOOLS) as caller:
        result = await caller.call(tool)
        assert result.result["isError"] is True and result.text == f"Error executing tool {tool}"
        assert caller.runtime.counts["parked"] == 0 and RAN == []
        await until(lambda: not caller.runtime.tasks.cancelling, "the end of the handler")
    [line] = [item for item in caplog.records if "never awaited" in item.message]
    assert line.levelno == logging.ERROR and "test_unawaited.py:" in line.message
    assert "framehold.once('pay') was never awaited" in line.message and "write `await` before it" in line.message
    assert getattr(line, "tool", None) == tool and RAN == []


async def test_a_process_whose_working_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The message names the whole file, and the call ends with the error all the same."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    async with serving(*TOOLS) as caller:
        assert (await caller.call("forgets")).result["isError"] is True
    assert f"write `await` before it ({__file__}:" in caplog.text


async def test_it_is_missed_wherever_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """In a variable, when the handler ends, also for a duplicate; in a prompt; in a thread, whose result does not
    count."""

    def threaded(ctx: Context) -> str:
        framehold.once("pay", pay, "a")  # type: ignore[unused-coroutine]  # that is the point
        return "paid"

    async with serving(*TOOLS, threaded) as caller:
        caller.server.prompt(name="poem")(forgets)
        asked = await caller.call("keeps_it")
        for _ in range(2):
            assert (await caller.retry("keeps_it", asked.token, asked.accept(word="x"))).result["isError"] is True
        assert (await caller.call("threaded")).result["isError"] is True
        assert (await caller.send("prompts/get", {"name": "poem"})).code == -32603
    assert caplog.text.count("framehold.once('pay') was never awaited") == 3


async def test_what_is_awaited_later_or_closed() -> None:
    async with serving(*TOOLS) as caller:
        asked = await caller.call("awaits_it_later")
        result = await caller.retry("awaits_it_later", asked.token, asked.accept(word="x"))
        assert result.text == "x" and RAN == ["a"]


async def test_a_call_of_2025(caplog: pytest.LogCaptureFixture) -> None:
    """Its handler has no frame. It runs to its end, and its client gets the same error."""
    async with serving(*TOOLS) as caller, httpx2.AsyncClient() as http:
        transport = streamable_http_client(caller.url, http_client=http)
        async with Client(transport, mode="legacy") as old:
            result = await old.call_tool("forgets", {})
    assert result.is_error and "Error executing tool forgets" in str(result.content)
    assert "framehold.once('pay') was never awaited" in caplog.text


def lose() -> None:
    """Make a `once` that only the garbage collector frees."""
    lost: list[Any] = [framehold.once("pay", pay, "a")]
    lost.append(lost)


async def loses_it(ctx: Context) -> str:
    lose()
    return "paid"


async def loses_it_and_asks(ctx: Context) -> str:
    lose()
    return said(await ctx.elicit("Well?", Word))


async def collects(ctx: Context) -> str:
    return f"found something: {gc.collect() > 0}"


@pytest.fixture
def collected_by_the_tool_alone() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("collected_by_the_tool_alone")
@pytest.mark.parametrize("wire", ["2026-07-28", "2025", "2026-07-28, asks"])
async def test_it_is_the_mistake_of_the_call_that_made_it(wire: str, caplog: pytest.LogCaptureFixture) -> None:
    """The garbage collector frees it while another call runs, which goes on. The call that made it ends with an error,
    unless it has ended already. The line at which it was freed is none of the author's mistake."""
    async with serving(loses_it, loses_it_and_asks, collects) as caller, httpx2.AsyncClient() as http:
        if wire == "2025":
            async with Client(streamable_http_client(caller.url, http_client=http), mode="legacy") as old:
                told = [str((await old.call_tool(tool, {})).content) for tool in ("loses_it", "collects")]
        elif wire == "2026-07-28":
            told = [(await caller.call(tool)).text for tool in ("loses_it", "collects")]
        else:
            asked = await caller.call("loses_it_and_asks")
            other = (await caller.call("collects")).text
            told = [(await caller.retry("loses_it_and_asks", asked.token, asked.accept(word="x"))).text, other]
    asks = wire.endswith("asks")
    assert ("Error executing tool loses_it_and_asks" if asks else "paid") in told[0]
    assert "found something: True" in told[1]
    [line] = [item.message for item in caplog.records if "never awaited" in item.message]
    tool, then = ("loses_it_and_asks", "ends with an error") if asks else ("loses_it", "has ended already")
    assert line.startswith(f"{tool!r}: framehold.once('pay') was never awaited") and line.endswith(f"its call {then}")
    assert "test_unawaited.py" not in line


async def test_python_warns_as_before_when_no_server_runs() -> None:
    before: Any = vars(warnings)["_warn_unawaited_coroutine"]
    async with serving(*TOOLS):
        assert vars(warnings)["_warn_unawaited_coroutine"] is not before
        async with serving(*TOOLS):
            pass
        assert vars(warnings)["_warn_unawaited_coroutine"] is not before
    assert vars(warnings)["_warn_unawaited_coroutine"] is before
