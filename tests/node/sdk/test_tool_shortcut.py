"""A tool that is run straight from its frame comes to what the SDK's own layers come to, and where something stands
between that is not the SDK's, they are gone through."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from mcp.server import MCPServer
from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.server.mcpserver.tools import Tool, ToolManager
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult, InputRequiredResult, TextContent
from pydantic import BaseModel, BeforeValidator

from framehold.sdk.tool_shortcut import ToolContext, straightened
from tests.kit.cycles import cycles
from tests.kit.serving import server_of, serving

pytestmark = pytest.mark.anyio


class Seat(BaseModel):
    row: int


def _breaks(value: Any) -> Any:
    raise RuntimeError("the validator's own words")


async def fine(what: str, ctx: Context, many: int = 2) -> str:
    return f"{what * many} {ctx.request_context.method} {ctx.input_responses} {ctx.request_state}"


async def structured(row: int) -> Seat:
    return Seat(row=row)


async def ill_structured(row: int) -> Seat:
    return "no seat"  # type: ignore[return-value]  # that is the point


async def foreseen(what: str) -> str:
    raise ToolError(f"no {what}")


async def unread(what: str) -> str:
    raise ResourceError(f"no {what}")


async def nested(what: str, ctx: Context) -> str:
    return str(await ctx.read_resource("crash://now"))


async def crashed(what: str) -> str:
    raise RuntimeError(f"a secret of {what}")


async def misread(what: str) -> str:
    return str(Seat.model_validate({"row": what}).row)


async def refused(what: str) -> str:
    raise MCPError(-32000, f"not {what}", {"why": "no"})


class Both(MCPError, ToolError):
    """An error of the protocol that is one of a tool, too."""


async def twofold(what: str) -> str:
    raise Both(-32000, f"not {what}")


class Unprintable(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def wordless(what: str) -> str:
    raise Unprintable


async def by_hand(what: str) -> CallToolResult | InputRequiredResult:
    if what == "ask":
        return InputRequiredResult(request_state="mine")
    return CallToolResult(content=[TextContent(type="text", text=what)], is_error=True)


async def unchecked(what: Annotated[str, BeforeValidator(_breaks)]) -> str:
    return what


def plain(what: str) -> str:
    return f"{what} in a thread"


TOOLS = (
    *(fine, structured, foreseen, unread, nested, crashed, misread, refused, twofold, wordless, by_hand, unchecked),
    plain,
)
ARGUMENTS: dict[str, tuple[dict[str, Any] | None, ...]] = {
    "fine": ({"what": "a"}, {"what": "a", "many": "3"}, {"what": 1}, {}, None, {"what": "a", "many": "x"}),
    "structured": ({"row": 3}, {"row": "[3]"}),
    "by_hand": ({"what": "ask"}, {"what": "told"}),
    "absent": ({},),
}


def _server() -> MCPServer[Any]:
    server = server_of("both", *TOOLS)
    server.tool(name="ill_structured")(ill_structured)

    @server.resource("crash://{when}")
    def crash(when: str) -> str:
        raise RuntimeError(f"a secret of {when}")

    return server


def _handler(server: MCPServer[Any]) -> Any:
    entry = server._lowlevel_server.get_request_handler("tools/call")
    assert entry is not None
    return entry.handler


async def _played(enter: Any, params: CallToolRequestParams) -> Any:
    session: Any = None
    ctx: Any = ServerRequestContext(
        session=session, lifespan_context={}, protocol_version="2026-07-28", method="tools/call", params={}
    )
    try:
        return await enter(ctx, params)
    except Exception as error:
        return type(error), str(error), getattr(error, "error", None)


@pytest.mark.parametrize("name", [*(tool.__name__ for tool in TOOLS), "ill_structured", "absent"])
async def test_both_ways_tell_the_client_and_the_log_the_same(name: str, caplog: pytest.LogCaptureFixture) -> None:
    handler = _handler(_server())
    caplog.set_level(logging.INFO)
    default: dict[str, Any] = {"row": 1} if "structured" in name else {"what": "tea"}
    for arguments in ARGUMENTS.get(name, (default,)):
        params = CallToolRequestParams(name=name, arguments=arguments, request_state="s" if name == "fine" else None)
        outcome = []
        for enter in (straightened(handler), handler):
            caplog.clear()
            result = await _played(enter, params)
            logged = [(item.name, item.levelname, item.getMessage(), _chain(item)) for item in caplog.records]
            outcome.append((result, logged))
        assert outcome[0] == outcome[1]


def _chain(record: logging.LogRecord) -> list[str]:
    found, error = [], record.exc_info[1] if record.exc_info else None
    while error is not None:
        found.append(repr(error))
        error = error.__cause__
    return found


def test_a_tools_context_is_what_the_sdk_makes_of_the_same_parts() -> None:
    server = _server()
    parts = {"request_context": object(), "mcp_server": server, "input_params": None}
    whole: dict[str, Any] = {**parts, "subscriptions": server._subscriptions}
    ours, theirs = ToolContext(**whole), Context[Any, Any](**whole)
    for kept in (*BaseModel.__slots__, "request_context", "mcp_server", "input_responses", "request_state"):
        assert getattr(ours, kept) == getattr(theirs, kept), kept
    assert copy.copy(ours).request_context is ours.request_context
    assert not Context.model_fields and inspect.signature(ToolContext).parameters.keys() == whole.keys()


async def test_a_tool_that_fails_leaves_no_cycle() -> None:
    server = _server()
    enter = straightened(_handler(server))

    async def each_once() -> None:
        for name in ("foreseen", "crashed", "refused", "fine"):
            await _played(enter, CallToolRequestParams(name=name, arguments={"what": "x"}))

    logging.disable()
    try:
        await each_once()
        with cycles() as found:
            await each_once()
            assert found() == []
    finally:
        logging.disable(logging.NOTSET)


# ---- where the SDK's own way is taken


FINE = CallToolRequestParams(name="fine", arguments={"what": "a"})


def _passing(real: Callable[..., Any], calls: list[str]) -> Any:
    @functools.wraps(real)
    async def passing(*args: Any, **kwargs: Any) -> Any:
        calls.append(real.__qualname__)
        return await real(*args, **kwargs)

    return passing


class Wrapper:
    def __init__(self, wrapped: Any, calls: list[str]) -> None:
        self._wrapped, self._calls = wrapped, calls

    def __eq__(self, other: object) -> bool:
        return bool(self._wrapped == other)

    def __hash__(self) -> int:
        return hash(self._wrapped)

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._calls.append(self._wrapped.__qualname__)
        return self._wrapped(*args, **kwargs)


LAYERS = [(MCPServer, "call_tool"), (ToolManager, "call_tool"), (Tool, "run"), (FuncMetadata, "call_fn")]


@pytest.mark.parametrize(("owner", "name"), LAYERS, ids=str)
@pytest.mark.parametrize("patch", [Wrapper, _passing])
async def test_a_patch_is_called_that_came_after_the_server(
    patch: Callable[..., Any], owner: type[Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    enter = straightened(_handler(_server()))
    monkeypatch.setattr(owner, name, patch(getattr(owner, name), calls))
    assert (await _played(enter, FINE)).is_error is False
    assert len(calls) == 1


class OwnServer(MCPServer[Any]):
    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        return told(await super().call_tool(*args, **kwargs))


class OwnManager(ToolManager):
    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        return told(await super().call_tool(*args, **kwargs))


class OwnMetadata(FuncMetadata):
    async def call_fn(self, *args: Any, **kwargs: Any) -> Any:
        return f"{await super().call_fn(*args, **kwargs)}, by its own"


class OwnExtension(Extension):
    identifier = "test.example/own"

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        return told(await call_next(ctx))


def told(result: Any) -> Any:
    result.content[0].text += ", by its own"
    return result


def _own(what: str) -> MCPServer[Any]:
    kind = OwnServer if what == "server" else MCPServer
    server: MCPServer[Any] = kind("own", extensions=[OwnExtension()] if what == "extension" else [])
    if what == "manager":
        server._tool_manager = OwnManager()
    server.tool()(fine)
    if what == "metadata":
        tool = server._tool_manager._tools["fine"]
        tool.fn_metadata = OwnMetadata(arg_model=tool.fn_metadata.arg_model)
    if what == "method":
        called = server.call_tool

        async def call_tool(*args: Any, **kwargs: Any) -> Any:
            return told(await called(*args, **kwargs))

        setattr(server, "call_tool", call_tool)  # noqa: B010 - mypy refuses the plain form
    return server


@pytest.mark.parametrize("what", ["server", "manager", "metadata", "extension", "method"])
async def test_what_is_the_authors_own_is_called(what: str) -> None:
    result = await _played(straightened(_handler(_own(what))), FINE)
    assert result.content[0].text.endswith(", by its own")


async def test_nothing_of_the_sdk_waits_in_a_frame_but_what_asks() -> None:
    async def order(what: str, ctx: Context) -> str:
        return str(await ctx.elicit("Which seat?", Seat))

    async with serving(order) as client:
        assert (await client.call("order", arguments={"what": "tea"})).asked
        task = next(task for task in asyncio.all_tasks() if task.get_name() == "framehold-frame")
        running: Any = task.get_coro()
        waiting = []
        while hasattr(running, "cr_await"):
            waiting.append(running.cr_code.co_qualname)
            running = running.cr_await
    own = ["Invocation.enter", "run", order.__qualname__]
    assert waiting == [*own, "elicit_with_validation", "Frame.ask"]
