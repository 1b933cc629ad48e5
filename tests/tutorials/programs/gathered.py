"""What only a suspended frame can do on 2026-07-28: ask everyone at once, from plain awaits."""

from __future__ import annotations

import asyncio

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel


class Title(BaseModel):
    title: str


def build() -> MCPServer:
    """A printer's shop."""
    mcp = MCPServer("Printer")

    @mcp.tool()
    async def set_page(ctx: Context) -> str:
        """Ask the user, the client's model and the client itself, together."""
        prompt = SamplingMessage(role="user", content=TextContent(type="text", text="A motto, please."))
        title, motto, folders = await asyncio.gather(
            ctx.elicit("Which title?", Title),
            ctx.session.create_message([prompt], max_tokens=20, related_request_id=ctx.request_id),
            ctx.session.list_roots(),
        )
        heading = title.data.title if title.action == "accept" else "untitled"
        words = motto.content.text if isinstance(motto.content, TextContent) else "?"
        return f"{heading}: {words} ({len(folders.roots)} folder)"

    return mcp
