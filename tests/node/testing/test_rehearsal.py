"""What authors rehearse their handlers with: it passes what is re-entrant, and names what is not."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import random
import re
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.mcpserver.resources import TextResource
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    Root,
    SamplingMessage,
    TextContent,
)
from pydantic import FileUrl

import framehold
import framehold.testing
from framehold.config import Settings
from framehold.frame.rehearsal import rehearsal_observer
from framehold.sdk.present_call import current
from framehold.testing import AskedQuestion, Rehearsal, Rehearse, rehearsed, together
from framehold.testing.rehearsal import PlayedCall, Steady
from tests.node.stage import Word, said, server_of

rehearse = framehold.testing.rehearse
YES = {"word": "yes"}
Tool = Callable[..., Awaitable[Any]]


def serving(*tools: Tool) -> MCPServer[Any]:
    """A server with these tools, each under its own name."""
    return server_of("rehearsed", *tools)


def caught(rehearse: Rehearse, tool: Tool, *answers: Any, **options: Any) -> str:
    """What a rehearsal of `tool` fails with."""
    with pytest.raises(AssertionError) as failure:
        rehearse(serving(tool), tool.__name__, answers=answers or [YES], **options)
    return str(failure.value)


def caught_plain(rehearse: Rehearse, tool: Tool) -> str:
    """The same, of one that asks nothing."""
    with pytest.raises(AssertionError) as failure:
        rehearse(serving(tool), tool.__name__)
    return str(failure.value)


# ---- what passes


def test_a_call_with_questions_effects_and_values(rehearse: Rehearse) -> None:
    """The same in all ways; each effect really runs once in all, so what it gives may be new each time."""
    ran: list[str] = []

    async def charge(item: str, key: str) -> str:
        ran.append(item)
        return f"{key[:4]} {framehold.uuid4()} {uuid.uuid4()}"

    @framehold.reentrant
    async def order(item: str, ctx: Context) -> str:
        number, begun = framehold.uuid4(), framehold.now()
        await framehold.once("audit", ran.append, f"audit {item}")
        first = said(await ctx.elicit(f"Order {item} as {number}?", Word))
        receipt = await framehold.once("charge", charge, item, framehold.idempotency_key("charge"))
        second = said(await ctx.elicit(f"{first}: {receipt}?", Word))
        return f"{second} {begun} {framehold.now() - begun} {framehold.random()}"

    server = serving(order)
    result = rehearse(server, "order", {"item": "tea"}, answers=[YES, {"word": "fine"}])
    assert result.text.startswith("fine ") and result.error is None
    assert isinstance(result.result, CallToolResult) and result.result.is_error is False
    assert result.questions[0].startswith("Order tea as ") and [len(asked) for asked in result.rounds] == [1, 1]
    assert result.effects == ["audit", "charge"] and result.ways == ("hold", "replay", "rebuild")
    assert ran == ["audit tea", "tea"]
    again = rehearse(server, "order", {"item": "tea"}, answers=[YES, {"word": "fine"}])
    assert again.questions[0] == result.questions[0], "a test must not depend on chance"
    other = rehearse(server, "order", {"item": "tea"}, answers=[YES, {"word": "fine"}], seed=1)
    assert other.questions[0] != result.questions[0]


def test_each_kind_of_answer(rehearse: Rehearse) -> None:
    """A model, decline, cancel, a URL, a text for sampling, roots, and a function of the question."""

    @framehold.reentrant
    async def everything(ctx: Context) -> str:
        reply = [said(await ctx.elicit(text, Word)) for text in ("a", "b", "c", "d")]
        reply.append((await ctx.elicit_url("go", "https://example.com/x", "e1")).action)
        words = SamplingMessage(role="user", content=TextContent(type="text", text="Say a word."))
        reply.append((await ctx.session.create_message([words], max_tokens=5)).content.text)
        reply.append(str((await ctx.session.list_roots()).roots[0].uri))
        return " ".join(reply)

    def echoed(asked: AskedQuestion) -> dict[str, str]:
        return {"word": f"<{asked.message}>"}

    roots = ListRootsResult(roots=[Root(uri=FileUrl("file:///x"))])
    script: list[Any] = [Word(word="m"), "decline", "cancel", echoed, {}, "sampled", roots]
    result = rehearse(serving(everything), "everything", answers=script)
    assert result.text == "m decline cancel <d> accept sampled file:///x"
    assert result.questions == ["a", "b", "c", "d", "go", "Say a word.", ""]


def test_questions_that_are_asked_together(rehearse: Rehearse) -> None:
    """They are answered in order, by key, or by a function."""

    @framehold.reentrant
    async def pair(ctx: Context) -> str:
        async def seat(place: str) -> str:
            await framehold.once(f"hold {place}", asyncio.sleep, 0)
            return f"{place} {said(await framehold.ask(place, f'{place}?', Word))}"

        rows = await asyncio.gather(seat("left"), seat("right"))
        return " ".join((*rows, said(await ctx.elicit("sure?", Word))))

    scripts: list[Any] = [
        [{"word": "a"}, "decline", YES],
        [together(right="decline", left={"word": "a"}), YES],
        lambda asked: {"left": {"word": "a"}, "right": "decline"}.get(asked.key, YES),
    ]
    for answers in scripts:
        result = rehearse(serving(pair), "pair", answers=answers)
        assert result.text == "left a right decline yes"
        assert result.rounds == [["left?", "right?"], ["sure?"]]
        assert sorted(result.effects) == ["hold left", "hold right"]


async def consent(name: str) -> Word | Elicit[Word]:
    """Asked by the SDK itself, before its tool begins."""
    return Elicit(f"May {name}?", Word)


def test_one_key_again_and_again(rehearse: Rehearse) -> None:
    """A question that is asked again gets the answer of its turn, in each way."""

    @framehold.reentrant
    async def again(ctx: Context) -> str:
        keyed = [said(await framehold.ask("k", "Again?", Word)) for _ in range(3)]
        plain = [said(await ctx.elicit("And?", Word)) for _ in range(2)]
        return " ".join(keyed + plain)

    script = [{"word": word} for word in "abcde"]
    assert rehearse(serving(again), "again", answers=script).text == "a b c d e"


def test_prompts_resources_and_resolved_parameters(rehearse: Rehearse) -> None:
    """What may ask may be rehearsed."""
    server: MCPServer[Any] = MCPServer("kinds")

    @server.tool()
    @framehold.reentrant
    async def resolved(name: str, may: Annotated[Word, Resolve(consent)], ctx: Context) -> str:
        await framehold.once("noted", asyncio.sleep, 0)
        return f"{may.word} {said(await ctx.elicit('And now?', Word))}"

    @server.prompt()
    @framehold.reentrant
    async def poem(name: str, ctx: Context) -> list[UserMessage]:
        return [UserMessage(f"For {name} about {said(await ctx.elicit('About what?', Word))}")]

    @server.resource("note://{name}")
    @framehold.reentrant
    async def note(name: str, ctx: Context) -> str:
        return f"{name}: {said(await ctx.elicit('Which?', Word))}"

    result = rehearse(server, "resolved", {"name": "Ada"}, answers=[YES, {"word": "b"}])
    assert (result.text, result.questions, result.effects) == ("yes b", ["May Ada?", "And now?"], ["noted"])
    assert rehearse(server, "poem", {"name": "Ada"}, answers=[YES], kind="prompt").text == "For Ada about yes"
    assert rehearse(server, "note://x", answers=[YES], kind="resource").text == "x: yes"


def test_a_handler_that_parks_by_hand(rehearse: Rehearse) -> None:
    """It is entered anew each round in every way; `once` and the values hold over its rounds."""

    @framehold.reentrant
    async def by_hand(ctx: Context) -> str | InputRequiredResult:
        done = await framehold.once("begin", later, "begun")
        number, given = framehold.uuid4("number"), (ctx.input_responses or {}).get("q")
        if isinstance(given, ElicitResult) and given.content:
            return f"{done} {number} {given.content['word']} {framehold.idempotency_key('k')}"
        if ctx.request_state is None:
            return InputRequiredResult(request_state="wait")
        schema = {"type": "object", "properties": {"word": {"type": "string"}}}
        asked = ElicitRequest(params=ElicitRequestFormParams(message=f"As {number}?", requested_schema=schema))
        return InputRequiredResult(input_requests={"q": asked}, request_state="asked")

    result = rehearse(serving(by_hand), "by_hand", answers=[YES])
    assert result.effects == ["begin"] and result.questions[0][3:-1] in result.text
    assert result.rounds == [[], result.questions]


def test_a_low_level_server(rehearse: Rehearse) -> None:
    """Its one function for all tools is marked as a whole; its lifespan is entered for each node."""
    entered: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncIterator[str]:
        entered.append(server.name)
        async with anyio.create_task_group():
            yield "state"

    @framehold.reentrant
    async def call(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        url = ElicitRequestURLParams(message="Go?", url="https://example.com", elicitation_id="e")
        answer = await ctx.session.send_request(ElicitRequest(params=url), ElicitResult)
        return CallToolResult(content=[TextContent(type="text", text=f"{ctx.lifespan_context} {answer.action}")])

    server: Server[Any] = Server("low", lifespan=lifespan, on_call_tool=call)
    assert rehearse(server, "any", answers=["decline"]).text == "state decline"
    assert entered == ["low"] * 4


@pytest.mark.parametrize("attached", [False, True])
async def test_the_server_stays_as_it_was(attached: bool, rehearse: Rehearse) -> None:
    """Attached before or not: handlers, middleware and lifespan are the same objects, and its runtime is not opened."""
    entered: list[str] = []

    @asynccontextmanager
    async def lifespan(server: MCPServer[Any]) -> AsyncIterator[str]:
        entered.append(server.name)
        yield "state"

    @framehold.reentrant
    async def ask(ctx: Context) -> str:
        return said(await ctx.elicit("Well?", Word))

    server: MCPServer[Any] = MCPServer("kept", lifespan=lifespan)
    server.tool()(ask)
    found = framehold.attach(server, Settings(node_id="kept")) if attached else None
    inner: Server[Any] = server._lowlevel_server

    def state() -> tuple[Any, ...]:
        methods = ("tools/call", "prompts/get", "resources/read", "tools/list")
        handlers = [inner.get_request_handler(method) for method in methods]
        return handlers, list(inner.middleware), inner.lifespan

    before = state()
    assert (await rehearsed(server, "ask", answers=[YES])).text == "yes"
    assert rehearse(server, "ask", answers=["cancel"]).text == "cancel"
    assert state() == before and entered == ["kept"] * 8 and rehearsal_observer.get() is None
    if found is not None:
        assert found.runtime.counts == {} and found.lifespan_state is None


def test_time_stands_still(rehearse: Rehearse) -> None:
    """At the instant that the test names."""

    @framehold.reentrant
    async def when(ctx: Context) -> str:
        await ctx.elicit(f"{framehold.now():%Y}?", Word)
        await asyncio.sleep(0.01)
        return f"{framehold.now():%Y-%m-%d}"

    result = rehearse(serving(when), "when", answers=[YES], now=datetime(1999, 12, 31, tzinfo=UTC))
    assert (result.questions, result.text) == (["1999?"], "1999-12-31")


def test_fakes_can_be_put_back_before_each_way(rehearse: Rehearse) -> None:
    """What changes outside of `once` says the same each time, if it is told when a way begins."""
    seen: list[str] = []

    async def empty() -> None:
        seen.clear()

    @framehold.reentrant
    async def look(ctx: Context) -> str:
        answer = said(await ctx.elicit("Well?", Word))
        seen.append("x")
        return f"{len(seen)} {answer}"

    assert rehearse(serving(look), "look", answers=[YES], reset=empty).text == "1 yes"
    seen.clear()
    assert "was '1 yes'" in caught(rehearse, look)


def test_errors_are_results_too(rehearse: Rehearse) -> None:
    """A tool that raises, a prompt that does, and an answer that its model refuses: the same each time."""
    server: MCPServer[Any] = MCPServer("errors")

    @server.tool()
    @framehold.reentrant
    async def fails(ctx: Context) -> str:
        await ctx.elicit("Well?", Word)
        raise LookupError("no such thing")

    @server.prompt()
    @framehold.reentrant
    async def broken(ctx: Context) -> str:
        await ctx.elicit("Well?", Word)
        raise LookupError("no such thing")

    result = rehearse(server, "fails", answers=[YES], raises=LookupError)
    assert isinstance(result.result, CallToolResult) and result.result.is_error
    assert result.text == "Error executing tool fails"
    result = rehearse(server, "broken", answers=[YES], kind="prompt", raises=LookupError)
    assert result.result is None and result.error is not None
    assert result.error.code < 0 and result.text == result.error.message
    nonsense = ElicitResult(action="accept", content={"nonsense": 1})
    assert isinstance(rehearse(server, "fails", answers=[nonsense], raises=ValueError).raised, ValueError)


# ---- what is caught


def test_chance_in_a_question(rehearse: Rehearse) -> None:
    """It is told which question, and both texts."""

    @framehold.reentrant
    async def lucky(ctx: Context) -> str:
        return said(await ctx.elicit(f"Pick {random.random()}?", Word))

    found = caught(rehearse, lucky)
    assert found.startswith("the call differs under replay: question 1.message is 'Pick 0.")
    assert "and was 'Pick 0." in found and "likely it depends on something that is not recorded" in found


def test_a_clock_in_a_question(rehearse: Rehearse) -> None:
    """Likewise."""

    @framehold.reentrant
    async def timely(ctx: Context) -> str:
        return said(await ctx.elicit(f"At {time.perf_counter_ns()}?", Word))

    assert "question 1.message is 'At " in caught(rehearse, timely)


def test_a_global_that_decides_between_two_rounds(rehearse: Rehearse) -> None:
    """Divergence, in the words of the log: recorded, asked, likely cause."""
    left = [1, 1, 0, 0]

    @framehold.reentrant
    async def counting(ctx: Context) -> str:
        return said(await ctx.elicit("First time?" if left.pop(0) else "Again?", Word))

    found = caught(rehearse, counting)
    assert found.startswith("the call diverges under replay, after question 1, 'First time?' (key ")
    assert "recorded is ask 'elicit-" in found and "(First time?)" in found and "(Again?)" in found
    assert "likely it depends on something that is not recorded" in found


def test_a_loop_over_a_set(rehearse: Rehearse) -> None:
    """Whose order is that of its members' addresses, here: of their making."""

    class Guest:
        made = 0

        def __init__(self, name: str) -> None:
            Guest.made += 1
            self.name, self._hash = name, -Guest.made if Guest.made % 4 > 1 else Guest.made

        def __hash__(self) -> int:
            return self._hash

    @framehold.reentrant
    async def invite(ctx: Context) -> str:
        guests = {Guest(name) for name in ("Ada", "Bob", "Cyd")}
        return " ".join([said(await ctx.elicit(f"{guest.name}?", Word)) for guest in guests])

    found = caught(rehearse, invite, *[YES] * 3)
    assert "differs under" in found or "diverges under" in found
    assert "?'" in found or "?)" in found


def test_a_state_of_the_process(rehearse: Rehearse) -> None:
    """What a node keeps in its lifespan is not there on the next."""
    server: MCPServer[Any]

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[dict[str, str]]:
        yield {}

    server = MCPServer("forgetful", lifespan=lifespan)

    @server.tool()
    @framehold.reentrant
    async def remember(ctx: Context) -> str:
        kept: dict[str, str] = ctx.request_context.lifespan_context
        if "name" not in kept:
            kept["name"] = f"n{len(kept)}"
            await ctx.elicit("Name?", Word)
        return kept["name"]

    with pytest.raises(AssertionError, match=r"diverges under replay.*recorded is ask"):
        rehearse(server, "remember", answers=[YES])


def test_a_result_that_differs(rehearse: Rehearse) -> None:
    """An effect outside `once` can't be seen, but a result that tells of it can."""
    ran: list[str] = []

    @framehold.reentrant
    async def quiet(ctx: Context) -> str:
        ran.append("x")
        return said(await ctx.elicit("Well?", Word))

    @framehold.reentrant
    async def talking(ctx: Context) -> str:
        ran.append("x")
        return f"{said(await ctx.elicit('Well?', Word))} {len(ran)}"

    assert rehearse(serving(quiet), "quiet", answers=[YES]).effects == []
    assert len(ran) == 1 + 2 + 2, "it happened again in each entry"
    ran.clear()
    found = caught(rehearse, talking)
    assert found.startswith("the call differs under replay: result.content[0].text is 'yes 3', and was 'yes 1' when")
    assert "what an effect outside once has done" in found


def test_effects_and_questions_that_come_and_go(rehearse: Rehearse) -> None:
    """An effect that runs in one way only; a question that is asked in one way only."""
    entered: list[int] = []

    @framehold.reentrant
    async def sometimes(ctx: Context) -> str:
        entered.append(1)
        answer = said(await ctx.elicit("Well?", Word))
        if len(entered) == 1:
            await framehold.once("mail", asyncio.sleep, 0)
        return answer

    assert "the list of effects is [], and was ['mail'] when" in caught(rehearse, sometimes)
    entered.clear()

    @framehold.reentrant
    async def curious(ctx: Context) -> str:
        entered.append(1)
        answer = said(await ctx.elicit("Well?", Word))
        return answer if len(entered) == 1 else said(await ctx.elicit("Really?", Word))

    assert "question 2, 'Really?' (key " in (found := caught(rehearse, curious)) and "was not asked when" in found
    entered.clear()

    @framehold.reentrant
    async def tired(ctx: Context) -> str:
        entered.append(1)
        answer = said(await ctx.elicit("Well?", Word))
        return answer if len(entered) > 1 else said(await ctx.elicit("Really?", Word))

    assert "it does not ask 'Really?' (key " in caught(rehearse, tired, YES, YES)


def test_an_effect_that_runs_twice_in_one_way(rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Framehold's own fault, if it ever happens: said by name."""
    ran = PlayedCall.ran
    monkeypatch.setattr(PlayedCall, "ran", lambda self, key: [ran(self, key), ran(self, key)])

    @framehold.reentrant
    async def paid(ctx: Context) -> str:
        await framehold.once("pay", asyncio.sleep, 0)
        return "fine"

    with pytest.raises(AssertionError, match=r"the effect 'pay' of once ran 2 times under hold"):
        rehearse(serving(paid), "paid")


# ---- effects of once


def test_effects_give_what_they_gave(rehearse: Rehearse) -> None:
    """Values, models, own exceptions and such as can't be kept: run once, and the same in all ways, as copies."""
    ran: list[str] = []
    shared: list[str] = ["first"]

    class Odd(Exception):
        def __init__(self, lock: Any) -> None:
            super().__init__(f"odd {uuid.uuid4()}")
            self.lock = lock

    async def effect(name: str) -> Any:
        ran.append(name)
        if name == "refuse":
            raise LookupError(f"refused {uuid.uuid4()}")
        if name == "odd":
            raise Odd(threading.Lock())
        made = {"model": Word(word=str(uuid.uuid4())), "lock": threading.Lock(), "shared": shared}
        return made.get(name, str(uuid.uuid4()))

    @framehold.reentrant
    async def shop(ctx: Context) -> str:
        reply: list[Any] = []
        for name in ("text", "model", "shared", "refuse", "odd", "lock"):
            try:
                given = await framehold.once(name, effect, name)
                if isinstance(given, list):
                    given.append("copy")
                reply.append(given)
            except Exception as error:
                reply.append(f"{type(error).__name__}: {error}")
            shared.append("later")
            await ctx.elicit(f"{reply[-1]}?", Word)
        last = await framehold.once("last", effect, "last")
        return f"{reply} {last}"

    result = rehearse(serving(shop), "shop", answers=[YES] * 6)
    assert ran == result.effects == ["text", "model", "shared", "refuse", "odd", "lock", "last"]
    assert result.questions[2] == "['first', 'later', 'later', 'copy']?" and result.questions[3].startswith(
        "LookupError: refused "
    )
    assert result.questions[4].startswith("EffectFailed: ") and result.questions[5].startswith("ResultNotKept: ")


def test_an_effect_that_breaks_off(rehearse: Rehearse) -> None:
    """Nobody knows what came of it, in any way."""
    ran: list[str] = []

    async def breaks() -> None:
        ran.append("x")
        raise asyncio.CancelledError

    @framehold.reentrant
    async def careful(ctx: Context) -> str:
        try:
            await framehold.once("break", breaks)
        except framehold.InDoubt as error:
            return f"in doubt: {error}"
        return "done"

    assert rehearse(serving(careful), "careful").text.startswith("in doubt: ") and ran == ["x"]


def test_what_an_effect_leaves_in_the_handler(rehearse: Rehearse) -> None:
    """It is not there on another node, so not in another way."""

    @framehold.reentrant
    async def counts(ctx: Context) -> str:
        found: list[str] = []
        await framehold.once("find", lambda: found.append("x"))
        return f"{len(found)}"

    assert "result.content[0].text is '0', and was '1' when" in caught_plain(rehearse, counts)


def test_another_effect_in_another_way(rehearse: Rehearse) -> None:
    """One that did not run when the call was held, another function, other arguments: by name, and not called."""
    entered: list[str] = []
    ran: list[str] = []

    async def post(text: str, **more: str) -> None:
        ran.append(text)

    async def wire(text: str) -> None:
        ran.append(text)

    async def played(kind: str) -> None:
        entered.append(kind)
        again = len(entered) > 1
        if kind == "new" and again:
            await framehold.once("mail", post, "x")
        if kind == "function":
            await framehold.once("mail", wire if again else post, "x")
        if kind == "arguments":
            await framehold.once("mail", post, "x", to=f"guest {len(entered)}")

    @framehold.reentrant
    async def sends(kind: str, ctx: Context) -> str:
        try:
            await played(kind)
        except Exception:
            return "it is told whatever the handler makes of it"
        return "fine"

    wanted = {
        "new": "the effect 'mail' of once did not run when the call was held; likely it depends on",
        "function": "is wire, and was post when the call was held; likely",
        "arguments": "is called with ('x', to='guest 2'), and was with ('x', to='guest 1') when the call was held",
    }
    for kind, text in wanted.items():
        entered.clear()
        ran.clear()
        with pytest.raises(AssertionError, match="the call differs under replay: the effect 'mail' of once") as failure:
            rehearse(serving(sends), "sends", {"kind": kind})
        assert text in str(failure.value) and ran == ([] if kind == "new" else ["x"])


def test_an_effect_that_runs_twice_in_another_way(rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Framehold's own fault again; it is counted although nothing runs."""
    ran = PlayedCall.ran
    monkeypatch.setattr(
        PlayedCall, "ran", lambda self, key: [ran(self, key) for _ in range(1 + (self.way == "rebuild"))]
    )

    @framehold.reentrant
    async def paid(ctx: Context) -> str:
        await framehold.once("pay", asyncio.sleep, 0)
        return "fine"

    with pytest.raises(AssertionError, match=r"under rebuild: the effect 'pay' of once runs 2 times, and did 1 times"):
        rehearse(serving(paid), "paid")


# ---- what the handler may not do


async def later(what: str) -> str:
    await asyncio.sleep(0)
    return what


async def fine() -> str:
    return "fine"


async def one_key_for_two(ctx: Context) -> None:
    await framehold.once("mail", asyncio.sleep, 0, "Ada")
    await framehold.once("mail", asyncio.sleep, 0, "Bob")


async def a_question_in_an_effect(ctx: Context) -> None:
    await framehold.once("ask", lambda: ctx.elicit("Well?", Word))


async def once_in_an_effect(ctx: Context) -> None:
    await framehold.once("outer", lambda: framehold.once("inner", fine))


async def two_questions_alike(ctx: Context) -> None:
    await asyncio.gather(framehold.ask("k", "One?", Word), framehold.ask("k", "Two?", Word))


async def a_value(ctx: Context) -> None:
    await framehold.once("pay", "paid")  # type: ignore[call-overload]  # that is the point


async def a_coroutine(ctx: Context) -> None:
    # Closed by once, so that no warning says that it was never awaited: that would be an error here.
    await framehold.once("pay", fine())  # type: ignore[call-overload]  # that is the point


async def no_key(ctx: Context) -> None:
    await framehold.once("", fine)


async def outside_of_the_call(ctx: Context) -> None:
    await asyncio.create_task(framehold.once("pay", fine), context=_without_a_call())


async def never_awaited(ctx: Context) -> None:
    framehold.once("pay", fine)  # type: ignore[unused-coroutine]  # that is the point


def _without_a_call() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(current.set, None)
    return context


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (one_key_for_two, "once('mail') stands for sleep with other arguments in this call already"),
        (a_question_in_an_effect, "a question inside the effect of once('ask')"),
        (once_in_an_effect, "once('inner') inside the effect of once('outer')"),
        (two_questions_alike, "a question with the key 'k' is pending already"),
        (a_value, "framehold.once('pay'): its second argument must be a function, not str"),
        (
            a_coroutine,
            "framehold.once('pay'): its second argument must be the function, not what a call of it gave",
        ),
        (no_key, "framehold.once: its key must be a text that is not empty, not ''"),
        (outside_of_the_call, "framehold.once('pay') was used outside a call"),
        (never_awaited, "framehold.once('pay') was never awaited; nothing was run"),
    ],
)
@pytest.mark.parametrize("catches", [False, True])
def test_misuse(mistake: Tool, text: str, catches: bool, rehearse: Rehearse) -> None:
    """It fails with its own text, caught or not; or is left to the handler, whose client hears the same each time."""

    @framehold.reentrant
    async def slips(ctx: Context) -> str:
        try:
            await mistake(ctx)
        except Exception as error:
            if not catches:
                raise
            return f"caught {error}"
        return "fine"

    with pytest.raises(AssertionError) as failure:
        rehearse(serving(slips), "slips", answers=lambda asked: YES)
    assert str(failure.value).startswith(f"the call misuses framehold: {text}"), failure.value
    assert str(failure.value).endswith(" (under hold)")
    handled = catches and mistake is not never_awaited
    raises: Any = () if handled else (framehold.FrameholdError, TypeError)
    result = rehearse(serving(slips), "slips", answers=lambda asked: YES, allow_misuse=True, raises=raises)
    if handled:
        assert result.text.startswith(f"caught {text}") and result.raised is None
    else:
        assert result.text == "Error executing tool slips" and str(result.raised).startswith(text)
    assert warnings_hook() is PYTHONS


def warnings_hook() -> Any:
    return vars(warnings)["_warn_unawaited_coroutine"]


PYTHONS = warnings_hook()


async def test_rehearsals_that_overlap() -> None:
    """Each is told of its own, and Python warns as before afterwards."""
    ran: list[str] = []

    @framehold.reentrant
    async def pays(name: str, ctx: Context) -> str:
        await ctx.elicit("Well?", Word)
        await framehold.once("pay", ran.append, name)
        if name == "b":
            framehold.once("pay", fine)  # type: ignore[unused-coroutine]  # that is the point
        return name

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        calls = [rehearsed(serving(pays), "pays", {"name": name}, answers=[YES]) for name in "abc"]
        one, failed, three = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(failed, AssertionError) and "never awaited" in str(failed)
    assert isinstance(one, Rehearsal) and isinstance(three, Rehearsal) and one.effects == three.effects == ["pay"]
    assert sorted(ran) == ["a", "b", "c"] and warnings_hook() is PYTHONS


def test_misuse_in_another_way(rehearse: Rehearse) -> None:
    """The way is named, and a context that has no call is heard of where nobody catches it."""
    entered: list[int] = []

    @framehold.reentrant
    async def late(ctx: Context) -> str:
        entered.append(1)
        if len(entered) > 1:
            await framehold.once("pay", "paid")  # type: ignore[call-overload]  # that is the point
        return "fine"

    @framehold.reentrant
    async def threaded(ctx: Context) -> str:
        return str(await asyncio.get_running_loop().run_in_executor(None, framehold.uuid4))

    assert caught_plain(rehearse, late).endswith("(under replay)")
    assert caught_plain(rehearse, threaded).startswith("the call misuses framehold: framehold.uuid4() was used outside")


def test_what_is_no_misuse(rehearse: Rehearse) -> None:
    """What an effect came to, and what the SDK hides of a handler's own errors: passed if the test says so."""

    async def lock() -> Any:
        return threading.Lock()

    @framehold.reentrant
    async def keeps(ctx: Context) -> str:
        return str(await framehold.once("lock", lock))

    @framehold.reentrant
    async def breaks(ctx: Context) -> str:
        await ctx.elicit("Well?", Word)
        raise KeyError("nothing")

    @framehold.reentrant
    async def other(ctx: Context) -> str:
        return str(await framehold.once("type", fine, "too many"))

    assert isinstance(rehearse(serving(keeps), "keeps", raises=framehold.OnceError).raised, framehold.ResultNotKept)
    assert isinstance(rehearse(serving(breaks), "breaks", answers=[YES], raises=KeyError).raised, KeyError)
    assert isinstance(rehearse(serving(other), "other", raises=TypeError).raised, TypeError)
    with pytest.raises(AssertionError, match=r"came to 'Error executing tool breaks', and the handler raised KeyError"):
        rehearse(serving(breaks), "breaks", answers=[YES, YES], raises=KeyError)


# ---- scripts


@framehold.reentrant
async def two(ctx: Context) -> str:
    """Asks twice, the second time two things."""
    first = said(await ctx.elicit("One?", Word))
    rest = await asyncio.gather(framehold.ask("a", "Two?", Word), framehold.ask("b", "Three?", Word))
    return " ".join([first, *map(said, rest)])


def test_too_few_answers(rehearse: Rehearse) -> None:
    """The question that has none, and those before it."""
    found = caught(rehearse, two, YES, YES)
    assert found.startswith("too few answers: 2 given, and none is left for question 3, 'Three?' (key 'b', round 2)")
    assert "1. 'One?' (key 'elicit-" in found and "2. 'Two?' (key 'a', round 2)" in found
    with pytest.raises(AssertionError, match=r"too few answers: 0 given.*question 1, 'One.*it is the first"):
        rehearse(serving(two), "two")


def test_too_many_answers(rehearse: Rehearse) -> None:
    """What was left over, what was asked, and what the call came to."""
    found = caught(rehearse, two, YES, YES, YES, "decline", "cancel")
    assert found.startswith("too many answers: 2 of 5 were not asked for, 'decline' first; asked were ['One?', 'Two?'")
    assert found.endswith("the call came to 'yes yes yes'")


def test_answers_of_the_wrong_kind(rehearse: Rehearse) -> None:
    """Said before anything is sent."""
    assert "3 can't answer 'One?' (key" in (found := caught(rehearse, two, 3)) and "give a dict" in found
    assert "asks 'a', 'b', but together(...) answers 'a', 'c'" in caught(rehearse, two, YES, together(a=YES, c=YES))
    assert "asks 'elicit-" in caught(rehearse, two, together(a=YES, b=YES))
    assert "is asked in one round with the one before it" in caught(rehearse, two, YES, YES, together(b=YES))


def test_a_function_that_fails(rehearse: Rehearse) -> None:
    """Its own exception reaches the test, through whatever the lifespan is."""

    def wrong(asked: AskedQuestion) -> Any:
        raise LookupError(f"nothing for {asked.message}")

    with pytest.raises(LookupError, match=r"nothing for One\?"):
        rehearse(serving(two), "two", answers=wrong)


def test_a_call_that_hangs(rehearse: Rehearse) -> None:
    """It is cut off, and the last question is told."""

    @framehold.reentrant
    async def stuck(ctx: Context) -> str:
        await ctx.elicit("Well?", Word)
        await asyncio.sleep(1000)
        return ""

    started = time.monotonic()
    found = caught(rehearse, stuck, timeout=2.0)
    assert found.startswith("the call did not end in 2 s under hold; it was cancelled after question 1, 'Well?' (key")
    assert time.monotonic() - started < 30


def test_a_call_that_waits_for_itself_only_when_replayed(rehearse: Rehearse) -> None:
    """The way that hangs is named."""
    lock = asyncio.Event()

    @framehold.reentrant
    async def waits(ctx: Context) -> str:
        if lock.is_set():
            await asyncio.sleep(1000)
        answer = said(await ctx.elicit("Well?", Word))
        lock.set()
        return answer

    assert "under replay; it was cancelled after no question" in caught(rehearse, waits, timeout=2.0)


def test_handlers_that_are_not_marked(rehearse: Rehearse) -> None:
    """They are refused, unless the test is to find out whether they may be marked."""

    async def plain(ctx: Context) -> str:
        return said(await ctx.elicit("Well?", Word))

    async def fickle(ctx: Context) -> str:
        return said(await ctx.elicit(f"{random.random()}", Word))

    server = serving(plain, fickle)
    with pytest.raises(ValueError, match=r"tool 'plain' is not marked @framehold.reentrant: it would be"):
        rehearse(server, "plain", answers=[YES])
    assert rehearse(server, "plain", answers=[YES], assume_reentrant=True).text == "yes"
    with pytest.raises(AssertionError, match="differs under replay"):
        rehearse(server, "fickle", answers=[YES], assume_reentrant=True)
    with pytest.raises(TypeError):
        rehearse(object(), "plain")


def test_handlers_that_are_not_there(rehearse: Rehearse) -> None:
    """The names of those that are, of the same kind."""
    server = serving(two)

    @server.prompt()
    async def poem() -> str:
        return "A poem."

    @server.resource("note://{name}")
    async def note(name: str) -> str:
        return name

    server.add_resource(TextResource(uri="text://one", name="one", text="One."))
    there: dict[Any, str] = {"tool": "'two'", "prompt": "'poem'", "resource": "'text://one', 'note://{name}'"}
    for kind, names in there.items():
        with pytest.raises(ValueError) as failure:
            rehearse(server, "towed://", kind=kind, assume_reentrant=True)
        assert str(failure.value) == f"there is no {kind} 'towed://' here; nothing was run; there are {names}"
    with pytest.raises(ValueError, match="resource 'text://one' is not marked"):
        rehearse(server, "text://one", kind="resource")
    with pytest.raises(ValueError, match="there are nothing"):
        rehearse(MCPServer("empty"), "two")
    with pytest.raises(ValueError, match="the server has no handler of tools/call"):
        rehearse(Server("low"), "two")


def test_ways_can_be_chosen(rehearse: Rehearse) -> None:
    """A handler that is always held is not replayed from a token, unless the test says so."""

    @framehold.options(strategy="hold")
    @framehold.reentrant
    async def held(ctx: Context) -> str:
        return said(await ctx.elicit("Well?", Word))

    server = serving(held)
    assert rehearse(server, "held", answers=[YES]).ways == ("hold", "rebuild")
    assert rehearse(server, "held", answers=[YES], ways=["replay"]).ways == ("hold", "replay")
    assert rehearse(server, "held", answers=[YES], ways=[]).ways == ("hold",)


# ---- the plugin


CONFTEST = """
from framehold.testing import together
pytest_plugins = ["framehold.testing"]
"""
TESTS = """
import random
import pytest
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel
import framehold

class Word(BaseModel):
    word: str

mcp = MCPServer("user")

@mcp.tool()
@framehold.reentrant
async def good(ctx: Context) -> str:
    return (await ctx.elicit("Well?", Word)).data.word

@mcp.tool()
@framehold.reentrant
async def bad(ctx: Context) -> str:
    return (await ctx.elicit(f"Pick {random.random()}", Word)).data.word

def test_good(rehearse):
    assert rehearse(mcp, "good", answers=[{"word": "x"}]).text == "x"

@pytest.mark.anyio
async def test_good_in_an_async_test(rehearse):
    assert rehearse(mcp, "good", answers=[{"word": "x"}]).text == "x"
    assert (await framehold.testing.rehearsed(mcp, "good", answers=[{"word": "x"}])).text == "x"

def test_bad(rehearse):
    rehearse(mcp, "bad", answers=[{"word": "x"}])

@pytest.mark.anyio
async def test_bad_in_an_async_test(rehearse):
    rehearse(mcp, "bad", answers=[{"word": "y"}])

@pytest.mark.anyio
async def test_bad_and_awaited():
    await framehold.testing.rehearsed(mcp, "bad", answers=[{"word": "z"}])

def test_missing(rehearse):
    rehearse(mcp, "odd")

def test_broken_script(rehearse):
    rehearse(mcp, "good", answers=lambda asked: {}["nothing"])

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


def test_the_plugin_in_a_project_of_its_own(tmp_path: Path) -> None:
    """Named in the topmost conftest it gives the fixture, to sync and async tests; a failure shows the test's line, and
    nothing of ours."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_user.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-W", "error::pytest.PytestWarning", "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    shown = done.stdout
    assert "5 failed, 2 passed" in shown, shown + done.stderr
    # Its own lines: with CI set, pytest's summary says all of it once more.
    failed = r"^E +framehold\.testing\.RehearsalFailed: the call differs under replay: question 1\.message is"
    assert len(re.findall(failed, shown, re.MULTILINE)) == 3
    for line in ('rehearse(mcp, "bad", answers=[{"word": "x"}])', 'rehearse(mcp, "bad", answers=[{"word": "y"}])'):
        assert f">       {line}" in shown
    assert '>       await framehold.testing.rehearsed(mcp, "bad"' in shown
    assert "ValueError: there is no tool 'odd' here; nothing was run; there are 'good', 'bad'" in shown
    assert "KeyError: 'nothing'" in shown
    places = set(re.findall(r"^(\S+\.py):\d+: ", shown, re.MULTILINE))
    assert places == {"test_user.py"} and "During handling" not in shown and "Traceback" not in shown, shown


def test_the_type_of_the_fixture_has_its_parameters() -> None:
    """So that a type checker finds a wrong argument in a test."""
    _, *typed = inspect.signature(Rehearse.__call__).parameters.values()
    assert typed == list(inspect.signature(rehearsed).parameters.values())


def test_pytest_is_not_needed_to_import_it() -> None:
    """Only the fixture needs it."""
    code = "import sys; sys.modules['pytest'] = None; import framehold.testing as t; assert not hasattr(t, 'rehearse')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_chance_in_a_rehearsal() -> None:
    """It is the same in each way, as long as nothing is drawn again that was recorded."""
    one, other = Steady(b"seed", 1.0), Steady(b"seed", 1.0)
    first, second = one.draw("k"), one.draw("k")
    assert first != second != one.draw("j")
    assert [other.draw("k"), other.draw("k")] == [first, second] and one.draw("") != one.draw("") != other.draw("k")
    assert one.call() == other.call() != one.call() and len(one.call()) == 32


# ---- known faults of Framehold, found by this


@pytest.mark.parametrize("way", ["replay", "rebuild"])
@pytest.mark.parametrize("learn", ["effect", "value"])
def test_a_handler_that_asks_and_then_parks_by_hand(learn: str, way: Any, rehearse: Rehearse) -> None:
    """What it learned before it asked is known when it is entered for the next round."""

    @framehold.reentrant
    async def mixed(ctx: Context) -> str | InputRequiredResult:
        number = framehold.uuid4() if learn == "value" else await framehold.once("pay", later, "paid")
        if ctx.request_state is None:
            await ctx.elicit("First?", Word)
            return InputRequiredResult(request_state="asked")
        return str(number)

    assert rehearse(serving(mixed), "mixed", answers=[YES], ways=[way]).effects in ([], ["pay"])
