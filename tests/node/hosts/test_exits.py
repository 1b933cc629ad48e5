"""Whatever the author's code raises, wherever it does, stays in its call and is known by its class and place: the call
fails, and the node goes on.

asyncio lets SystemExit and KeyboardInterrupt through a task: they end the event loop, and with it everybody's calls.
argparse, click and code written for a command line raise them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any

import anyio
import anyio.to_thread
import mcp.types as types
import pytest
from fastmcp import Context as FastContext
from fastmcp import FastMCP
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Resolve

import framehold
from framehold.config import Settings
from framehold.engine.observer import Observer, RequestEnd
from framehold.engine.replies import Ended
from framehold.engine.slot import Arrival, Slot
from tests.kit.client import Caller, Reply
from tests.kit.nodes import served
from tests.kit.serving import Word, said, server_of

SECRET = "what a user typed"


class Leaving(BaseException):
    """An author's own."""


ERRORS: dict[str, type[BaseException]] = {
    error.__name__: error for error in (SystemExit, KeyboardInterrupt, GeneratorExit, Leaving, LookupError)
}


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


WAYS: dict[str, Callable[[str], Coroutine[Any, Any, str]]] = {
    way.__name__: way
    for way in (
        in_itself,
        in_an_effect,
        in_an_effect_in_a_thread,
        in_a_task,
        in_a_task_that_nobody_waits_for,
        in_a_gather,
        in_a_task_group,
        in_a_group_of_anyio,
        in_a_thread,
        in_a_thread_of_anyio,
    )
}
GOES_ON = {"in_a_task_that_nobody_waits_for"}
"""The handler does not hear of it."""


def high(server: Any, context: type[Any]) -> Any:
    async def run(way: str, error: str) -> str:
        return await WAYS[way](error)

    @framehold.reentrant
    async def run_marked(way: str, error: str) -> str:
        return await WAYS[way](error)

    def leave_at_once(error: str) -> str:
        return leave(error)

    async def ask(ctx: Any) -> str:
        return said(await ctx.elicit("Well?", Word))

    async def ask_and_run(way: str, error: str, ctx: Any) -> str:
        await ctx.elicit("Well?", Word)
        return await WAYS[way](error)

    ask.__annotations__["ctx"] = ask_and_run.__annotations__["ctx"] = context
    for tool in (run, run_marked, leave_at_once, ask, ask_and_run):
        server.tool(description="It fails.")(tool)
    server.prompt(name="advice")(run)
    server.resource("leave://{way}/{error}")(run)
    return server


def low() -> Any:
    ctx_type = ServerRequestContext[Any, Any]

    async def call_tool(ctx: ctx_type, params: types.CallToolRequestParams) -> types.CallToolResult:
        given, text = params.arguments or {}, ""
        if params.name.startswith("ask"):
            answer = await ctx.session.elicit_form("Well?", {"type": "object", "properties": {}})
            text = str((answer.content or {})["word"])
        if params.name == "leave_at_once":
            leave(given["error"])
        if params.name != "ask":
            text = await WAYS[given["way"]](given["error"])
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    async def get_prompt(ctx: ctx_type, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        given = params.arguments or {}
        content = types.TextContent(type="text", text=await WAYS[given["way"]](given["error"]))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    async def read(ctx: ctx_type, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        way, error = str(params.uri).removeprefix("leave://").split("/")
        found = types.TextResourceContents(uri=params.uri, text=await WAYS[way](error))
        return types.ReadResourceResult(contents=[found])

    async def tools(ctx: ctx_type, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[])

    return Server("low", on_call_tool=call_tool, on_get_prompt=get_prompt, on_read_resource=read, on_list_tools=tools)


SERVERS: dict[str, Callable[[], Any]] = {
    "MCPServer": lambda: high(MCPServer("high"), Context),
    "low-level": low,
    "FastMCP": lambda: high(FastMCP("fast"), FastContext),
}


async def replies(caller: Caller, way: str, error: str) -> dict[str, Reply]:
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


BY_A_FUTURE = {"in_an_effect_in_a_thread", "in_a_task", "in_a_gather", "in_a_thread", "in_a_thread_of_anyio"}
"""A GeneratorExit that a future hands on closes all coroutines of the task that awaits it. On the wire of 2025 one of
them has to send the reply, so its session ends."""


async def replies_of_2025(client: Client, way: str, error: str) -> dict[str, str]:
    """What a client of 2025 is told of its calls that fail, or of one that goes on."""
    given = {"way": way, "error": error}
    asking: dict[str, Awaitable[Any]] = {
        "tool": client.call_tool("run", given),
        "prompt": client.get_prompt("advice", given),
        "resource": client.read_resource(f"leave://{way}/{error}"),
        "tool, after a question": client.call_tool("ask_and_run", given),
    }
    if way == "in_itself" and error != "GeneratorExit":
        asking["def tool"] = client.call_tool("leave_at_once", {"error": error})
    found = {}
    for kind, asked in asking.items():
        try:
            result = await asked
            found[kind] = "failed" if getattr(result, "is_error", False) else "went on"
        except MCPError as failed:
            found[kind] = f"failed: {failed}"
    return found


async def played_by_2025(reached: Callable[[Any], AbstractAsyncContextManager[Any]], server: Any) -> dict[str, str]:
    """What a client of 2025 is told in one session, in which another call waits meanwhile."""
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def answers(context: ClientRequestContext, params: Any) -> types.ElicitResult:
        if not waits.is_set():
            waits.set()
            await goes_on.wait()
        return types.ElicitResult(action="accept", content={"word": "fine"})

    found: dict[str, str] = {}
    async with reached(server) as where, Client(where, mode="legacy", elicitation_callback=answers) as client:
        other = asyncio.ensure_future(client.call_tool("ask", {}))
        await waits.wait()
        for way in WAYS:
            for error in ERRORS:
                if error == "GeneratorExit" and way in BY_A_FUTURE:
                    continue
                for kind, told in (await replies_of_2025(client, way, error)).items():
                    found[f"{kind}: {error} {way}"] = told
        goes_on.set()
        assert not (await other).is_error
    return found


@asynccontextmanager
async def over_http(server: Any) -> AsyncIterator[str]:
    async with served(framehold.asgi(server, Settings(node_id="exits"))) as url:
        yield url


@asynccontextmanager
async def in_memory(server: Any) -> AsyncIterator[Any]:
    framehold.attach(server, Settings(node_id="exits"))
    yield getattr(server, "_mcp_server", server)


@pytest.mark.parametrize("reached", [over_http, in_memory], ids=lambda way: way.__name__)
@pytest.mark.parametrize("server", SERVERS)
def test_a_session_of_2025_lives(server: str, reached: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Its other calls go on, and the log names what was raised, and where."""
    found = run(asyncio.wait_for(played_by_2025(reached, SERVERS[server]()), 60))
    assert len(found) == 4 * (len(ERRORS) * len(WAYS) - len(BY_A_FUTURE)) + len(ERRORS) - 1
    assert {name for name, told in found.items() if told == "went on"} == {
        name for name in found if name.split()[-1] in GOES_ON
    }
    assert not [name for name, told in found.items() if SECRET in told and "LookupError" not in name]
    for error in ERRORS.keys() - {"LookupError"}:
        assert "raised {} at {}; that ended its call".format(*name_of(error)) in caplog.text


def resolved() -> str:
    return leave("LookupError")


async def beneath(what: Annotated[str, Resolve(resolved)]) -> str:
    return what


async def strict(number: int) -> str:
    return str(number)


async def by_hand() -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text="no")], is_error=True)


OTHERS: dict[Callable[..., Any], tuple[str, str]] = {
    beneath: name_of("LookupError"),
    strict: ("ValidationError", ""),
    by_hand: ("", ""),
}
"""Tools whose failures are not raised in their own bodies, with the class and the place that is known."""


@pytest.mark.anyio
@pytest.mark.parametrize("tool", OTHERS, ids=lambda tool: tool.__name__)
async def test_what_was_not_raised_in_the_body(tool: Callable[..., Any]) -> None:
    """Arguments that do not fit are no line of the author's, and an error that is returned was raised by nobody."""
    app, raised = framehold.asgi(server_of("others", tool), Settings(node_id="n")), Raised()
    app.attached.runtime.observers.add(raised)
    async with served(app) as url, Caller(url) as caller:
        assert has_failed(await caller.call(tool.__name__, arguments={"number": "one"} if tool is strict else {}))
    ((error, place),) = raised.now
    assert (error.rpartition(".")[2], place) == OTHERS[tool]
