"""The API of a real router before two real nodes and a Redis, through the public port."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator
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

pytestmark = pytest.mark.anyio

BEARER = {"Authorization": f"Bearer {TOKEN}"}


async def blocks() -> str:
    """Keeps the loop for longer than a second."""
    time.sleep(1.3)
    return "at last"


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
        nodes = await stack.enter_async_context(pair(redis, namespace, marked, unmarked, refund, blocks, **of_nodes))
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


async def test_calls_of_all_nodes_are_listed_and_shown(fleet: Fleet) -> None:
    """Each by its node, with what its record and its frame say; and a token leads there."""
    held = [await fleet.parked()]
    while len({(await fleet.get(f"leases/{call_of(item.token)}"))["node_id"] for item in held}) < 2:
        held.append(await fleet.parked())
    calls = {call_of(item.token) for item in held}
    result = await fleet.until("leases?state=parked", lambda result: result["total"] >= len(held))
    assert {item["call_id"] for item in result["items"]} >= calls
    assert {item["node_id"] for item in result["items"]} == {"a", "b"}
    assert result["missing"] == []
    shown = await fleet.get(f"leases/{call_of(held[0].token)}")
    assert (shown["record"], shown["tool"], shown["live"]["state"]) == ("open", "marked", "parked")
    assert [(step["step"], step["node_id"]) for step in shown["trail"]] == [("parked", shown["node_id"])]
    assert [entry["kind"] for entry in shown["journal"]] == ["ask"]
    assert shown["fate"] == "Its node holds its frame; it continues when its client answers."
    status, where = await fleet.post("lookup", {"token": held[0].token})
    assert (status, where["kind"], where["node_id"]) == (200, "hold", shown["node_id"])
    assert where["live"]["call_id"] == call_of(held[0].token)


async def test_pages_lead_through_all_calls(fleet: Fleet) -> None:
    """Each once, over two nodes, by one cursor."""
    wanted = {call_of((await fleet.parked()).token) for _ in range(7)}
    for order in ("sort=call_id", "sort=began&descending=true", "sort=expires", "sort=journal_bytes"):
        found: list[str] = []
        after = ""
        while True:
            page = await fleet.get(f"leases?{order}&limit=3{after}")
            found += [item["call_id"] for item in page["items"]]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        assert len(found) == len(set(found)) == page["total"], order
        assert wanted <= set(found), order


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


async def test_pause_and_resume(fleet: Fleet) -> None:
    """One node writes it, all know it, and the overview says that somebody has to end it."""
    held = await fleet.parked("unmarked")
    status, body = await fleet.post("tools/pause", {"tool": "unmarked", "why": "it bills twice"})
    assert status == 200, body
    overview = await fleet.until("overview", lambda result: result["paused"])
    assert [(one["tool"], one["why"]) for one in overview["paused"]] == [("unmarked", "it bills twice")]
    assert any("framehold resume unmarked" in problem["next"] for problem in overview["problems"])
    await fleet.until("nodes", lambda result: all(node["paused"] for node in result["nodes"]))
    assert (await fleet.caller.call("unmarked")).result["isError"] is True
    assert (await fleet.caller.retry("unmarked", held.token, held.accept(word="x"))).status == 503
    assert (await fleet.post("tools/resume", {"tool": "unmarked"}))[0] == 200
    await fleet.until("nodes", lambda result: not any(node["paused"] for node in result["nodes"]))
    assert not (await fleet.caller.retry("unmarked", held.token, held.accept(word="x"))).result.get("isError")
    kinds = [event["kind"] for event in (await fleet.get("events"))["events"]]
    assert kinds.count("paused") == kinds.count("resumed") == 1
    assert (await fleet.post("tools/resume", {"tool": "unmarked"}))[0] == 404
    assert (await fleet.post("tools/pause", {"tool": "typo"}))[0] == 404


async def test_cancel(fleet: Fleet) -> None:
    """The call ends for good: its record says so, and its client gets that answer."""
    held = await fleet.parked("unmarked")
    call = call_of(held.token)
    status, body = await fleet.post(f"leases/{call}/cancel")
    assert status == 200, body
    shown = await fleet.get(f"leases/{call}")
    assert (shown["record"], shown["cause"], shown["live"]) == ("done", "cancelled", None)
    assert shown["fate"].startswith("It has ended")
    reply = await fleet.caller.retry("unmarked", held.token, held.accept(word="x"))
    assert "cancelled" in json.dumps(reply.result)
    status, body = await fleet.post(f"leases/{call}/cancel")
    assert (status, "no node holds" in body["error"]) == (404, True)


async def test_evict(fleet: Fleet) -> None:
    """The frame goes, the call stays; one that can't be rebuilt is left alone."""
    held = await fleet.parked()
    call = call_of(held.token)
    assert (await fleet.post(f"leases/{call}/evict"))[0] == 200
    shown = await fleet.get(f"leases/{call}")
    assert (shown["live"], shown["fate"].split(":")[0]) == (None, "Its node holds no frame of it")
    again = await fleet.caller.retry("marked", held.token, held.accept(word="x"))
    assert again.token
    assert (await fleet.get(f"leases?call={call}"))["items"][0]["replayed"] is True
    status, body = await fleet.post(f"leases/{call_of((await fleet.parked('unmarked')).token)}/evict")
    assert (status, "error" in body) == (409, True)


async def test_what_changes_is_streamed(fleet: Fleet) -> None:
    """Through the public port: at once, and within about a second of a change."""
    async with fleet.http.get("/api/v1/stream") as response, asyncio.timeout(SOON):
        assert response.headers["Content-Type"].startswith("text/event-stream")
        messages = []
        before = None
        while True:
            message = (await response.content.readuntil(b"\n\n")).decode()
            messages.append(message.split("\n")[0])
            if message.startswith("event: overview"):
                parked = json.loads(message.split("data: ")[1])["parked"]
                if before is None:
                    before = parked
                    await fleet.parked()
                elif parked > before:
                    break
        assert messages[:3] == ["retry: 2000", "event: overview", "event: nodes"]


async def test_nobody_else_is_told(fleet: Fleet) -> None:
    """Without the token; and a browser is asked for it."""
    async with fleet.http.get("/api/v1/nodes", headers={"Authorization": ""}) as response:
        assert response.status == 401
        assert response.headers.getall("WWW-Authenticate")[0] == 'Basic realm="framehold"'
    async with fleet.http.get("/dashboard/nodes", headers={"Authorization": ""}) as response:
        assert response.status == 200, "it holds no data"
    async with fleet.http.get("/admin/node") as response:
        assert response.status == 404


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


async def test_a_handler_that_kept_the_loop_is_named(redis: RedisServer) -> None:
    """Though nobody was looking: the tool, and the line that stood there."""
    async with fleet_of(redis) as fleet:
        assert (await fleet.caller.call("blocks")).text == "at last"
        stood = await fleet.until("overview", lambda result: any(problem["tool"] for problem in result["problems"]))
        # The two nodes share this loop; a node notes a stall within a second after its end.
        named = [problem for problem in stood["problems"] if problem["tool"]]
        assert {(problem["kind"], problem["severity"], problem["tool"]) for problem in named} == {
            ("loop_stood", "harm", "blocks")
        }
        assert all("in tool 'blocks', at tests.router.test_api_fleet:blocks:" in problem["text"] for problem in named)


# ---- a store in trouble


def kinds(result: Any) -> list[str]:
    """The problems, but for a loop that stood: the nodes run in the process of the tests, whose loop may have stood for
    a reason of its own."""
    return [kind for problem in result["problems"] if (kind := problem["kind"]) != "loop_stood"]


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A store that a test may fill and stop."""
    with running_server(RedisServer(options=("--maxmemory-policy", "noeviction"))) as built:
        yield built


async def test_a_full_store_is_the_one_problem_and_nobody_is_told_to_start_nodes(own_redis: RedisServer) -> None:
    """From the first refused write on, and after all leases have run out; and it is over when there is room."""
    async with fleet_of(own_redis, lease_ttl=1.5) as fleet:
        held = await fleet.parked()
        await fleet.until("overview", lambda result: not kinds(result))
        with own_redis.client() as client:
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


async def test_a_store_that_refuses_is_the_one_problem_and_its_word_is_told(own_redis: RedisServer) -> None:
    """From the first refused write on, after all leases have run out, and over with its cause."""
    async with fleet_of(own_redis, lease_ttl=1.5) as fleet:
        held = await fleet.parked()
        with own_redis.client() as client:
            client.config_set("min-replicas-to-write", "1")
            first = await fleet.until("overview", kinds)
            assert kinds(first) == ["store_refuses"] and first["store"] == "refuses"
            gone = await fleet.until("overview", lambda result: result["nodes"] == {"unheard": 2})
            assert kinds(gone) == ["store_refuses"] and "NOREPLICAS" in gone["problems"][0]["text"]
            client.config_set("min-replicas-to-write", "0")
        await fleet.until("overview", lambda result: result["nodes"] == {"live": 2} and not kinds(result))
        assert (await fleet.caller.retry("marked", held.token, held.accept(word="x"))).token


async def test_a_silent_store_is_the_one_problem_and_no_node_is_live(own_redis: RedisServer) -> None:
    """Nodes that answer and have no valid lease are not live; what nodes saw meanwhile is in the log afterwards."""
    async with fleet_of(own_redis, lease_ttl=1.5) as fleet:
        with own_redis.paused():
            silent = await fleet.until(
                "overview", lambda result: result["nodes"] == {"unheard": 2} and kinds(result) == ["store_silent"]
            )
            [problem] = [one for one in silent["problems"] if one["kind"] == "store_silent"]
            assert "does not answer a, b:" in problem["text"]
            assert silent["store"] == "silent"
        await fleet.until("overview", lambda result: result["nodes"] == {"live": 2} and not kinds(result))
        await fleet.until("events", lambda result: "store_back" in {event["kind"] for event in result["events"]})
