"""A tool whose effects depend on each other: what one gave is an argument of the next, and stands in the next
question."""

from __future__ import annotations

import asyncio
import random
import uuid

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold
from tests.fleet.ledger import note

ROUNDS = 3
mcp: MCPServer = MCPServer("paying")


class Word(BaseModel):
    word: str


async def act(call: str, key: str, argument: str) -> str:
    """An effect: it gives something else each time that it runs."""
    await asyncio.sleep(random.random() / 5)
    note(call, "effect", f"{key}|{argument}")
    await asyncio.sleep(random.random() / 5)
    return uuid.uuid4().hex[:8]


@mcp.tool()
@framehold.reentrant
async def pay(name: str, ctx: Context) -> str:
    """In each round an effect that may run once, and one that may run again with what the first gave."""
    # A process may be killed behind an intent and before its effect: then this is all that it leaves in the ledger.
    note(name, "entered", "pay")
    result = "begin"
    for turn in range(ROUNDS):
        answer = await ctx.elicit(f"{turn} {result}", Word)
        word = answer.data.word if answer.action == "accept" else answer.action
        try:
            booked = await framehold.once(f"book {turn}", act, name, f"book-{turn}", word)
        except framehold.InDoubt:
            note(name, "doubt", f"book-{turn}")
            booked = "doubt"
        # Here the result is owed.
        await asyncio.sleep(random.random() / 5)
        key = framehold.idempotency_key(f"pay {turn}")
        argument = f"{word}-{booked}-{framehold.uuid4().hex[:8]}"
        paid = await framehold.once(f"pay {turn}", act, name, f"pay-{turn}-{key}", argument, idempotent=True)
        receipt = await framehold.once(f"file {turn}", act, name, f"file-{turn}", paid, idempotent=True)
        result = f"{booked}/{paid}/{receipt}"
    return result
