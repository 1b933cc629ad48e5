"""The last tenth of the store's memory is kept for calls that exist."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from framehold.engine.doors.door import Door
from framehold.engine.doors.store_room import StoreRoom
from framehold_fleet.models.nodes import OF_STORE
from framehold_store.base import MemoryUse
from tests.node.trouble import Node, insist, node_at, refused
from tests.processes import until
from tests.store.rights import RIGHTS, as_user, restrict
from tests.store.server import RedisServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    server = RedisServer(options=("--maxmemory-policy", "noeviction"))
    yield server
    server.remove()


def room_of(node: Node) -> StoreRoom:
    door = node.runtime.door
    assert isinstance(door, Door)
    return door.store_room


async def test_the_last_tenth_is_for_calls_that_exist(redis: RedisServer) -> None:
    """Within a heartbeat new calls that need the store are refused, before anything is written or entered. The others
    go on to their ends, and when there is room again all are taken."""
    redis.start()
    arguments = {"name": "b", "rounds": 2}
    async with node_at(redis, 3) as one:
        reply = await one.ask("a")
        for name in ("silent", "polite"):
            assert (await one.caller.call(name)).status == 200
        with redis.client() as client:
            client.config_set("maxmemory", int(client.info("memory")["used_memory"] / 0.93))
            room = room_of(one)
            await until(lambda: room.trouble, "the node to know")
            one.entered.clear()
            keys = client.dbsize()
            for _ in range(3):
                refusal = await one.caller.call("ask", arguments=arguments)
                assert refused(refusal) and int(refusal.headers["retry-after"]) >= 1
                assert "nothing was started" in refusal.text
                assert "MiB in use (maxmemory), and the rest is kept for calls that exist" in refusal.text
            assert not one.entered and client.dbsize() == keys
            assert one.runtime.table.met[OF_STORE, False][0] == 3
            assert (await one.caller.call("silent")).text == "silence"
            assert (await one.caller.call("polite")).text == "thanks"
            assert await one.complete(reply, "a") == "a is done"
            client.config_set("maxmemory", "1gb")
        asked = await insist(lambda: one.caller.call("ask", arguments=arguments))
        assert await one.complete(asked, "b") == "b is done"


@pytest.mark.parametrize("lacks", ["a right", "a limit"])
async def test_a_store_that_does_not_say_is_taken_to_have_room(
    redis: RedisServer, lacks: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once."""
    caplog.set_level(logging.INFO, "framehold.engine.doors")
    redis.start()
    if lacks == "a right":
        restrict(redis, *RIGHTS)
        with redis.client() as client:
            client.config_set("maxmemory", 1 << 20)
    url = as_user(redis.url) if lacks == "a right" else redis.url
    async with node_at(redis, 3, url) as one:
        renewed = one.runtime.heartbeat.lease.beat + 2
        await until(lambda: one.runtime.heartbeat.lease.beat >= renewed or lacks == "a right", "two heartbeats")
        await one.runtime.door.open()
        assert room_of(one).trouble is None
    texts = [record.getMessage() for record in caplog.records if "how full" in record.getMessage()]
    assert len(texts) == 1 and "INFO" in texts[0] and "maxmemory" in texts[0]


async def test_of_several_servers_the_fullest_counts(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call may come to lie at any of them. What the store said last stands while it does not answer."""
    redis.start()
    async with node_at(redis, 30) as one:
        room = room_of(one)
        for use, short in ((MemoryUse(90, 100), True), (MemoryUse(89, 100), False), (None, False)):

            async def memory(use: MemoryUse | None = use) -> MemoryUse | None:
                return use

            monkeypatch.setattr(one.runtime.store, "memory", memory)
            await room.read()
            assert (room.trouble is not None) is short
