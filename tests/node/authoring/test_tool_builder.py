"""A tool out of steps and an end: what it asks, what it passes on, and that the end runs once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import (
    InputRequiredResult,
)

import framehold
from framehold.authoring import functions
from framehold.sdk.marks import marks_of
from framehold.testing import rehearsed
from tests.kit.effects import completed, each_way
from tests.kit.questions import asking
from tests.kit.serving import Word, said, serving
from tests.node.wires.official import hears

pytestmark = pytest.mark.anyio


class Travel:
    """A tool of two steps, one of which asks twice, and what its end did."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.built = framehold.ToolBuilder("travel")

        @self.built.step
        async def place(person: str, ctx: Context) -> str | InputRequiredResult:
            found = framehold.accepted_content(ctx, "place", Word)
            return asking(place=f"Where to, {person}?") if found is None else found.word

        @self.built.step
        async def days(place: str, context: Context) -> tuple[str, str] | InputRequiredResult:
            first = framehold.accepted_content(context, "from", Word)
            last = framehold.accepted_content(context, "to", Word)
            if first is None or last is None:
                return asking(**{"from": f"{place} from?", "to": f"{place} to?"})
            return first.word, last.word

        @self.built.end
        async def book(person: str, place: str, days: tuple[str, str], nights: int = 2) -> str:
            """Book a journey."""
            self.ran.append(place)
            return f"{person} {place} {'-'.join(days)} {nights}"


@each_way
async def test_steps_ask_in_turn_and_the_end_runs_once(settings: dict[str, Any]) -> None:
    travel = Travel()
    async with serving(travel.built.build(), **settings) as caller:
        reply = await completed(caller, "travel", person="Ada")
        assert reply.text == "Ada <Where to, Ada?> <<Where to, Ada?> from?>-<<Where to, Ada?> to?> 2"
        assert len(caller.runtime.table) == 0
        counts = caller.runtime.counts
        assert (counts["resumed"], counts["rebuilt"]) == (2, 0) if not settings else counts["rebuilt"] == 2
    assert travel.ran == ["<Where to, Ada?>"]


@pytest.mark.parametrize("settings", [{}, {"rehearse": True}], ids=["held", "rebuilt"])
async def test_duplicates_of_the_last_retry_do_not_run_the_end_again(settings: dict[str, Any]) -> None:
    travel = Travel()
    async with serving(travel.built.build(), **settings) as caller:
        first = await caller.call("travel", arguments={"person": "Ada"})
        second = await caller.retry("travel", first.token, first.accept(word="Bath"), arguments={"person": "Ada"})
        last = second.token, second.accept(word="May")
        together = await asyncio.gather(*(caller.retry("travel", *last, arguments={"person": "Ada"}) for _ in range(4)))
        late = await caller.retry("travel", *last, arguments={"person": "Ada"})
        assert {reply.text for reply in (*together, late)} == {"Ada Bath May-May 2"}
    assert travel.ran == ["Bath"]


async def test_what_is_built_looks_like_a_tool_that_was_written() -> None:
    travel, server = Travel(), MCPServer[Any]("stage")
    tool = travel.built.build(strategy="replay", ttl=5)
    server.add_tool(tool)
    (shown,) = await server.list_tools()
    assert (shown.name, shown.description) == ("travel", "Book a journey.")
    assert shown.input_schema["required"] == ["person"]
    assert {name: item["type"] for name, item in shown.input_schema["properties"].items()} == {
        "person": "string",
        "nights": "integer",
    }
    assert shown.output_schema is not None and shown.output_schema["properties"]["result"]["type"] == "string"
    marks = marks_of(tool)
    assert (marks.reentrant, marks.strategy, marks.ttl) == (True, "replay", 5.0)
    assert marks_of(travel.built.build()).strategy is None


@each_way
async def test_a_step_may_return_its_question_or_await_it(settings: dict[str, Any]) -> None:
    """Functions that are not async serve as well; one without a context asks by name."""
    built, ran = framehold.ToolBuilder("mixed"), list[str]()

    @built.step
    def word(ctx: Context) -> str | InputRequiredResult:
        found = framehold.accepted_content(ctx, "word", Word)
        return asking(word="which?") if found is None else found.word

    @built.step
    async def one(ctx: Context) -> str:
        return said(await ctx.elicit("one?", Word))

    @built.step
    async def two(one: str) -> str:
        return said(await framehold.ask("two", f"two {one}", Word))

    @built.end
    def shout(word: str, one: str, two: str, ctx: Context) -> str:
        ran.append(word)
        return f"{word} {one} {two}! {framehold.era(ctx)}"

    async with serving(built.build(), **settings) as caller:
        assert (await completed(caller, "mixed")).text == "<which?> <one?> <two <one?>>! modern"
    assert ran == ["<which?>"]


@each_way
async def test_a_question_can_be_asked_again_under_its_key(settings: dict[str, Any]) -> None:
    """A step reads the answers of its last round, and no other step's."""
    seen, built = list[str](), framehold.ToolBuilder("again")

    @built.step
    async def first(ctx: Context) -> str | InputRequiredResult:
        view = framehold.input_response(ctx, "word")
        return asking(word="first?") if view.kind == "missing" else "known"

    @built.step
    async def patient(ctx: Context) -> int | InputRequiredResult:
        view = framehold.input_response(ctx, "word")
        if view.kind == "elicit" and view.content == {"word": "third"}:
            return 3
        seen.append(view.kind)
        return asking(word="Again?")

    @built.end
    async def tell(patient: int) -> str:
        return f"after {patient}"

    async with serving(built.build(), **settings) as caller:
        reply = await caller.call("again")
        for word in ("zeroth", "first", "third"):
            reply = await caller.retry("again", reply.token, {"word": {"action": "accept", "content": {"word": word}}})
        assert reply.text == "after 3"
    assert seen[:2] == ["missing", "elicit"] if not settings else seen[0] == "missing"


async def test_a_client_of_2025_is_asked_over_its_session() -> None:
    travel = Travel()
    async with serving(travel.built.build()) as caller:
        reply = await hears(caller.url, "legacy", "travel", person="Ada", nights=3)
    assert reply == "Ada <Where to, Ada?> <<Where to, Ada?> from?>-<<Where to, Ada?> to?> 3"
    assert travel.ran == ["<Where to, Ada?>"]


# what goes wrong


def _end_that(asks_by: str) -> tuple[framehold.ToolBuilder, list[BaseException]]:
    built, result = framehold.ToolBuilder("rash"), list[BaseException]()

    @built.end
    async def act(ctx: Context):  # type: ignore[no-untyped-def]  # that is the point
        if asks_by == "returning":
            return asking(word="Now?")
        try:
            await ctx.elicit("Now?", Word)
        except framehold.AskError as error:
            result.append(error)
            raise

    return built, result


async def test_an_end_that_asks_by_await_is_stopped() -> None:
    built, result = _end_that("awaiting")
    async with serving(built.build()) as caller:
        reply = await caller.call("rash")
    assert reply.result["isError"] is True
    assert "inside the effect of once('act')" in str(result[0]) and "ask before the effect" in str(result[0])


async def test_an_end_that_asks_by_returning_is_stopped() -> None:
    """Also where its annotation did not say so beforehand; nobody is asked, on either wire."""
    built, _ = _end_that("returning")
    async with serving(built.build()) as caller:
        assert (await caller.call("rash")).result["isError"] is True
        assert "Error executing tool rash" in await hears(caller.url, "legacy", "rash")
    server = MCPServer[Any]("stage")
    server.add_tool(built.build())
    with pytest.raises(AssertionError, match="the end 'act' returned an InputRequiredResult; nothing was asked"):
        await rehearsed(server, "rash")


async def test_a_step_that_returns_a_state_is_stopped() -> None:
    built = framehold.ToolBuilder("states")

    @built.step
    async def step() -> InputRequiredResult:
        return InputRequiredResult(request_state="mine")

    @built.end
    async def end() -> str:
        return ""

    server = MCPServer[Any]("stage")
    server.add_tool(built.build())
    with pytest.raises(AssertionError, match="the step 'step' returned a request_state, which a step has no use for"):
        await rehearsed(server, "states")


async def test_outside_an_attached_server_it_says_so() -> None:
    with pytest.raises(framehold.NotInCall, match="the tool 'travel' was used outside a call"):
        await Travel().built.build()(person="Ada")


async def test_an_end_that_may_have_run_says_so() -> None:
    """Its intent is recorded, its result is not: it is not run again, and its client learns that nobody knows."""
    ran, built = list[str](), framehold.ToolBuilder("doubtful")

    @built.end
    async def act() -> str:
        ran.append("act")
        raise asyncio.CancelledError

    async with serving(built.build()) as caller:
        reply = await caller.call("doubtful")
    assert "act was begun and its result is not known: it may have run, or may yet run" in reply.text
    assert ran == ["act"]


def builder() -> framehold.ToolBuilder:
    return framehold.ToolBuilder("bad")


async def end(location: str) -> str:
    return ""


async def asking_end(location: str) -> str | InputRequiredResult:
    return ""


async def units(location: str) -> str:
    return ""


async def location(location: str) -> str:
    return ""


async def early(units: str) -> str:
    return ""


async def rest(*words: str) -> str:
    return ""


async def numbered(location: int) -> str:
    return ""


async def clash(units: Context) -> str:
    return ""


async def misspelt(location: str, unit: str) -> str:
    return ""


def _made(*steps: Any, ends: Any = (end,)) -> Callable[[], object]:
    def make() -> object:
        built = builder()
        for step in steps:
            built.step(step)
        for one in ends:
            built.end(one)
        return built.build()

    return make


WRONG = {
    "a step name twice": (_made(units, units), ValueError, "the step 'units' of the tool 'bad' is there already"),
    "no end": (_made(units, ends=()), ValueError, "the tool 'bad' has no end; nothing was built"),
    "two ends": (_made(ends=(end, units)), ValueError, "ends with 'end'; 'units' was not added; a tool has one end"),
    "an end that says it asks": (_made(ends=(asking_end,)), TypeError, "'asking_end', may not ask"),
    "a step named like its argument": (_made(location), ValueError, "takes 'location', which is itself, so nothing"),
    "a step named like an earlier one's argument": (
        _made(units, location),
        ValueError,
        "the step 'units' of the tool 'bad' takes 'location', which is a step that comes later",
    ),
    "a step before what it needs": (_made(early, units), ValueError, "takes 'units', which is a step that comes later"),
    "a parameter without a name": (_made(rest), TypeError, "'words', which is variadic positional: nothing provides"),
    "an argument of two types": (_made(numbered), ValueError, "takes location: int as location: str"),
    "a step that the end misspells": (_made(units, ends=(misspelt,)), ValueError, "'misspelt' takes 'unit', which no"),
    "a step that a later step misspells": (_made(units, misspelt), ValueError, "'misspelt' takes 'unit', which no"),
    "a context named like a step": (_made(units, clash), ValueError, "'units' names the context in one step"),
    "no function": (_made("units"), TypeError, "a step of the tool 'bad' must be a function, not str"),
    "a function without a name": (_made(lambda: 1), TypeError, "must have a name"),
    "no name": (lambda: framehold.ToolBuilder(""), TypeError, "ToolBuilder takes the tool's name"),
}


@pytest.mark.parametrize(("make", "kind", "says"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_built_is_refused(make: Callable[[], object], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        make()


async def test_a_step_whose_data_nobody_takes_is_fine() -> None:
    """Also where an argument has almost its name, if the step takes it itself, or says that it has no data; or if a
    later function takes its data."""
    guards, turns = framehold.ToolBuilder("guards"), framehold.ToolBuilder("turns")

    @guards.step
    async def places(place: str) -> str:
        return place

    @guards.step
    async def sure() -> InputRequiredResult | None: ...

    @guards.end
    async def guarded(place: str, surely: str) -> str:
        return f"{place} {surely}"

    @turns.step
    async def units() -> str:
        return "celsius"

    @turns.end
    async def turned(unit: str, units: str) -> str:
        return f"{unit} in {units}"

    async with serving(guards.build(), turns.build()) as caller:
        reply = await caller.call("guards", arguments={"place": "Bath", "surely": "yes"})
        assert reply.text == "Bath yes"
        reply = await caller.call("turns", arguments={"unit": "4"})
        assert reply.text == "4 in celsius"


async def test_arguments_may_be_named_like_those_of_once() -> None:
    built = framehold.ToolBuilder("named")

    @built.end(idempotent=True)
    async def tell(key: str, fn: str, idempotent: bool) -> str:
        return f"{key} {fn} {idempotent}"

    async with serving(built.build()) as caller:
        reply = await caller.call("named", arguments={"key": "k", "fn": "f", "idempotent": False})
    assert reply.text == "k f False"


@pytest.mark.parametrize("idempotent", [False, True])
async def test_whether_the_end_is_idempotent_is_told_to_once(monkeypatch: pytest.MonkeyPatch, idempotent: bool) -> None:
    result, really, built = list[tuple[str, bool]](), functions.once, framehold.ToolBuilder("sure")

    async def once(key: str, fn: Any, **text: Any) -> Any:
        result.append((key, text["idempotent"]))
        return await really(key, fn, **text)

    @built.end(idempotent=idempotent)
    async def act() -> str:
        return "done"

    monkeypatch.setattr(functions, "once", once)
    async with serving(built.build()) as caller:
        assert (await caller.call("sure")).text == "done"
    assert result == [("act", idempotent)]
