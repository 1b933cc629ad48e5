"""How calls end, over real HTTP: given up, failed, refused for what a client lacks, and leaving nothing behind."""

from __future__ import annotations

import asyncio

import pytest
from mcp import MCPError
from mcp.server.mcpserver import Context

from tests.cycles import cycles
from tests.node.stage import Word, said, stage
from tests.processes import until
from tests.wire import accepted

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("asks_on", "answers"), [(False, True), (False, False), (True, True)])
async def test_a_handler_stops_waiting_by_itself(asks_on: bool, answers: bool) -> None:
    """`wait_for` round an ask: the next retry gets what the handler came to meanwhile, its outcome or a question. The
    outcome goes also to one that brings no answer: nobody waits for it (docs/protocol.md, rule 11)."""
    gave_up = asyncio.Event()

    async def impatient(ctx: Context) -> str:
        try:
            return said(await asyncio.wait_for(ctx.elicit("quick?", Word), 0.05))
        except TimeoutError:
            gave_up.set()
        return f"gave up, {said(await ctx.elicit('slow?', Word))}" if asks_on else "gave up"

    async with stage(impatient) as client:
        reply = await client.call("impatient")
        await asyncio.wait_for(gave_up.wait(), 5)
        given = reply.accept(word="late") if answers else {}
        reply = await asyncio.wait_for(client.retry("impatient", reply.token, given), 5)
        if asks_on:
            assert reply.messages == ["slow?"]
            reply = await client.retry("impatient", reply.token, reply.accept(word="now"))
        assert reply.text == ("gave up, now" if asks_on else "gave up")


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_capability_that_a_later_round_needs(swallows: bool) -> None:
    """-32021, status 400, naming what lacks; a handler that catches everything can't hide it, and is cancelled."""
    seen: list[str] = []

    async def samples(ctx: Context) -> str:
        await ctx.elicit("first?", Word)
        try:
            await ctx.session.create_message([], max_tokens=1)
        except Exception as error:
            seen.append(repr(error))
            if not swallows:
                raise
        finally:
            seen.append("ended")
        return "swallowed"

    async with stage(samples, has={"elicitation": {}}) as client:
        reply = await client.call("samples")
        result = await client.retry("samples", reply.token, reply.accept(word="x"))
        assert (result.status, result.code) == (400, -32021)
        assert result.message["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
        await until(lambda: seen, "the handler's end")
    assert seen == ["ended"]


async def test_questions_are_kept_from_a_client_that_cannot_be_asked() -> None:
    """Another client comes back for a parked round: it hears what it lacks, and the call waits for one that can."""

    async def pair(ctx: Context) -> str:
        return "".join(map(said, await asyncio.gather(ctx.elicit("left?", Word), ctx.elicit("right?", Word))))

    async with stage(pair) as client:
        reply = await client.call("pair")
        left, right = reply.asked
        result = await client.retry("pair", reply.token, {}, has={"sampling": {}})
        assert (result.status, result.code) == (400, -32021)
        result = await client.retry("pair", reply.token, {left: accepted(word="l")}, has={"sampling": {}})
        assert result.code == -32021
        reply = await client.retry("pair", reply.token, {left: accepted(word="l")})
        assert [*reply.asked] == [right]
        assert (await client.retry("pair", reply.token, reply.accept(word="r"))).text == "lr"


async def test_calls_leave_no_cycles_behind() -> None:
    """Through all of the SDK and HTTP, and for tools that raise a protocol error too."""

    async def asks(fails: bool, ctx: Context) -> str:
        words = await asyncio.gather(ctx.elicit("a?", Word), ctx.elicit("b?", Word))
        if fails:
            raise MCPError(-32052, "no")
        return "".join(map(said, words))

    async with stage(asks) as client:

        async def each_once() -> None:
            for arguments in ({"fails": False}, {"fails": True}):
                reply = await client.call("asks", arguments=arguments)
                await client.retry("asks", reply.token, reply.accept(word="x"), arguments=arguments)

        await each_once()
        with cycles() as found:
            for _ in range(20):
                await each_once()
            assert len(found()) < 20
