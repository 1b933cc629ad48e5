"""What a form can hold: a choice of words yes, a model within the model no."""

from __future__ import annotations

from typing import Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel


class Berth(BaseModel):
    side: Literal["port", "starboard"]


class Engine(BaseModel):
    power: int


class Boat(BaseModel):
    name: str
    engine: Engine


def build() -> MCPServer:
    """A harbour office."""
    mcp = MCPServer("Harbour")

    @mcp.tool()
    async def choose_berth(ctx: Context) -> str:
        """Ask for one of two words."""
        answer = await ctx.elicit("On which side?", Berth)
        return answer.data.side if answer.action == "accept" else answer.action

    @mcp.tool()
    async def describe_boat(ctx: Context) -> str:
        """Try to ask for a model within a model."""
        return str(await ctx.elicit("What is it like?", Boat))

    return mcp
