"""A node that takes no new call, beside two that have room: no user is refused for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.fleet.faults import UNMARKED, TrialFleet
from tests.fleet.trial import Client, Trial
from tests.kit.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]
CALLS, AT_ONCE = 200, 10
LIMIT = 3
"""Calls that n1 may have, none of which it can evict."""


class OneFull(TrialFleet):
    """Three nodes, of which n1 is soon full."""

    def own(self, name: str) -> dict[str, str]:
        return {"FRAMEHOLD_MAX_PARKED": str(LIMIT)} if name == "n1" else {}


async def test_no_new_call_is_refused_beside_nodes_with_room(redis: RedisServer, tmp_path: Path) -> None:
    made, served = OneFull(tmp_path, redis, max_parked_per_principal="200"), Counter[str]()
    try:
        router = (await made.start_router()).url
        await made.grow(3)
        async with Client() as client:
            for _ in range(LIMIT):
                assert (await Trial(client, "talk", UNMARKED).begin(made.url("n1"))).asked

            async def user(number: int) -> None:
                for _ in range(CALLS // AT_ONCE):
                    call = Trial(client, "talk", UNMARKED)
                    call.user = f"user{number}"
                    async with asyncio.timeout(5):
                        reply = await call.begin(router)
                    assert reply.asked, reply
                    served[call.owner] += 1
                    assert await call.finish(router) == call.done

            await asyncio.gather(*(user(number) for number in range(AT_ONCE)))
            refused = await Trial(client, "talk", UNMARKED).begin(made.url("n1"))
        assert refused.status == 503 and "FRAMEHOLD_MAX_PARKED" in refused.text, "it was full all the time"
        assert served["n1"] == 0 and min(served["n2"], served["n3"]) > CALLS // 4
    finally:
        made.stop()
