"""The trade-off's tool as Framehold's authors write it, for the strategies hold and replay.

Its effects are under `once`: one before the first question, one after the last. They are coroutine functions, so that
they run on the event loop, where the tools of the other ways run theirs.
"""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from framehold_loadtest.client.trip import TOOL, result_text
from framehold_loadtest.served import travel
from framehold_loadtest.served.travel import BOOK, RESERVE, Choice

mcp: MCPServer = MCPServer("trips", log_level="ERROR")


async def _happen(call: str, name: str, key: str) -> None:
    travel.effect(call, name, key)


async def _offer(call: str, size: int) -> str:
    return travel.offer(call, size)


async def _effect(call: str, name: str) -> None:
    await framehold.once(name, _happen, call, name, framehold.idempotency_key(name), idempotent=True)


@mcp.tool(name=TOOL)
@framehold.reentrant
async def trip(call: str, rounds: int, ctx: Context, size: int = 0) -> str:
    """Book a trip in so many rounds; `call` is what the ledger knows it by, `size` how much it keeps."""
    travel.entered(call)
    price = travel.fare(call)
    offer = await framehold.once("offer", _offer, call, size, idempotent=True) if size else ""
    await _effect(call, RESERVE)
    chosen: list[str] = []
    for number in range(1, rounds):
        answer = await ctx.elicit(travel.question(number, rounds, price), Choice)
        chosen.append(answer.data.choice if answer.action == "accept" else answer.action)
    travel.redeem(offer, call, size)
    await _effect(call, BOOK)
    return result_text(call, chosen)
