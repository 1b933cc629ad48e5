"""The server that the users of load scenarios call: it reserves a trip, asks in some rounds, and books the trip.

It has one effect before its first question and one after its last, so that a node that ends at any question leaves one
effect done and one to do. The handler draws a number for each effect. A node that takes the call over gets the recorded
number and repeats the effect under it. A second frame of the same call, if one ran, would have drawn another number.
"""

from __future__ import annotations

import asyncio

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold
from framehold_loadtest import ledger
from framehold_loadtest.client.trip import TOOL, result_text
from framehold_loadtest.served.config import ServedSettings

_settings = ServedSettings.model_validate({})
mcp: MCPServer = MCPServer("booking", log_level="ERROR")


class Choice(BaseModel):
    """What is asked for each time."""

    choice: str


async def _effect(call: str, name: str) -> None:
    if _settings.guarded and not _settings.keyed:
        await framehold.once(name, ledger.note, _settings.ledger, call, name, ledger.UNGUARDED)
    elif _settings.guarded:
        number = framehold.uuid4(name).hex
        await framehold.once(f"{name} {number}", ledger.note, _settings.ledger, call, name, number, idempotent=True)
    else:
        ledger.note(_settings.ledger, call, name, ledger.UNGUARDED)


async def trip(call: str, rounds: int, ctx: Context) -> str:
    """Book a trip in so many rounds; `call` is what the ledger knows it by."""
    before, after = ledger.EFFECTS
    await _effect(call, before)
    chosen: list[str] = []
    for number in range(1, rounds):
        answer = await ctx.elicit(f"Leg {number} of {rounds - 1}: which way?", Choice)
        chosen.append(answer.data.choice if answer.action == "accept" else answer.action)
    await asyncio.sleep(_settings.slow)
    await _effect(call, after)
    return result_text(call, chosen)


mcp.tool(name=TOOL)(framehold.reentrant(trip) if _settings.reentrant else trip)
