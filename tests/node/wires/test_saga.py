"""Sagas: the tools of `tools/call` on another wire, which says steps where the other says questions."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import InputRequiredResult, Request
from pydantic import RootModel

import framehold
from framehold.config import Settings
from framehold.wires import saga_token
from tests.kit.client import Caller, Reply, accepted
from tests.kit.effects import Effects, completed, each_way
from tests.kit.nodes import served
from tests.kit.sagas import SagaClient, done, failed, form, saga_stage, steps, token
from tests.kit.serving import Word, said, serving

pytestmark = pytest.mark.anyio


SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "All is green."}, "model": "m"}
QUESTION = types.ElicitRequest(
    params=types.ElicitRequestFormParams(message="by hand?", requested_schema={"type": "object", "properties": {}})
)


async def sampled(ctx: Context, text: str) -> str:
    """Ask the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))
    answer = await ctx.session.create_message([message], max_tokens=100)
    assert isinstance(answer.content, types.TextContent)
    return answer.content.text


@framehold.reentrant
async def deploy(service: str, ctx: Context) -> str:
    """The gist's own flow: a form, then a model."""
    target = said(await ctx.elicit(f"where does {service} go?", Word))
    return f"{target}: {await sampled(ctx, f'is {target} safe?')}"


@each_way
async def test_a_saga_samples(settings: dict[str, Any]) -> None:
    """As the gist tells it, message by message, of a client that declares no capability."""
    async with saga_stage(deploy, **settings) as wire:
        client = SagaClient(wire)
        first = await client.call("deploy", service="web")
        assert first.result.keys() == {"resultType", "state", "sagaToken", "steps", "_meta"}
        (form_step,) = steps(first)
        assert form_step["type"] == "elicitation"
        assert form_step["params"]["message"] == "where does web go?"
        assert form_step["params"]["requestedSchema"]["required"] == ["word"]
        second = await client.resume(first, done(form_step, accepted(word="production")))
        assert token(second) != token(first)
        (model_step,) = steps(second)
        assert model_step["type"] == "sampling" and model_step["params"]["maxTokens"] == 100
        assert model_step["params"]["messages"][0]["content"]["text"] == "is production safe?"
        last = await client.resume(second, done(model_step, SAMPLED))
        assert last.text == "production: All is green." and "state" not in last.result


@each_way
async def test_a_step_that_failed_is_raised_into_the_handler(settings: dict[str, Any]) -> None:
    """With its code, message and data, and again whenever the handler is rebuilt: it is recorded like an answer."""
    seen: list[Any] = []

    @framehold.reentrant
    async def careful(ctx: Context) -> str:
        try:
            await ctx.elicit("one", Word)
        except MCPError as error:
            seen.append((error.error.code, error.error.message, error.error.data))
        return f"{seen[0][1]}, then {said(await ctx.elicit('two', Word))}"

    async with saga_stage(careful, **settings) as wire:
        client = SagaClient(wire)
        first = await client.call("careful")
        second = await client.resume(first, failed(steps(first)[0], -7, "no screen", data={"why": [1]}))
        assert (await client.resume(second, form(steps(second)[0]))).text == "no screen, then <two>"
    # The rehearsal enters it once more at the end.
    assert seen == [(-7, "no screen", {"why": [1]})] * (1 if not settings else 3 if "rehearse" in settings else 2)


async def test_a_failure_that_the_handler_lets_through_ends_the_call_with_it() -> None:
    async with saga_stage(deploy) as wire:
        client = SagaClient(wire)
        first = await client.call("deploy", service="web")
        answers = [failed(steps(first)[0], -7, "no screen")]
        for _ in range(2):
            reply = await client.raw(sagaToken=token(first), completedSteps=answers)
            assert reply.message["error"] == {"code": -7, "message": "no screen"}
        assert (wire.runtime.counts["entered"], len(wire.runtime.table)) == (1, 0)


@each_way
async def test_one_tool_answers_both_wires(settings: dict[str, Any]) -> None:
    effects = Effects()

    @framehold.reentrant
    async def order(name: str, ctx: Context) -> str:
        before = await framehold.once("before", effects.note, f"before {name}")
        one, two = await asyncio.gather(ctx.elicit(f"{name} one", Word), ctx.elicit(f"{name} two", Word))
        return f"{before} {said(one)} {said(two)}"

    async with saga_stage(order, **settings) as wire:
        by_call = await completed(wire, "order", name="Ada")
        assert effects.ran == ["before Ada"]
        by_saga = await SagaClient(wire).told("order", name="Ada")
        assert effects.ran == ["before Ada"] * 2
        assert by_saga.result == by_call.result and by_call.text.endswith("<Ada one> <Ada two>")
        assert wire.runtime.counts["entered"] == 2


async def test_a_tool_that_never_asks_is_answered_at_once() -> None:
    async def double(number: int) -> int:
        return 2 * number

    async with saga_stage(double) as wire:
        for arguments in ({"number": 21}, {"number": "x"}):
            by_saga = await SagaClient(wire).call("double", **arguments)
            assert by_saga.result == (await wire.call("double", arguments=arguments)).result
        by_saga, by_call = await SagaClient(wire).call("nobody"), await wire.call("nobody")
        assert (by_saga.status, by_saga.message.keys()) == (by_call.status, by_call.message.keys())
        assert by_saga.text == by_call.text and "nobody" in by_saga.text


async def test_missing_steps_are_asked_again_and_keep_their_names() -> None:
    async def both(ctx: Context) -> str:
        one, two = await asyncio.gather(ctx.elicit("one", Word), ctx.elicit("two", Word))
        return f"{said(one)} {said(two)}"

    async with saga_stage(both) as wire:
        client = SagaClient(wire)
        first = await client.call("both")
        one, two = steps(first)
        odd = {"stepId": "nobody's", "result": {}}
        assert steps(await client.raw(sagaToken=token(first), completedSteps=[odd])) == [one, two]
        second = await client.resume(first, form(one), odd)
        assert steps(second) == [two]
        assert (await client.resume(second, form(two))).text == "<one> <two>"
        assert wire.runtime.counts["entered"] == 1


@each_way
async def test_an_earlier_answer_is_not_taken_for_a_later_question_of_the_same_key(settings: dict[str, Any]) -> None:
    """Resumes are cumulative, and a key may be asked under more than once: each step has a name of its own."""

    @framehold.reentrant
    async def again(ctx: Context) -> str:
        first = said(await framehold.ask("word", "one", Word))
        return f"{first} {said(await framehold.ask('word', 'two', Word))}"

    async with saga_stage(again, **settings) as wire:
        client = SagaClient(wire)
        first = await client.call("again")
        second = await client.resume(first, form(steps(first)[0]))
        third = await client.resume(second)
        assert steps(third) == steps(second) != steps(first)
        assert (await client.resume(third, form(steps(third)[0]))).text == "<one> <two>"


async def test_a_resume_that_comes_twice_gets_the_same_answer() -> None:
    async with saga_stage(deploy) as wire:
        client = SagaClient(wire)
        first = await client.call("deploy", service="web")
        seconds = await asyncio.gather(*(client.raw(sagaToken=token(first), completedSteps=[]) for _ in range(2)))
        assert [steps(second) for second in seconds] == [steps(first)] * 2
        answer = [done(steps(first)[0], accepted(word="x"))]
        asked = [steps(await client.raw(sagaToken=token(first), completedSteps=answer)) for _ in range(2)]
        assert asked[0] == asked[1] != steps(first)
        second = await client.raw(sagaToken=token(first), completedSteps=answer)
        rest = [*answer, done(steps(second)[0], SAMPLED)]
        ends = [await client.raw(sagaToken=token(second), completedSteps=rest) for _ in range(2)]
        assert ends[0].result == ends[1].result and ends[0].text == "x: All is green."
        other = [done(steps(first)[0], accepted(word="y"))]
        late = await client.raw(sagaToken=token(first), completedSteps=other)
        assert (late.status, late.code, late.message["error"]["data"]) == (400, -32602, {"reason": "answers_conflict"})
        assert (wire.runtime.counts["entered"], wire.runtime.counts["resumed"]) == (1, 2)


@each_way
async def test_a_tool_that_asks_for_roots_ends_with_a_clear_error(settings: dict[str, Any]) -> None:
    """The gist has no step for them. The refusal is the one of a client that never declared them."""

    @framehold.reentrant
    async def rooted(ctx: Context) -> str:
        assert not ctx.session.check_client_capability(types.ClientCapabilities(roots=types.RootsCapability()))
        assert ctx.session.check_client_capability(types.ClientCapabilities(sampling=types.SamplingCapability()))
        return str(await ctx.session.list_roots())

    async with saga_stage(rooted, **settings) as wire:
        reply = await SagaClient(wire).call("rooted")
        assert (reply.code, "roots/list" in reply.text) == (-32021, True)
        assert len(wire.runtime.table) == 0


async def test_a_handler_that_parks_by_hand() -> None:
    """Its questions are steps, its state and the step's answer come back to it; a failed step ends its call; what
    there is no step for is not asked."""
    roots = types.ListRootsRequest()

    async def by_hand(name: str, ctx: Context) -> str | InputRequiredResult:
        if ctx.request_state is None:
            asked = {"q": QUESTION, **({"r": roots} if name == "roots" else {})}
            return InputRequiredResult(input_requests=asked, request_state=f"state of {name}")
        answer = (ctx.input_responses or {}).get("q")
        if not isinstance(answer, types.ElicitResult):
            return InputRequiredResult(input_requests={"q": QUESTION}, request_state="again")
        return f"{ctx.request_state}: {answer.action}"

    async with saga_stage(by_hand) as wire:
        client = SagaClient(wire)
        first = await client.call("by_hand", name="Ada")
        assert token(first).startswith("s1.saga.")
        assert steps(await client.raw(sagaToken=token(first), completedSteps=[])) == steps(first)
        declined = done(steps(first)[0], {"action": "decline"})
        assert (await client.resume(first, declined)).text == "state of Ada: decline"
        ended = await client.raw(sagaToken=token(first), completedSteps=[failed(steps(first)[0])])
        assert ended.result["isError"] and "q failed at the client: the user left" in ended.text
        refused = await client.call("by_hand", name="roots")
        assert (refused.code, "roots/list" in refused.text) == (-32021, True)


async def test_sagas_are_off_until_they_are_switched_on() -> None:
    """Their methods are unknown, as any that the server lacks, and their token is none, on each wire; what the author
    registers under such a name is served."""

    async def ask(ctx: Context) -> str:
        return said(await ctx.elicit("why?", Word))

    params = {"name": "ask", "arguments": {}}
    async with saga_stage(ask) as on, serving(ask) as wire:
        resume = {"sagaToken": token(await SagaClient(on).call("ask")), "completedSteps": []}
        unknown = await wire.send("tools/burn", params)
        for method, given in (("tools/callSaga", params), ("tools/resumeSaga", resume)):
            reply = await wire.send(method, given)
            assert reply.status == unknown.status == 404
            assert reply.message["error"] == {**unknown.message["error"], "data": method}
            for where in (wire.url, wire.server):
                async with Client(where, mode="legacy") as old:
                    request = Request[dict[str, Any], str](method=method, params=given)
                    with pytest.raises(MCPError, match="Method not found"):
                        await old.session.send_request(request, RootModel[dict[str, Any]])
        assert wire.runtime.counts["entered"] == 0

        async def own(ctx: Any, params: types.RequestParams) -> types.EmptyResult:
            return types.EmptyResult()

        wire.server._lowlevel_server.add_request_handler("tools/callSaga", types.RequestParams, own)
        assert (await wire.send("tools/callSaga", params)).result


INVALID = (400, -32602, "Invalid or expired sagaToken")


@framehold.reentrant
async def ask(ctx: Context, name: str = "you") -> str:
    """One question."""
    return said(await ctx.elicit(f"what says {name}?", Word))


def verdict(reply: Reply) -> tuple[int, int, str]:
    return reply.status, reply.code, reply.text


@each_way
async def test_a_sagas_token_on_the_other_wire_and_the_other_wires_token_on_a_saga(settings: dict[str, Any]) -> None:
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
    async with saga_stage(ask) as wire:
        first = await SagaClient(wire).call("ask", name="a secret")
        wire_token = token(first)
        (slot,) = wire.runtime.table
        assert wire_token.startswith(f"h1.{slot.call.id}.saga.")
        assert "secret" not in wire_token
        text = json.dumps([saga_token.VERSION, "ask", {"name": "a secret"}])
        assert len(wire_token) < 3 * len(text) + 1200
