"""A server for the stage's nodes: tools that ask, re-entrant or not, one that works, and one that ends at once."""

from __future__ import annotations

import asyncio
import math
import time

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

mcp = MCPServer("agency")


class Word(BaseModel):
    word: str


async def _asked(ctx: Context, message: str) -> str:
    answer = await ctx.elicit(message, Word)
    return answer.data.word if answer.action == "accept" else "nothing"


def _charged(amount: str) -> str:
    return f"receipt for {amount}"


@mcp.tool()
@framehold.reentrant
async def book_trip(ctx: Context) -> str:
    """Ask three times, and write down one thing between."""
    where = await _asked(ctx, "a secret question: where to?")
    when = await _asked(ctx, f"to {where}, when?")
    receipt = await framehold.once("charge", _charged, when)
    return f"{where} {when} {receipt} {await _asked(ctx, 'window or aisle?')}"


@mcp.tool()
@framehold.reentrant
async def refund(ctx: Context) -> str:
    """Ask twice."""
    return f"{await _asked(ctx, 'which booking?')} {await _asked(ctx, 'why?')}"


@mcp.tool()
async def sign_contract(ctx: Context) -> str:
    """Ask once; may not be entered again."""
    return await _asked(ctx, "sign here?")


class CardExpired(Exception):
    """A failure of the author's own."""


@mcp.tool()
async def pay_invoice(ctx: Context) -> str:
    """Ask once, then fail."""
    raise CardExpired(await _asked(ctx, "which card?"))


@mcp.tool()
async def summarise(seconds: float) -> float:
    """Work for so long, and let others work between."""
    total, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        total += sum(math.sqrt(number) for number in range(2000))
        await asyncio.sleep(0)
    return total


app = framehold.asgi(mcp)
