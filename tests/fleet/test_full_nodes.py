"""A node that takes no new call, beside two that have room: no user is refused for it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fleet.faults import UNMARKED, TrialFleet
from tests.fleet.trial import Client, Trial
from tests.store.server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]
CALLS, AT_ONCE = 500, 10
LIMIT = 3
"""Calls that n1 may have, none of which it can evict."""


class OneFull(TrialFleet):
    """Three nodes, of which n1 is soon full."""

    def own(self, name: str) -> dict[str, str]:
        return {"FRAMEHOLD_MAX_PARKED": str(LIMIT)} if name == "n1" else {}


@pytest.fixture
async def made(redis: RedisServer, tmp_path: Path) -> AsyncIterator[TrialFleet]:
    """A fleet whose n1 is full, and whose users may have 200 calls on each node."""
    fleet = OneFull(tmp_path, redis, max_parked_per_principal="200")
    try:
        await fleet.start_router()
        await fleet.grow(3)
        async with Client() as client:
            for _ in range(LIMIT):
                assert (await Trial(client, "talk", UNMARKED).begin(fleet.url("n1"))).asked
        yield fleet
    finally:
        fleet.stop()


async def test_no_new_call_is_refused_beside_nodes_with_room(made: TrialFleet) -> None:
    router, waits, served = made.routers[0].url, list[float](), Counter[str]()
    async with Client() as client:

        async def user(number: int) -> None:
            for _ in range(CALLS // AT_ONCE):
                call, began = Trial(client, "talk", UNMARKED), time.perf_counter()
                call.user = f"user{number}"
                reply = await call.begin(router)
                waits.append(time.perf_counter() - began)
                assert reply.asked, reply
                served[call.owner] += 1
                assert await call.finish(router) == call.done

        await asyncio.gather(*(user(number) for number in range(AT_ONCE)))
        refused = await Trial(client, "talk", UNMARKED).begin(made.url("n1"))
    assert refused.status == 503 and "FRAMEHOLD_MAX_PARKED" in refused.text, "it was full all the time"
    assert served["n1"] == 0 and min(served["n2"], served["n3"]) > CALLS // 4
    print(f"{CALLS} new calls, none refused; the longest waited {1000 * max(waits):.0f} ms")
    assert max(waits) < 5.0


async def test_where_all_are_full_the_client_hears_of_one(redis: RedisServer, tmp_path: Path) -> None:
    """And of the limit that was met, with its Retry-After."""
    fleet = TrialFleet(tmp_path, redis, max_parked=str(LIMIT))
    try:
        router = (await fleet.start_router()).url
        await fleet.grow(3)
        async with Client() as client:
            for _ in range(3 * LIMIT):
                assert (await Trial(client, "talk", UNMARKED).begin(router)).asked
            refused = await Trial(client, "talk", UNMARKED).begin(router)
        assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
        assert f"this node holds {LIMIT} calls" in refused.text and "nothing was started" in refused.text
    finally:
        fleet.stop()


async def test_a_user_with_too_many_calls_is_refused_by_each_node(redis: RedisServer, tmp_path: Path) -> None:
    """The limit is one of the user, so it is not tried elsewhere: one node more would be one limit more."""
    fleet = TrialFleet(tmp_path, redis, max_parked_per_principal="1")
    try:
        router = (await fleet.start_router()).url
        names = await fleet.grow(3)
        async with Client() as client:
            for name in names[:2]:
                assert (await Trial(client, "talk", UNMARKED).begin(fleet.url(name))).asked
            refusals = 0
            while (reply := await Trial(client, "talk", UNMARKED).begin(router)).status == 503:
                assert "the limit for one user" in reply.text
                refusals += 1
            assert reply.asked
            assert (await Trial(client, "talk", UNMARKED).begin(router)).status == 503
        assert refusals < 100, "the third node is drawn now and then"
    finally:
        fleet.stop()
