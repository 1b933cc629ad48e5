"""A server to be drained: tools that may be entered again and one that may not, and rounds that last until a gate
opens."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

mcp: MCPServer = MCPServer("draining")


class Word(BaseModel):
    word: str


def noted(line: str) -> str:
    """Leaves a line in the ledger."""
    with Path(os.environ["ENTRIES"]).open("a", encoding="ascii") as ledger:
        ledger.write(f"{line}\n")
    return line


async def gate(name: str) -> None:
    """Waits until a file of this name lies beside the ledger."""
    while not Path(os.environ["ENTRIES"]).with_name(name).exists():
        await asyncio.sleep(0.01)


async def asked(ctx: Context, message: str) -> str:
    answer = await ctx.elicit(message, Word)
    return answer.data.word if answer.action == "accept" else answer.action


@mcp.tool()
@framehold.reentrant
async def marked(name: str, ctx: Context) -> str:
    """Asks twice, with an effect before each question."""
    await framehold.once("begin", noted, f"begin-{name}")
    first = await asked(ctx, f"{name} one?")
    await framehold.once("middle", noted, f"middle-{name}")
    return f"{name} {first} {await asked(ctx, f'{name} two?')}"


@mcp.tool()
async def unmarked(name: str, ctx: Context) -> str:
    """Asks once."""
    noted(f"entered-{name}")
    return f"{name} {await asked(ctx, f'{name}?')}"


@mcp.tool()
@framehold.reentrant
async def slow(name: str, ctx: Context) -> str:
    """Asks, runs until the gate opens, and asks again."""
    first = await asked(ctx, f"{name} one?")
    await framehold.once("running", noted, f"running-{name}")
    await gate(name)
    return f"{name} {first} {await asked(ctx, f'{name} two?')}"


@mcp.tool()
async def long(name: str) -> str:
    """Runs until the gate opens."""
    noted(f"long-{name}")
    await gate(name)
    return f"{name} is done"


@mcp.tool()
async def stubborn(name: str) -> str:
    """Runs on in a thread for a minute, whoever cancels it."""
    noted(f"stubborn-{name}")
    await anyio.to_thread.run_sync(time.sleep, 60.0)
    return f"{name} is done"


@mcp.tool()
async def plain(name: str) -> str:
    """Asks nothing."""
    return noted(f"plain-{name}")
