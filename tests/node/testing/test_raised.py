"""A rehearsal of a handler that fails is no green test, unless the test says that it is to fail."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastmcp import Context as FastContext
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError as FastToolError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolResult, ElicitResult, TextContent
from pydantic import BaseModel, Field

import framehold
import framehold.testing
from framehold.testing import RehearsalFailed, Rehearse
from tests.kit.effects import raise_first_from_last
from tests.kit.serving import Word, said, server_of
from tests.node.testing.marked import caught

rehearse = framehold.testing.rehearse
YES = {"word": "yes"}


@framehold.reentrant
async def crashes(ctx: Context) -> str:
    answer: Any = await ctx.elicit("Well?", Word)
    return str(answer.data.word)


@framehold.reentrant
async def refuses(item: str, ctx: Context) -> str:
    await ctx.elicit("Well?", Word)
    raise ToolError(f"there is no {item}")


@framehold.reentrant
async def speaks_protocol(ctx: Context) -> str:
    raise MCPError(INVALID_PARAMS, "no such thing")


@framehold.reentrant
async def returns_an_error(ctx: Context) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text="sold out")], is_error=True)


SERVER = server_of("raising", crashes, refuses, speaks_protocol, returns_an_error)


@SERVER.prompt()
@framehold.reentrant
async def poem(ctx: Context) -> str:
    raise LookupError("no rhyme")


@SERVER.resource("note://{name}")
@framehold.reentrant
async def note(name: str, ctx: Context) -> str:
    raise ResourceError(f"no note {name}")


def failed(rehearse: Rehearse, *call: Any, **options: Any) -> str:
    with pytest.raises(RehearsalFailed) as failure:
        rehearse(SERVER, *call, **options)
    return str(failure.value)


@pytest.mark.parametrize("more", [[], [YES]], ids=["no answer left", "answers left"])
def test_a_tool_that_crashes(more: list[Any], rehearse: Rehearse) -> None:
    """The exception is named with its line, and the question before it; its traceback begins in the author's code.
    Answers that are left because of it are not the failure."""
    with pytest.raises(RehearsalFailed) as failure:
        rehearse(SERVER, "crashes", answers=["decline", *more])
    found, cause = str(failure.value), failure.value.__cause__
    assert found.startswith("the handler raised AttributeError: 'DeclinedElicitation' object has no attribute 'data'")
    assert ":crashes:" in found and "after question 1, 'Well?'" in found
    assert found.endswith("if the test wants this, say raises=AttributeError")
    assert isinstance(cause, AttributeError) and cause.__traceback__ is not None
    assert cause.__traceback__.tb_frame.f_code.co_name == "crashes"


@pytest.mark.parametrize(
    ("call", "options", "error", "text"),
    [
        ("refuses", {"arguments": {"item": "tea"}, "answers": [YES]}, ToolError, "there is no tea"),
        ("speaks_protocol", {}, MCPError, "no such thing"),
        ("poem", {"kind": "prompt"}, LookupError, "no rhyme"),
        ("note://x", {"kind": "resource"}, ResourceError, "no note x"),
    ],
)
def test_each_kind_of_error(
    call: str, options: dict[str, Any], error: type[Exception], text: str, rehearse: Rehearse
) -> None:
    """An error that the client is told of, too: a test that looks at no result would pass."""
    assert failed(rehearse, call, **options).startswith(f"the handler raised {error.__name__}: {text}")
    result = rehearse(SERVER, call, **options, raises=error)
    assert isinstance(result.raised, error)
    if call == "refuses":
        assert isinstance(result.result, CallToolResult) and result.result.is_error
    else:
        assert result.result is None and result.error is not None and result.error.code < 0
        assert result.text == result.error.message


@pytest.mark.timeout(20)
def test_a_ring_of_causes(rehearse: Rehearse) -> None:
    """A handler that raises its first error again, from its last one, makes one. Each of them is looked at."""

    @framehold.reentrant
    async def ring(ctx: Context) -> str:
        raise_first_from_last()

    server = server_of("ring", ring)
    with pytest.raises(RehearsalFailed, match="first try"):
        rehearse(server, "ring", raises=KeyError)
    assert isinstance(rehearse(server, "ring", raises=OSError).raised, ValueError)


def test_another_error_than_the_test_wants(rehearse: Rehearse) -> None:
    """It fails, as an error that does not come does. One that is returned was not raised, and where the arguments do
    not fit the handler was never entered."""
    found = failed(rehearse, "crashes", answers=["decline"], raises=(KeyError, LookupError))
    assert found.startswith("the handler raised AttributeError: ") and "and not KeyError or LookupError" in found
    found = failed(rehearse, "crashes", answers=[YES], raises=KeyError)
    assert found == "the handler raised nothing, and the test wants KeyError; the call came to 'yes'"
    result = rehearse(SERVER, "crashes", answers=["decline"], raises=(KeyError, AttributeError))
    assert result.text == "Error executing tool crashes" and isinstance(result.raised, AttributeError)
    assert rehearse(SERVER, "returns_an_error").text == "sold out"
    found = failed(rehearse, "refuses", {"itm": "tea"})
    assert found.startswith("the call failed with ValidationError: ") and "item" in found


@pytest.mark.parametrize(("late", "text"), [(False, r"does not ask 'Well.*"), (True, r"differs under replay: .*")])
def test_a_handler_that_raises_when_it_is_entered_again(late: bool, text: str, rehearse: Rehearse) -> None:
    entered: list[int] = []

    async def second(ctx: Context) -> str:
        answer = said(await ctx.elicit("Well?", Word)) if late else ""
        entered.append(1)
        if len(entered) > 1:
            raise LookupError("again")
        return answer or said(await ctx.elicit("Well?", Word))

    assert re.search(f"{text}; the handler raised LookupError: again", caught(rehearse, second, YES))


def test_arguments_in_another_order(rehearse: Rehearse) -> None:
    @framehold.reentrant
    async def elicits(ctx: Context) -> str:
        return said(await ctx.elicit(Word, "ok?"))  # type: ignore[arg-type]  # that is the point

    @framehold.reentrant
    async def asks(ctx: Context) -> str:
        return said(await framehold.ask("k", Word, "ok?"))  # type: ignore[arg-type]  # that is the point

    server = server_of("swapped", elicits, asks)
    with pytest.raises(RehearsalFailed, match=r"raised TypeError: ctx.elicit\(message, schema\): .* comes first"):
        rehearse(server, "elicits", answers=[YES])
    with pytest.raises(RehearsalFailed, match=r"misuses framehold: framehold.ask\(key, message, schema\): .* first"):
        rehearse(server, "asks", answers=[YES])


# ---- a name of another kind


def test_the_kind_is_suggested(rehearse: Rehearse) -> None:
    def missing(name: str, **options: Any) -> str:
        with pytest.raises(ValueError) as failure:
            rehearse(SERVER, name, **options)
        return str(failure.value)

    assert missing("poem").endswith("; there is a prompt 'poem': say kind=\"prompt\"")
    assert missing("crashes", kind="prompt").endswith("; there is a tool 'crashes': leave out kind=\"prompt\"")
    assert missing("note://x").endswith("; there is a resource 'note://x': say kind=\"resource\"")
    assert "say kind" not in missing("nothing")


# ---- answers and forms


class Party(BaseModel):
    guests: int = Field(ge=1)
    mail: str = ""


@framehold.reentrant
async def invites(ctx: Context) -> str:
    try:
        answer = await ctx.elicit("Who comes?", Party)
    except ValueError:
        return "the handler deals with it"
    return answer.action


PARTIES: MCPServer[Any] = server_of("parties", invites)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"guest": 1}, "the form has no 'guest'; its fields are 'guests', 'mail'"),
        ({"guests": "three"}, "guests: 'three' is not of type 'integer'"),
        ({"guests": 0}, "guests: 0 is less than the minimum of 1"),
        ({"guests": 3, "name": "Ada"}, "the form has no 'name'"),
        ({}, "'guests' is a required property"),
    ],
)
def test_an_answer_that_does_not_match_its_form(answer: dict[str, Any], why: str, rehearse: Rehearse) -> None:
    with pytest.raises(RehearsalFailed) as failure:
        rehearse(PARTIES, "invites", answers=[answer])
    found = str(failure.value)
    assert found.startswith(f"{answer!r} does not match the form of 'Who comes?' (key ") and why in found
    assert "nothing was sent" in found and "ElicitResult" in found


def test_an_answer_that_is_sent_as_it_is(rehearse: Rehearse) -> None:
    wrong = ElicitResult(action="accept", content={"guests": "three"})
    assert rehearse(PARTIES, "invites", answers=[wrong]).text == "the handler deals with it"
    assert rehearse(PARTIES, "invites", answers=[Party(guests=2)]).text == "accept"
    assert rehearse(PARTIES, "invites", answers=[{"guests": 2}]).text == "accept"


def test_a_server_of_fastmcp(rehearse: Rehearse) -> None:
    server: FastMCP[Any] = FastMCP("fast")

    @server.tool
    @framehold.reentrant
    async def breaks(ctx: FastContext) -> str:
        raise LookupError("no such thing")

    @server.tool
    @framehold.reentrant
    async def declines(ctx: FastContext) -> str:
        raise FastToolError("not today")

    @server.prompt
    @framehold.reentrant
    async def verse(ctx: FastContext) -> str:
        raise LookupError("no rhyme")

    calls: dict[str, Any] = {"breaks": LookupError, "declines": FastToolError, "verse": LookupError}
    for name, error in calls.items():
        kind: Any = "prompt" if name == "verse" else "tool"
        with pytest.raises(RehearsalFailed, match=f"the handler raised {error.__name__}: .*{name}:"):
            rehearse(server, name, kind=kind)
        assert isinstance(rehearse(server, name, kind=kind, raises=error).raised, error)
