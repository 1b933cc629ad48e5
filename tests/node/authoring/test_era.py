"""Which era a request speaks, one handler out of two, and how a handler reads a round's answers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from mcp.server import MCPServer
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp_types import (
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    TextContent,
)
from pydantic import BaseModel

import framehold
from framehold.authoring import readers
from framehold.sdk.marks import marks_of
from tests.kit.serving import Word, said, serving
from tests.node.wires.official import hears

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("mode", "era"), [("auto", "modern"), ("legacy", "legacy")])
async def test_each_context_of_a_request_tells_its_era(mode: str, era: str) -> None:
    """An MCPServer's context, and the low-level one inside it; also of a frame that was suspended."""

    async def which(ctx: Context) -> str:
        before = framehold.era(ctx)
        word = said(await ctx.elicit("one", Word))
        return f"{before} {word} {framehold.era(ctx)} {framehold.era(ctx.request_context)}"

    async with serving(which) as client:
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
    async with serving(both) as client:
        assert await hears(client.url, "legacy", modern.__name__, place="here") == before
        assert await hears(client.url, "auto", modern.__name__, place="here") == now


async def test_by_era_looks_like_the_modern_one() -> None:
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
    async with serving(both) as client:
        assert await hears(client.url, "legacy", modern.__name__, place="here") == "old here"
        (shown,) = await client.server.list_tools()
    assert set(shown.input_schema["properties"]) == {"place"}


def test_by_era_needs_a_call_where_there_is_no_context() -> None:
    with pytest.raises(framehold.NotInCall, match="by_era without a context"):
        framehold.by_era(legacy=old_alone, modern=new_alone)("here")


def test_by_era_of_a_low_level_server_reads_its_context() -> None:
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


class Seat(BaseModel):
    row: int
    side: Literal["aisle", "window"] = "aisle"


ROW = ElicitRequest(
    params=ElicitRequestFormParams(
        message="Which row?", requested_schema={"type": "object", "properties": {"row": {"type": "integer"}}}
    )
)
SAID = CreateMessageResult(role="assistant", content=TextContent(type="text", text="yes"), model="m")
ANSWERS: dict[str, Any] = {
    "seat": ElicitResult(action="accept", content={"row": 4}),
    "odd": ElicitResult(action="accept", content={"row": "four"}),
    "page": ElicitResult(action="accept"),
    "no": ElicitResult(action="decline"),
    "gone": ElicitResult(action="cancel"),
    "sly": ElicitResult(action="decline", content={"row": 4}),
    "model": SAID,
    "folders": ListRootsResult(roots=[]),
}


@pytest.mark.parametrize("key", [*ANSWERS, "never asked"])
def test_only_accepted_content_that_matches_is_given(key: str) -> None:
    """All else is None: missing, not matching, without content, declined, cancelled, declined with content, of another
    kind."""
    wanted = Seat(row=4, side="aisle") if key == "seat" else None
    assert framehold.accepted_content(ANSWERS, key, Seat) == wanted


def test_each_kind_of_response_says_which_it_is() -> None:
    found = {key: framehold.input_response(ANSWERS, key) for key in (*ANSWERS, "never asked")}
    assert {key: view.kind for key, view in found.items()} == {
        **dict.fromkeys(("seat", "odd", "page", "no", "gone", "sly"), "elicit"),
        "model": "sampling",
        "folders": "roots",
        "never asked": "missing",
    }
    elicited = {key: (view.action, view.content) for key, view in found.items() if view.kind == "elicit"}
    assert elicited == {
        "seat": ("accept", {"row": 4}),
        "odd": ("accept", {"row": "four"}),
        "page": ("accept", None),
        "no": ("decline", None),
        "gone": ("cancel", None),
        "sly": ("decline", None),
    }
    assert found["model"] == readers.Sampled(SAID) and found["folders"] == readers.Roots([])


def _contexts() -> dict[str, object]:
    raw = {"name": "t", "inputResponses": {"seat": {"action": "accept", "content": {"row": 4}}}}
    session: Any = None
    return {
        "low-level": ServerRequestContext(
            session=session, lifespan_context=None, protocol_version="2026-07-28", method="tools/call", params=raw
        ),
        "FastMCP": SimpleNamespace(input_responses=ANSWERS),
        "the params of a low-level handler": SimpleNamespace(input_responses=ANSWERS),
    }


@pytest.mark.parametrize("ctx", _contexts().values(), ids=_contexts())
def test_each_context_has_its_answers(ctx: object) -> None:
    assert framehold.accepted_content(ctx, "seat", Seat) == Seat(row=4)
    assert framehold.input_response(ctx, "other").kind == "missing"


RAW: Any = {"seat": {"action": "accept", "content": {"row": 4}}}
NO_MODELS: tuple[Any, ...] = ("Seat", dict, Seat(row=1))
NO_MODEL = r"accepted_content\('{}'\): its third argument must be a pydantic model"
NOT_IN_CALL = "a context outside a request"
UNREADABLE: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "answers that nobody parsed": (
        lambda: framehold.accepted_content(RAW, "seat", Seat),
        TypeError,
        "the response to 'seat' is dict, not one of the SDK's results",
    ),
    "no context": (
        lambda: framehold.input_response(5, "seat"),
        TypeError,
        "takes the context that a handler was given, not int",
    ),
    "outside a request": (lambda: framehold.input_response(Context(), "seat"), framehold.NotInCall, NOT_IN_CALL),
    "outside a request of FastMCP": (
        lambda: framehold.input_response(SimpleNamespace(request_context=None, input_responses=None), "seat"),
        framehold.NotInCall,
        NOT_IN_CALL,
    ),
    **{
        f"{model} for {key}": (
            partial(framehold.accepted_content, ANSWERS, key, model),
            TypeError,
            NO_MODEL.format(key),
        )
        for model in NO_MODELS
        for key in ("seat", "never asked")
    },
}


@pytest.mark.parametrize(("read", "error", "says"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_can_not_be_read_is_not_taken_for_missing(
    read: Callable[[], object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        read()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ({"action": "accept", "content": {"row": 4}}, "row 4"),
        ({"action": "accept", "content": {"row": "x"}}, "accept"),
        ({"action": "decline"}, "decline"),
        ({"roots": []}, "roots"),
    ],
    ids=["accepted", "not matching", "declined", "of another kind"],
)
async def test_a_handler_reads_what_came_over_the_wire(answer: dict[str, Any], reply: str) -> None:
    async def seat(ctx: Context) -> str | InputRequiredResult:
        view = framehold.input_response(ctx, "seat")
        if view.kind == "missing":
            return InputRequiredResult(input_requests={"seat": ROW})
        found = framehold.accepted_content(ctx, "seat", Seat)
        if found is not None:
            return f"row {found.row}"
        return view.action if view.kind == "elicit" else view.kind

    async with serving(seat) as client:
        first = await client.send("tools/call", {"name": "seat", "arguments": {}})
        assert list(first.asked) == ["seat"]
        params = {"name": "seat", "arguments": {}, "inputResponses": {"seat": answer}}
        assert (await client.send("tools/call", params)).text == reply


def test_the_answers_of_a_step_are_those_of_its_own_context() -> None:
    """What else is read meanwhile has its own: another handler's context, a mapping."""
    ctx, other = (SimpleNamespace(input_responses=None) for _ in range(2))
    with readers.answering(ctx, ANSWERS):
        assert framehold.accepted_content(ctx, "seat", Seat) == Seat(row=4)
        assert framehold.input_response(other, "seat").kind == "missing"
        assert framehold.input_response({}, "seat").kind == "missing"
    assert framehold.input_response(ctx, "seat").kind == "missing"
