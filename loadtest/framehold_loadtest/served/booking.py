"""The server that users of load tests call: a trip that is reserved, talked over in some rounds, and booked.

It has two effects, one before its first question and one after its last, so that an end of its node at any question
has one behind it and one before it.
"""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold
from framehold_loadtest import ledger
from framehold_loadtest.rounds import TOOL, said
from framehold_loadtest.served.config import ServedSettings

_settings = ServedSettings.model_validate({})
mcp: MCPServer = MCPServer("booking", log_level="ERROR")


class Choice(BaseModel):
    """What is asked for each time."""

    choice: str


async def _effect(call: str, name: str) -> None:
    if _settings.guarded:
        key = framehold.idempotency_key(name)
        await framehold.once(name, ledger.note, _settings.ledger, call, name, key, idempotent=True)
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
    await _effect(call, after)
    return said(call, chosen)


mcp.tool(name=TOOL)(framehold.reentrant(trip) if _settings.reentrant else trip)
