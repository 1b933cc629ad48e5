"""What a parked call holds of this process's memory, as Python's allocator counts it."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from mcp.server.mcpserver import Context

from tests.kit.serving import Served, Word, said, serving

pytestmark = pytest.mark.anyio

CALLS = 200
LIMIT = 8_500
"""Bytes for each. What a release of the SDK or of CPython adds shows here first. A thousand of them are the handler's
cancel scope, 250 its own copy of the form's schema."""


async def test_a_parked_call_holds_little() -> None:
    """Record and journal of the store in memory included; what a connection and the caches hold is there already."""

    async def order(what: str, ctx: Context) -> str:
        return said(await ctx.elicit("Which word?", Word))

    async def park(client: Served, batch: str) -> None:
        for number in range(CALLS):
            assert (await client.call("order", arguments={"what": f"{batch} {number}"})).asked
        gc.collect()

    held = []
    async with serving(order, max_parked_per_principal=10 * CALLS) as client:
        await park(client, "warm")
        for batch in ("first", "second", "third"):
            tracemalloc.start()
            try:
                await park(client, batch)
                held.append(tracemalloc.get_traced_memory()[0] / CALLS)
            finally:
                tracemalloc.stop()
    # What grows by leaps, as a table of calls, does so in one of them at most; so does what the process does beside.
    assert min(held) < LIMIT, held
