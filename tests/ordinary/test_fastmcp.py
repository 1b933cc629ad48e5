"""A tool of FastMCP that has a plan is served as FastMCP serves it; one that anything could stand before has none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain, islice
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware
from fastmcp.tools import Tool
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

import framehold
from framehold.hosts import fastmcp_plans
from tests.ordinary.client import Party, Seen
from tests.ordinary.conversations import COUNT, FORM, Conversation, drawn
from tests.ordinary.equality import both, played
from tests.ordinary.fastmcp_server import server
from tests.ordinary.test_equal import of_fastmcp
from tests.ordinary.tools import Units
from tests.sim.edits import edited

pytestmark = pytest.mark.anyio
WEATHER = Conversation("weather", {"location": "Oslo"}, [FORM])


@pytest.mark.parametrize("name", ["looks", "depends", "calls_another", "remembers"])
async def test_what_fastmcp_has_besides(name: str) -> None:
    """The request, its headers, dependencies, calls of other tools, and state."""
    talk = Conversation(name, {}, [FORM, COUNT])
    async with both(make=server) as pair:
        tally = await played(pair, [talk, talk, talk])
        assert not tally.differences and tally.taken == 5, tally.told()
        assert not pair[0].message["result"].get("isError"), pair[0].message


class Counting(Middleware):
    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        result = await call_next(context)
        result.meta = {**(result.meta or {}), "seen": True}
        return result


async def denied(*_: Any) -> bool:
    return False


@framehold.options(ttl=30)
@framehold.reentrant
async def another(location: str, ctx: Context) -> str:
    return f"another {location} {(await ctx.elicit('which?', Units)).action}"


def another_tool(made: FastMCP[Any]) -> None:
    made.local_provider.remove_tool("weather")
    made.add_tool(Tool.from_function(another, name="weather"))


def two_versions(made: FastMCP[Any]) -> None:
    made.local_provider.remove_tool("weather")
    for version in ("1", "2"):
        made.add_tool(Tool.from_function(another, name="weather", version=version))


def weather_of(made: FastMCP[Any]) -> Any:
    (tool,) = [item for item in made.local_provider._components.values() if item.name == "weather"]
    return tool


async def refusing(*_: Any, **__: Any) -> Any:
    raise ToolError("refused by a guard")


def patched(name: str, of: Callable[[Any], Any] = lambda made: made) -> Callable[[FastMCP[Any]], None]:
    return lambda made: setattr(of(made), name, refusing)


def of_another_server(made: FastMCP[Any]) -> None:
    other: FastMCP[Any] = FastMCP("other")
    other.tool(lambda location: f"other {location}", name="weather")
    made._mcp_server.add_request_handler("tools/call", CallToolRequestParams, other._on_call_tool)


HIDDEN = {"fastmcp": {"_internal": {"visibility": False}}}
CHANGES: dict[str, Callable[[FastMCP[Any]], Any]] = {
    "a guard at calls": patched("call_tool"),
    "a guard at look-ups": patched("get_tool"),
    "a guard at the chain": patched("_run_middleware"),
    "a guard at the provider": patched("_get_tool", lambda made: made.local_provider),
    "marked late": lambda made: framehold.reentrant(weather_of(made).fn),
    "hidden by itself": lambda made: setattr(weather_of(made), "meta", HIDDEN),
    "another handler": of_another_server,
    "a middleware": lambda made: made.add_middleware(Counting()),
    "two versions": two_versions,
    "another tool": another_tool,
    "authorization": lambda made: setattr(weather_of(made), "auth", denied),
    "hidden": lambda made: made.disable(names={"weather"}),
    "removed": lambda made: made.local_provider.remove_tool("weather"),
    "a mounted server": lambda made: made.mount(FastMCP("other")),
}
"""What an author may do with the server while a call of it is parked."""


async def replies(pair: tuple[Party, Party], change: Callable[[FastMCP[Any]], Any], asked: bool) -> list[list[Seen]]:
    """What both reply to a call and to another one. Both servers are changed before the first one begins, or while it
    is parked."""
    await played(pair, [WEATHER, WEATHER])
    found = []
    for side in pair:
        if not asked:
            change(side.app.server)
        first = await side.send(WEATHER.sent(side))
        if asked:
            change(side.app.server)
        more = [await side.send(WEATHER.retry(side, FORM)) for _ in range(2) if side.asked]
        found.append([first, *more, *await WEATHER.hold(side)])
    return found


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("asked", [False, True], ids=["before", "between rounds"])
async def test_what_changes_at_a_server_counts_at_once(change: Callable[[FastMCP[Any]], Any], asked: bool) -> None:
    async with both(make=server) as pair:
        short, long = await replies(pair, change, asked)
        assert short == long
        tally = await played(pair, chain([WEATHER, WEATHER], of_fastmcp(islice(drawn(3), 20))))
        assert not tally.differences, tally.told()


async def test_the_marks_of_the_tool_that_is_there_count() -> None:
    async with both(make=server) as pair:
        await played(pair, [WEATHER, WEATHER])
        for side in pair:
            another_tool(side.app.server)
            await side.send(WEATHER.sent(side))
            (slot,) = side.app.attached.runtime.table
            assert (slot.call.reentrant, slot.call.ttl) == (True, 30.0)


@pytest.mark.parametrize("answers", [[], [FORM]], ids=["at once", "late"])
async def test_an_error_of_the_protocol_is_the_authors_whatever_it_was_made_from(answers: list[Any]) -> None:
    async def lacks(ctx: Context) -> str:
        if answers:
            await ctx.elicit("ok?", Units)
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling is missing") from ToolError("inner")

    async with both(make=server) as pair:
        for side in pair:
            side.app.server.tool(lacks)
        tally = await played(pair, [Conversation("lacks", {}, answers)] * 2)
        assert not tally.differences and "sampling is missing" in str(pair[0].message["error"]), tally.told()


async def test_a_guard_in_the_class_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    async with both(make=server) as pair:
        await played(pair, [WEATHER, WEATHER])
        for side in pair:
            await side.send(WEATHER.sent(side))
        monkeypatch.setattr(FastMCP, "call_tool", refusing)
        short, long = [[await side.send(WEATHER.retry(side, FORM)), *await WEATHER.hold(side)] for side in pair]
        assert short == long and "refused by a guard" in short[0].body


@pytest.mark.parametrize("turns", range(12))
async def test_a_tool_that_goes_while_a_request_comes(turns: int) -> None:
    """Its client gets the question, or hears that there is no such tool."""
    async with both(make=server) as (short, _):
        await played((short, short), [WEATHER, WEATHER])

        async def goes() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            short.app.server.local_provider.remove_tool("weather")

        seen, _ = await asyncio.gather(short.send(WEATHER.sent(short)), goes())
        assert seen.status == 200 and ("units?" in seen.body or "Unknown tool" in seen.body), seen


class SignsIn:
    """A middleware of the author that says who the user is, as FastMCP reads it."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            token = AccessToken(token="t", client_id="app", subject="bob", scopes=[])
            scope = {**scope, "user": AuthenticatedUser(token)}
        await self._app(scope, receive, send)


async def test_a_user_whom_a_middleware_signed_in_has_no_plan() -> None:
    """FastMCP keeps rules for users: a tool that was hidden from one is gone at once."""

    async def hides(ctx: Context) -> str:
        await ctx.disable_components(names={"weather"})
        return "hidden"

    async with both(make=server, middlewares=(SignsIn,)) as pair:
        for side in pair:
            side.app.server.tool(hides)
        tally = await played(pair, [WEATHER, WEATHER])
        replied = []
        for side in pair:
            asked = await side.send(WEATHER.sent(side))
            retry = WEATHER.retry(side, FORM)
            await Conversation("hides", {}, []).hold(side)
            replied.append([asked, await side.send(retry), *await WEATHER.hold(side)])
        assert replied[0] == replied[1] and not tally.taken, tally.told()


CHECKS = {
    "a guard at calls": ("_root", " or not _is_unpatched(server)", ""),
    "hidden by itself": ("_only", " if is_enabled(found[0]) else None", ""),
    "another handler": ("_root", "entry.handler != MethodType(FastMCP._on_call_tool, server)", "False"),
    "a middleware": ("_root", "type(item) is DereferenceRefsMiddleware", "True"),
    "hidden": ("_root", " or server.transforms", ""),
    "authorization": ("_only", " or found[0].auth is not None", ""),
}
"""For some changes the check that sees them: its function, the piece of its text, and what stands there without it."""


@pytest.mark.parametrize("name", CHECKS)
async def test_without_a_check_of_the_server_replies_differ(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, old, new = CHECKS[name]
    monkeypatch.setattr(fastmcp_plans, function, edited(getattr(fastmcp_plans, function), old, new))
    async with both(make=server) as pair:
        short, long = await replies(pair, CHANGES[name], asked=True)
        assert short != long
