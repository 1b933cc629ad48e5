"""A router whose fleet has a past: samples of a day, with a node that was lost, a deploy, and tools that fail."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestServer

from framehold_fleet.models.history import Figures, Sample
from framehold_fleet.models.tools import ToolFigures
from framehold_fleet.telemetry.bounds import EXPIRY, PARK, ROUND
from framehold_router.collect.history import COARSE, KEPT, STEP, History
from framehold_router.collect.samples import of_fleet, packed
from tests.kit.operators import TOKEN
from tests.router.cast import Cast, guarded, said, saying

LOST = 1500
"""Seconds ago: a node was lost, and for five minutes the other one had all."""
DEPLOYED = 2400
TOOLS = {"book_trip": (3.0, 0.0), "refund": (1.0, 0.4), "sign_contract": (0.2, 0.02)}
"""Each tool with its calls per second, and the part of them that fails."""


def figures(ago: float, share: float) -> Figures:
    """One node, which has this share of the calls."""
    wave = 1 + 0.4 * math.sin(ago / 300)
    return Figures(
        rounds=9 * share * wave, ended=4 * share * wave, failed=0.4 * share, p50=0.004 * wave, p99=0.03 * wave,
        store=0.001, lag=0.002 * wave, busy=0.3 * share * wave, parked=round(400 * share * wave), running=2,
        frames=round(400 * share), rss=round(2e8 + 4e7 * wave),
    )  # fmt: skip


def tool(seconds: int, calls: float, fails: float) -> ToolFigures:
    took, thought = [0] * (len(ROUND) + 1), [0] * (len(PARK) + 1)
    took[3], took[6], thought[2] = round(1.8 * calls * seconds), round(0.2 * calls * seconds), round(calls * seconds)
    counts = {"ended": round(calls * (1 - fails) * seconds), "failed": round(calls * fails * seconds)}
    return ToolFigures(asked=thought[2], took=tuple(took), thought=tuple(thought), parked=round(90 * calls), **counts)


def sample(ago: float, step: int) -> Sample:
    alone = LOST - 300 < ago <= LOST
    nodes = {"a": figures(ago, 1.0 if alone else 0.55)} | ({} if alone else {"b": figures(ago, 0.45)})
    wave = 1 + 0.4 * math.sin(ago / 300)
    tools = {name: tool(step, calls * wave, fails) for name, (calls, fails) in TOOLS.items()}
    fleet, release = of_fleet(nodes.values()), "1.0 aaaaaaaa" if ago > DEPLOYED else "1.1 bbbbbbbb"
    return Sample(nodes=nodes, fleet=fleet, tools=tools, release=release)


def answered(node: str) -> dict[str, Any]:
    """What a node tells of its tools."""
    tools = [
        {"tool": name, "parked": round(45 * calls), "oldest": 900.0 * calls, "journal": round(9e4 * calls),
         "expiring": [round(9 * calls)] * (len(EXPIRY) + 1), "call_p50": 30.0, "call_p99": 200.0}
        for name, (calls, _) in TOOLS.items()
    ]  # fmt: skip
    idle = [{"tool": "other"}, {"tool": "resources/read"}]
    holders = [{"who": f"{number:08x}", "calls": 20 - number} for number in range(12)]
    return {"node_id": node, "boot": "b-lease", "tools": [*tools, *idle], "holders": holders, "over_limit": 3}


@asynccontextmanager
async def past() -> AsyncIterator[str]:
    """The address of that router."""
    now = time.time()
    async with AsyncExitStack() as stack:
        cast = Cast(stack)
        for name in ("a", "b"):
            status = said(name, boot="b-lease", parked=200, frames=200, max_parked=1000, rss=200_000_000, rounds=5)
            await cast.node(name, saying(status), {"GET /admin/tools": saying(answered(name))})
        for step in (STEP, COARSE):
            end = int(now // step)
            for slot in range(end - KEPT[step] // step, end):
                ago = now - (slot + 1) * step
                await cast.store.keep_sample(step, slot, packed(sample(ago, step)), KEPT[step])
        event = {"id": "1", "at": now - LOST, "node_id": "b", "kind": "node_lost", "text": "The lease of b ran out."}
        await cast.logs(event=event)
        await cast.logs(event={**event, "id": "2", "at": now - LOST + 300, "kind": "node_joined", "text": "b is here."})
        sources = await cast.sources()
        history = History(cast.store, sources.survey.nodes, sources.tools.seen, time.time)
        sources = dataclasses.replace(sources, clock=time.time, history=history)
        server = TestServer(guarded(sources, TOKEN), host="127.0.0.1")
        await stack.enter_async_context(server)
        yield f"http://127.0.0.1:{server.port}"
