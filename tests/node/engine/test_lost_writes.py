"""A write of a call is never lost silently: the process is out of descriptors, or a bug is met on the way."""

from __future__ import annotations

import asyncio
import os
import resource
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.engine import runtime
from framehold_core.events import Evict
from tests.kit.client import Caller
from tests.kit.nodes import KEY, node
from tests.kit.outages import insist
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said, serving

pytestmark = pytest.mark.anyio
SOON = 20.0
SERVER = """
import framehold
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

class Word(BaseModel):
    word: str

mcp = MCPServer("marked")

@mcp.tool()
@framehold.reentrant
async def ask(ctx: Context) -> str:
    return (await ctx.elicit("Which word?", Word)).data.word
"""


@framehold.reentrant
async def ask(ctx: Context) -> str:
    return said(await ctx.elicit("Which word?", Word))


async def test_a_node_without_descriptors_answers_all_the_same(redis: RedisServer, tmp_path: Path) -> None:
    """The first call of a marked tool, whose code is to be kept, over a connection that is open already."""
    (tmp_path / "server.py").write_text(SERVER)
    async with (
        node(str(tmp_path / "server.py"), tmp_path, store_url=redis.url, namespace=tmp_path.name) as child,
        Caller(child.url) as caller,
        asyncio.timeout(SOON),
    ):
        await caller.send("tools/list", {})
        usual = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
        # Not one is left: the lowest limit that lets what is open stay open.
        taken = max(map(int, os.listdir(f"/proc/{child.pid}/fd"))) + 1
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (taken, usual[1]))
        asked = await caller.call("ask")
        assert (await caller.retry("ask", asked.token, asked.accept(word="word"))).text == "word", child.log()
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, usual)


async def test_a_node_that_can_open_nothing_names_its_limit(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections to the store are lost, and no other one can be made."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    arguments = {"name": "Ada"}
    async with (
        node("tests/node/draining_server.py", tmp_path, store_url=redis.url, namespace=tmp_path.name) as child,
        Caller(child.url) as caller,
        asyncio.timeout(SOON),
    ):
        asked = await caller.call("marked", arguments=arguments)
        usual = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
        # All descriptors from 3 on are in use, or may not be given out again.
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (3, usual[1]))
        with redis.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)
        for _ in range(2):
            refusal = await caller.call("marked", arguments=arguments)
            assert refusal.status == 503, child.log()
            assert "this process may have 3 descriptors open" in refusal.text and "ulimit -n" in refusal.text
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, usual)
        answers = asked.accept(word="word")
        done = await insist(lambda: caller.retry("marked", asked.token, answers, arguments=arguments))
        assert done.messages == ["Ada two?"], child.log()


@framehold.reentrant
async def asks_twice(ctx: Context) -> str:
    async def effect() -> int:
        return 1

    await framehold.once("before", effect)
    first = said(await ctx.elicit("Which word?", Word))
    await framehold.once("between", effect)
    return first + said(await ctx.elicit("Which other word?", Word))


@pytest.mark.parametrize("is_due", [True, False])
async def test_code_is_kept_where_a_call_parks_or_is_claimed_and_it_is_due(
    is_due: bool, redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These prolong what clients may come back with (docs/protocol.md, rule 28). With other writes it is not: effects
    would wait for it."""
    async with serving(asks_twice, store_url=redis.url, namespace=tmp_path.name, keys=(KEY,)) as client:
        keeper, kept = client.runtime._records.keeper, list[str]()
        usual = keeper.keep

        async def keep(handler: Any, lifetime: float) -> None:
            kept.append(handler.tool)
            await usual(handler, lifetime)

        monkeypatch.setattr(keeper, "keep", keep)
        monkeypatch.setattr(keeper, "is_due", lambda code, lifetime: is_due)
        asked = await client.call("asks_twice")
        asked = await client.retry("asks_twice", asked.token, asked.accept(word="a"))
        (slot,) = client.runtime.table
        client.runtime.feed(slot, Evict("evicted"))
        assert (await client.retry("asks_twice", asked.token, asked.accept(word="b"))).text == "ab"
    assert kept == ["asks_twice"] * 3 * is_due


class Failing:
    """Raises once in the place of a method."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception) -> None:
        self.met, usual = 0, getattr(owner, name)

        def method(*arguments: Any, **named: Any) -> Any:
            self.met += 1
            if self.met == 1:
                raise error
            return usual(*arguments, **named)

        monkeypatch.setattr(owner, name, method)


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), RuntimeError("a bug")], ids=["limit", "bug"])
async def test_code_that_can_not_be_kept_costs_no_call(
    error: Exception,
    redis: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The park is sent again with the next renewal, or without the code."""
    async with serving(ask, store_url=redis.url, namespace=tmp_path.name, keys=(KEY,), lease_ttl=1.0) as client:
        failing = Failing(monkeypatch, client.runtime._records.keeper, "_keep", error)
        async with asyncio.timeout(SOON):
            asked = await client.call("ask")
            while asked.status == 503:
                asked = await client.call("ask")
            assert (await client.retry("ask", asked.token, asked.accept(word="word"))).text == "word"
    assert failing.met == 2 and "its commit was not sent" in caplog.text


async def test_a_bug_in_the_sweep_ends_no_sweep(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runtime, "SWEEP", 0.01)
    async with serving(ask) as client:
        failing = Failing(monkeypatch, client.runtime.table, "due", RuntimeError("a bug"))
        await until(lambda: failing.met > 2, "further sweeps")
    assert "a bug in the sweep" in caplog.text


async def test_a_background_task_that_ends_by_a_bug_is_logged(caplog: pytest.LogCaptureFixture) -> None:

    async def broken() -> None:
        raise RuntimeError("a bug")

    async with serving(ask) as client:
        client.runtime.tasks.spawn(broken())
        await until(lambda: "a background task of this node ended by a bug" in caplog.text, "the line")
