"""Reading a round's answers: what is validated, and what is told apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import pytest
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
from tests.node.stage import stage


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
OUTSIDE = "a context outside a request"
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
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
    "outside a request": (lambda: framehold.input_response(Context(), "seat"), framehold.NotInCall, OUTSIDE),
    "outside a request of FastMCP": (
        lambda: framehold.input_response(SimpleNamespace(request_context=None, input_responses=None), "seat"),
        framehold.NotInCall,
        OUTSIDE,
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


@pytest.mark.parametrize(("read", "error", "says"), REFUSED.values(), ids=REFUSED)
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

    async with stage(seat) as client:
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
