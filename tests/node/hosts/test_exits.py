"""An exception that is no `Exception` stays in its call, wherever the author's code raises it: the call fails, and the
node goes on.

asyncio lets SystemExit and KeyboardInterrupt through a task: they end the event loop, and with it everybody's calls.
argparse, click and code written for a command line raise them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import anyio.to_thread
import mcp.types as types
import pytest
from fastmcp import Context as FastContext
from fastmcp import FastMCP
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings
from framehold.engine.observer import Observer, RequestEnd
from framehold.engine.replies import Ended
from framehold.engine.slot import Arrival, Slot
from tests.node.nodes import served
from tests.node.stage import Word, said
from tests.wire import Caller, Reply

SECRET = "what a user typed"


class Leaving(BaseException):
    """An author's own."""


ERRORS = {error.__name__: error for error in (SystemExit, KeyboardInterrupt, GeneratorExit, Leaving)}


def leave(error: str) -> str:
    raise ERRORS[error](SECRET)


async def leave_later(error: str) -> str:
    await asyncio.sleep(0)
    return leave(error)


async def in_itself(error: str) -> str:
    return await leave_later(error)


async def in_an_effect(error: str) -> str:
    return await framehold.once("effect", leave_later, error)


async def in_an_effect_in_a_thread(error: str) -> str:
    return await framehold.once("effect", leave, error)


async def in_a_task(error: str) -> str:
    return await asyncio.create_task(leave_later(error))


async def in_a_task_that_nobody_waits_for(error: str) -> str:
    left = asyncio.create_task(leave_later(error))
    await asyncio.wait([left])
    return f"ended: {left.done()}"


async def in_a_task_of_a_task(error: str) -> str:
    return await asyncio.create_task(in_a_task(error))


async def in_a_gather(error: str) -> str:
    return str(await asyncio.gather(leave_later(error), asyncio.sleep(0)))


async def in_a_task_group(error: str) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(leave_later(error))
    return "went on"


async def in_a_group_of_anyio(error: str) -> str:
    async with anyio.create_task_group() as group:
        group.start_soon(leave_later, error)
    return "went on"


async def in_a_thread(error: str) -> str:
    return await asyncio.to_thread(leave, error)


async def in_a_thread_of_anyio(error: str) -> str:
    return await anyio.to_thread.run_sync(leave, error)


Way = Callable[[str], Coroutine[Any, Any, str]]
WAYS: dict[str, Way] = {
    way.__name__: way
    for way in (
        in_itself,
        in_an_effect,
        in_an_effect_in_a_thread,
        in_a_task,
        in_a_task_that_nobody_waits_for,
        in_a_task_of_a_task,
        in_a_gather,
        in_a_task_group,
        in_a_group_of_anyio,
        in_a_thread,
        in_a_thread_of_anyio,
    )
}
GOES_ON = {"in_a_task_that_nobody_waits_for"}
"""The handler does not hear of it."""


def high(server: Any) -> Any:
    """MCPServer, or FastMCP: tools, a prompt and resources."""

    async def run(way: str, error: str) -> str:
        return await WAYS[way](error)

    @framehold.reentrant
    async def run_marked(way: str, error: str) -> str:
        return await WAYS[way](error)

    def leave_at_once(error: str) -> str:
        return leave(error)

    for tool in (run, run_marked, leave_at_once):
        server.tool(description="It fails.")(tool)

    async def advice(way: str, error: str) -> str:
        return await WAYS[way](error)

    async def note(way: str, error: str) -> str:
        return await WAYS[way](error)

    server.prompt()(advice)
    server.resource("leave://{way}/{error}")(note)
    return server


def with_question_of_the_sdk() -> Any:
    server: MCPServer[Any] = high(MCPServer("high"))

    @server.tool()
    async def ask(ctx: Context) -> str:
        return said(await ctx.elicit("Well?", Word))

    @server.tool()
    async def ask_and_run(way: str, error: str, ctx: Context) -> str:
        await ctx.elicit("Well?", Word)
        return await WAYS[way](error)

    return server


def with_question_of_fastmcp() -> Any:
    server = high(FastMCP("fast"))

    async def ask(ctx: FastContext) -> str:
        return str((await ctx.elicit("Well?", Word)).data.word)  # type: ignore[union-attr]

    async def ask_and_run(way: str, error: str, ctx: FastContext) -> str:
        await ctx.elicit("Well?", Word)
        return await WAYS[way](error)

    server.tool(ask)
    server.tool(ask_and_run)
    return server


def low() -> Any:
    ctx_type = ServerRequestContext[Any, Any]

    async def call_tool(ctx: ctx_type, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = params.arguments or {}
        said_so = ""
        if params.name.startswith("ask"):
            schema = {"type": "object", "properties": {"word": {"type": "string"}}}
            answer = await ctx.session.elicit_form("Well?", schema)
            said_so = str((answer.content or {})["word"])
        if params.name == "leave_at_once":
            leave(given["error"])
        text = said_so if params.name == "ask" else await WAYS[given["way"]](given["error"])
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    async def get_prompt(ctx: ctx_type, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        given = params.arguments or {}
        content = types.TextContent(type="text", text=await WAYS[given["way"]](given["error"]))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    async def read(ctx: ctx_type, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        way, error = str(params.uri).removeprefix("leave://").split("/")
        found = types.TextResourceContents(uri=params.uri, text=await WAYS[way](error))
        return types.ReadResourceResult(contents=[found])

    async def list_prompts(ctx: ctx_type, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        leave(str(params.cursor) if params and params.cursor else "SystemExit")
        raise AssertionError

    return Server(
        "low",
        on_call_tool=call_tool,
        on_get_prompt=get_prompt,
        on_read_resource=read,
        on_list_prompts=list_prompts,
    )


SERVERS: dict[str, Callable[[], Any]] = {
    "MCPServer": with_question_of_the_sdk,
    "low-level": low,
    "FastMCP": with_question_of_fastmcp,
}


async def replies(caller: Caller, way: str, error: str) -> dict[str, Reply]:
    """What each kind of handler says that raises `error` in this way."""
    given = {"way": way, "error": error}
    asked = await caller.call("ask_and_run", arguments=given)
    found = {
        "tool": await caller.call("run", arguments=given),
        "marked tool": await caller.call("run_marked", arguments=given),
        "prompt": await caller.send("prompts/get", {"name": "advice", "arguments": given}),
        "resource": await caller.send("resources/read", {"uri": f"leave://{way}/{error}"}),
        "tool, after a question": await caller.retry(
            "ask_and_run", asked.token, asked.accept(word="w"), arguments=given
        ),
    }
    if way == "in_itself":
        found["def tool"] = await caller.call("leave_at_once", arguments={"error": error})
    return found


class Raised(Observer):
    """The class and the place of what the handlers raised since it was cleared."""

    def __init__(self) -> None:
        self.now: list[tuple[str, str]] = []

    def answered(self, slot: Slot, arrival: Arrival, answer: RequestEnd, seconds: float) -> None:
        if isinstance(answer, Ended):
            ending = slot.handler.ending(answer.outcome)
            self.now.append((ending.error, ending.place))


def name_of(error: str) -> tuple[str, str]:
    kind = ERRORS[error]
    name = error if kind.__module__ == "builtins" else f"{kind.__module__}.{error}"
    return name, f"{__name__}:leave:{leave.__code__.co_firstlineno + 1}"


def has_failed(reply: Reply) -> bool:
    return "error" in reply.message or reply.result.get("isError") is True


async def played(server: Any) -> dict[str, Reply]:
    """What every way says, and what a call says that was parked meanwhile."""
    app, raised = framehold.asgi(server, Settings(node_id="exits")), Raised()
    app.attached.runtime.observers.add(raised)
    async with served(app) as url, Caller(url) as caller:
        parked = await caller.call("ask")
        found: dict[str, Reply] = {}
        for way in WAYS:
            for error in ERRORS:
                for kind, reply in (await replies(caller, way, error)).items():
                    found[f"{kind}: {error} {way}"] = reply
                if way not in GOES_ON and "effect" not in way:
                    assert set(raised.now) == {name_of(error)}, (way, error)
                raised.now.clear()
        answered = await caller.retry("ask", parked.token, parked.accept(word="fine"))
        assert answered.text == "fine", answered.message
        return found


def run(main: Awaitable[Any]) -> Any:
    """Run on an event loop of its own; an exception that ends the loop fails the test, and not pytest."""
    try:
        with asyncio.Runner() as runner:
            return runner.run(main)  # type: ignore[arg-type]
    except (SystemExit, KeyboardInterrupt) as error:
        raise AssertionError(f"{type(error).__name__} ended the event loop") from error


@pytest.mark.parametrize("server", SERVERS)
def test_the_call_fails_and_the_node_lives(server: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    found = run(played(SERVERS[server]()))
    assert len(found) == len(ERRORS) * (5 * len(WAYS) + 1)
    went_on = {name for name, reply in found.items() if not has_failed(reply)}
    assert went_on == {name for name in found if name.split()[-1] in GOES_ON}
    assert not [name for name, reply in found.items() if SECRET in str(reply.message) and "FastMCP" not in server]
