"""Questions to the client rather than to its user: its model, and its folders, as parameters."""

from __future__ import annotations

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import ListRoots, Resolve, Sample
from mcp.types import CreateMessageResult, ListRootsResult, SamplingMessage, TextContent


def rhyme(word: str) -> Sample:
    return Sample(
        [SamplingMessage(role="user", content=TextContent(type="text", text=f"One rhyme for {word}?"))], max_tokens=20
    )


def folders() -> ListRoots:
    return ListRoots()


def build() -> MCPServer:
    mcp = MCPServer("Poetry")

    @mcp.tool()
    async def couplet(word: str, found: Annotated[CreateMessageResult, Resolve(rhyme)]) -> str:
        return f"{word} / {found.content.text if isinstance(found.content, TextContent) else '?'}"

    @mcp.tool()
    async def where_to_save(found: Annotated[ListRootsResult, Resolve(folders)]) -> str:
        return str(found.roots[0].uri) if found.roots else "nowhere"

    return mcp
