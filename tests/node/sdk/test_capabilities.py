"""Which questions a client can be asked, by what it has declared, and what it is told that it lacks."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from framehold.frame.asks import Question
from framehold.sdk.questions import missing

Asked = tuple[str, str, dict[str, Any]]
"""The kind of a question, its method and its parameters."""
FORM: Asked = ("elicit", "elicitation/create", {"mode": "form"})
URL: Asked = ("elicit", "elicitation/create", {"mode": "url"})
SAMPLE: Asked = ("sample", "sampling/createMessage", {})
TOOLS: Asked = ("sample", "sampling/createMessage", {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})
ROOTS: Asked = ("roots", "roots/list", {})
ANY: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("question", "declared", "lacks"),
    [
        (FORM, {"elicitation": ANY}, None),
        (FORM, {"elicitation": {"form": ANY}}, None),
        (FORM, {"elicitation": {"form": ANY, "url": ANY}}, None),
        (FORM, {"elicitation": {"url": ANY}}, {"elicitation": {"form": ANY}}),
        (FORM, {}, {"elicitation": {"form": ANY}}),
        (FORM, None, {"elicitation": {"form": ANY}}),
        (URL, {"elicitation": {"url": ANY}}, None),
        (URL, {"elicitation": {"form": ANY}}, {"elicitation": {"url": ANY}}),
        (URL, {"elicitation": ANY}, {"elicitation": {"url": ANY}}),
        (URL, {"sampling": ANY}, {"elicitation": {"url": ANY}}),
        (SAMPLE, {"sampling": ANY}, None),
        (SAMPLE, {"elicitation": ANY}, {"sampling": ANY}),
        (TOOLS, {"sampling": {"tools": ANY}}, None),
        (TOOLS, {"sampling": ANY}, {"sampling": {"tools": ANY}}),
        (ROOTS, {"roots": ANY}, None),
        (ROOTS, {"sampling": ANY}, {"roots": ANY}),
    ],
)
def test_a_client_is_asked_what_it_can_answer(
    question: Asked, declared: dict[str, Any] | None, lacks: dict[str, Any] | None
) -> None:
    """A bare `elicitation` is one for forms."""
    kind, method, params = question
    asked = Question(kind, {"method": method, "params": params}, "", lambda raw: raw)
    has = None if declared is None else types.ClientCapabilities.model_validate(declared)
    error = missing(asked, has)
    if lacks is None:
        assert error is None
    else:
        assert error is not None and error.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
        assert error.error.data == {"requiredCapabilities": lacks} and method in error.error.message
