"""The rounds of a call find the node that holds its frame, whatever stands in front of the nodes."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from framehold_core.ids import is_call_id
from tests.fleet.fleet import Fleet, Watched, converse, fleet, haproxy
from tests.node.guest import expected
from tests.processes import ROOT
from tests.store.server import RedisServer
from tests.wire import Caller

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

CALLS = 100
NODES = ("node-1", "node-2", "node-3")


def named(front: str) -> list[str]:
    """The names of the calls of one test."""
    return [f"{front}{number}" for number in range(CALLS)]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def made(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """Three nodes for all these tests. Each puts something of its own in front of them."""
    async with fleet(tmp_path_factory.mktemp("sticky"), redis, *NODES) as running:
        yield running


def all_went_well(watched: Watched, made: Fleet, names: list[str]) -> None:
    """Each result is that of its own answers, each handler was entered once, each call stayed on one node, calls are on
    all nodes, nobody saw an error and nobody logged one."""
    assert watched.said == {name: expected(name) for name in names}
    entered = made.entries()
    assert {name: entered[name] for name in names} == dict.fromkeys(names, 1)
    assert watched.statuses == {200: 4 * CALLS}
    assert {name: (len(served), len(set(served))) for name, served in watched.nodes.items()} == dict.fromkeys(
        names, (4, 1)
    )
    # How many each has depends on how fast it answers: bounded load counts what is in flight.
    assert {served[0] for served in watched.nodes.values()} == set(NODES)
    assert made.complaints() == []


async def test_behind_the_router(made: Fleet) -> None:
    """Each round goes straight to its node."""
    router, names = await made.add_router(), named("router")
    watched = await converse([router.url], names)
    all_went_well(watched, made, names)
    assert watched.routes == {"start": CALLS, "ring": 3 * CALLS}


async def test_behind_two_routers(made: Fleet) -> None:
    """A call's rounds may come through either: both map it to the same node, without asking each other."""
    while len(made.routers) < 2:
        await made.add_router()
    ports = itertools.cycle(int(router.root.rpartition(":")[2]) for router in made.routers)
    names = named("routers")

    async def alternate(request: httpx2.Request) -> None:
        request.url = request.url.copy_with(port=next(ports))

    watched = await converse([router.url for router in made.routers], names, before=alternate)
    all_went_well(watched, made, names)
    assert watched.routes == {"start": CALLS, "ring": 3 * CALLS}


async def test_behind_haproxy_with_a_hash(made: Fleet, tmp_path: Path) -> None:
    """HAProxy mints the id, hashes it, and finds it again in the token: no relay between nodes at all."""
    async with haproxy(tmp_path, ROOT / "examples/haproxy.cfg", made.nodes) as url:
        names = named("hash")
        watched = await converse([url], names)
        all_went_well(watched, made, names)
        assert watched.routes == {"start": CALLS, "ring": 3 * CALLS}


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


async def test_behind_plain_round_robin(made: Fleet, tmp_path: Path) -> None:
    """A load balancer that knows nothing is correct too: nodes relay what they don't own."""
    async with haproxy(tmp_path, ROOT / "tests/fleet/round_robin.cfg", made.nodes) as url:
        names = named("robin")
        watched = await converse([url], names)
        all_went_well(watched, made, names)
        assert watched.routes["lease"] > CALLS, "most rounds must have been relayed"


# Last, as it kills a node of the fleet.
async def test_haproxy_passes_over_a_dead_node(made: Fleet, tmp_path: Path) -> None:
    """Calls of the dead one are told the truth, all others go on; soon nobody waits for it any more."""
    async with (
        haproxy(tmp_path, ROOT / "examples/haproxy.cfg", made.nodes) as url,
        Caller(url) as caller,
    ):
        names = named("dead")[:30]
        response = await asyncio.gather(*(caller.call("one", arguments={"name": name}) for name in names))
        made.nodes.pop("node-2").kill()
        done = await asyncio.gather(
            *(
                caller.retry("one", reply.token, reply.accept(word="w"), arguments={"name": name})
                for name, reply in zip(names, response, strict=True)
            )
        )
        for name, before, after in zip(names, response, done, strict=True):
            lost = before.headers["framehold-node"] == "node-2"
            assert ("entered once" if lost else f"{name}: w") in after.text, after.message
        started = time.monotonic()
        result = await asyncio.gather(*(caller.call("never", arguments={"name": "n"}) for _ in range(30)))
        assert {reply.text for reply in result} == {"n: unasked"}
        assert time.monotonic() - started < 5
