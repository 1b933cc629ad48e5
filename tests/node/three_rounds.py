"""A server for node processes: tools that ask three times, once and never, each noting its entry in a file."""

from __future__ import annotations

import os

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

mcp = MCPServer("three-rounds")


class Word(BaseModel):
    word: str


def _entered(name: str) -> None:
    """One line for each entry, in one write: many may be entered at once."""
    with open(os.environ["ENTRIES"], "a", encoding="ascii") as file:
        file.write(f"{name}\n")


async def _asked(ctx: Context, message: str) -> str:
    answer = await ctx.elicit(message, Word)
    return answer.data.word if answer.action == "accept" else "nothing"


@mcp.tool()
async def three(name: str, ctx: Context) -> str:
    """Ask three times."""
    _entered(name)
    first = await _asked(ctx, f"{name}, a secret question?")
    second = await _asked(ctx, f"{name}, after {first}?")
    third = await _asked(ctx, f"{name}, after {second}?")
    return f"{name}: {first} {second} {third}"


@mcp.tool()
async def one(name: str, ctx: Context) -> str:
    """Ask once."""
    _entered(name)
    return f"{name}: {await _asked(ctx, f'{name}?')}"


@mcp.tool()
async def never(name: str) -> str:
    """Ask nothing."""
    _entered(name)
    return f"{name}: unasked"


app = framehold.asgi(mcp)
