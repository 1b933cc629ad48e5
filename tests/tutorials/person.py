"""Who answers at the client's side: they say what a script tells them, and remember what they were asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mcp.types as types
from mcp import MCPError
from mcp.client import ClientRequestContext
from pydantic import FileUrl


class Person:
    """Gives the answers in order; one callback serves forms and web pages alike."""

    def __init__(self, answers: Sequence[types.ElicitResult]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []
        self.forms: list[dict[str, Any]] = []

    async def elicit(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        if isinstance(params, types.ElicitRequestURLParams):
            self.asked.append(f"{params.message} {params.url}")
        else:
            self.asked.append(params.message)
            self.forms.append(params.requested_schema)
        return self._answers.pop(0)


async def model(context: ClientRequestContext, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    """The client's model: repeats the prompt backwards."""
    content = params.messages[-1].content
    assert isinstance(content, types.TextContent)
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(type="text", text=content.text[::-1]), model="mirror"
    )


async def folders(context: ClientRequestContext) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///srv/poems"))])


def said(result: types.CallToolResult) -> str:
    """What a tool's result tells its reader."""
    text = " ".join(block.text for block in result.content if isinstance(block, types.TextContent))
    return f"error: {text}" if result.is_error else text


def refused(error: MCPError) -> str:
    """What a protocol error tells its reader."""
    return f"{error.error.code}: {error.error.message}"
