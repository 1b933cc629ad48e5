"""The rounds of a call find the node that holds its frame, whatever stands in front of the nodes."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from tests.fleet.fleet import Fleet, Watched, converse, fleet, haproxy
from tests.node.guest import expected
from tests.processes import ROOT
from tests.store.server import RedisServer
from tests.wire import Caller

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

CALLS = 200
NAMES = [f"guest{number}" for number in range(CALLS)]
NODES = ("node-1", "node-2", "node-3")


def all_went_well(watched: Watched, made: Fleet) -> None:
    """Each result is that of its own answers, each handler was entered once, each call stayed on one node, calls are on
    all nodes, nobody saw an error and nobody logged one."""
    assert watched.said == {name: expected(name) for name in NAMES}
    assert made.entries() == dict.fromkeys(NAMES, 1)
    assert watched.statuses == {200: 4 * CALLS}
    assert {name: (len(served), len(set(served))) for name, served in watched.nodes.items()} == dict.fromkeys(
        NAMES, (4, 1)
    )
    # How many each has depends on how fast it answers: bounded load counts what is in flight.
    assert {served[0] for served in watched.nodes.values()} == set(NODES)
    assert made.complaints() == []


async def test_behind_the_router(redis: RedisServer, tmp_path: Path) -> None:
    """Each round goes straight to its node."""
    async with fleet(tmp_path, redis, *NODES) as made:
        router = await made.add_router()
        watched = await converse([router.url], NAMES)
        all_went_well(watched, made)
        assert watched.routes == {"start": CALLS, "ring": 3 * CALLS}


async def test_behind_two_routers(redis: RedisServer, tmp_path: Path) -> None:
    """A call's rounds may come through either: both map it to the same node, without asking each other."""
    async with fleet(tmp_path, redis, *NODES) as made:
        routers = [await made.add_router(), await made.add_router()]
        ports = itertools.cycle(int(router.root.rpartition(":")[2]) for router in routers)

        async def alternate(request: httpx2.Request) -> None:
            request.url = request.url.copy_with(port=next(ports))

        watched = await converse([router.url for router in routers], NAMES, before=alternate)
        all_went_well(watched, made)
        assert watched.routes == {"start": CALLS, "ring": 3 * CALLS}


async def test_behind_haproxy_with_a_hash(redis: RedisServer, tmp_path: Path) -> None:
    """HAProxy mints the id, hashes it, and finds it again in the token: no relay between nodes at all."""
    async with (
        fleet(tmp_path, redis, *NODES) as made,
        haproxy(tmp_path, ROOT / "examples/haproxy.cfg", made.nodes.values()) as url,
    ):
        watched = await converse([url], NAMES)
        homes = Counter(served[0] for served in watched.nodes.values())
        assert homes.keys() == set(NODES), homes
        assert watched.routes == {"start": CALLS, "ring": 3 * CALLS}
        _all_but_balance(watched, made)


async def test_haproxy_passes_over_a_dead_node(redis: RedisServer, tmp_path: Path) -> None:
    """Calls of the dead one are told the truth, all others go on; soon nobody waits for it any more."""
    async with (
        fleet(tmp_path, redis, *NODES) as made,
        haproxy(tmp_path, ROOT / "examples/haproxy.cfg", made.nodes.values()) as url,
        Caller(url) as caller,
    ):
        names = NAMES[:30]
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


async def test_behind_plain_round_robin(redis: RedisServer, tmp_path: Path) -> None:
    """A load balancer that knows nothing is correct too: nodes relay what they don't own."""
    async with (
        fleet(tmp_path, redis, *NODES) as made,
        haproxy(tmp_path, ROOT / "tests/fleet/round_robin.cfg", made.nodes.values()) as url,
    ):
        watched = await converse([url], NAMES)
        assert watched.routes["lease"] > CALLS, "most rounds must have been relayed"
        _all_but_balance(watched, made)


def _all_but_balance(watched: Watched, made: Fleet) -> None:
    assert watched.said == {name: expected(name) for name in NAMES}
    assert made.entries() == dict.fromkeys(NAMES, 1)
    assert watched.statuses == {200: 4 * CALLS}
    assert all(len(set(served)) == 1 for served in watched.nodes.values())
    assert made.complaints() == []
