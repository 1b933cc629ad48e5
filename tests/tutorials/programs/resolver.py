"""Questions hung on parameters: one tool takes the whole outcome, one only the accepted model."""

from __future__ import annotations

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import (
    AcceptedElicitation,
    CancelledElicitation,
    DeclinedElicitation,
    Elicit,
    ElicitationResult,
    Resolve,
)
from pydantic import BaseModel

SHELVES = {"top": 0, "middle": 3}


class Sure(BaseModel):
    sure: bool


async def ask_if_full(shelf: str) -> Sure | Elicit[Sure]:
    """An empty shelf needs no question."""
    jars = SHELVES.get(shelf, 0)
    return Elicit(f"There are {jars} jars on the {shelf} shelf. Clear it?", Sure) if jars else Sure(sure=True)


def build() -> MCPServer:
    """A pantry."""
    mcp = MCPServer("Pantry")

    @mcp.tool()
    async def clear_shelf(shelf: str, consent: Annotated[ElicitationResult[Sure], Resolve(ask_if_full)]) -> str:
        """Clear a shelf, whatever the user says to the question."""
        match consent:
            case AcceptedElicitation(data=Sure(sure=True)):
                return f"{shelf} cleared"
            case AcceptedElicitation():
                return f"{shelf} left alone"
            case DeclinedElicitation():
                return f"{shelf}: no answer wanted"
            case CancelledElicitation():
                return f"{shelf}: question dismissed"

    @mcp.tool()
    async def paint_shelf(shelf: str, consent: Annotated[Sure, Resolve(ask_if_full)]) -> str:
        """Paint a shelf; without an accepted answer the call fails."""
        return f"{shelf} painted" if consent.sure else f"{shelf} not painted"

    return mcp
