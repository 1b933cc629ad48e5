"""The official client, which speaks one era and types each question in again."""

from __future__ import annotations

from typing import Any

from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import ElicitResult, TextContent


async def repeats(context: ClientRequestContext, params: Any) -> ElicitResult:
    """Fill a form with its question, so that an answer that went astray shows."""
    return ElicitResult(action="accept", content={"word": f"<{params.message}>"})


async def hears(where: Any, mode: Any, tool: str, **arguments: Any) -> str:
    """What the client of one era is told."""
    async with Client(where, mode=mode, elicitation_callback=repeats) as official:
        result = await official.call_tool(tool, arguments)
    return " ".join(block.text for block in result.content if isinstance(block, TextContent))
