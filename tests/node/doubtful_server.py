"""Handlers whose effects leave a line and hang for as long as a file says so."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold
from framehold_core.errors import InDoubt

mcp: MCPServer = MCPServer("doubtful")


class Word(BaseModel):
    word: str


def note(name: str, key: str) -> None:
    """Leaves a line."""
    with Path(os.environ["ENTRIES"]).open("a") as ledger:
        ledger.write(f"{name}:{key}\n")


def hang() -> None:
    """Returns when the file is gone. The process is killed here: nothing else would end this."""
    hold = Path(os.environ["ENTRIES"]).parent / "hold"
    while hold.exists():
        time.sleep(0.02)


def effect(name: str) -> str:
    note(name, framehold.idempotency_key("pay"))
    hang()
    return "done"


async def _asks(tool: str, ctx: Context, *, idempotent: bool) -> str:
    await ctx.elicit("begin?", Word)
    result = ""
    for number in range(1, 5):
        try:
            result = await framehold.once("pay", effect, tool, idempotent=idempotent)
        except InDoubt:
            result = "InDoubt"
        if number < 4:
            await ctx.elicit(f"{result} {number}?", Word)
    return f"{result} to the end"


@mcp.tool()
@framehold.reentrant
async def careful(ctx: Context) -> str:
    """Its effect may not run twice."""
    return await _asks("careful", ctx, idempotent=False)


@mcp.tool()
@framehold.reentrant
async def bold(ctx: Context) -> str:
    """Its effect may."""
    return await _asks("bold", ctx, idempotent=True)
