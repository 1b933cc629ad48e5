"""A Redis that is emptied between two heartbeats: what its nodes know of paused tools is written again, and told."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold_fleet.members.store_health import StoreLook
from framehold_fleet.models.events import EventKind
from framehold_fleet.models.nodes import NodeView
from framehold_router.verdict import rules
from framehold_router.verdict.seen import FleetFacts
from tests.node.operating import marked, pair
from tests.node.stage import Word, said
from tests.processes import until
from tests.store.server import RedisServer, running

pytestmark = pytest.mark.anyio


@framehold.reentrant
async def other(ctx: Context) -> str:
    return said(await ctx.elicit("Which?", Word))


async def test_a_pause_stands_again_and_the_loss_is_told(tmp_path: Path) -> None:
    """And a tool that was resumed before is not paused by it. One of the nodes tells the event."""
    with running(RedisServer()) as redis, redis.client() as client:
        async with pair(redis, tmp_path.name, marked, other, lease_ttl=3.0) as (a, b):
            for tool in ("marked", "other"):
                await a.operator.ask("POST", "pause", json={"tool": tool, "why": "it bills twice"})
            await until(lambda: len(b.runtime.door.pauses.known) == 2, "both pauses at the other node")
            await b.operator.ask("POST", "resume", json={"tool": "other"})
            client.flushall()
            both = (a.runtime.door.pauses, b.runtime.door.pauses)
            await until(lambda: all(pauses.loss for pauses in both), "both nodes to notice")
            await until(lambda: all([*pauses.known] == ["marked"] for pauses in both), "the pause alone")
            assert [pause.tool for pause in (await a.runtime.store.tools()).paused] == ["marked"]
            assert (await b.caller.call("marked")).result["isError"] is True
            assert (await a.caller.call("other")).status == 200

            told = [event for node in (a, b) for event in (await node.happened())["events"]]
            [event] = [event for event in told if event["kind"] == EventKind.STORE_EMPTIED]
            assert "the store was emptied, or replaced by another" in event["text"]
            nodes = [
                NodeView(**(await node.operator.ask("GET", "node")).json, address=node.caller.url) for node in (a, b)
            ]
            [problem] = rules.of(FleetFacts(a.runtime.clock.time(), nodes, [], [], 0, StoreLook(), ()))
            assert problem.kind == "store_emptied" and "written again; what it alone had" in problem.text
