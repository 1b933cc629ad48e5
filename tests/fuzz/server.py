"""The tool of the rounds: on Framehold it asks; `plain`, the SDK alone, reads questions' answers out of the request."""

from __future__ import annotations

import json
from typing import Any

from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp.types import CallToolRequestParams, CallToolResult, ElicitResult, TextContent
from pydantic import BaseModel, ValidationError

import framehold
from framehold_core.journal import in_one_way

mcp: MCPServer[Any] = MCPServer("fuzz")


class Answer(BaseModel):
    word: str
    n: float


def said(value: Any) -> str:
    """A value as a text, the same for all ways to write it."""
    return json.dumps(in_one_way(value), sort_keys=True, ensure_ascii=False)


@framehold.reentrant
async def ask(value: Any, ctx: Context) -> str:
    """Say the value as a question, and what was answered at the end."""
    answer = await ctx.elicit(said(value), Answer)
    return said([value, answer.data.model_dump() if answer.action == "accept" else answer.action])


@framehold.options(strategy="replay")
@framehold.reentrant
async def replayed(value: Any, ctx: Context) -> str:
    """The same, with its record in the token."""
    return await ask(value, ctx)


for tool in (ask, replayed):
    mcp.tool()(tool)


async def _call_tool(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
    arguments = params.arguments or {}
    try:
        text = said(arguments["value"])
        if (given := params.input_responses) is not None:
            (answer,) = given.values()
            assert isinstance(answer, ElicitResult)
            content = Answer.model_validate(answer.content).model_dump() if answer.action == "accept" else answer.action
            text = said([arguments["value"], content])
    except (KeyError, ValueError, AssertionError, ValidationError) as error:
        return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)
    return CallToolResult(content=[TextContent(type="text", text=text)])


plain: Server[Any] = Server("plain", on_call_tool=_call_tool)
app = framehold.asgi(mcp)
"""For `uvicorn tests.fuzz.server:app`."""
