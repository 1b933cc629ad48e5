"""Nodes come and go while calls are parked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.fleet.fleet import Fleet, fleet
from tests.store.server import RedisServer
from tests.wire import Caller, Reply

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

CALLS = 500


def named(prefix: str, count: int = CALLS) -> list[str]:
    """The names of the calls of one test."""
    return [f"{prefix}{number}" for number in range(count)]


async def in_parallel(caller: Caller, reply: dict[str, Reply]) -> dict[str, Reply]:
    """The next round of all calls."""
    gate = asyncio.Semaphore(50)

    async def one(name: str) -> Reply:
        async with gate:
            before = reply[name]
            return await caller.retry("three", before.token, before.accept(word="w"), arguments={"name": name})

    return dict(zip(reply, await asyncio.gather(*map(one, reply)), strict=True))


async def begun(caller: Caller, names: list[str], at_once: int = 50) -> dict[str, Reply]:
    """The first round of all calls."""
    gate = asyncio.Semaphore(at_once)

    async def one(name: str) -> Reply:
        async with gate:
            return await caller.call("three", arguments={"name": name})

    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


def homes(response: dict[str, Reply]) -> dict[str, str]:
    return {name: reply.headers["framehold-node"] for name, reply in response.items()}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def made(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """Three nodes or more behind a router. The tests add nodes and take others away, in turn. The one in which calls
    end is the last: for a heartbeat and a poll, the router still takes the nodes of those calls for fuller than the
    others, and gives them no new call."""
    async with fleet(tmp_path_factory.mktemp("members"), redis, "node-1", "node-2", "node-3") as fresh:
        await fresh.add_router()
        yield fresh


async def test_a_new_node_gets_its_part_of_new_calls(made: Fleet) -> None:
    """About 1/(N+1) of new keys. One call at a time: no node is busier than another, and the ring alone decides,
    whichever node has just reported what it holds."""
    await made.add_nodes("node-4")
    assert len(made.nodes) == 4
    async with Caller(made.routers[0].url) as caller:
        placed = Counter(homes(await begun(caller, named("placed"), at_once=1)).values())
    assert placed.keys() == made.nodes.keys()
    assert 0.15 < placed["node-4"] / CALLS < 0.35, f"{placed}\n{made.routers[0].tail()}"


async def test_a_killed_node(made: Fleet) -> None:
    """The retry that comes at once waits its lease out and is told the truth: entered once, lost. Others go on."""
    names = named("killed", 30)
    async with Caller(made.routers[0].url) as caller:
        response = await begun(caller, names)
        home = homes(response)
        assert "node-3" in home.values()
        made.nodes.pop("node-3").kill()
        done = await in_parallel(caller, response)
    assert homes({name: reply for name, reply in done.items() if home[name] != "node-3"}) == {
        name: node for name, node in home.items() if node != "node-3"
    }
    for name, reply in done.items():
        if home[name] == "node-3":
            assert reply.result["isError"] and "entered once" in reply.text, reply.message
        else:
            assert reply.messages, reply.message
    entered = made.entries()
    assert {name: entered[name] for name in names} == dict.fromkeys(names, 1)


async def test_nodes_join_and_leave_while_500_calls_are_parked(made: Fleet) -> None:
    """Every call whose node lives goes on where it is, through a router whose ring has moved under it. The others are
    told that they were lost; nothing is entered twice. New calls use the ring as it is."""
    names = named("parked")
    await made.routers[0].knows("node-1", "node-2", "node-4")
    async with Caller(made.routers[0].url) as caller:
        first = await begun(caller, names)
        home = homes(first)
        assert set(home.values()) == {"node-1", "node-2", "node-4"}

        await made.add_nodes("node-5")
        second = await in_parallel(caller, first)
        assert homes(second) == home
        routes = Counter(reply.headers["framehold-route"] for reply in second.values())
        # What the ring now maps to node-5 was relayed once, and learned by it.
        assert 0.15 < routes["lease"] / CALLS < 0.35, routes
        assert routes["lease"] + routes["ring"] == CALLS

        await made.remove_node("node-2")
        third = await in_parallel(caller, {name: reply for name, reply in second.items() if home[name] != "node-2"})
        assert homes(third) == {name: node for name, node in home.items() if node != "node-2"}
        assert all(reply.messages for reply in third.values())
        routes = Counter(reply.headers["framehold-route"] for reply in third.values())
        assert routes["ring"] == len(third), "the router has learned where the moved ones are"

        lost = await in_parallel(caller, {name: reply for name, reply in second.items() if home[name] == "node-2"})
        assert lost and all("entered once" in reply.text for reply in lost.values())
        done = await in_parallel(caller, third)
        assert all(reply.text == f"{name}: w w w" for name, reply in done.items())
    entered = made.entries()
    assert {name: entered[name] for name in names} == dict.fromkeys(names, 1)
