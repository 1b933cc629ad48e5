"""What most tools return: a result of texts, with or without a structured one beside them.

The SDK dumps a result, validates the dump by its revision's own model, and dumps that again; of plain texts comes out
what went in, which is written down here at once. `tests/node/test_texts.py` holds both to each other."""

from __future__ import annotations

from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic_core import to_jsonable_python


def dumped(result: Any) -> dict[str, Any] | None:
    """A result of plain texts as it goes on the wire of 2026-07-28; None for any other, which is the SDK's to dump."""
    if type(result) is not CallToolResult or result.meta is not None or result.result_type != "complete":
        return None
    texts = [item for item in result.content if type(item) is TextContent and _bare(item)]
    if len(texts) != len(result.content) or type(result.is_error) is not bool:
        return None
    content = [{"text": item.text, "type": "text"} for item in texts]
    told: dict[str, Any] = {"content": content, "isError": result.is_error, "resultType": "complete"}
    structured = to_jsonable_python(result.structured_content, exclude_none=True, inf_nan_mode="null")
    if structured is not None:
        told["structuredContent"] = structured
    return told


def _bare(item: TextContent) -> bool:
    return type(item.text) is str and item.annotations is None and item.meta is None
