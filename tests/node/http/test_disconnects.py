"""Clients that leave: in the middle of a round, beside another who waits for it, and while nothing is in flight."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp.server.mcpserver import Context

from framehold.http import exchange
from tests.node.stage import Stage, Word, said, stage
from tests.processes import until
from tests.wire import Envelope

pytestmark = pytest.mark.anyio


async def leave(request: asyncio.Task[Any]) -> None:
    """Close the connection of a request that waits."""
    request.cancel()
    await asyncio.wait([request])


@asynccontextmanager
async def streaming(client: Stage, request: Envelope) -> AsyncIterator[httpx2.Response]:
    """A request on a connection of its own, whose response is read as it comes; leaving closes it."""
    async with (
        httpx2.AsyncClient(timeout=5) as http,
        http.stream("POST", client.url, json=request.body, headers=request.headers) as response,
    ):
        yield response


@pytest.mark.parametrize("round_", [1, 2])
@pytest.mark.parametrize("speaks", [False, True], ids=["json", "stream"])
async def test_leaving_a_running_round_cancels_its_handler(round_: int, speaks: bool) -> None:
    """Its `finally` runs, and what it asks there raises the cancellation again."""
    seen: list[str] = []

    async def work(ctx: Context) -> str:
        if round_ == 2:
            await ctx.elicit("first?", Word)
        try:
            if speaks:
                await ctx.report_progress(1, 2)
            seen.append("running")
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                await ctx.elicit("goodbye?", Word)
            except asyncio.CancelledError:
                seen.append("silenced")
                raise
        return "unreachable"

    async with stage(work) as client:
        meta = {"progressToken": 1}
        if round_ == 2:
            reply = await client.call("work")
            request = asyncio.create_task(client.retry("work", reply.token, reply.accept(word="x"), meta=meta))
        else:
            request = asyncio.create_task(client.call("work", meta=meta))
        await until(lambda: seen, "the round to run")
        await leave(request)
        await until(lambda: len(seen) == 2, "the cancellation")
        assert client.runtime.counts["left"] == 1 and not len(client.runtime.table)
        if round_ == 2:
            result = await client.retry("work", reply.token, reply.accept(word="x"))
            assert (
                result.result["isError"] and "stopped at an unknown point after round 1 of its questions" in result.text
            )
    assert seen == ["running", "silenced"]


async def test_whoever_else_waits_for_a_round_keeps_it_alive() -> None:
    """The first request leaves, its duplicate gets the result, and what the handler says from then on."""
    seen: list[str] = []
    go_on = asyncio.Event()

    async def work(ctx: Context) -> str:
        word = said(await ctx.elicit("first?", Word))
        seen.append("running")
        await go_on.wait()
        await ctx.report_progress(1, 1)
        return word

    async with stage(work) as client:
        reply = await client.call("work")

        def again(token: str) -> asyncio.Task[Any]:
            return asyncio.create_task(
                client.retry("work", reply.token, reply.accept(word="x"), meta={"progressToken": token})
            )

        first = again("leaver")
        await until(lambda: seen, "the round to run")
        second = again("stayer")
        (slot,) = client.runtime.table
        await until(lambda: len(slot.call.waiting) == 2, "the duplicate to join")
        await leave(first)
        await until(lambda: len(slot.call.waiting) == 1, "the first to be gone")
        go_on.set()
        result = await second
        assert result.text == "x" and [event["params"]["progressToken"] for event in result.events] == ["stayer"]
    assert seen == ["running"] and client.runtime.counts["left"] == 0


async def test_a_silent_round_becomes_a_stream_that_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while without a word status 200 is committed and pings flow; the reply, even an error, is an event."""
    monkeypatch.setattr(exchange, "PING", 0.05)
    go_on = asyncio.Event()

    async def slow(ctx: Context) -> str:
        await ctx.elicit("first?", Word)
        await go_on.wait()
        await ctx.session.list_roots()
        return "unreachable"

    async with stage(slow, has={"elicitation": {}}) as client:
        reply = await client.call("slow")
        assert not reply.streamed
        params = {"name": "slow", "arguments": {}, "requestState": reply.token}
        retry = client.envelope("tools/call", {**params, "inputResponses": reply.accept(word="x")})
        async with streaming(client, retry) as response:
            assert response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream")
            lines = response.aiter_lines()
            for _ in range(2):
                assert (await anext(lines), await anext(lines)) == (": ping", "")
            go_on.set()
            last = [line async for line in lines if line.startswith("data: ")]
        assert [json.loads(line.removeprefix("data: "))["error"]["code"] for line in last] == [-32021]


async def test_what_a_middleware_shields_is_whole_when_its_client_leaves() -> None:
    """The request is cancelled by a scope, as by the SDK: also where no frame is entered yet."""
    seen: list[str] = []
    running, struck, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def strikes() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            struck.set()

    async def middleware(ctx: Any, call_next: Any) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(strikes)
            with anyio.CancelScope(shield=True):
                running.set()
                await go.wait()
                seen.append("whole")
            return await call_next(ctx)

    async def work() -> str:
        seen.append("entered")
        await anyio.sleep_forever()
        return "unreachable"

    async with stage(work) as client:
        client.server._lowlevel_server.middleware.append(middleware)
        request = asyncio.create_task(client.call("work"))
        await asyncio.wait_for(running.wait(), 5)
        await leave(request)
        await asyncio.wait_for(struck.wait(), 5)
        go.set()
        await until(lambda: seen, "the shielded part")
    assert seen[0] == "whole"
