"""Which era a request speaks, and one handler out of two."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context

import framehold
from framehold.sdk.marks import marks_of
from tests.node.stage import Word, said, stage
from tests.node.wires.official import hears

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("mode", "era"), [("auto", "modern"), ("legacy", "legacy")])
async def test_each_context_of_a_request_tells_its_era(mode: str, era: str) -> None:
    """An MCPServer's context, and the low-level one inside it; also of a frame that was suspended."""

    async def which(ctx: Context) -> str:
        before = framehold.era(ctx)
        word = said(await ctx.elicit("one", Word))
        return f"{before} {word} {framehold.era(ctx)} {framehold.era(ctx.request_context)}"

    async with stage(which) as client:
        assert await hears(client.url, mode, "which") == f"{era} <one> {era} {era}"


@pytest.mark.parametrize(("version", "era"), [("2026-07-28", "modern"), ("2025-11-25", "legacy")])
def test_a_context_that_keeps_its_request_inside_is_read_by_its_shape(version: str, era: str) -> None:
    """FastMCP's: its version is its request context's."""
    assert framehold.era(SimpleNamespace(request_context=SimpleNamespace(protocol_version=version))) == era


OUTSIDE = r"framehold\.era was given a context outside a request"


@pytest.mark.parametrize(
    ("ctx", "error", "says"),
    [
        (Context(), framehold.NotInCall, OUTSIDE),
        (SimpleNamespace(request_context=None), framehold.NotInCall, OUTSIDE),
        ("ctx", TypeError, r"framehold\.era takes the context that a handler was given, not str"),
    ],
    ids=["MCPServer", "FastMCP", "no context"],
)
def test_outside_a_request_there_is_no_era(ctx: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        framehold.era(ctx)


# by_era


async def old(place: str, ctx: Context) -> str:
    """What the older ones hear."""
    return f"old {place}: {said(await ctx.elicit('which?', Word))}"


async def new(place: str, ctx: Context) -> str:
    """What the others hear."""
    return f"new {place}: {said(await ctx.elicit('which?', Word))}"


def old_plain(place: str, ctx: Context) -> str:
    return f"old {place}"


def new_plain(place: str, ctx: Context) -> str:
    return f"new {place}"


def old_alone(place: str) -> str:
    return f"old {place}"


def new_alone(place: str) -> str:
    return f"new {place}"


EACH = {
    "both async": (old, new, "old here: <which?>", "new here: <which?>"),
    "neither": (old_plain, new_plain, "old here", "new here"),
    "the older alone": (old, new_plain, "old here: <which?>", "new here"),
    "the newer alone": (old_plain, new, "old here", "new here: <which?>"),
    "without a context": (old_alone, new_alone, "old here", "new here"),
}


@pytest.mark.parametrize(("legacy", "modern", "before", "now"), EACH.values(), ids=EACH)
async def test_by_era_runs_the_one_that_the_client_speaks(
    legacy: Callable[..., Any], modern: Callable[..., Any], before: str, now: str
) -> None:
    both = framehold.by_era(legacy=legacy, modern=modern)
    async with stage(both) as client:
        assert await hears(client.url, "legacy", modern.__name__, place="here") == before
        assert await hears(client.url, "auto", modern.__name__, place="here") == now


async def test_by_era_looks_like_the_modern_one() -> None:
    """Name, text, schema and what it returns; the context is no argument."""

    async def rich(place: str, days: int = 2, *, ctx: Context) -> list[int]:
        """Rich."""
        return [days]

    async def poor(place: str, days: int = 3, *, ctx: Context) -> str:
        """Poor."""
        return ""

    shown = []
    for tool in (rich, framehold.by_era(legacy=poor, modern=rich)):
        server: MCPServer[Any] = MCPServer("one")
        server.add_tool(tool)
        shown += await server.list_tools()
    alone, both = shown
    assert both.model_dump() == alone.model_dump()
    assert set(both.input_schema["properties"]) == {"place", "days"}


def test_by_era_is_marked_as_the_modern_one() -> None:
    """A mark on the other promises nothing for this one."""

    @framehold.reentrant
    @framehold.options(strategy="replay")
    async def sure(ctx: Context) -> str:
        return ""

    async def unsure(ctx: Context) -> str:
        return ""

    assert marks_of(framehold.by_era(legacy=unsure, modern=sure)) == marks_of(sure)
    assert marks_of(framehold.by_era(legacy=unsure, modern=sure)).strategy == "replay"
    assert not marks_of(framehold.by_era(legacy=sure, modern=unsure)).reentrant


async def _more(place: str, days: int, ctx: Context) -> str:
    return ""


async def _other(place: str, context: Context) -> str:
    return ""


async def _by_name(*, place: str, ctx: Context) -> str:
    return ""


async def _unseen(place: str, ctx: str) -> str:
    return ""


async def _unknown(place: Nowhere, ctx: Context) -> str:  # type: ignore[name-defined]  # noqa: F821
    return ""


class _Callable:
    async def __call__(self, place: str, ctx: Context) -> str:
        return f"called {place}"


NAMELESS = "by_era: modern must have a name, as a function that is made with def has"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "one more": ({"legacy": _more}, r"'days' only of legacy"),
    "another name for the context": ({"legacy": _other}, r"'ctx' only of modern.*'context' only of legacy"),
    "another kind": (
        {"legacy": _by_name},
        r"'place' is keyword-only of legacy and positional or keyword of modern",
    ),
    "no context there": ({"legacy": _unseen}, r"the context is None of legacy and 'ctx' of modern"),
    "no function": ({"legacy": "old"}, "by_era: legacy must be a function, not str"),
    "an unknown type": (
        {"legacy": _unknown},
        r"by_era: legacy: name 'Nowhere' is not defined; nothing was registered",
    ),
    # Without a name the context would pass for an argument of the client's.
    "a partial": ({"modern": functools.partial(new)}, NAMELESS),
    "an object": ({"modern": _Callable()}, NAMELESS),
}


@pytest.mark.parametrize(("given", "says"), REFUSED.values(), ids=REFUSED)
def test_by_era_refuses_what_can_not_be_one_tool(given: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        framehold.by_era(**{"legacy": old, "modern": new, **given})


@pytest.mark.parametrize("modern", [new, _Callable().__call__], ids=["a function", "a method"])
async def test_by_era_takes_whatever_for_the_older(modern: Callable[..., Any]) -> None:
    both = framehold.by_era(legacy=functools.partial(old_plain), modern=modern)
    async with stage(both) as client:
        assert await hears(client.url, "legacy", modern.__name__, place="here") == "old here"
        (shown,) = await client.server.list_tools()
    assert set(shown.input_schema["properties"]) == {"place"}


def test_by_era_needs_a_call_where_there_is_no_context() -> None:
    with pytest.raises(framehold.NotInCall, match="by_era without a context"):
        framehold.by_era(legacy=old_alone, modern=new_alone)("here")


def test_by_era_of_a_low_level_server_reads_its_context() -> None:
    """Its handlers take context and params, by place."""

    def one(ctx: ServerRequestContext, params: Any) -> str:
        return "old"

    def other(ctx: ServerRequestContext, params: Any) -> str:
        return "new"

    both = framehold.by_era(legacy=one, modern=other)
    for version, reply in (("2026-07-28", "new"), ("2025-06-18", "old")):
        session: Any = None
        ctx: ServerRequestContext[dict[str, Any], Any] = ServerRequestContext(
            session=session, lifespan_context={}, protocol_version=version, method="tools/call"
        )
        assert both(ctx, None) == reply
