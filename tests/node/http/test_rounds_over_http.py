"""What a handler sees and says in each round, and which questions leave together, over real HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver import Context
from mcp.types import LOG_LEVEL_META_KEY, ClientCapabilities, SamplingCapability, SamplingMessage, TextContent

import framehold
from framehold.config import Settings
from framehold_core.errors import StoreUnavailable
from tests.node.nodes import served
from tests.node.served import send, twin, wire
from tests.node.stage import Word, said, stage
from tests.processes import until
from tests.wire import Caller, accepted

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

    async with stage(speak) as client:
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

    async with stage(ask) as client:
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
    """Its id, its headers, its `_meta`; between rounds there is none, and what is said then is dropped."""
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

    async with stage(watch) as client:
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


async def test_the_handler_sees_what_the_present_rounds_client_can_do() -> None:
    """It may be another host than the one that began the call, and it is the one that is asked."""
    sampling = ClientCapabilities(sampling=SamplingCapability())
    seen: list[tuple[bool, bool]] = []

    async def look(ctx: Context) -> str:
        for number in (1, 2, 3):
            declared = ctx.client_capabilities is not None and ctx.client_capabilities.sampling is not None
            seen.append((declared, ctx.session.check_client_capability(sampling)))
            await ctx.elicit(f"question {number}?", Word)
        return "seen"

    async with stage(look, has={"elicitation": {}}) as client:
        reply = await client.call("look")
        more: dict[str, Any] = {"elicitation": {}, "sampling": {}}
        reply = await client.retry("look", reply.token, reply.accept(word="x"), has=more)
        reply = await client.retry("look", reply.token, reply.accept(word="x"))
        assert (await client.retry("look", reply.token, reply.accept(word="x"))).text == "seen"
    assert seen == [(False, False), (True, True), (False, False)]


async def test_what_is_asked_together_leaves_together() -> None:
    """Nested gathers, task groups and all kinds of question: one round."""
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

    async with stage(together) as client:
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


async def test_everything_else_is_served_by_the_sdk() -> None:
    """Lists and listening, beside calls that park; a change crosses from a running tool to the listener."""

    async def grow(ctx: Context) -> str:
        await ctx.elicit("grow?", Word)
        await ctx.notify_tools_changed()
        return "grown"

    async with stage(grow) as caller, Client(caller.url) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["grow"]
        async with client.listen(tools_list_changed=True) as listening:
            reply = await caller.call("grow")
            assert (await caller.retry("grow", reply.token, reply.accept(word="yes"))).text == "grown"
            event = await asyncio.wait_for(anext(aiter(listening)), 5)
        assert "tools" in type(event).__name__.lower()


@pytest.mark.parametrize("parser", ["h11", "httptools"])
async def test_a_target_may_be_a_whole_url(parser: str) -> None:
    """As a client sends it to a proxy (RFC 9112, section 3.2.2), for MCP and for the rest of the app."""
    async with served(framehold.asgi(twin(), Settings(node_id="n")), parser) as url:
        call = wire(Caller(url).envelope("tools/call", {"name": "echo", "arguments": {"text": "t"}}))
        for path in ("/mcp", "/mcp?x", "/healthz", "/", "/no//where"):
            usual, whole = [await send(url, replace(call, path=before + path)) for before in ("", url[: -len("/mcp")])]
            assert usual.verdict == whole.verdict and (usual.status == 200) == (path not in ("/", "/no//where")), path
