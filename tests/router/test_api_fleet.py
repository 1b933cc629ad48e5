"""The API of a real router before two real nodes and a Redis, through the public port."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import pytest
from mcp.server.mcpserver import Context
from pydantic import SecretStr

from framehold_fleet.identity.trust import Trust
from framehold_router.app import running
from framehold_router.config import RouterSettings
from tests.node.nodes import KEY
from tests.node.operating import TOKEN, Node, call_of, marked, pair, unmarked
from tests.node.stage import Word, said
from tests.router.cast import SOON
from tests.store.server import RedisServer
from tests.store.server import running as running_server
from tests.wire import Caller, Reply

BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Fleet(NamedTuple):
    """A router by its public port, and the nodes behind it."""

    http: aiohttp.ClientSession
    caller: Caller
    nodes: dict[str, Node]

    async def get(self, path: str, status: int = 200) -> Any:
        async with self.http.get(f"/api/v1/{path}") as response:
            assert response.status == status, await response.text()
            return await response.json()

    async def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        async with self.http.post(f"/api/v1/{path}", json=body) as response:
            return response.status, await response.json()

    async def parked(self, tool: str = "marked") -> Reply:
        held = await self.caller.call(tool)
        assert held.token, held
        return held

    async def until(self, path: str, true: Any) -> Any:
        """Read the API until the answer is as wanted."""
        async with asyncio.timeout(SOON):
            while not true(result := await self.get(path)):
                await asyncio.sleep(0.05)
        return result


@asynccontextmanager
async def fleet_of(redis: RedisServer, **of_nodes: Any) -> AsyncIterator[Fleet]:
    namespace, listening = secrets.token_hex(4), socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    settings = RouterSettings(store_url=redis.url, namespace=namespace, keys=(KEY,), admin_token=TOKEN)
    async with AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(pair(redis, namespace, marked, unmarked, refund, **of_nodes))
        await stack.enter_async_context(running(settings, listening))
        http = await stack.enter_async_context(aiohttp.ClientSession(url, headers=BEARER))
        caller = await stack.enter_async_context(Caller(f"{url}/mcp"))
        fleet = Fleet(http, caller, dict(zip("ab", nodes, strict=True)))
        await fleet.until("nodes", lambda result: [node["state"] for node in result["nodes"]] == ["live", "live"])
        yield fleet


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def fleet(redis: RedisServer) -> AsyncIterator[Fleet]:
    async with fleet_of(redis) as made:
        yield made


async def refund(ctx: Context) -> str:
    """Asks, then fails."""
    raise LookupError(said(await ctx.elicit("Which order?", Word)))


async def test_a_call_that_failed_is_not_taken_for_one_that_completed(fleet: Fleet) -> None:
    """Wherever one looks: in the list, on its own page, in the overview, and among the nodes."""
    good, bad = await fleet.parked("unmarked"), await fleet.parked("refund")
    await fleet.caller.retry("unmarked", good.token, good.accept(word="secret"))
    reply = await fleet.caller.retry("refund", bad.token, bad.accept(word="secret"))
    assert reply.result["isError"]
    failed = await fleet.until("calls?failed=true&tool=refund", lambda result: result["items"])
    [item] = failed["items"]
    line = f"{__name__}:refund:{refund.__code__.co_firstlineno + 2}"
    how = {"outcome": "tool_error", "error": "LookupError", "place": line}
    assert {name: item[name] for name in how} == how and item["call_id"] == call_of(bad.token)
    calls = {call_of(good.token), call_of(bad.token)}
    listed = await fleet.until("calls", lambda result: calls <= {one["call_id"] for one in result["items"]})
    ended = {one["call_id"]: one["outcome"] for one in listed["items"]}
    assert (ended[call_of(good.token)], ended[call_of(bad.token)]) == ("completed", "tool_error")
    shown = await fleet.get(f"leases/{call_of(bad.token)}")
    assert (shown["record"], {name: shown[name] for name in how}) == ("done", how)
    assert (await fleet.get(f"leases/{call_of(good.token)}"))["outcome"] == "completed"
    overview = await fleet.until("overview", lambda result: result["failed"])
    assert overview["failing"] == [{"tool": "refund", "ended": 1, "failed": 1}]
    assert overview["ended"] >= 2 and "secret" not in str((failed, shown, overview))


async def test_a_node_that_drains(redis: RedisServer) -> None:
    """Its calls go to the other, which is shown as a hand-off with its times, and with who ordered it; it is no
    failover. An open stream keeps no router from ending."""
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(fleet_of(redis))
        moved = await fleet.parked()
        while (await fleet.get(f"leases/{call_of(moved.token)}"))["node_id"] != "a":
            moved = await fleet.parked()
        status, body = await fleet.post("nodes/a/drain")
        assert (status, "done" in body) == (202, True)
        await fleet.until("nodes", lambda result: result["nodes"][0]["state"] == "draining")
        call = call_of(moved.token)
        await fleet.until(f"leases/{call}", lambda result: result["record"] == "released")
        shown = await fleet.get(f"leases/{call}")
        assert shown["fate"].startswith("It was handed off: its client's next retry replays it on another node")
        assert (await fleet.caller.retry("marked", moved.token, moved.accept(word="x"))).token
        # The hand-off may be seen before the takeover is.
        result = await fleet.until("failovers", lambda result: any(one["recovered"] for one in result["failovers"]))
        [found] = result["failovers"]
        assert (found["node_id"], found["reason"], found["recovered"]) == ("a", "released", 1)
        assert found["planned"] and found["durations"].keys() == {"claim", "replay", "resume", "total"}
        steps = [(step["step"], step["node_id"]) for step in (await fleet.get(f"leases/{call}"))["trail"]]
        assert steps == [("parked", "a"), ("released", "a"), ("claimed", "b"), ("parked", "b")]
        events = (await fleet.get("events"))["events"]
        assert {"node_draining", "takeover"} <= {event["kind"] for event in events}, events
        name = Trust([KEY.encode()]).credential(SecretStr(TOKEN))
        assert f"an operator (admin token {name}) ordered this node to drain" in json.dumps(events)
        assert TOKEN not in json.dumps(events)
        overview = await fleet.get("overview")
        assert (overview["nodes"], overview["failovers_last_hour"]) == ({"draining": 1, "live": 1}, 0)
        await stack.enter_async_context(fleet.http.get("/api/v1/stream"))
        began = time.monotonic()
    assert time.monotonic() - began < 8.0, "the streams would keep it for 10 s"


def kinds(result: Any) -> list[str]:
    """The problems, but for a loop that stood: the nodes run in the process of the tests, whose loop may have stood for
    a reason of its own."""
    return [kind for problem in result["problems"] if (kind := problem["kind"]) != "loop_stood"]


async def test_a_full_store_is_the_one_problem_and_nobody_is_told_to_start_nodes() -> None:
    """From the first refused write on, and after all leases have run out; and it is over when there is room."""
    with running_server(RedisServer(options=("--maxmemory-policy", "noeviction"))) as redis:
        async with fleet_of(redis, lease_ttl=1.5) as fleet:
            held = await fleet.parked()
            await fleet.until("overview", lambda result: not kinds(result))
            with redis.client() as client:
                client.config_set("maxmemory", "1")
                first = await fleet.until("overview", kinds)
                assert kinds(first) == ["store_full"] and first["store"] == "full"
                gone = await fleet.until("overview", lambda result: result["nodes"] == {"unheard": 2})
                assert kinds(gone) == ["store_full"]
                assert "serving what needs no store: a, b" in gone["problems"][0]["text"]
                assert "do not restart nodes" in gone["problems"][0]["next"] and "start one" not in json.dumps(gone)
                client.config_set("maxmemory", "0")
            await fleet.until("overview", lambda result: result["nodes"] == {"live": 2} and not kinds(result))
            assert (await fleet.caller.retry("marked", held.token, held.accept(word="x"))).token
