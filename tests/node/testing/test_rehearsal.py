"""What authors rehearse their handlers with: it passes what is re-entrant, by the script that the test gives."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import re
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import anyio
import mcp.types as types
import pytest
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.mcpserver.resources import TextResource
from pydantic import FileUrl

import framehold
import framehold.testing
from framehold.config import Settings
from framehold.frame.rehearsal import rehearsal_observer
from framehold.testing import AskedQuestion, Rehearse, rehearsed, together
from framehold.testing.rehearsal import Steady
from tests.kit.serving import Word, said, server_of
from tests.node.testing.marked import YES, caught, played, serving

rehearse = framehold.testing.rehearse


def test_a_call_with_questions_effects_and_values(rehearse: Rehearse) -> None:
    """The same in all ways; each effect really runs once in all, so what it gives may be new each time."""
    ran: list[str] = []

    async def charge(item: str, key: str) -> str:
        ran.append(item)
        return f"{key[:4]} {framehold.uuid4()} {uuid.uuid4()}"

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
    assert isinstance(result.result, types.CallToolResult) and result.result.is_error is False
    assert result.questions[0].startswith("Order tea as ") and [len(asked) for asked in result.rounds] == [1, 1]
    assert result.effects == ["audit", "charge"] and result.ways == ("hold", "replay", "rebuild")
    assert ran == ["audit tea", "tea"]
    again = rehearse(server, "order", {"item": "tea"}, answers=[YES, {"word": "fine"}])
    assert again.questions[0] == result.questions[0], "a test must not depend on chance"
    other = rehearse(server, "order", {"item": "tea"}, answers=[YES, {"word": "fine"}], seed=1)
    assert other.questions[0] != result.questions[0]


def test_each_kind_of_answer(rehearse: Rehearse) -> None:
    async def everything(ctx: Context) -> str:
        reply = [said(await ctx.elicit(text, Word)) for text in ("a", "b", "c", "d")]
        reply.append((await ctx.elicit_url("go", "https://example.com/x", "e1")).action)
        words = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say a word."))
        reply.append((await ctx.session.create_message([words], max_tokens=5)).content.text)
        reply.append(str((await ctx.session.list_roots()).roots[0].uri))
        return " ".join(reply)

    def echoed(asked: AskedQuestion) -> dict[str, str]:
        return {"word": f"<{asked.message}>"}

    roots = types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///x"))])
    script: list[Any] = [Word(word="m"), "decline", "cancel", echoed, {}, "sampled", roots]
    result = played(rehearse, everything, answers=script)
    assert result.text == "m decline cancel <d> accept sampled file:///x"
    assert result.questions == ["a", "b", "c", "d", "go", "Say a word.", ""]


def test_questions_that_are_asked_together(rehearse: Rehearse) -> None:
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
        result = played(rehearse, pair, answers=answers)
        assert result.text == "left a right decline yes"
        assert result.rounds == [["left?", "right?"], ["sure?"]]
        assert sorted(result.effects) == ["hold left", "hold right"]


async def consent(name: str) -> Word | Elicit[Word]:
    return Elicit(f"May {name}?", Word)


def test_one_key_again_and_again(rehearse: Rehearse) -> None:
    async def again(ctx: Context) -> str:
        keyed = [said(await framehold.ask("k", "Again?", Word)) for _ in range(3)]
        plain = [said(await ctx.elicit("And?", Word)) for _ in range(2)]
        return " ".join(keyed + plain)

    script = [{"word": word} for word in "abcde"]
    assert played(rehearse, again, answers=script).text == "a b c d e"


def test_prompts_resources_and_resolved_parameters(rehearse: Rehearse) -> None:
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


@pytest.mark.parametrize("answers", [[YES], [together(q=YES)], lambda asked: YES], ids=["one", "together", "function"])
def test_a_handler_that_parks_by_hand(answers: Any, rehearse: Rehearse) -> None:
    """It is entered anew each round in every way; `once` and the values hold over its rounds. A round that asks nothing
    takes no answer."""

    async def by_hand(ctx: Context) -> str | types.InputRequiredResult:
        done = await framehold.once("begin", str, "begun")
        number, given = framehold.uuid4("number"), (ctx.input_responses or {}).get("q")
        if isinstance(given, types.ElicitResult) and given.content:
            return f"{done} {number} {given.content['word']} {framehold.idempotency_key('k')}"
        if ctx.request_state is None:
            return types.InputRequiredResult(request_state="wait")
        schema = {"type": "object", "properties": {"word": {"type": "string"}}}
        asked = types.ElicitRequest(
            params=types.ElicitRequestFormParams(message=f"As {number}?", requested_schema=schema)
        )
        return types.InputRequiredResult(input_requests={"q": asked}, request_state="asked")

    result = played(rehearse, by_hand, answers=answers)
    assert result.effects == ["begin"] and result.questions[0][3:-1] in result.text
    assert result.rounds == [[], result.questions]


@pytest.mark.parametrize("way", ["replay", "rebuild"])
@pytest.mark.parametrize("learn", ["effect", "value"])
def test_a_handler_that_asks_and_then_parks_by_hand(learn: str, way: Any, rehearse: Rehearse) -> None:
    """What it learned before it asked is known when it is entered for the next round."""

    async def mixed(ctx: Context) -> str | types.InputRequiredResult:
        number = framehold.uuid4() if learn == "value" else await framehold.once("pay", str, "paid")
        if ctx.request_state is None:
            await ctx.elicit("First?", Word)
            return types.InputRequiredResult(request_state="asked")
        return str(number)

    assert played(rehearse, mixed, YES, ways=[way]).effects in ([], ["pay"])


def test_a_low_level_server(rehearse: Rehearse) -> None:
    """Its one function for all tools is marked as a whole; its lifespan is entered for each node."""
    entered: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncIterator[str]:
        entered.append(server.name)
        async with anyio.create_task_group():
            yield "state"

    @framehold.reentrant
    async def call(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        url = types.ElicitRequestURLParams(message="Go?", url="https://example.com", elicitation_id="e")
        answer = await ctx.session.send_request(types.ElicitRequest(params=url), types.ElicitResult)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=f"{ctx.lifespan_context} {answer.action}")]
        )

    server: Server[Any] = Server("low", lifespan=lifespan, on_call_tool=call)
    assert rehearse(server, "any", answers=["decline"]).text == "state decline"
    assert entered == ["low"] * 4


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ways": ["rebuilt"]}, "ways=['rebuilt']: nothing was run; give a list of 'hold', 'replay', 'rebuild'"),
        ({"ways": "rebuild"}, "ways='rebuild': nothing was run; give a list of 'hold', 'replay', 'rebuild'"),
        ({"kind": "tools"}, "kind='tools': nothing was run; give one of 'tool', 'prompt', 'resource'"),
    ],
)
def test_what_is_no_choice_is_refused(given: dict[str, Any], why: str, rehearse: Rehearse) -> None:
    async def never(ctx: Context) -> str:
        raise AssertionError("it was run")

    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        played(rehearse, never, **given)


@pytest.mark.parametrize("attached", [False, True])
async def test_the_server_stays_as_it_was(attached: bool, rehearse: Rehearse) -> None:
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
    async def when(ctx: Context) -> str:
        await ctx.elicit(f"{framehold.now():%Y}?", Word)
        await asyncio.sleep(0.01)
        return f"{framehold.now():%Y-%m-%d}"

    result = played(rehearse, when, YES, now=datetime(1999, 12, 31, tzinfo=UTC))
    assert (result.questions, result.text) == (["1999?"], "1999-12-31")


def test_fakes_can_be_put_back_before_each_way(rehearse: Rehearse) -> None:
    """What changes outside of `once` says the same each time, if it is told when a way begins."""
    seen: list[str] = []

    async def empty() -> None:
        seen.clear()

    async def look(ctx: Context) -> str:
        answer = said(await ctx.elicit("Well?", Word))
        seen.append("x")
        return f"{len(seen)} {answer}"

    assert played(rehearse, look, YES, reset=empty).text == "1 yes"
    seen.clear()
    assert "was '1 yes'" in caught(rehearse, look, YES)


# ---- scripts


async def two(ctx: Context) -> str:
    first = said(await ctx.elicit("One?", Word))
    rest = await asyncio.gather(framehold.ask("a", "Two?", Word), framehold.ask("b", "Three?", Word))
    return " ".join([first, *map(said, rest)])


def test_too_few_answers(rehearse: Rehearse) -> None:
    found = caught(rehearse, two, YES, YES)
    assert found.startswith("too few answers: 2 given, and none is left for question 3, 'Three?' (key 'b', round 2)")
    assert "1. 'One?' (key 'elicit-" in found and "2. 'Two?' (key 'a', round 2)" in found
    with pytest.raises(AssertionError, match=r"too few answers: 0 given.*question 1, 'One.*it is the first"):
        played(rehearse, two)


def test_too_many_answers(rehearse: Rehearse) -> None:
    found = caught(rehearse, two, YES, YES, YES, "decline", "cancel")
    assert found.startswith("too many answers: 2 of 5 were not asked for, 'decline' first; asked were ['One?', 'Two?'")
    assert found.endswith("the call came to 'yes yes yes'")


def test_answers_of_the_wrong_kind(rehearse: Rehearse) -> None:
    assert "3 can't answer 'One?' (key" in (found := caught(rehearse, two, 3)) and "give a dict" in found
    assert "asks 'a', 'b', but together(...) answers 'a', 'c'" in caught(rehearse, two, YES, together(a=YES, c=YES))
    assert "asks 'elicit-" in caught(rehearse, two, together(a=YES, b=YES))
    assert "is asked in one round with the one before it" in caught(rehearse, two, YES, YES, together(b=YES))


def test_a_function_that_fails(rehearse: Rehearse) -> None:
    """Its own exception reaches the test, through whatever the lifespan is."""

    def wrong(asked: AskedQuestion) -> Any:
        raise LookupError(f"nothing for {asked.message}")

    with pytest.raises(LookupError, match=r"nothing for One\?"):
        played(rehearse, two, answers=wrong)


def test_handlers_that_are_not_marked(rehearse: Rehearse) -> None:
    async def plain(ctx: Context) -> str:
        return said(await ctx.elicit("Well?", Word))

    async def fickle(ctx: Context) -> str:
        return said(await ctx.elicit(f"{random.random()}", Word))

    server = server_of("rehearsed", plain, fickle)
    with pytest.raises(ValueError, match=r"tool 'plain' is not marked @framehold.reentrant: it would be"):
        rehearse(server, "plain", answers=[YES])
    assert rehearse(server, "plain", answers=[YES], assume_reentrant=True).text == "yes"
    with pytest.raises(AssertionError, match="differs under replay"):
        rehearse(server, "fickle", answers=[YES], assume_reentrant=True)
    with pytest.raises(TypeError):
        rehearse(object(), "plain")


def test_handlers_that_are_not_there(rehearse: Rehearse) -> None:
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
    assert "4 failed, 2 passed" in shown, shown + done.stderr
    # Its own lines: with CI set, pytest's summary says all of it once more.
    failed = r"^E +framehold\.testing\.RehearsalFailed: the call differs under replay: question 1\.message is"
    assert len(re.findall(failed, shown, re.MULTILINE)) == 2
    assert '>       rehearse(mcp, "bad", answers=[{"word": "x"}])' in shown
    assert '>       await framehold.testing.rehearsed(mcp, "bad"' in shown
    assert "ValueError: there is no tool 'odd' here; nothing was run; there are 'good', 'bad'" in shown
    assert "KeyError: 'nothing'" in shown
    places = set(re.findall(r"^(\S+\.py):\d+: ", shown, re.MULTILINE))
    assert places == {"test_user.py"} and "During handling" not in shown and "Traceback" not in shown, shown


def test_the_type_of_the_fixture_has_its_parameters() -> None:
    _, *typed = inspect.signature(Rehearse.__call__).parameters.values()
    assert typed == list(inspect.signature(rehearsed).parameters.values())


def test_pytest_is_not_needed_to_import_it() -> None:
    code = "import sys; sys.modules['pytest'] = None; import framehold.testing as t; assert not hasattr(t, 'rehearse')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_chance_in_a_rehearsal() -> None:
    """It is the same in each way, as long as nothing is drawn again that was recorded."""
    one, other = Steady(b"seed", 1.0), Steady(b"seed", 1.0)
    first, second = one.draw("k"), one.draw("k")
    assert first != second != one.draw("j")
    assert [other.draw("k"), other.draw("k")] == [first, second] and one.draw("") != one.draw("") != other.draw("k")
    assert one.call() == other.call() != one.call() and len(one.call()) == 32
