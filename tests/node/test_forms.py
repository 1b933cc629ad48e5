"""A form asks what the SDK's own model of it would ask, whether or not it was asked before."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from framehold import questions

PLAIN: dict[str, Any] = {"type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]}
BOUNDED = {"type": "object", "properties": {"row": {"type": "integer", "minimum": 1, "default": None}}, "title": None}
NAMED = {"type": "object", "properties": {"é\u2028": {"type": "string", "enum": ["x" * 9, "\U0001f600"]}}}
LONG = {"type": "object", "properties": {f"field {number}": {"type": "boolean"} for number in range(300)}}


@pytest.mark.parametrize("message", ["Which seat?", "", "\u2028é", "y" * 5000])
@pytest.mark.parametrize("schema", [PLAIN, BOUNDED, NAMED, LONG])
def test_a_form_is_the_question_that_its_model_is(message: str, schema: dict[str, Any]) -> None:
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    asked = questions.question(types.ElicitRequest(params=params), types.ElicitResult)
    for _ in range(2):
        assert questions.form(message, schema) == asked


def test_forms_that_read_alike_are_told_apart() -> None:
    """By message and schema together; what Python takes to be equal need not be in JSON."""
    kinds: list[Any] = [1, 1.0, True, None, 2]
    schemas = [{**PLAIN, "properties": {"row": {"type": "string", "title": str(kind)}}} for kind in kinds]
    asked = [questions.form(message, schema).fp for message in ("Which seat?", "Which row?") for schema in schemas]
    extras = [questions.form("Which seat?", {**PLAIN, "default": kind}).fp for kind in (1, 1.0, True)]
    assert len({*asked, *extras}) == len(asked) + len(extras)


def test_a_long_form_is_not_kept() -> None:
    """Its text may be a user's."""
    before = questions._formed.cache_info().currsize
    questions.form("z" * 5000, PLAIN)
    assert questions._formed.cache_info().currsize == before


@pytest.mark.parametrize(
    ("message", "schema", "error"),
    [
        (7, PLAIN, ValidationError),
        (["Which seat?"], PLAIN, ValidationError),
        ("Which seat?", [PLAIN], ValidationError),
        ("Which seat?", {**PLAIN, "properties": {"row": object()}}, PydanticSerializationError),
        ("Which seat?", {"type": "array"}, MCPError),
    ],
    ids=str,
)
def test_what_is_no_form_is_refused_each_time(message: Any, schema: Any, error: type[Exception]) -> None:
    for _ in range(2):
        with pytest.raises(error):
            questions.form(message, schema)
