"""What the end of a built tool gives its client, through `once`: what a tool that was written by hand would; and what a
built tool says of its arguments and its code."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, TextContent
from pydantic import BaseModel, Field

import framehold
from framehold.code.codes import Codes, Registered
from tests.kit.client import Reply
from tests.kit.effects import completed, each_way
from tests.kit.questions import asking
from tests.kit.serving import Word, serving

pytestmark = pytest.mark.anyio


class Booked(BaseModel):
    nights: int


@dataclasses.dataclass
class Bill:
    nights: int


async def model(nights: int = 1) -> Booked:
    return Booked(nights=nights)


async def data(nights: int = 1) -> Bill:
    return Bill(nights)


async def nothing(nights: int = 1) -> None:
    return None


async def whole(nights: int = 1) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text="t")], structured_content={"a": nights})


async def picture(nights: int = 1) -> Image:
    return Image(data=b"\x89PNG", format="png")


async def listed(nights: int = 1) -> list[Booked]:
    return [Booked(nights=nights)]


def plain(nights: int = 1) -> dict[str, int]:
    return {"nights": nights}


async def refuses(nights: int = 1) -> str:
    raise ToolError("no rooms left")


def refuses_plainly(nights: int = 1) -> str:
    raise ToolError("no rooms left")


async def crashes(nights: int = 1) -> str:
    raise KeyError("a secret")


async def protests(nights: int = 1) -> str:
    raise MCPError(-32001, "no", {"why": "x"})


ENDS: list[Callable[..., Any]] = [
    model,
    data,
    nothing,
    whole,
    picture,
    listed,
    plain,
    refuses,
    refuses_plainly,
    crashes,
    protests,
]


def built(end: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """A tool that asks once and ends so."""
    tool = framehold.ToolBuilder(name or end.__name__)

    @tool.step
    async def word(ctx: Context) -> str | InputRequiredResult:
        found = framehold.accepted_content(ctx, "word", Word)
        return asking(word="Which?") if found is None else found.word

    tool.end(end)
    return tool.build()


def outcome(reply: Reply) -> str:
    """What a client is told, whatever the tool's name and the request's."""
    result = {name: value for name, value in reply.message.items() if name != "id"}
    return str(result).replace("built_", "")


@each_way
async def test_a_client_hears_of_an_end_what_it_would_of_a_tool(settings: dict[str, Any]) -> None:
    """Results of every kind, and errors: those that are meant for it with their text, others without; the schemas are
    alike too."""
    tools = [tool for end in ENDS for tool in (framehold.reentrant(end), built(end, f"built_{end.__name__}"))]
    async with serving(*tools, **settings) as caller:
        shown = {tool.name: tool for tool in await caller.server.list_tools()}
        for end in ENDS:
            by_hand, made = shown[end.__name__], shown[f"built_{end.__name__}"]
            assert _untitled(made.output_schema) == _untitled(by_hand.output_schema)
            assert _untitled(made.input_schema) == _untitled(by_hand.input_schema)
            assert outcome(await completed(caller, made.name)) == outcome(await caller.call(by_hand.name)), end.__name__


def _untitled(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if schema is None else {name: value for name, value in schema.items() if name != "title"}


@pytest.mark.parametrize("end", [refuses, refuses_plainly])
async def test_an_ends_own_error_needs_no_pickle(end: Callable[..., Any]) -> None:
    async with serving(built(end), pickle=False) as caller:
        result = await completed(caller, end.__name__)
    assert result.text == f"Error executing tool {end.__name__}: no rooms left"


async def large(nights: int = 1) -> str:
    return "x" * 5000


@pytest.mark.parametrize(("end", "settings"), [(large, {"max_value": 1000}), (model, {"pickle": False})])
async def test_an_end_whose_result_is_not_kept_says_that_it_ran(
    end: Callable[..., Any], settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Its effect is done. The log says which limit was met."""
    async with serving(built(end), **settings) as caller:
        with caplog.at_level(logging.ERROR, "framehold.authoring.tool_steps"):
            result = await completed(caller, end.__name__)
    assert f"{end.__name__} ran, and its result can't be kept" in result.text and "not run again" in result.text
    assert "FRAMEHOLD_MAX_VALUE" in caplog.text or "FRAMEHOLD_PICKLE is off" in caplog.text


# arguments


async def test_arguments_are_described_as_they_were_written() -> None:
    """Also where two functions describe one, each in its own words that are the same."""
    tool = framehold.ToolBuilder("described")

    @tool.step
    async def place(
        city: Annotated[str, Field(description="Where", min_length=2)],
        nights: int = Field(3, ge=1),
        *,
        quiet: bool = True,
    ) -> str:
        return city

    @tool.end
    async def book(
        place: str, city: Annotated[str, Field(description="Where", min_length=2)], nights: int = Field(3, ge=1)
    ) -> str:
        return f"{place} {city} {nights}"

    async def described(
        city: Annotated[str, Field(description="Where", min_length=2)],
        nights: int = Field(3, ge=1),
        *,
        quiet: bool = True,
    ) -> str:
        return ""

    server = MCPServer[Any]("described")
    server.add_tool(tool.build(), name="built")
    server.add_tool(described)
    made, by_hand = await server.list_tools()
    assert made.input_schema == by_hand.input_schema
    async with serving(tool.build()) as caller:
        assert (await caller.call("described", arguments={"city": "Bath"})).text == "Bath Bath 3"
        assert "at least 2 characters" in (await caller.call("described", arguments={"city": "B"})).text


# code


def _changing(units: str, end: str = "done") -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(f"async def step():\n return {units!r}\nasync def act(step: str) -> str:\n return {end!r}", names)
    tool = framehold.ToolBuilder("changing")
    tool.step(names["step"])
    tool.end(names["act"])
    return tool.build()


def test_the_code_of_a_built_tool_is_that_of_its_steps_too() -> None:
    """A call that began with one is not carried on by the other."""

    def digest(units: str, end: str = "done") -> str:
        return Codes().of(Registered(_changing(units, end), {}, "tools/call", "it", True)).digest

    assert digest("metric") == digest("metric") != ""
    assert len({digest("metric"), digest("imperial"), digest("metric", "other")}) == 3
