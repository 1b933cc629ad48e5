"""Questions hung on parameters by the SDK's `Resolve`, alone and mixed with `await ctx.elicit` in the body.

The first are the SDK's own: they ride in a state that any node opens, and nobody holds a frame. A frame begins where
the body asks, on a later round, with what that round brought."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.types import ElicitRequestParams, ElicitResult, TextContent

import framehold
from framehold.config import Settings
from tests.kit.client import Reply, accepted
from tests.kit.effects import Effects, completed, each_way
from tests.kit.nodes import KEY, served
from tests.kit.serving import Served, Word, said, serving

pytestmark = pytest.mark.anyio

ran = Effects()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.ran.clear()


async def city(name: str) -> Word | Elicit[Word]:
    return Elicit(f"Where does {name} go?", Word)


async def street(at: Annotated[Word, Resolve(city)]) -> Word | Elicit[Word]:
    return Elicit(f"Which street of {at.word}?", Word)


async def plain(name: str, to: Annotated[Word, Resolve(street)]) -> str:
    ran.note("plain")
    return f"{name} to {to.word}"


@framehold.reentrant
async def mixed(name: str, to: Annotated[Word, Resolve(street)], ctx: Context) -> str:
    first = await framehold.once("first", ran.note, f"first {to.word}")
    by = said(await ctx.elicit(f"How to {to.word}?", Word))
    second = await framehold.once("second", ran.note, f"second {by}")
    when = said(await ctx.elicit("When?", Word))
    return f"{name} {first} {second} {when}"


async def unmarked(to: Annotated[Word, Resolve(city)], name: str, ctx: Context) -> str:
    ran.note("body")
    return f"{name} to {to.word}, {said(await ctx.elicit('How?', Word))}"


async def asking(name: str, ctx: Context) -> Word:
    drawn = await framehold.once("drawn", ran.note, "drawn")
    return Word(word=f"{drawn[0]} {said(await ctx.elicit(f'And {name}?', Word))}")


@framehold.reentrant
async def deeper(name: str, word: Annotated[Word, Resolve(asking)], ctx: Context) -> str:
    return f"{word.word}, {said(await ctx.elicit('Sure?', Word))}"


TOOLS = (plain, mixed, unmarked, deeper)


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Served, Served]]:
    async with AsyncExitStack() as stack:
        stages = [await stack.enter_async_context(serving(*TOOLS, keys=(KEY,))) for _ in range(2)]
        yield stages[0], stages[1]


def reply(response: Reply) -> dict[str, Any]:
    return {key: accepted(word=f"<{asked['params']['message']}>") for key, asked in response.asked.items()}


async def test_a_resolve_tool_is_stateless_on_any_node() -> None:
    async with two() as (one, other):
        response = await one.call("plain", arguments={"name": "Ada"})
        for node, asked in ((other, "Where does Ada go?"), (one, "Which street of <Where does Ada go?>?")):
            assert (response.messages, response.token[:3]) == ([asked], "s1.")
            assert len(one.runtime.table) == len(other.runtime.table) == 0
            response = await node.retry("plain", response.token, reply(response), arguments={"name": "Ada"})
        assert response.text == "Ada to <Which street of <Where does Ada go?>?>"
        assert ran.ran == ["plain"]
        assert all(not node.runtime.counts["parked"] for node in (one, other))


async def test_a_mixed_tool_resolves_first_and_then_suspends() -> None:
    async with two() as (one, other):
        response = await one.call("unmarked", arguments={"name": "Ada"})
        assert (response.token[:3], len(one.runtime.table)) == ("s1.", 0)
        response = await other.retry("unmarked", response.token, reply(response), arguments={"name": "Ada"})
        assert (response.messages, response.token[:3], len(other.runtime.table)) == (["How?"], "h1.", 1)
        response = await other.retry("unmarked", response.token, reply(response), arguments={"name": "Ada"})
        assert response.text == "Ada to <Where does Ada go?>, <How?>"
        assert ran.ran == ["body"]
        assert (one.runtime.counts["parked"], other.runtime.counts["resumed"]) == (0, 1)


@each_way
async def test_a_mixed_tool_held_rebuilt_and_replayed(settings: dict[str, Any]) -> None:
    async with serving(mixed, **settings) as caller:
        response = await completed(caller, "mixed", name="Ada")
        street = "<Which street of <Where does Ada go?>?>"
        by = f"<How to {street}?>"
        assert response.text == f"Ada ['first {street}'] ['second {by}'] <When?>"
        assert ran.ran == [f"first {street}", f"second {by}"]
        assert len(caller.runtime.table) == 0


@each_way
async def test_a_resolver_that_asks_by_itself(settings: dict[str, Any]) -> None:
    async with serving(deeper, **settings) as caller:
        assert (await completed(caller, "deeper", name="Bo")).text == "drawn <And Bo?>, <Sure?>"
        assert ran.ran == ["drawn"]


@pytest.mark.parametrize(
    ("tool", "says"),
    [("plain", "Ada to <Which street of <Where does Ada go?>?>"), ("unmarked", "Ada to <Where does Ada go?>, <How?>")],
)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_of_each_era(mode: str, tool: str, says: str) -> None:
    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"word": f"<{params.message}>"})

    server: MCPServer[Any] = MCPServer("both")
    for one in TOOLS:
        server.tool(description="A tool of this test.")(one)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(framehold.asgi(server, Settings(node_id="n"))))
        client = await stack.enter_async_context(Client(url, mode=mode, elicitation_callback=answer))
        result = await client.call_tool(tool, {"name": "Ada"})
    (block,) = result.content
    assert isinstance(block, TextContent) and block.text == says
    assert len(ran.ran) == 1
