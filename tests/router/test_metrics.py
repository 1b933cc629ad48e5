"""The metrics of a router: each moves by exactly what happened, as its `/metrics` tells it."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from framehold_core.ids import Boot, NodeId
from framehold_fleet.members import membership
from framehold_fleet.members.membership import Membership
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.members.session_ids import wrap
from framehold_router.collect import fleet_log
from framehold_router.routing import counted_relay
from framehold_router.telemetry import tool_labels
from framehold_router.telemetry.counters import MAX_TOOLS, Meter
from tests.kit.leases import lease
from tests.router.metered import SEALS, TTL, Series, Stand, series, stand
from tests.router.wires import CALL, both_loops, closing, ok, post, saying, silent

anyio_backend = both_loops

NAMES = {
    "framehold_router_requests", "framehold_router_route_duration_seconds", "framehold_upstream_duration_seconds",
    "framehold_affinity", "framehold_ring_ownership_ratio", "framehold_ring_moves", "framehold_ring_moved_ratio",
    "framehold_failover_duration_seconds", "framehold_nodes", "framehold_servers", "framehold_node_last_seen_seconds",
    "framehold_store_memory_bytes", "framehold_store_memory_limit_bytes", "framehold_router_wrong_tokens",
    "framehold_router_calls_lost", "framehold_clock_offset_seconds", "framehold_build_info",
}  # fmt: skip
REQUESTS = "framehold_router_requests_total"


@pytest.fixture
async def it(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stand]:
    async with stand(monkeypatch) as made:
        yield made


def call(*headers: str, token: str = "", method: str = "tools/call") -> bytes:
    state = {"requestState": token} if token else {}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "book", **state}})
    return post(body.encode(), "MCP-Protocol-Version: 2026-07-28", *headers)


RETRY = f"h1.{CALL}.sealed"


def requests(tool: str, kind: str, route: str, outcome: str) -> Series:
    return series("router_requests_total", tool=tool, round_kind=kind, route=route, outcome=outcome)


async def known(it: Stand, *tools: str) -> None:
    for tool in tools:
        while True:
            async with it.moves(REQUESTS) as moved:
                await it.ask(call(f"Mcp-Name: {tool}"))
            if requests(tool, "start", "start", "2xx") in moved:
                break


async def test_these_metrics_are_told_and_no_others(it: Stand) -> None:
    """With those of the process; names and types are a contract. Nothing has happened yet."""
    await it.node()
    families = {family.name: family for family in text_string_to_metric_families(await it.text())}
    assert {name for name in families if name.startswith("framehold_")} == NAMES
    assert {"process_resident_memory_bytes", "process_open_fds", "python_info", "python_gc_collections"} <= set(
        families
    )
    histograms = {name for name in NAMES if families[name].type == "histogram"}
    assert histograms == {name for name in NAMES if name.endswith("_duration_seconds")}
    assert all(family.documentation for family in families.values())
    (build,) = families["framehold_build_info"].samples
    assert build.value == 1 and build.labels["version"] and set(build.labels) == {"version", "python", "mcp"}


async def test_each_request_is_counted_by_what_it_is_and_what_became_of_it(it: Stand) -> None:
    async with it.moves(REQUESTS) as moved:
        assert (await it.ask(call(token=RETRY))).status == 503
        assert (await it.ask(b"GET /admin/node HTTP/1.1\r\nHost: localhost\r\n\r\n")).status == 404
        assert (await it.ask(b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n")).status == 400
    assert moved == {requests("other", "retry", "none", "5xx"): 1, requests("other", "other", "none", "4xx"): 2}
    await it.node()
    await known(it, "book")
    session = wrap(NodeId("n1"), Boot("b"), "one")
    async with it.moves(REQUESTS) as moved:
        for asked in (
            *(call("Mcp-Name: book"), call("Mcp-Name: book"), call("Mcp-Name: book", token=RETRY), call(token=RETRY)),
            *(call(f"Mcp-Session-Id: {session}"), call(method="tools/list")),
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ):
            await it.ask(asked)
    assert moved == {
        requests("book", "start", "start", "2xx"): 2,
        requests("book", "retry", "ring", "2xx"): 1,
        requests("other", "retry", "ring", "2xx"): 1,
        requests("other", "session", "session", "2xx"): 1,
        requests("other", "other", "any", "2xx"): 1,
    }


@pytest.mark.parametrize("status", [204, 302, 404, 503, 799, 502])
async def test_a_response_is_counted_by_the_class_of_its_status(it: Stand, status: int) -> None:
    answer = closing(b"") if status == 502 else saying(ok(b"" if status == 204 else b"x", status=f"{status} So"))
    await it.node(answer=answer)
    await it.until(series("nodes", state="live"), 1)
    async with it.moves(REQUESTS) as moved:
        client = await it.client()
        client.send(call())
        assert (await client.heard(bodiless=status == 204)).status == status
    assert moved == {requests("other", "start", "start", f"{min(status // 100, 5)}xx"): 1}


async def test_a_client_that_leaves_is_counted_once(it: Stand) -> None:
    halves = ok(b"whole")[:-2]
    actor = await it.node(answer=silent)
    await it.until(series("nodes", state="live"), 1)
    assert actor.wire is not None
    async with it.moves(REQUESTS) as moved:
        client = await it.client()
        client.send(call())
        await actor.wire.arrived.wait()
        client.writer.close()
        await it.until(requests("other", "start", "start", "aborted"), 1)
        actor.answer = closing(halves)
        broken = await it.client()
        broken.send(call())
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await broken.heard()
        actor.answer = saying(halves)
        leaving = await it.client()
        leaving.send(call())
        await leaving.reader.readuntil(b"\r\n\r\n")
        leaving.writer.close()
        await it.until(requests("other", "start", "start", "aborted"), 3)
    assert moved == {requests("other", "start", "start", "aborted"): 3}


async def test_a_round_that_goes_to_a_second_node_is_counted_once(it: Stand) -> None:
    first, second = await it.node("n1"), await it.node("n2")
    await it.until(series("nodes", state="live"), 2)
    await it.ask(call(token=RETRY))
    assert first.wire is not None and second.wire is not None
    wires = {first: first.wire, second: second.wire}
    owner = max(wires, key=lambda actor: any(b"POST" in reply.first for reply in wires[actor].requests))
    owner.answer = closing(b"")
    async with it.moves(REQUESTS, "framehold_router_route", "framehold_upstream", "framehold_affinity") as moved:
        assert (await it.ask(call(token=RETRY))).status == 200
    counts = {key: moved[key] for key in moved if key[0].endswith(("_total", "_count"))}
    assert counts == {
        requests("other", "retry", "next", "2xx"): 1,
        series("router_route_duration_seconds_count"): 2,
        series("upstream_duration_seconds_count"): 1,
        series("affinity_total", result="hit"): 1,
    }


async def test_times_are_told_in_seconds(it: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that takes 40 ms from one look to the next: one look before and one after the choice, one at the
    head of the response."""
    await it.node()
    await it.until(series("nodes", state="live"), 1)
    ticks = (tick * 0.04 for tick in count())
    monkeypatch.setattr(counted_relay, "perf_counter", lambda: next(ticks))
    async with it.moves("framehold_router_route", "framehold_upstream") as moved:
        await it.ask(call())
    for name in ("router_route_duration_seconds", "upstream_duration_seconds"):
        assert moved.pop(series(f"{name}_sum")) == pytest.approx(0.04)
        assert moved.pop(series(f"{name}_count")) == 1
        assert series(f"{name}_bucket", le="0.025") not in moved
        assert moved.pop(series(f"{name}_bucket", le="0.05")) == 1
    assert {dict(labels)["le"] for _, labels in moved} == {
        "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "30.0", "+Inf"
    }  # fmt: skip


async def test_affinity_is_of_retries_by_who_served(it: Stand) -> None:
    """A node that passed a round on to another missed; the next round goes there at once."""
    await it.node("n1", answer=saying(ok(b"fine", "framehold-node: n2")))
    await it.until(series("nodes", state="live"), 1)
    hit, miss = series("affinity_total", result="hit"), series("affinity_total", result="miss")
    before = await it.scrape()
    assert (before[hit], before[miss]) == (0, 0)
    async with it.moves("framehold_affinity") as moved:
        await it.ask(call())
        await it.ask(call(token=RETRY))
    assert moved == {miss: 1}
    await it.node("n2")
    await it.until(series("nodes", state="live"), 2)
    async with it.moves("framehold_affinity") as moved:
        await it.ask(call(token=RETRY))
        await it.ask(call(token=RETRY))
    assert moved == {hit: 1, miss: 1}


async def test_the_ring_is_told_of(it: Stand) -> None:
    """Each node's part as a ratio to an equal one, and how much the last change moved: what the newcomer has."""
    first = await it.node("n1")
    await it.until(series("ring_moves_total"), 1)
    found = await it.scrape()
    assert found[series("ring_ownership_ratio", node="n1")] == pytest.approx(1.0)
    assert found[series("ring_moved_ratio")] == 0.0
    await it.node("n2")
    await it.until(series("ring_moves_total"), 2)
    found = await it.scrape()
    ratios = [found[series("ring_ownership_ratio", node=name)] for name in ("n1", "n2")]
    assert sum(ratios) == pytest.approx(2.0) and all(0.5 < ratio < 1.5 for ratio in ratios)
    assert found[series("ring_moved_ratio")] == pytest.approx(ratios[1] / 2)
    await it.renew(first, "draining")
    await it.until(series("ring_moves_total"), 3)
    found = await it.scrape()
    assert series("ring_ownership_ratio", node="n1") not in found
    assert found[series("ring_moved_ratio")] == pytest.approx(ratios[0] / 2)


async def test_nodes_are_told_by_their_state_and_a_death_by_how_long_it_was_not_noticed(
    it: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that drained was none. An odd lease makes no series: whoever can write to the store can write names that no
    node may have, states that there aren't, keys that are not ours."""
    _, second = await it.node("n1"), await it.node("n2")
    await it.until(series("nodes", state="live"), 2)
    before = set(await it.scrape())
    odd = ['n"} 1\n', "x" * 9_000, "a\\", "\ud800", "half\u2028", *(f"stranger-{number}" for number in range(300))]
    for name in odd:
        await it.store.register(lease(name, address="http://x:80", state='li"ve', expires=it.now + TTL), TTL)
    await it.until(series("nodes", state="other keys"), len(odd))
    assert set(await it.scrape()) == before
    it.now += 1.5
    await it.renew(second, "draining")
    await it.until(series("nodes", state="draining"), 1)
    it.now += 2.0
    found = await it.scrape()
    states = {dict(labels)["state"]: value for (name, labels), value in found.items() if name == "framehold_nodes"}
    assert states == {"live": 1, "draining": 1, "other keys": len(odd)}
    assert found[series("node_last_seen_seconds", node="n1")] == pytest.approx(3.5)
    assert found[series("node_last_seen_seconds", node="n2")] == pytest.approx(2.0)
    # These nodes answer on: they count for so long.
    monkeypatch.setattr(membership, "BACK", 0.0)
    async with it.moves("framehold_failover") as moved:
        it.now += TTL
        await it.until(series("nodes", state="live"), 0)
    assert moved.pop(series("failover_duration_seconds_sum", phase="detect")) == pytest.approx(TTL + 3.5)
    assert moved == {
        series("failover_duration_seconds_count", phase="detect"): 1,
        **{series("failover_duration_seconds_bucket", phase="detect", le=le): 1
           for le in ("10.0", "20.0", "30.0", "60.0", "120.0", "300.0", "600.0", "1200.0", "+Inf")},
    }  # fmt: skip
    assert series("node_last_seen_seconds", node="n1") not in await it.scrape()


async def test_calls_that_were_lost_with_their_node_are_counted(it: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its last lease, without any client that comes back; the other causes are told from the start."""
    monkeypatch.setattr(fleet_log, "SURE", 0.0)
    monkeypatch.setattr(membership, "BACK", 0.0)
    first = await it.node()
    first.stats = Stats(parked=7, kept=3, bound=4)
    await it.renew(first)
    async with it.moves("framehold_router_calls_lost") as moved:
        it.now += TTL + 1.5
        await it.until(series("router_calls_lost_total", cause="died"), 4)
    assert moved == {series("router_calls_lost_total", cause="died"): 4}
    assert (await it.scrape())[series("router_calls_lost_total", cause="drain_deadline")] == 0


ODD = ('say "hi"', "a\\b", "Größe", "=?base64?YQ==?=", "x" * 150, " edge", "\u2028", "a\nb")


async def test_what_clients_name_makes_no_series(it: Stand) -> None:
    await it.node(tools=["book", "long" * 100, *ODD])
    await known(it, "book")
    client = await it.client()
    before = set(await it.scrape())
    async with it.moves(REQUESTS) as moved:
        for name in (b"x" * 8_000, b'"},{', b"\xed\xa0\x80half", b"\xff\x80", b"=?base64?!?=", b"", b"long" * 100):
            client.send(call("Mcp-Name: @").replace(b"@", name))
            assert (await client.heard()).status == 200
        for number in range(100):
            assert (await client.ask(call(f"Mcp-Name: tool-{number}"))).status == 200
    assert moved == {requests("other", "start", "start", "2xx"): 107}
    assert set(await it.scrape()) - before <= set(moved)
    async with it.moves(REQUESTS) as moved:
        for odd in ODD:
            coded = b64encode(odd.encode()).decode()
            assert (await client.ask(call(f"Mcp-Name: =?base64?{coded}?="))).status == 200
    assert moved == {requests(odd, "start", "start", "2xx"): 1 for odd in ODD}


async def test_tools_are_asked_for_when_a_node_comes_and_now_and_then(
    it: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_labels, "SOON", 0.01)
    monkeypatch.setattr(tool_labels, "PERIOD", 0.01)
    async with it.moves(REQUESTS) as moved:
        await it.ask(call("Mcp-Name: book"))
    assert moved == {requests("other", "start", "none", "5xx"): 1}
    actor = await it.node(tools=["book"])
    await known(it, "book")
    await it.node("n2", tools=["late"])
    await known(it, "late", "book")
    actor.tools = ("renamed",)
    await known(it, "renamed")
    async with it.moves(REQUESTS) as moved:
        await it.ask(call("Mcp-Name: book"))
    assert moved == {requests("other", "start", "start", "2xx"): 1}


def test_a_meter_tells_a_bounded_number_of_tools_apart() -> None:
    """However often they are renamed: those that it knew stay known, the others are `other` for good."""
    meter = Meter()
    meter.set_tools([f"old-{number:04}" for number in range(MAX_TOOLS - 1)])
    meter.set_tools(["b", "a", "old-0007"])
    assert set(meter.tools.values()) == {"a", "old-0007"}
    meter.set_tools(["b", "c"])
    assert meter.tools == {}
    meter.set_tools(["a"])
    assert meter.tools[b"a"] == meter.tools[b"=?base64?YQ==?="] == "a"


async def test_a_node_that_answers_nonsense_is_asked_again(
    it: Stand, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tool_labels, "SOON", 0.01)
    monkeypatch.setattr(tool_labels, "PERIOD", 0.01)
    asked = 0

    async def broken() -> list[Any]:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise RuntimeError("a bug")
        return [SimpleNamespace(tools=("a",))]

    result: asyncio.Queue[set[str]] = asyncio.Queue()
    membership = Membership(it.store, SEALS)
    task = asyncio.create_task(tool_labels.follow(membership, broken, result.put_nowait))
    assert await result.get() == {"a"}
    task.cancel()
    await asyncio.wait((task,))
    assert sum("names that are known" in line for line in caplog.messages) == 1


async def test_where_metrics_are_off_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:

    def never(*_: object) -> None:
        raise AssertionError("something is counted")

    for place in (Meter, counted_relay.CountedRelay):
        monkeypatch.setattr(place, "__init__", never)
    async with stand(monkeypatch, metrics=False) as it:
        actor = await it.node()
        while (await it.ask(call())).status != 200:
            it.store._feed.notify()
        reply = await it.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (reply.status, "FRAMEHOLD_METRICS=false" in reply.body.decode()) == (404, True)
        assert not actor.asked.is_set()


async def test_several_routers_in_one_process_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(monkeypatch) as one, stand(monkeypatch) as other:
        await one.ask(call())
        assert (await one.scrape())[requests("other", "start", "none", "5xx")] == 1
        assert requests("other", "start", "none", "5xx") not in await other.scrape()
