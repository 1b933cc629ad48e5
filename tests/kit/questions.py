"""Questions that a handler returns, for tests of those who read the answers."""

from __future__ import annotations

from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

FORM = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


def form(message: str) -> ElicitRequest:
    """A form with one field, `word`."""
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=FORM))


def asking(state: str | None = None, /, **messages: str) -> InputRequiredResult:
    """One form a key, and a state."""
    asked = {key: form(message) for key, message in messages.items()}
    return InputRequiredResult(input_requests=asked or None, request_state=state)
