"""What a node says of itself and of its tools over HTTP, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from framehold.admin import tool_list
from framehold.admin.tool_list import MAX_PAUSES
from framehold.config import Settings
from framehold.hosts.handlers import HandlerCode, MarkedHandler
from framehold.telemetry import window
from framehold.telemetry.metrics import CallMetrics
from framehold.telemetry.stalls import MAX_PLACES, Stall
from framehold.telemetry.tool_labels import ToolLabels
from framehold.telemetry.window import MAX_DURATIONS, WINDOW_SECONDS, RecentDurations, RecentEnds
from framehold_core.pauses import Pause
from framehold_fleet.models.nodes import NodeStatus
from framehold_router.collect.node_client import MAX_STATUS_BYTES
from framehold_store import system_clock as clock
from tests.kit import proofs
from tests.kit.metrics import scraped
from tests.kit.nodes import KEY, served
from tests.kit.operators import TOKEN, Operator, call_of, marked, unmarked
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Served, Word, said, server_of, serving

pytestmark = pytest.mark.anyio


async def one(ctx: Context) -> str:
    return said(await ctx.elicit("Which word?", Word))


async def one_more(ctx: Context) -> str:
    return ""


async def asked(client: Served, path: str, **headers: str) -> httpx2.Response:
    async with proofs.client() as http:
        return await http.get(client.url.removesuffix("/mcp") + path, headers=headers)


async def told(client: Served) -> NodeStatus:
    response = await asked(client, "/admin/node", authorization=f"Bearer {TOKEN}")
    assert response.status_code == 200 and response.headers["content-type"] == "application/json"
    return NodeStatus.model_validate_json(response.text)


async def test_a_node_tells_its_fleet_and_operators_how_it_is(redis: RedisServer, tmp_path: Any) -> None:
    server = server_of("stage", one)
    settings = {"store_url": redis.url, "namespace": tmp_path.name, "node_id": "a", "keys": (KEY,), "lease_ttl": 5.0}
    app = framehold.asgi(server, Settings(**settings, admin_token=TOKEN, memory_limit=5 << 30))
    async with served(app) as url, Served(url) as client:
        runtime = app.attached.runtime
        before = await told(client)
        for name in ("rounds", "parked", "in_flight", "frames", "errors", "orphaned", "stuck"):
            assert getattr(before, name) == 0, name
        assert (before.resume_p50, before.store_seconds, before.handed_off) == (None, None, None)
        reply = await client.call("one")
        parked = await told(client)
        assert (parked.rounds, parked.parked, parked.frames) == (1, 1, 1)
        assert 0 < (parked.store_seconds or 0) < 1
        await client.retry("one", reply.token, reply.accept(word="w"))
        await asyncio.sleep(0.3)
        runtime.counts["broken"] += 2
        runtime.table.refused("FRAMEHOLD_MAX_PARKED")
        done = await told(client)
        assert (done.node_id, done.state, done.rounds, done.errors) == ("a", "live", 2, 2)
        assert (done.boot, done.incarnation) == (runtime.heartbeat.lease.boot, runtime.heartbeat.lease.incarnation)
        assert 0 < (done.resume_p50 or 0) <= (done.resume_p99 or 0) < 1
        assert 0 <= (done.loop_lag_p99 if done.loop_lag_p99 is not None else -1) < 1
        assert 0 <= (done.heartbeat_age if done.heartbeat_age is not None else -1) < 3
        assert (done.rss or 0) > 10 << 20 and done.memory_limit == 5 << 30
        assert done.tools == ("resources/read", "one") and done.version and done.pid
        assert [(met.limit, met.of_one, met.count) for met in done.refused] == [("FRAMEHOLD_MAX_PARKED", False, 1)]
        assert done.server and done.tools_digest
        assert 5 < (done.descriptors or 0) < (done.descriptors_limit or 0)
        await runtime.drain(0.0)
        drained = await told(client)
        assert (drained.state, drained.handed_off) == ("draining", 0)


async def test_a_node_tells_the_marks_of_its_handlers() -> None:
    """A handler that is not async can't ask, and is not listed."""
    mcp: MCPServer = MCPServer("marks")

    async def marked() -> str:
        return ""

    async def plain() -> str:
        return ""

    for fn in (one, framehold.reentrant(marked), plain, lambda: ""):
        mcp.tool(name=fn.__name__.strip("<>"))(fn)
    mcp.prompt("letter")(framehold.options(strategy="replay")(framehold.reentrant(one_more)))
    app = framehold.asgi(mcp, Settings(keys=(KEY,), node_id="a", admin_token=TOKEN))
    async with served(app) as url, Served(url) as client:
        found = (await told(client)).handlers
    assert [(one.handler, one.asks, one.reentrant, one.strategy) for one in found] == [
        ('tool "one"', True, False, "hold"),
        ('tool "marked"', True, True, "hold"),
        ('tool "plain"', False, False, "hold"),
        ('prompt "letter"', True, True, "replay"),
    ]


async def test_a_router_reads_what_a_node_with_all_lists_full_says() -> None:
    """The longest texts, each of their characters six bytes of JSON, in more items than are listed."""
    app = framehold.asgi(server_of("stage", one), Settings(keys=(KEY,), node_id="a", admin_token=TOKEN))
    async with served(app) as url, Served(url) as client:
        attached, many = app.attached, ["\x01" * 300 + str(number) for number in range(400)]
        for number, name in enumerate(many):
            attached.names._add(f"{number}{name[:20]}")
        attached.marked = tuple(MarkedHandler(name, True, True, "replay") for name in many)
        attached.code = tuple(HandlerCode(name, "d" * 64, 2**53, why) for name in many for why in ("", name))
        attached.stalls.last = Stall(1.0, 1.0, many[0], many[0], many[0], 1, tuple(many[:MAX_PLACES]))
        pauses = attached.runtime.door.pauses
        pauses.known = {
            f"{number:03}{name}": Pause(f"{number:03}{name}", 1.0, name, name) for number, name in enumerate(many)
        }
        found = await told(client)
        assert [pause.tool[:3] for pause in found.paused] == [f"{number:03}" for number in range(MAX_PAUSES)]
        for path in ("/admin/node", "/admin/tools"):
            text = (await asked(client, path, authorization=f"Bearer {TOKEN}")).content
            assert MAX_STATUS_BYTES / 4 < len(text) < MAX_STATUS_BYTES, path


async def test_metrics_and_health_are_for_whoever_reaches_the_node() -> None:
    async with serving(one, keys=(KEY,), admin_token=TOKEN) as client:
        for path in ("/metrics", "/healthz", "/readyz"):
            assert (await asked(client, path)).status_code == 200


async def test_nothing_is_counted_where_metrics_are_off() -> None:
    """What costs nothing is told all the same."""
    async with serving(one, metrics=False, admin_token=TOKEN) as client:
        await client.call("one")
        response = await asked(client, "/metrics")
        assert response.status_code == 404 and "FRAMEHOLD_METRICS" in response.text
        found = await told(client)
        assert (found.parked, found.frames, found.errors) == (1, 1, 0) and found.tools and found.rss
        assert (found.rounds, found.resume_p50, found.loop_lag_p99) == (None, None, None)
        listeners = [item for signal in vars(client.runtime.observers).values() for item in signal.listeners]
        assert listeners and not any(isinstance(item.__self__, CallMetrics) for item in listeners)


async def test_two_nodes_of_one_process_count_apart() -> None:
    async with serving(one) as first, serving(one) as second:
        await first.call("one")
        asked_once = 'rounds_total{outcome="asked",tool="one"}'
        assert (await scraped(first))[asked_once] == 1
        assert (await scraped(second))[asked_once] == 0


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/plain;version=x.y", "text/plain"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text"),
    ],
)
async def test_metrics_come_in_the_form_that_is_asked_for_or_in_the_usual_one(accept: str, kind: str) -> None:
    async with serving(one) as client:
        response = await asked(client, "/metrics", accept=accept)
    assert response.status_code == 200 and response.headers["content-type"].startswith(kind)
    assert response.text.endswith("# EOF\n") is ("openmetrics" in kind)


def test_ends_are_of_the_last_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    at = [1000.0]
    monkeypatch.setattr(clock, "now", lambda: at[0])
    ends = RecentEnds()
    assert ends.counts() == (0, 0)
    for failed in (True, False, False):
        ends.add(failed)
    assert ends.counts() == (3, 1)
    at[0] += 9 * 60
    ends.add(True)
    assert ends.counts() == (4, 2)
    at[0] += 60
    assert ends.counts() == (1, 1)
    for _ in range(100):
        at[0] += 60
        ends.add(False)
    assert ends.counts() == (10, 0) and len(ends._minutes) == 10


async def test_a_node_says_which_tools_failed_lately() -> None:
    async def fails() -> str:
        raise ValueError("no")

    async with serving(one, fails, keys=(KEY,), admin_token=TOKEN) as client, Operator(client.url) as operator:
        for tool in ("fails", "one", "fails"):
            await client.call(tool)
        text = (await operator.ask("GET", "node")).json
    assert (text["ended"], text["failed"]) == (2, 2), "a call that asks has not ended"
    assert (text["calls_ended"], text["calls_failed"]) == (2, 2)
    assert text["failing"] == [{"tool": "fails", "ended": 2, "failed": 2}]


async def test_each_call_ends_once_however_often_its_client_asks_and_a_cancelled_one_is_no_failure() -> None:
    """Its first end counts. That a later request gets the same outcome, or that of an operator, is no further end."""
    entered = asyncio.Event()

    @framehold.reentrant
    async def fails(ctx: Context) -> str:
        said(await ctx.elicit("Which word?", Word))
        raise ValueError("no")

    async def waits(ctx: Context) -> None:
        await ctx.elicit("Which word?", Word)
        entered.set()
        await asyncio.Event().wait()

    tools = (one, fails, marked, waits)
    async with serving(*tools, keys=(KEY,), admin_token=TOKEN) as client, Operator(client.url) as operator:
        for tool in ("fails", "one", "marked"):
            reply = await client.call(tool)
            if tool == "marked":
                await operator.cancel(call_of(reply.token))
            for _ in range(4):
                await client.retry(tool, reply.token, reply.accept(word="w"))
        reply = await client.call("waits")
        waiting = asyncio.create_task(client.retry("waits", reply.token, reply.accept(word="w")))
        await entered.wait()
        await operator.cancel(call_of(reply.token))
        await waiting
        found = (await operator.ask("GET", "node")).json
    assert (found["calls_ended"], found["calls_failed"], found["ended"], found["failed"]) == (2, 1, 2, 1)
    assert found["failing"] == [{"tool": "fails", "ended": 1, "failed": 1}]


async def test_a_node_says_how_many_clients_left_lately() -> None:
    entered = asyncio.Event()

    async def slow() -> None:
        entered.set()
        await asyncio.Event().wait()

    async with serving(one, slow, admin_token=TOKEN) as client:
        await client.call("one")
        leaving = asyncio.create_task(client.call("slow"))
        await entered.wait()
        leaving.cancel()
        await until(lambda: client.runtime.counts["left"] == 1, "the round was left")
        now = await told(client)
    assert (now.recent_rounds, now.recent_left, now.leaving) == (2, 1, "slow")


def test_quantiles_are_of_the_last_minute_and_of_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    at = [1000.0]
    monkeypatch.setattr(clock, "now", lambda: at[0])
    durations = RecentDurations()
    assert durations.quantile(0.5) is None
    for number in range(100):
        durations.add(number / 100)
    assert (durations.quantile(0.0), durations.quantile(0.5), durations.quantile(0.99)) == (0.0, 0.5, 0.99)
    assert durations.quantile(1.0) == 0.99
    at[0] += WINDOW_SECONDS - 1
    durations.add(7.0)
    at[0] += 2
    assert durations.quantile(0.5) == 7.0
    for _ in range(MAX_DURATIONS + 10):
        durations.add(1.0)
    assert len(durations._durations) == window.MAX_DURATIONS and durations.quantile(0.99) == 1.0


async def fails() -> str:
    """Raises."""
    raise ValueError


@pytest.fixture
async def played() -> AsyncIterator[tuple[Served, Operator]]:
    async with serving(marked, unmarked, fails, admin_token=TOKEN) as made, Operator(made.url) as operator:
        yield made, operator


async def listed(operator: Operator) -> dict[str, Any]:
    answer = await operator.ask("GET", "tools")
    assert answer.status == 200, answer
    return {tool["tool"]: tool for tool in answer.json["tools"]}


async def test_each_tool_is_told_with_what_is_parked(played: tuple[Served, Operator]) -> None:
    made, operator = played
    first = await made.call("marked")
    for _ in range(2):
        await made.call("unmarked")
    await made.call("fails")
    tools = await listed(operator)
    assert {"marked", "unmarked", "fails", "resources/read", "other"} == set(tools)
    assert (tools["unmarked"]["parked"], tools["unmarked"]["asked"]) == (2, 2)
    assert sum(tools["unmarked"]["expiring"]) == 2 and tools["fails"]["expiring"] == []
    assert tools["marked"]["journal"] > 0 and tools["marked"]["oldest"] >= 0
    assert (tools["fails"]["failed"], tools["fails"]["parked"], tools["fails"]["oldest"]) == (1, 0, None)
    assert sum(tools["unmarked"]["took"]) == 2 and sum(tools["marked"]["thought"]) == 0
    second = await made.retry("marked", first.token, first.accept(word="a"))
    await made.retry("marked", second.token, second.accept(word="b"))
    after = (await listed(operator))["marked"]
    assert (after["asked"], after["ended"], after["parked"]) == (2, 1, 0)
    assert sum(after["took"]) == 3 and sum(after["thought"]) == 2


async def test_a_malformed_answer_counts_as_refused(played: tuple[Served, Operator]) -> None:
    made, operator = played
    first = await made.call("unmarked")
    wrong = await made.retry("unmarked", first.token, {key: {"action": "perhaps"} for key in first.accept(word="a")})
    assert wrong.code == -32602
    assert (await listed(operator))["unmarked"]["refused"] == 1


async def test_a_name_that_is_no_label_goes_with_the_others(played: tuple[Served, Operator]) -> None:
    made, _ = played
    await made.call("marked")
    found = await tool_list.tools(made.runtime, ToolLabels(lambda: ["unmarked"]), None)
    assert {tool.tool: tool.parked for tool in found.tools} == {"other": 1}


async def test_the_tools_of_parked_calls_are_told_apart_also_where_nothing_is_counted() -> None:
    async with serving(marked, unmarked, metrics=False, admin_token=TOKEN) as made, Operator(made.url) as operator:
        for tool in ("marked", "unmarked", "marked"):
            await made.call(tool)
        assert {name: tool["parked"] for name, tool in (await listed(operator)).items()} == {"marked": 2, "unmarked": 1}
