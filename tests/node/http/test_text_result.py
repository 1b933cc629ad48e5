"""A result of texts is dumped as the SDK dumps it, down to the order of its fields."""

from __future__ import annotations

import datetime
import itertools
import json
import math
from typing import Any

import mcp_types as types
import pytest
from mcp_types import methods
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, Field, RootModel

from framehold.http import text_result


class Weather(BaseModel):
    """With a name of its own on the wire, and a field that may be absent."""

    degrees: float = Field(alias="inDegrees")
    wind: float | None = None


class Rates(RootModel[list[float]]):
    """Numbers that JSON may lack, in a model."""


FLAT: tuple[Any, ...] = (None, {}, {"result": "x"}, {"a": 10**30, "b": True, "é\n": "\x00", "": -1})
DEEP: tuple[Any, ...] = (
    *([], "", 0, False, "x", 5, True, 1.5, 10**30, [1, (2, 3)], {1: 2}, {"a": None}, {"b": [None]}, {"s": {1}}),
    *({"b": b"ab"}, {"f": 1.0}, {"f": math.inf}, {"n": math.nan}, math.nan, {"for": datetime.timedelta(1)}),
    *(Weather(inDegrees=math.nan), {"m": Weather(inDegrees=math.inf)}, Rates([math.nan]), {"r": Rates([math.nan])}),
    {"at": datetime.datetime(2026, 7, 28, tzinfo=datetime.UTC)},
)
TEXTS: tuple[list[str], ...] = ([], ["x"], ["x", "é\n\x00"])


def text(output: str, **beside: Any) -> types.TextContent:
    return types.TextContent(type="text", text=output, **beside)


def by_the_sdk(result: types.CallToolResult) -> dict[str, Any]:
    whole = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return methods.serialize_server_result("tools/call", LATEST_MODERN_VERSION, whole)


@pytest.mark.parametrize("structured", FLAT, ids=repr)
def test_texts_are_dumped_as_the_sdk_dumps_them(structured: Any) -> None:
    """With plain values beside them."""
    for output, failed in itertools.product(TEXTS, (False, True)):
        content: list[types.ContentBlock] = [text(item) for item in output]
        result = types.CallToolResult(content=content, structured_content=structured, is_error=failed)
        found = text_result.dumped(result)
        assert found is not None
        # In the same order, and a list where it has a list.
        assert json.dumps(found) == json.dumps(by_the_sdk(result))


@pytest.mark.parametrize("structured", DEEP, ids=repr)
def test_what_becomes_something_else_on_its_way_is_the_sdks_to_dump(structured: Any) -> None:
    """Numbers that JSON lacks, above all: in a model they would leave as they are, and no client could read them."""
    assert text_result.dumped(types.CallToolResult(content=[text("x")], structured_content=structured)) is None


def test_any_other_result_is_the_sdks_to_dump() -> None:
    """Whatever has a field more, or another type, than plain texts have."""
    image = types.ImageContent(type="image", data="", mime_type="image/png")
    spoilt = text("x")
    spoilt.text = 5  # type: ignore[assignment]  # that is the point

    renamed = text("x")
    renamed.type = "markdown"  # type: ignore[assignment]  # that is the point

    class Own(types.CallToolResult):
        pass

    textless: Any = types.TextContent.model_construct
    unchecked: Any = types.CallToolResult.model_construct
    others: list[Any] = [
        types.CallToolResult(content=[text("x"), image]),
        types.CallToolResult(content=[text("x", annotations=types.Annotations(priority=1))]),
        types.CallToolResult(content=[text("x", _meta={})]),
        types.CallToolResult(content=[text("x")], _meta={}),
        types.CallToolResult(content=[text("x")], result_type="custom"),
        types.CallToolResult(content=[spoilt]),
        types.CallToolResult(content=[renamed]),
        types.CallToolResult(content=[textless(type="text")]),
        unchecked(is_error=False),
        unchecked(content=None, is_error=False),
        unchecked(content=(text(output) for output in "xy"), is_error=False),
        Own(content=[text("x")]),
        {"content": [{"type": "text", "text": "x"}]},
        None,
    ]
    assert [text_result.dumped(other) for other in others] == [None] * len(others)


def test_a_result_has_the_fields_that_were_read() -> None:
    """A release of mcp that adds one must be read: `texts` would leave it out."""
    assert set(types.CallToolResult.model_fields) == {
        "meta",
        "content",
        "structured_content",
        "is_error",
        "result_type",
    }
    assert set(types.TextContent.model_fields) == {"type", "text", "annotations", "meta"}
