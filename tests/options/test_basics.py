"""The two basic handlers that return their questions, in both eras, and what goes wrong with returned questions."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client, InputRequiredRoundsExceededError, MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ElicitResult, InputRequiredResult

import basic
import basic_multiround
import framehold
import measure
import option_h
import weather
from framehold.config import Settings
from tests.options.calling import Option, first_round, option, retried
from tests.tutorials.over_http import over_http
from tests.tutorials.person import Person, said

pytestmark = pytest.mark.anyio
each_era = pytest.mark.parametrize("era", measure.ERAS)


def accept(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


DECLINE = ElicitResult(action="decline")


@pytest.fixture(scope="module")
def greeting() -> Iterator[str]:
    with over_http(importlib.reload(basic).app) as url:
        yield url


@pytest.fixture(scope="module")
def items() -> Iterator[str]:
    with over_http(importlib.reload(basic_multiround).app) as url:
        yield url


async def call(url: str, era: str, tool: str, answers: list[ElicitResult], **arguments: Any) -> tuple[str, list[str]]:
    """What the tool says, and what its user was asked."""
    someone = Person(answers)
    async with Client(url, mode=measure.ERAS[era], elicitation_callback=someone.elicit) as client:
        return said(await client.call_tool(tool, arguments)), someone.asked


@each_era
async def test_basic_asks_once(greeting: str, era: str) -> None:
    assert await call(greeting, era, "greet", [accept(name="Ada")]) == ("Hello, Ada.", ["Your name?"])
    assert await call(greeting, era, "greet", [DECLINE]) == ("Hello, stranger.", ["Your name?"])


WHY, WHICH = "Why is #4522 closed?", "Which item does #4522 duplicate?"
ROUNDS = {
    "one round": ([accept(resolution="Fixed")], "#4522 is Closed: Fixed.", [WHY]),
    "two rounds": (
        [accept(resolution="Duplicate"), accept(original=4301)],
        "#4522 is Closed: Duplicate of #4301.",
        [WHY, WHICH],
    ),
    "declined": ([DECLINE], "#4522 was not closed: it takes a resolution.", [WHY]),
    "declined in the second": (
        [accept(resolution="Duplicate"), DECLINE],
        "#4522 was not closed: a duplicate takes its original.",
        [WHY, WHICH],
    ),
    "not one of the choices": ([accept(resolution="Bored")], "#4522 was not closed: it takes a resolution.", [WHY]),
}


@each_era
@pytest.mark.parametrize(("answers", "sees", "asked"), ROUNDS.values(), ids=ROUNDS)
async def test_basic_multiround_carries_what_it_learned(
    items: str, era: str, answers: list[ElicitResult], sees: str, asked: list[str]
) -> None:
    basic_multiround.ITEMS[4522] = "Active"
    found = await call(items, era, "update_work_item", list(answers), item=4522, state="Closed")
    assert found == (sees, asked)
    assert basic_multiround.ITEMS[4522] == ("Closed" if "is Closed" in sees else "Active")
    # Where no rule asks, nothing is asked.
    asks_nothing = await call(items, era, "update_work_item", [], item=4522, state="Active")
    assert asks_nothing == ("#4522 is Active.", [])


async def test_a_state_sent_to_another_tool_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each option that has one, to a tool of the same fleet under another name."""
    monkeypatch.setenv("FRAMEHOLD_KEYS", "s" * 64)
    for way in ("F", "G", "H", "H, replay"):
        with option(way) as at:
            asked = await first_round(at, way)
            other: MCPServer[Any] = MCPServer("weather")
            other.add_tool(importlib.reload(option_h).weather, name="forecast")
            app = framehold.asgi(other)
            with over_http(app) as url:
                result = await retried(Option(url, app), way, asked, tool="forecast")
        assert result == "-32602: Invalid or expired requestState"
        assert weather.AUDIT.count(way) <= 1


async def test_a_token_is_not_taken_by_another_option_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Same keys, server and tool; its code is another one. Nothing that ran is run again."""
    monkeypatch.setenv("FRAMEHOLD_KEYS", "o" * 64)
    with option("F") as f, option("G, replay") as g, option("H") as h, option("H, replay") as replayed:
        for at, to, says in (
            (h, f, "This call was lost: the store of this node has no trace of it"),
            (replayed, f, "not marked as safe to be entered again; nothing was started"),
            (replayed, g, "came to something else than it did before. Its answers were not taken"),
        ):
            before = len(weather.AUDIT)
            asked = await first_round(at, "anywhere")
            assert says in await retried(to, "anywhere", asked)
            assert len(weather.AUDIT) == before + 1


@pytest.mark.parametrize("way", ["A", "G", "H"])
async def test_a_client_without_the_capability_gets_a_clear_error(way: str) -> None:
    """Of its own SDK where the handler returned its question, of ours where it awaited it; never a hang."""
    with option(way) as at:
        async with Client(at.url) as client:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("weather", {"location": "nowhere"})
        assert refused.value.error.code == (-32600 if way == "A" else -32021)
        assert "licitation" in str(refused.value)
        async with Client(at.url, mode="legacy") as client:
            try:
                result = said(await client.call_tool("weather", {"location": "nowhere"}))
            except MCPError as error:
                result = str(error)
        assert "licitation" in result, result
        assert at.held == 0


def stubborn() -> MCPServer[Any]:
    """Tools that are never content: by returning, by steps, by awaiting."""
    server: MCPServer[Any] = MCPServer("stubborn")
    built = framehold.ToolBuilder("steps")

    @built.step
    async def step(ctx: Context) -> InputRequiredResult:
        return weather.question()

    @built.end
    async def end(step: str) -> str:
        return step

    @server.tool()
    async def returns(ctx: Context) -> str | InputRequiredResult:
        return weather.question()

    @server.tool()
    async def awaits(ctx: Context) -> str:
        while True:
            await ctx.elicit(weather.QUESTION, weather.Units)

    server.add_tool(built.build())
    return server


async def test_more_rounds_than_the_client_goes_along_is_its_error() -> None:
    with over_http(framehold.asgi(stubborn())) as url:
        for tool in ("returns", "steps", "awaits"):
            someone = Person([accept(units="celsius")] * 4)
            async with Client(url, elicitation_callback=someone.elicit, input_required_max_rounds=3) as client:
                with pytest.raises(InputRequiredRoundsExceededError):
                    await client.call_tool(tool, {})
            assert len(someone.asked) == 3


async def test_more_rounds_than_the_shim_goes_along_is_a_tools_error() -> None:
    """A client of 2025 has no limit of its own: its request would stay open for ever."""
    with over_http(framehold.asgi(stubborn(), Settings(node_id="few"), max_rounds=3)) as url:
        found, asked = await call(url, "2025", "returns", [accept(units="celsius")] * 4)
    assert found.startswith("error: ") and "3 rounds (FRAMEHOLD_MAX_ROUNDS)" in found
    assert len(asked) == 3
