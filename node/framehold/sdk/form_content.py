"""Checks what a user gave against the form of a question, as a client does that shows the form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match


def mismatch(content: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Why a client that knows the form would not send this content; empty if it would. `schema`: the question's
    `requestedSchema`."""
    fields = schema.get("properties") or {}
    if unknown := [key for key in content if key not in fields]:
        return f"the form has no {listed(unknown)}; its fields are {listed(fields)}"
    error = best_match(Draft202012Validator(schema).iter_errors(content))
    if error is None:
        return ""
    field = ".".join(str(part) for part in error.absolute_path)
    return f"{field}: {error.message}" if field else str(error.message)


def listed(keys: Any) -> str:
    """Keys as a text, for messages."""
    return ", ".join(map(repr, keys)) or "nothing"
