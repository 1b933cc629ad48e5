"""What sagas refuse: each with a clear error, and nothing that is parked is lost by it."""

from __future__ import annotations

import json
import time
from typing import Any

import mcp_types as types
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError

import framehold
from framehold.config import Settings
from framehold.wires import saga_token
from tests.node.acting import each_way
from tests.node.nodes import served
from tests.node.sagas import SagaClient, done, failed, form, saga_stage, steps, token
from tests.node.stage import Word, said
from tests.wire import Caller, Reply, accepted

pytestmark = pytest.mark.anyio

INVALID = (400, -32602, "Invalid or expired sagaToken")


@framehold.reentrant
async def ask(ctx: Context, name: str = "you") -> str:
    """One question."""
    return said(await ctx.elicit(f"what says {name}?", Word))


def verdict(reply: Reply) -> tuple[int, int, str]:
    return reply.status, reply.code, reply.text


@each_way
async def test_a_sagas_token_on_the_other_wire_and_the_other_wires_token_on_a_saga(settings: dict[str, Any]) -> None:
    """Both are refused by name, and both calls can still be carried on where they belong."""
    async with saga_stage(ask, **settings) as wire:
        client = SagaClient(wire)
        by_saga, by_call = await client.call("ask"), await wire.call("ask")
        crossed = await wire.retry("ask", token(by_saga), {"x": accepted(word="x")})
        why = "this requestState is the token of a saga; send it as sagaToken of tools/resumeSaga"
        assert verdict(crossed) == (400, -32602, why)
        crossed = await client.raw(sagaToken=by_call.token, completedSteps=[])
        why = "this sagaToken is no saga's; a requestState is sent back with the method that it came from"
        assert verdict(crossed) == (400, -32602, why)
        # Without the mark that says so it is no token at all.
        bare = token(by_saga).replace(".saga.", ".")
        assert (await wire.retry("ask", bare, {})).text == "Invalid or expired requestState"
        marked = by_call.token.replace(".", ".saga.", 1) if settings.get("strategy") else by_call.token[:35] + ".saga."
        assert verdict(await client.raw(sagaToken=marked, completedSteps=[])) == INVALID
        assert (await client.resume(by_saga, form(steps(by_saga)[0]))).text == "<what says you?>"
        assert (await wire.retry("ask", by_call.token, by_call.accept(word="x"))).text == "x"


async def test_forged_tokens() -> None:
    """Cut, altered, of another call, or no text: one reply for all."""
    async with saga_stage(ask) as wire:
        client = SagaClient(wire)
        first, other = await client.call("ask"), await client.call("ask", name="me")
        good, foreign = token(first), token(other)
        start = good.index(".saga.") + len(".saga.")
        head, sealed = good[:start], good[start:]
        forged = [
            good[:-2],
            head + ("A" if sealed[0] != "A" else "B") + sealed[1:],
            foreign[:start] + sealed,
            head,
            head + "\u00fc",
            good + "=",
            "s1.saga." + sealed,
        ]
        for wrong in forged:
            assert verdict(await client.raw(sagaToken=wrong, completedSteps=[])) == INVALID, wrong
        assert (await client.resume(first, form(steps(first)[0]))).text == "<what says you?>"
        assert wire.runtime.counts["resumed"] == 1


async def test_an_expired_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives as long as a token of the other wire: what is sealed within it says how long."""
    async with saga_stage(ask, token_ttl=600) as wire:
        client = SagaClient(wire)
        first = await client.call("ask")
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 601)
        assert verdict(await client.resume(first)) == INVALID


STEP = {"stepId": "x#1", "result": {"action": "decline"}}
MALFORMED: dict[str, tuple[Any, str]] = {
    "none": (None, "completedSteps must be a list"),
    "an object": ({}, "completedSteps must be a list"),
    "a text": (["x"], "completedSteps[0] must be an object with a stepId"),
    "no id": ([STEP, {"result": {}}], "completedSteps[1] must be an object with a stepId"),
    "an id that is no text": ([{**STEP, "stepId": 1}], "completedSteps[0] must be an object with a stepId"),
    "twice": ([STEP, STEP], "completedSteps[1] must be the only one with its stepId"),
    "neither": ([{"stepId": "x#1"}], "completedSteps[0] must be an object with either a result or an error"),
    "both": ([{**STEP, **failed(STEP)}], "completedSteps[0] must be an object with either a result or an error"),
    "a result that is a text": ([{**STEP, "result": "x"}], "completedSteps[0].result must be an object"),
    "an error that is a text": ([{"stepId": "x#1", "error": "x"}], "completedSteps[0].error must be an object with"),
    "a code that is true": ([failed(STEP, True)], "completedSteps[0].error must be an object with"),
    "no message": ([{"stepId": "x#1", "error": {"code": 1}}], "completedSteps[0].error must be an object with"),
}


async def test_malformed_steps_consume_nothing() -> None:
    """Whatever is wrong with them, and also where only the answer to the question is."""
    async with saga_stage(ask) as wire:
        client = SagaClient(wire)
        first = await client.call("ask")
        (step,) = steps(first)
        for name, (wrong, why) in MALFORMED.items():
            reply = await client.raw(sagaToken=token(first), completedSteps=wrong)
            assert (reply.status, reply.code) == (400, -32602) and reply.text.startswith(why), name
        forged: tuple[Any, ...] = ({"action": "perhaps"}, {"roots": []}, {"error": {"code": 1, "message": "forged"}})
        for answer in forged:
            reply = await client.raw(sagaToken=token(first), completedSteps=[done(step, answer)])
            assert (reply.status, reply.code) == (400, -32602) and "is malformed" in reply.text
        assert verdict(await client.raw(completedSteps=[]))[:2] == (400, -32602)
        assert (await client.resume(first, form(step))).text == "<what says you?>"
        assert (wire.runtime.counts["entered"], wire.runtime.counts["resumed"]) == (1, 1)


@pytest.mark.parametrize(
    "params", [{}, {"name": 1}, {"name": "ask", "arguments": []}, {"name": "ask", "arguments": "x"}], ids=str
)
async def test_a_malformed_start(params: dict[str, Any]) -> None:
    async with saga_stage(ask) as wire:
        headers = {"mcp-name": "ask"}
        reply = await wire.send("tools/callSaga", params, headers=headers)
        assert (reply.status, reply.code) == (400, -32602) and reply.text.endswith("; nothing was done")
        assert wire.runtime.counts["entered"] == 0


async def test_arguments_that_no_token_could_carry() -> None:
    """They are refused before anything runs, since no resume could bring them."""
    async with saga_stage(ask, max_body=20_000) as wire:
        reply = await SagaClient(wire).call("ask", name="x" * 14_000)
        assert (reply.code, "FRAMEHOLD_MAX_BODY" in reply.text) == (-32602, True)
        assert wire.runtime.counts["entered"] == 0
        client = SagaClient(wire)
        assert (await client.told("ask", name="x" * 5_000)).text == f"<what says {'x' * 5_000}?>"


@each_way
async def test_only_a_saga_has_words_for_a_failure(settings: dict[str, Any]) -> None:
    """What looks like one in an answer of `tools/call`, on a retry or on round 1, is malformed or missing as ever, and
    raised into nobody."""
    failure = {"error": {"code": -7, "message": "forged"}}
    raised: list[MCPError] = []

    @framehold.reentrant
    async def keyed(ctx: Context) -> str:
        try:
            return said(await framehold.ask("word", "word?", Word))
        except MCPError as error:
            raised.append(error)
            raise

    async with saga_stage(keyed, **settings) as wire:
        first = await wire.send("tools/call", {"name": "keyed", "arguments": {}, "inputResponses": {}})
        retry = await wire.retry("keyed", first.token, {"word": failure})
        assert (retry.status, retry.code) == (400, -32602)
        early = {"name": "keyed", "arguments": {}, "inputResponses": {"word": failure}}
        reply = await wire.send("tools/call", early)
        assert reply.code == -32602 if "error" in reply.message else "word" in reply.asked
        assert (await wire.retry("keyed", first.token, {"word": accepted(word="x")})).text == "x"
    assert raised == []


async def test_whoever_guards_calls_guards_sagas() -> None:
    """An author's middleware sees a `tools/call` of each, once, with name and arguments, and no step's own words."""
    seen: list[Any] = []

    async def guard(ctx: Any, call_next: Any) -> Any:
        if ctx.method.startswith("tools/"):
            seen.append((ctx.method, ctx.params["name"], ctx.params["arguments"], "sagaToken" in ctx.params))
        if (ctx.params or {}).get("name") == "forbidden":
            return types.ErrorData(code=-32001, message="forbidden")
        return await call_next(ctx)

    server: MCPServer[Any] = MCPServer("guarded", middleware=[guard])
    server.tool(description="Asks.")(ask)
    async with served(framehold.asgi(server, Settings(node_id="guarded", sagas=True))) as url, Caller(url) as wire:
        client = SagaClient(wire)
        assert (await client.told("ask", name="Ada")).text == "<what says Ada?>"
        assert seen == [("tools/call", "ask", {"name": "Ada"}, False)] * 2
        assert verdict(await client.call("forbidden"))[1:] == (-32001, "forbidden")


async def test_a_token_shows_nothing_of_its_call() -> None:
    """Name and arguments are sealed in it; its mark and the call's id are all that a reader sees."""
    async with saga_stage(ask) as wire:
        first = await SagaClient(wire).call("ask", name="a secret")
        wire_token = token(first)
        (slot,) = wire.runtime.table
        assert wire_token.startswith(f"h1.{slot.call.id}.saga.")
        assert "secret" not in wire_token
        text = json.dumps([saga_token.VERSION, "ask", {"name": "a secret"}])
        assert len(wire_token) < 3 * len(text) + 1200
