"""Rounds over real HTTP: what a handler sees and says in each, how calls end, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import httpx2
import pytest
from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.types import LOG_LEVEL_META_KEY, SamplingMessage, TextContent

import framehold
from framehold.config import Settings
from framehold.http import exchange
from framehold_core.errors import StoreUnavailable
from tests.kit.beside_sdk import raw, send, twin
from tests.kit.client import Caller, Envelope, accepted
from tests.kit.cycles import cycles
from tests.kit.nodes import served
from tests.kit.processes import until
from tests.kit.serving import Served, Word, said, serving

pytestmark = pytest.mark.anyio


async def test_notifications_go_out_on_the_present_rounds_response() -> None:
    """With that round's progress token and log level; a round without them stays plain JSON."""

    async def speak(ctx: Context) -> str:
        for number in (1, 2, 3):
            await ctx.report_progress(number, 3, f"round {number}")
            await ctx.log("info", f"info {number}")
            await ctx.log("error", f"error {number}")
            await ctx.elicit(f"question {number}?", Word)
        return "spoken"

    async with serving(speak) as client:
        reply = await client.call("speak", meta={"progressToken": "first", LOG_LEVEL_META_KEY: "error"})
        assert reply.streamed and reply.messages == ["question 1?"]
        assert [event["params"] for event in reply.events] == [
            {"progressToken": "first", "progress": 1, "total": 3, "message": "round 1"},
            {"level": "error", "data": "error 1"},
        ]
        reply = await client.retry("speak", reply.token, reply.accept(word="x"))
        assert not reply.streamed and reply.messages == ["question 2?"]
        reply = await client.retry(
            "speak", reply.token, reply.accept(word="x"), meta={"progressToken": 3, LOG_LEVEL_META_KEY: "info"}
        )
        assert [event["method"] for event in reply.events] == [
            "notifications/progress",
            "notifications/message",
            "notifications/message",
        ]
        assert reply.events[0]["params"]["progressToken"] == 3
        assert [event["params"]["data"] for event in reply.events[1:]] == ["info 3", "error 3"]
        assert (await client.retry("speak", reply.token, reply.accept(word="x"))).text == "spoken"


async def test_a_stream_that_ends_without_a_reply_says_that_it_may_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The round's questions can't be written. Status 200 was sent with the first notification, so the error's data says
    what 503 and Retry-After say of a round that sent nothing."""

    async def ask(ctx: Context) -> str:
        await ctx.elicit("one?", Word)
        await ctx.report_progress(1, 2)
        await ctx.elicit("two?", Word)
        return "done"

    async with serving(ask) as client:
        reply = await client.call("ask")
        sent: dict[str, Any] = {"answers": reply.accept(word="x"), "token": reply.token}
        with monkeypatch.context() as away:
            down = StoreUnavailable("the store is away")
            away.setattr(client.runtime.store, "submit", lambda request, done: done(down))
            streamed = await client.retry("ask", **sent, meta={"progressToken": "p"})
            plain = await client.retry("ask", **sent)
        assert (plain.status, plain.message["error"].get("data")) == (503, None)
        assert streamed.streamed and streamed.message["error"] == {
            **plain.message["error"],
            "data": {"retryAfter": int(plain.headers["retry-after"])},
        }
        assert (await client.retry("ask", **sent)).messages == ["two?"]


async def test_the_handler_sees_the_present_rounds_request() -> None:
    seen: list[Any] = []
    look = asyncio.Event()

    def note(ctx: Context) -> None:
        headers, meta = ctx.headers, ctx.request_context.meta
        seen.append((ctx.request_id, headers and headers["x-round"], meta and meta.get("progress_token")))

    async def branch(ctx: Context) -> None:
        await look.wait()
        assert ctx.headers is None
        await ctx.report_progress(1, 1)
        await ctx.log("error", "nobody hears this")
        seen.append("between")

    async def watch(ctx: Context) -> str:
        note(ctx)
        await asyncio.gather(ctx.elicit("first?", Word), branch(ctx))
        note(ctx)
        await ctx.elicit("second?", Word)
        note(ctx)
        return "seen"

    async with serving(watch) as client:
        reply = await client.call("watch", headers={"x-round": "one"}, request_id="a", meta={"progressToken": "p1"})
        look.set()
        await until(lambda: "between" in seen, "the branch")
        answers = reply.accept(word="x")
        reply = await client.retry("watch", reply.token, answers, headers={"x-round": "two"}, request_id="b")
        assert reply.events == []
        meta = {"progressToken": "p3"}
        reply = await client.retry(
            "watch", reply.token, reply.accept(word="x"), headers={"x-round": "three"}, request_id=33, meta=meta
        )
        assert reply.message["id"] == 33
    assert seen == [("a", "one", "p1"), "between", ("b", "two", None), ("33", "three", "p3")]


async def test_what_is_asked_together_leaves_together() -> None:
    prompt = [SamplingMessage(role="user", content=TextContent(type="text", text="A motto?"))]

    async def pair(ctx: Context, name: str) -> str:
        return "".join(map(said, await asyncio.gather(*(ctx.elicit(f"{name}{n}?", Word) for n in (1, 2)))))

    async def together(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            roots = group.create_task(ctx.session.list_roots())
            motto = group.create_task(ctx.session.create_message(prompt, max_tokens=9))
            page = group.create_task(ctx.elicit_url("Pay here.", "https://pay.example/1", "e1"))
            keyed = group.create_task(framehold.ask("seat", "Which seat?", Word))
            words = await asyncio.gather(pair(ctx, "a"), pair(ctx, "b"))
        text = motto.result().content
        assert isinstance(text, TextContent)
        uri = roots.result().roots[0].uri
        return f"{words} {uri} {text.text} {page.result().action} {said(keyed.result())}"

    async with serving(together) as client:
        reply = await client.call("together")
        answers: dict[str, Any] = {}
        for key, question in reply.asked.items():
            if question["method"] == "roots/list":
                answers[key] = {"roots": [{"uri": "file:///poems"}]}
            elif question["method"] == "sampling/createMessage":
                assert question["params"]["maxTokens"] == 9
                answers[key] = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Onward"}}
            elif question["params"].get("mode") == "url":
                assert question["params"]["url"] == "https://pay.example/1"
                answers[key] = {"action": "accept"}
            else:
                answers[key] = accepted(word=question["params"]["message"][:-1])
        assert len(answers) == 8 and "seat" in answers
        done = await client.retry("together", reply.token, answers)
    assert done.text == "['a1a2', 'b1b2'] file:///poems Onward accept Which seat"


@pytest.mark.parametrize("parser", ["h11", "httptools"])
async def test_a_target_may_be_a_whole_url(parser: str) -> None:
    """As a client sends it to a proxy (RFC 9112, section 3.2.2), for MCP and for the rest of the app."""
    async with served(framehold.asgi(twin(), Settings(node_id="n")), parser) as url:
        call = raw(Caller(url).envelope("tools/call", {"name": "echo", "arguments": {"text": "t"}}))
        for path in ("/mcp", "/mcp?x", "/healthz", "/", "/no//where"):
            usual, whole = [await send(url, replace(call, path=before + path)) for before in ("", url[: -len("/mcp")])]
            assert usual.verdict == whole.verdict and (usual.status == 200) == (path not in ("/", "/no//where")), path


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

    async with serving(impatient) as client:
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

    async with serving(samples, has={"elicitation": {}}) as client:
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

    async with serving(pair) as client:
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
    async def asks(fails: bool, ctx: Context) -> str:
        words = await asyncio.gather(ctx.elicit("a?", Word), ctx.elicit("b?", Word))
        if fails:
            raise MCPError(-32052, "no")
        return "".join(map(said, words))

    async with serving(asks) as client:

        async def each_once() -> None:
            for arguments in ({"fails": False}, {"fails": True}):
                reply = await client.call("asks", arguments=arguments)
                await client.retry("asks", reply.token, reply.accept(word="x"), arguments=arguments)

        await each_once()
        with cycles() as found:
            for _ in range(20):
                await each_once()
            assert len(found()) < 20


async def leave(request: asyncio.Task[Any]) -> None:
    """Close the connection of a request that waits."""
    request.cancel()
    await asyncio.wait([request])


@asynccontextmanager
async def streaming(client: Served, request: Envelope) -> AsyncIterator[httpx2.Response]:
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

    async with serving(work) as client:
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
    seen: list[str] = []
    go_on = asyncio.Event()

    async def work(ctx: Context) -> str:
        word = said(await ctx.elicit("first?", Word))
        seen.append("running")
        await go_on.wait()
        await ctx.report_progress(1, 1)
        return word

    async with serving(work) as client:
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

    async with serving(slow, has={"elicitation": {}}) as client:
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

    async with serving(work) as client:
        client.server._lowlevel_server.middleware.append(middleware)
        request = asyncio.create_task(client.call("work"))
        await asyncio.wait_for(running.wait(), 5)
        await leave(request)
        await asyncio.wait_for(struck.wait(), 5)
        go.set()
        await until(lambda: seen, "the shielded part")
    assert seen[0] == "whole"
