"""What most tools return: a result of texts, with or without a few plain values beside them.

The SDK dumps a result, validates the dump by its revision's own model, and dumps that again; of plain texts comes out
what went in, which is written down here at once. `tests/node/test_texts.py` holds both to each other."""

from __future__ import annotations

from typing import Any

from mcp_types import CallToolResult, TextContent

_PLAIN = (str, int, bool)


def dumped(result: Any) -> dict[str, Any] | None:
    """A result of plain texts as it goes on the wire of 2026-07-28; None for any other, which is the SDK's to dump."""
    if type(result) is not CallToolResult:
        return None
    # Not by attribute: what was made past validation may lack some.
    fields = result.__dict__
    content, structured = fields.get("content"), fields.get("structured_content")
    if type(content) is not list or not all(map(_bare, content)) or not _flat(structured):
        return None
    if type(failed := fields.get("is_error")) is not bool or fields.get("meta") is not None:
        return None
    if fields.get("result_type") != "complete":
        return None
    texts = [{"text": item.text, "type": "text"} for item in content]
    told: dict[str, Any] = {"content": texts, "isError": failed, "resultType": "complete"}
    if structured is not None:
        told["structuredContent"] = dict(structured)
    return told


def _bare(item: Any) -> bool:
    if type(item) is not TextContent:
        return False
    fields = item.__dict__
    plain = type(fields.get("text")) is str and fields.get("type") == "text"
    return plain and fields.get("annotations") is None and fields.get("meta") is None


def _flat(structured: Any) -> bool:
    """Whether a structured result is none, or one that nothing becomes of on its way: the SDK has words of its own for
    numbers that JSON lacks, for models and for what is nested deep."""
    if structured is None:
        return True
    return type(structured) is dict and all(
        type(name) is str and type(value) in _PLAIN for name, value in structured.items()
    )
