"""The metric `mcp.server.operation.duration`, for whoever collects OpenTelemetry's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.util.types import AttributeValue

from framehold.hosts.operation_metrics import NAME, OperationMetrics
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said, serving
from tests.kit.tracing import measured, pair

pytestmark = pytest.mark.anyio
HTTP = {"mcp.protocol.version": "2026-07-28", "network.transport": "tcp"}


async def once(ctx: Context) -> str:
    return said(await ctx.elicit("one", Word))


async def raises() -> str:
    raise ValueError("on purpose")


def points(reader: InMemoryMetricReader) -> list[HistogramDataPoint]:
    data = reader.get_metrics_data()
    assert data is not None
    found = [metric for kind in data.resource_metrics for scope in kind.scope_metrics for metric in scope.metrics]
    (metric,) = (item for item in found if item.name == NAME)
    assert metric.unit == "s"
    return [point for point in metric.data.data_points if isinstance(point, HistogramDataPoint)]


def counts(reader: InMemoryMetricReader) -> list[tuple[Mapping[str, AttributeValue], int]]:
    return [(dict(point.attributes or {}), point.count) for point in points(reader)]


async def test_each_request_is_measured_by_method_tool_and_error() -> None:
    with measured() as reader:
        async with serving(once, raises) as client:
            asked = await client.call("once")
            await client.retry("once", asked.token, asked.accept(word="x"))
            await client.call("raises")
            await client.retry("once", "forged", {})
            for name in ("nobody", "no\nbody"):
                await client.send("tools/call", {"name": name, "arguments": {}}, headers={"mcp-name": "nobody"})
            await client.send("tools/list", {})
            await client.send("made/up", {})
        found = counts(reader)
    called = {**HTTP, "mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool"}
    assert ({**called, "gen_ai.tool.name": "once"}, 2) in found
    assert ({**called, "gen_ai.tool.name": "once", "error.type": "-32602"}, 1) in found
    assert ({**called, "gen_ai.tool.name": "raises", "error.type": "tool_error"}, 1) in found
    assert ({**HTTP, "mcp.method.name": "tools/list"}, 1) in found
    assert ({**HTTP, "mcp.method.name": "other", "error.type": "-32601"}, 1) in found
    assert {result.get("gen_ai.tool.name") for result, _ in found} == {"once", "raises", "other", None}


async def test_a_request_that_is_passed_on_is_measured_where_it_is_served(redis: RedisServer, tmp_path: Path) -> None:
    with measured() as reader:
        async with pair(redis, tmp_path.name) as ((_, at_a), (_, at_b)):
            asked = await at_a.call("two")
            again = await at_b.retry("two", asked.token, asked.accept(word="x"))
            assert again.headers["framehold-node"] == "a"
        assert sum(point.count for point in points(reader)) == 2


async def test_where_nobody_collects_nothing_stands_in_the_way() -> None:
    async with serving(once) as client:
        found: list[Any] = client.server._lowlevel_server.middleware
        assert not any(isinstance(item, OperationMetrics) for item in found)
