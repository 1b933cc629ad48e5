"""A fast way to the wire for what most tools return: a result of texts, with or without a few plain values.

The SDK dumps a result, validates the dump by the model of its revision, and dumps it again. For plain texts the result
of this is known, and it is written here at once. `tests/node/http/test_text_result.py` holds that both give the
same."""

from __future__ import annotations

from typing import Any

from mcp_types import CallToolResult, TextContent

_PLAIN = (str, int, bool)


def dumped(result: Any) -> dict[str, Any] | None:
    """A result of plain texts as it goes on the wire of 2026-07-28; None for any other result, which the SDK dumps."""
    if type(result) is not CallToolResult:
        return None
    # Not by attribute: a result that was made without validation may lack some.
    fields = result.__dict__
    content, structured = fields.get("content"), fields.get("structured_content")
    if type(content) is not list or not all(map(_is_plain_text, content)) or not _is_flat(structured):
        return None
    if type(failed := fields.get("is_error")) is not bool or fields.get("meta") is not None:
        return None
    if fields.get("result_type") != "complete":
        return None
    texts = [{"text": item.text, "type": "text"} for item in content]
    wire: dict[str, Any] = {"content": texts, "isError": failed, "resultType": "complete"}
    if structured is not None:
        wire["structuredContent"] = dict(structured)
    return wire


def _is_plain_text(item: Any) -> bool:
    """Whether a content block is a text without annotations and `_meta`."""
    if type(item) is not TextContent:
        return False
    fields = item.__dict__
    plain = type(fields.get("text")) is str and fields.get("type") == "text"
    return plain and fields.get("annotations") is None and fields.get("meta") is None


def _is_flat(structured: Any) -> bool:
    """Whether a structured result is None, or a flat mapping of texts, integers and booleans, which the SDK does not
    change. It does change numbers that JSON lacks, models and deeply nested values."""
    if structured is None:
        return True
    return type(structured) is dict and all(
        type(name) is str and type(value) in _PLAIN for name, value in structured.items()
    )
