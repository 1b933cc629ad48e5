"""A node that had the frame of a call is asked to carry the call on again, before it has forgotten it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from framehold.engine.tasks import keep
from framehold_core import events as ev
from framehold_core.requests import Release, Request
from framehold_store.base import Done
from tests.node.nodes import KEY, served
from tests.node.stage import Stage, Word, said, server_of, stage
from tests.processes import DEADLINE, until
from tests.store.server import RedisServer

pytestmark = pytest.mark.anyio


@framehold.reentrant
async def thrice(ctx: Context) -> str:
    """Asks three times."""
    words = [said(await ctx.elicit(f"{which}?", Word)) for which in ("First", "Second", "Third")]
    return " ".join(words)


async def test_a_retry_that_comes_while_its_call_is_handed_off_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other node is there: this one claims what it has just released, and enters the handler again."""
    async with stage(thrice) as client:
        reply = await client.call("thrice")
        (slot,) = client.runtime.table
        submit, held = client.runtime.store.submit, []

        def hold(request: Request, done: Done) -> None:
            if isinstance(request, Release):
                held.append((request, done))
            else:
                submit(request, done)

        monkeypatch.setattr(client.runtime.store, "submit", hold)
        client.runtime.feed(slot, ev.Drain())
        coming = asyncio.create_task(client.retry("thrice", reply.token, reply.accept(word="a")))
        await until(lambda: bool(slot.arrivals), "the retry")
        submit(*held[0])
        async with asyncio.timeout(10):
            second = await coming
        assert second.messages == ["Second?"]


async def vanishes(runtime: Runtime) -> None:
    """As far as others can see: no heartbeat, no lease. What it holds it keeps."""
    heart: Any = runtime.heartbeat
    heart._task.cancel()
    await asyncio.wait([heart._task])
    await runtime.store.unregister(heart._record(heart.clock.time()))


async def test_a_call_that_was_taken_over_comes_back_to_the_node_that_still_has_its_old_frame(
    redis: RedisServer, tmp_path: Any
) -> None:
    """The token is of a later owner: the old frame goes, and the call is carried on from its journal."""
    async with AsyncExitStack() as stack:
        nodes = {}
        for name in "ab":
            settings = Settings(store_url=redis.url, namespace=tmp_path.name, node_id=name, keys=(KEY,), lease_ttl=2.0)
            app = framehold.asgi(server_of("stage", thrice), settings)
            url = await stack.enter_async_context(served(app))
            nodes[name] = await stack.enter_async_context(Stage(url))
            nodes[name].runtime = app.attached.runtime
        a, b = nodes.values()
        first = await a.call("thrice")
        await vanishes(a.runtime)
        second = await b.retry("thrice", first.token, first.accept(word="x"))
        assert second.messages == ["Second?"]
        heart: Any = a.runtime.heartbeat
        heart._task = asyncio.create_task(keep("the heartbeat", heart._turn, heart.lost.is_set))
        before = heart.lease.incarnation
        heart.announce("live")
        await until(lambda: heart.lease.incarnation != before and heart.lease.until > 0, "another incarnation")
        await vanishes(b.runtime)
        # After its own lapse it believes for a lease's life that the other node may only not be back.
        async with asyncio.timeout(DEADLINE):
            while (third := await a.retry("thrice", second.token, second.accept(word="y"))).status == 503:
                await asyncio.sleep(0.05)
        assert third.messages == ["Third?"]
        assert (await a.retry("thrice", third.token, third.accept(word="z"))).text == "x y z"
