"""What a node of `framehold up` tells of each round of its calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel

import framehold
from framehold.config import Settings
from framehold_cli.serve import round_line
from framehold_cli.serve.round_line import MARK, RoundLine
from framehold_cli.serve.rounds import MAX_QUESTION_CHARACTERS, tell_of_rounds
from tests.kit.client import Caller
from tests.kit.nodes import KEY, served
from tests.kit.processes import until

pytestmark = pytest.mark.anyio
SECRET = "nobody else's business"


class Word(BaseModel):
    word: str


def server(began: asyncio.Event) -> MCPServer:
    """A server whose tools end in each way. `began` is set when the tool `waits` runs."""
    mcp: MCPServer = MCPServer("rounds")

    @mcp.tool()
    async def asks(ctx: Context, text: str = "Which word?") -> str:
        one, _ = await asyncio.gather(ctx.elicit(text, Word), ctx.elicit("And?", Word))
        return f"{one.action} {SECRET}"

    @mcp.tool()
    async def raises(ctx: Context) -> str:
        await ctx.elicit("Which word?", Word)
        raise ValueError(SECRET)

    @mcp.tool()
    async def returns() -> InputRequiredResult | str:
        params = ElicitRequestFormParams(message="Returned?", requested_schema={"type": "object", "properties": {}})
        return InputRequiredResult(input_requests={"q": ElicitRequest(params=params)}, request_state="s")

    @mcp.tool()
    async def waits(ctx: Context) -> str:
        began.set()
        await asyncio.Event().wait()
        return ""

    @mcp.resource("shop://hours")
    async def hours() -> str:
        return SECRET

    return mcp


class Reply:
    """A node with the observer, and the lines that it has written."""

    def __init__(self, url: str, lines: list[str], began: asyncio.Event) -> None:
        self.url, self.lines, self.began = url, lines, began

    @property
    def told(self) -> list[RoundLine]:
        found = [round_line.load(line) for line in self.lines]
        return [line for line in found if line is not None]

    def last(self) -> RoundLine:
        """The newest line, which has all fields that depend on the moment."""
        assert all(line.startswith(MARK) and "\n" not in line for line in self.lines)
        assert SECRET not in "".join(self.lines)
        line = self.told[-1]
        assert line.node == "n1" and len(line.call) == 8 and line.seconds > 0
        return line


@pytest.fixture
async def node() -> AsyncIterator[Reply]:
    lines: list[str] = []
    began = asyncio.Event()
    app = framehold.asgi(server(began), Settings(keys=(KEY,), node_id="n1"))
    tell_of_rounds(app.attached, "n1", lines.append)
    async with served(app) as url:
        yield Reply(url, lines, began)


async def test_rounds_that_ask_and_finish(node: Reply) -> None:
    """The first question's text is told, cut where it is long. No answer and no result is."""
    async with Caller(node.url) as caller:
        text = "Which word" + "?" * 80
        asked = await caller.call("asks", arguments={"text": text})
        line = node.last()
        assert (line.tool, line.how, line.before, line.more) == ("asks", "parked", "", 1)
        assert line.asked.startswith("Which word?") and len(line.asked) == MAX_QUESTION_CHARACTERS
        await caller.retry("asks", asked.token, asked.accept(word=SECRET), arguments={"text": text})
        line = node.last()
        assert (line.how, line.before, line.asked, line.error) == ("finished", "resumed", "", "")
        assert len(node.lines) == 2 and node.told[0].call == line.call


async def test_a_round_that_fails_names_the_exception_and_its_place(node: Reply) -> None:
    async with Caller(node.url) as caller:
        asked = await caller.call("raises")
        await caller.retry("raises", asked.token, asked.accept(word="x"))
        line = node.last()
        assert (line.how, line.error) == ("failed", "ValueError")
        assert line.place.startswith("tests.cli.serve.test_rounds:server.<locals>.raises:")
        assert (await caller.call("nowhere")).message
        assert node.last().how == "failed"


async def test_questions_that_a_handler_returns(node: Reply) -> None:
    async with Caller(node.url) as caller:
        await caller.call("returns")
    assert (node.last().how, node.last().asked) == ("returned", "Returned?")


async def test_a_resource_is_named_by_its_uri(node: Reply) -> None:
    async with Caller(node.url) as caller:
        await caller.send("resources/read", {"uri": "shop://hours"})
    assert (node.last().tool, node.last().how) == ("shop://hours", "finished")


async def test_a_client_that_leaves_and_a_round_that_is_refused(node: Reply) -> None:
    async with Caller(node.url) as caller:
        leaving = asyncio.create_task(caller.call("waits"))
        await node.began.wait()
        leaving.cancel()
        await until(lambda: node.lines, "a line about the client that left")
        assert node.last().how == "left"
        asked = await caller.call("asks")
        await caller.retry("asks", asked.token, asked.accept(word="x"))
        await caller.retry("asks", asked.token, asked.accept(word="other"))
        assert (node.last().how, node.last().error) == ("refused", "conflict")
        asked = await caller.call("asks")
        await caller.retry("asks", asked.token, {key: {"action": "perhaps"} for key in asked.asked})
        assert (node.last().how, node.last().error) == ("refused", "malformed_answer")


async def test_a_call_of_2025_is_one_line(node: Reply) -> None:
    """Its questions are asked within one request. What else its client requests is no call."""

    async def answer(context: object, params: object) -> ElicitResult:
        return ElicitResult(action="accept", content={"word": SECRET})

    async with Client(node.url, mode="legacy", elicitation_callback=answer) as old:
        await old.call_tool("asks", {})
        await old.call_tool("raises", {})
        with pytest.raises(MCPError):
            await old.read_resource("shop://nowhere")
    assert SECRET not in "".join(node.lines)
    asks, raises, nowhere = node.told
    assert all(line.before.startswith("revision 2025-") and not line.call for line in node.told)
    assert (asks.tool, asks.how, asks.seconds > 0) == ("asks", "finished", True)
    assert (raises.tool, raises.how, raises.error) == ("raises", "failed", "")
    assert (nowhere.tool, nowhere.how, nowhere.error) == ("shop://nowhere", "failed", "mcp.shared.exceptions.MCPError")


async def test_a_rebuilt_frame_is_told() -> None:
    """A rehearsal replays each round: the node's process has not changed."""
    mcp: MCPServer = MCPServer("rounds")
    lines: list[str] = []

    @mcp.tool()
    @framehold.reentrant
    async def asks(ctx: Context) -> str:
        return (await ctx.elicit("Which word?", Word)).action

    app = framehold.asgi(mcp, Settings(keys=(KEY,), node_id="n1", rehearse=True))
    tell_of_rounds(app.attached, "n1", lines.append)
    async with served(app) as url, Caller(url) as caller:
        asked = await caller.call("asks")
        await caller.retry("asks", asked.token, asked.accept(word="x"))
    found = [round_line.load(line) for line in lines]
    assert [(line.before, line.how) for line in found if line] == [("", "parked"), ("replayed", "finished")]


@pytest.mark.parametrize("line", ["", MARK, f"{MARK}[]", f'{MARK}{{"tool": "x"}}', f"{MARK}no JSON"])
def test_a_line_of_another_kind_is_no_round(line: str) -> None:
    """Another release may write other fields, and an author's code anything."""
    assert round_line.load(line) is None
