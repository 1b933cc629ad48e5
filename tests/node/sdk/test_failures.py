"""What a handler raised is known by its class and place, whatever kind of handler it is and whatever the SDK or FastMCP
made of the exception."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import pytest
from fastmcp import FastMCP
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Resolve
from mcp_types import CallToolResult, TextContent

import framehold
from framehold.config import Settings
from framehold.engine.observer import Observer, RequestEnd
from framehold.engine.replies import Ended
from framehold.engine.slot import Arrival, Slot
from tests.node.nodes import served
from tests.node.stage import Word, said
from tests.wire import Caller, Reply

pytestmark = pytest.mark.anyio
SECRET = "what a user typed"
Ctx = ServerRequestContext[Any, Any]


def fail() -> Any:
    raise LookupError(SECRET)


PLACE = f"{__name__}:fail:{fail.__code__.co_firstlineno + 1}"


def resolved() -> str:
    return str(fail())


class Seen(Observer):
    """What handlers raised, in the order of their ends."""

    def __init__(self) -> None:
        self.raised: list[Sequence[str] | None] = []

    def answered(self, slot: Slot, arrival: Arrival, answer: RequestEnd, seconds: float) -> None:
        if isinstance(answer, Ended):
            ending = slot.handler.ending(answer.outcome)
            self.raised.append((ending.error, ending.place) if ending.error else None)


def high() -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("high")

    @server.tool()
    async def on_the_loop(ctx: Context) -> str:
        return str(fail())

    @server.tool()
    def in_a_thread() -> str:
        return str(fail())

    @server.tool()
    async def beneath(what: Annotated[str, Resolve(resolved)]) -> str:
        return what

    @server.tool()
    async def asks_first(ctx: Context) -> str:
        return said(await ctx.elicit("one", Word)) + str(fail())

    @server.tool()
    async def fine() -> str:
        return "fine"

    @server.tool()
    async def by_hand() -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="no")], is_error=True)

    @server.prompt()
    async def poem() -> str:
        return str(fail())

    @server.resource("poems://{name}")
    async def poems(name: str) -> str:
        return str(fail())

    return server


def low() -> Server[Any]:
    async def fails(ctx: Ctx, params: Any) -> Any:
        fail()

    return Server("low", on_call_tool=fails, on_get_prompt=fails, on_read_resource=fails)


def fast() -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("fast")

    @server.tool
    async def on_the_loop() -> str:
        return str(fail())

    @server.tool
    def in_a_thread() -> str:
        return str(fail())

    @server.prompt
    async def poem() -> str:
        return str(fail())

    @server.resource("poems://{name}")
    async def poems(name: str) -> str:
        return str(fail())

    return server


async def of(server: Any, play: Callable[[Caller], Awaitable[Reply]]) -> list[Sequence[str] | None]:
    """What the handlers of one call raised."""
    app, seen = framehold.asgi(server, Settings(node_id="n")), Seen()
    app.attached.runtime.observers.add(seen)
    async with served(app) as url, Caller(url) as caller:
        await play(caller)
    return seen.raised


def tool(name: str, **arguments: Any) -> Callable[[Caller], Awaitable[Reply]]:
    return lambda caller: caller.call(name, arguments=arguments)


async def prompt(caller: Caller) -> Reply:
    return await caller.send("prompts/get", {"name": "poem"})


async def resource(caller: Caller) -> Reply:
    return await caller.send("resources/read", {"uri": "poems://spring"})


async def in_round_two(caller: Caller) -> Reply:
    asked = await caller.call("asks_first")
    return await caller.retry("asks_first", asked.token, asked.accept(word="x"))


FAILING: dict[str, tuple[Callable[[], Any], Callable[[Caller], Awaitable[Reply]]]] = {
    "an async tool": (high, tool("on_the_loop")),
    "a tool in a thread": (high, tool("in_a_thread")),
    "a resolver": (high, tool("beneath")),
    "a tool in its second round": (high, in_round_two),
    "a prompt": (high, prompt),
    "a resource": (high, resource),
    "a low-level tool": (low, tool("any")),
    "a low-level prompt": (low, prompt),
    "FastMCP's async tool": (fast, tool("on_the_loop")),
    "FastMCP's tool in a thread": (fast, tool("in_a_thread")),
    "FastMCP's prompt": (fast, prompt),
    "FastMCP's resource": (fast, resource),
}


@pytest.mark.parametrize("name", FAILING)
async def test_what_a_handler_raised_is_known_by_class_and_place(name: str) -> None:
    server, play = FAILING[name]
    assert await of(server(), play) == [("LookupError", PLACE)]


async def test_arguments_that_do_not_fit_are_no_line_of_the_authors() -> None:
    server: MCPServer[Any] = MCPServer("strict")

    @server.tool()
    async def strict(number: int) -> str:
        return str(number)

    (raised,) = await of(server, tool("strict", number="one"))
    assert raised is not None and raised[0].endswith("ValidationError") and raised[1] == ""


async def test_a_result_that_is_an_error_was_raised_by_nobody() -> None:
    assert await of(high(), tool("by_hand")) == [None]
    assert await of(high(), tool("fine")) == [None]
