"""Sagas on a fleet of processes: through the router, and through a load balancer that knows nothing of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleet.fleet import fleet, haproxy
from tests.node.sagas import SagaClient, done, steps
from tests.store.server import RedisServer
from tests.wire import Caller, Reply, accepted

pytestmark = pytest.mark.anyio
REENTRANT = "tests/node/reentrant_server.py"
HASHED = Path(__file__).parents[3] / "examples" / "haproxy.cfg"
ROUND_ROBIN = Path(__file__).parents[2] / "fleet" / "round_robin.cfg"


async def told(url: str, name: str, between: Callable[[str], None] = lambda node: None) -> list[Reply]:
    """The replies of one saga of three questions, `between` called with the serving node before each resume."""
    async with Caller(url) as wire:
        client = SagaClient(wire)
        reply = [await client.call("sequence", name=name)]
        for number in range(3):
            between(reply[-1].headers["framehold-node"])
            (step,) = steps(reply[-1])
            reply.append(await client.resume(reply[-1], done(step, accepted(word=f"word-{number}"))))
    effects = " ".join(f"{place}-{name}#1" for place in ("first", "second", "third"))
    assert reply[-1].text.startswith(f"word-0 word-1 word-2 {effects} ")
    return reply


def ways(response: list[Reply]) -> list[tuple[str, str]]:
    """Which node served each round, and how the request found it."""
    return [(reply.headers["framehold-node"], reply.headers["framehold-route"]) for reply in response]


async def test_sagas_find_their_frames(redis: RedisServer, tmp_path: Path) -> None:
    """The router reads a resume's token, so it goes where the saga began, as does HAProxy with a hash; by turns it
    takes a hop more. Whoever holds
    one and is killed is relieved by another. Each effect runs once."""
    async with fleet(tmp_path, redis, "a", "b", "c", target=REENTRANT, sagas="true") as made:
        router = await made.add_router()
        for number in range(6):
            begun, *resumed = ways(await told(router.url, f"sticky-{number}"))
            assert resumed == [(begun[0], "ring")] * 3
        async with haproxy(tmp_path, ROUND_ROBIN, made.nodes) as url:
            for number in range(3):
                begun, *resumed = ways(await told(url, f"turns-{number}"))
                assert {node for node, _ in resumed} == {begun[0]} and "lease" in {route for _, route in resumed}
        async with haproxy(tmp_path, HASHED, made.nodes) as url:
            for number in range(6):
                begun, *resumed = ways(await told(url, f"hashed-{number}"))
                assert resumed == [(begun[0], "ring")] * 3
        killed: list[str] = []

        def kill(node: str) -> None:
            if len(killed) < 2:
                killed.append(node)
                made.nodes[node].kill()

        served = ways(await told(router.url, "heir", kill))
        assert [node for node, _ in served[:2]] == killed and served[1][1] == "takeover"
        assert set(made.entries().values()) == {1}
