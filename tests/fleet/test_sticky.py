"""The rounds of a call find the node that holds its frame, whatever stands in front of the nodes, and whichever of them
come and go."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from framehold_core.ids import is_call_id
from tests.kit.answering import expected
from tests.kit.client import Caller, Reply
from tests.kit.fleet import Fleet, converse, fleet, haproxy
from tests.kit.processes import ROOT
from tests.kit.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

CALLS = 100
NODES = ("node-1", "node-2", "node-3")
PARKED = 500


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def made(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """Three nodes for all these tests. Each puts something of its own in front of them."""
    async with fleet(tmp_path_factory.mktemp("sticky"), redis, *NODES) as running:
        yield running


@pytest.mark.parametrize("front", ["a router", "two routers", "plain round robin"])
async def test_each_call_stays_on_one_node(made: Fleet, tmp_path: Path, front: str) -> None:
    """Two routers map a call to the same node without asking each other. A load balancer that knows nothing is correct
    too: nodes relay what they don't own."""
    names = [f"{front.replace(' ', '-')}{number}" for number in range(CALLS)]
    if front == "plain round robin":
        async with haproxy(tmp_path, ROOT / "tests/fleet/round_robin.cfg", made.nodes) as url:
            watched = await converse([url], names)
        assert watched.routes["lease"] > CALLS, "most rounds must have been relayed"
    else:
        routers = [await made.add_router() for _ in range(1 + (front == "two routers"))]
        ports = itertools.cycle(int(router.root.rpartition(":")[2]) for router in routers)

        async def alternate(request: httpx2.Request) -> None:
            request.url = request.url.copy_with(port=next(ports))

        watched = await converse([router.url for router in routers], names, before=alternate)
        assert watched.routes == {"start": CALLS, "ring": 3 * CALLS}
    assert watched.said == {name: expected(name) for name in names}
    entered = made.entries()
    assert {name: entered[name] for name in names} == dict.fromkeys(names, 1)
    assert watched.statuses == {200: 4 * CALLS}
    assert {(len(served), len(set(served))) for served in watched.nodes.values()} == {(4, 1)}
    # How many each has depends on how fast it answers: bounded load counts what is in flight.
    assert {served[0] for served in watched.nodes.values()} == set(NODES)
    assert made.complaints() == []


async def test_haproxy_passes_on_no_page_of_operators(made: Fleet, tmp_path: Path) -> None:
    """These nodes serve their metrics where they serve calls. No spelling gets past HAProxy."""
    root = made.nodes["node-1"].root
    async with (
        haproxy(tmp_path, ROOT / "examples/haproxy.cfg", made.nodes) as url,
        httpx2.AsyncClient() as http,
    ):
        paths = ("/metrics", "/%6detrics", "/admin/node", "/%61dmin/node", "/dashboard", "/api/v1/nodes")
        found = {path: (await http.get(url.removesuffix("/mcp") + path)).status_code for path in paths}
        assert (await http.get(f"{root}/metrics")).status_code == 200
    assert found == dict.fromkeys(paths, 404)


async def test_a_trailer_behind_haproxy_is_no_header_of_the_fleet(made: Fleet, tmp_path: Path) -> None:
    """HAProxy removes the internal headers of a client from heads, and passes trailers on."""
    chosen = "d" * 32
    async with haproxy(tmp_path, ROOT / "examples/haproxy.cfg", made.nodes) as url, Caller(url) as caller:
        sent = caller.envelope("tools/call", {"name": "one", "arguments": {"name": "trailer"}})
        body, host = json.dumps(sent.body).encode(), urlsplit(url).netloc
        lines = [f"{name}: {value}" for name, value in {**sent.headers, "transfer-encoding": "chunked"}.items()]
        head = "\r\n".join(["POST /mcp HTTP/1.1", f"host: {host}", "connection: close", *lines, "", ""]).encode()
        trailer = f"framehold-call-id: {chosen}\r\nframehold-via: node\r\n\r\n".encode()
        reader, writer = await asyncio.open_connection(*host.split(":"))
        writer.write(head + b"%x\r\n%b\r\n0\r\n%b" % (len(body), body, trailer))
        result = json.loads((await reader.read()).partition(b"\r\n\r\n")[2])["result"]
        writer.close()
    assert is_call_id(call := result["requestState"].split(".")[1]) and call != chosen


async def _next_round(caller: Caller, before: dict[str, Reply | None]) -> dict[str, Reply]:
    """The next round of all calls, by their names, fifty at a time."""
    gate = asyncio.Semaphore(50)

    async def one(name: str, reply: Reply | None) -> Reply:
        arguments = {"name": name}
        async with gate:
            if reply is None:
                return await caller.call("three", arguments=arguments)
            return await caller.retry("three", reply.token, reply.accept(word="w"), arguments=arguments)

    return dict(zip(before, await asyncio.gather(*itertools.starmap(one, before.items())), strict=True))


def _homes(replies: dict[str, Reply]) -> dict[str, str]:
    return {name: reply.headers["framehold-node"] for name, reply in replies.items()}


# Last, as it changes the fleet.
async def test_nodes_join_and_leave_while_500_calls_are_parked(made: Fleet) -> None:
    """Every call whose node lives goes on where it is, through a router whose ring has moved under it. The others are
    told that they were lost; nothing is entered twice."""
    names = [f"parked{number}" for number in range(PARKED)]
    async with Caller((await made.add_router()).url) as caller:
        first = await _next_round(caller, dict.fromkeys(names))
        home = _homes(first)
        assert set(home.values()) == set(NODES)

        await made.add_nodes("node-4")
        second = await _next_round(caller, dict(first))
        assert _homes(second) == home
        routes = Counter(reply.headers["framehold-route"] for reply in second.values())
        # What the ring now maps to node-4 was relayed once, and learned by it.
        assert 0.15 < routes["lease"] / PARKED < 0.35, routes
        assert routes["lease"] + routes["ring"] == PARKED

        await made.remove_node("node-2")
        third = await _next_round(caller, {name: reply for name, reply in second.items() if home[name] != "node-2"})
        assert _homes(third) == {name: node for name, node in home.items() if node != "node-2"}
        assert all(reply.messages for reply in third.values())
        assert {reply.headers["framehold-route"] for reply in third.values()} == {"ring"}, "the router has learned"

        lost = await _next_round(caller, {name: reply for name, reply in second.items() if home[name] == "node-2"})
        assert lost and all("entered once" in reply.text for reply in lost.values())
        done = await _next_round(caller, dict(third))
        assert all(reply.text == f"{name}: w w w" for name, reply in done.items())
    entered = made.entries()
    assert {name: entered[name] for name in names} == dict.fromkeys(names, 1)
