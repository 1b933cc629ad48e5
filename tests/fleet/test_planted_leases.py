"""What somebody who writes the store, and has no key, does to leases: no process ends, and no call is lost."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from framehold_core.ids import Boot, Incarnation
from framehold_core.lease import NodeRecord
from framehold_core.value import replace
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_store import lease_codec
from tests.kit.client import Caller, Reply
from tests.kit.fleet import Fleet, RouterProcess, fleet
from tests.kit.leases import changed
from tests.kit.nodes import KEY
from tests.kit.outages import insist
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer
from tests.router import wires

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

TTL = 2.0
"""Seconds: a node replaces what stands in the place of its lease within a third of it."""


@pytest.fixture
async def pair(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """Two nodes behind a router."""
    async with fleet(tmp_path_factory.mktemp("planted"), redis, "node-1", "node-2", lease_ttl=str(TTL)) as made:
        await made.add_router()
        yield made


class Writer:
    """Somebody with access to the store of a fleet, and without its keys."""

    def __init__(self, redis: RedisServer, made: Fleet) -> None:
        self._redis, self._at = redis, f"fh:{made.folder.name}:"
        self._seals = LeaseSeal(Trust([KEY.encode()]), made.folder.name)
        """With it the test, and not the writer, sees whether the node has written again."""

    def lease(self, node: str) -> tuple[bytes, NodeRecord]:
        """What is stored under the name of a node, as it is and as it is read."""
        with self._redis.client() as client:
            value = client.get(f"{self._at}node:{node}")
        lease = lease_codec.read(node, value)
        assert lease is not None
        return value, lease

    def believed(self, node: str) -> tuple[bytes, NodeRecord] | None:
        """The same, if the node has written it."""
        with contextlib.suppress(AssertionError):
            value, lease = self.lease(node)
            return (value, lease) if self._seals.holds(lease) else None
        return None

    def write(self, node: str, value: bytes) -> None:
        """Write in the place of a lease for good, and have all readers read it at once."""
        with self._redis.client() as client:
            client.set(f"{self._at}node:{node}", value)
            client.zadd(f"{self._at}nodes", {node: time.time() * 1000 + 15_000})
            client.publish(f"{self._at}changes", f"{self._at}node:{node}")


def plants(value: bytes, lease: NodeRecord, evil: str) -> list[bytes]:
    """What may be written in the place of a lease. Each field is changed in node/engine/test_heartbeat.py."""
    other = replace(lease, boot=Boot("f" * 28), inc=Incarnation("other"), address=evil)
    ended = replace(lease, expires=time.time() - 1)
    whole = [other, replace(lease, address=evil), ended, changed(lease, "beat")]
    flipped = [value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :] for at in (1, len(value) // 2, len(value) - 3)]
    return [*map(lease_codec.dump, whole), *flipped, b"[]"]


async def test_a_lease_that_is_changed_costs_no_call(pair: Fleet, redis: RedisServer) -> None:
    """Field by field and byte by byte, while its calls, which may not be entered twice, are answered at the router and
    at the other node: all go on where they are, and nothing goes to the address that was written."""
    writer, [router] = Writer(redis, pair), pair.routers

    async with (
        wires.node(wires.ok(b"from the impostor")) as evil,
        Caller(pair.nodes["node-1"].url) as own,
        Caller(pair.nodes["node-2"].url) as other,
        Caller(router.url) as through,
    ):
        address = "http://{}:{}".format(*evil.address)
        names = [f"n{place}" for place in range(len(plants(*writer.lease("node-1"), address)))]
        parked = await asyncio.gather(*(own.call("one", arguments={"name": name}) for name in names))

        async def finish(place: int, caller: Caller) -> Reply:
            asked, arguments = parked[place], {"name": names[place]}
            return await insist(lambda: caller.retry("one", asked.token, asked.accept(word="w"), arguments=arguments))

        done = []
        for place in range(len(names)):
            value, lease = await until(lambda: writer.believed("node-1"), "the node's own lease")
            writer.write("node-1", plants(value, lease, address)[place])
            done.append(await finish(place, (through, other)[place % 2]))
        await until(lambda: writer.believed("node-1"), "the node's own lease")
        assert not evil.received, "something was sent to the address that was written"
    assert [reply.text for reply in done] == [f"{name}: w" for name in names]
    assert {reply.headers["framehold-node"] for reply in done} == {"node-1"}
    assert pair.entries() == dict.fromkeys(names, 1)
    assert all(node.alive for node in pair.nodes.values())
    assert "somebody else has written in the place of the lease" in pair.nodes["node-1"].log()


async def test_an_old_lease_of_a_node_that_is_gone_brings_nothing_to_its_address(
    pair: Fleet, redis: RedisServer
) -> None:
    """Written with a key that never ends, and as it was or with a far end: once it has ended nothing is sent there."""
    writer, [router] = Writer(redis, pair), pair.routers
    value, lease = writer.lease("node-2")
    await pair.remove_node("node-2")
    host, _, port = lease.address.removeprefix("http://").partition(":")
    impostor = wires.Node(wires.saying(wires.ok(b"from the impostor")))
    server = await asyncio.start_server(impostor.serve, host, int(port))
    try:
        await until(lambda: time.time() > lease.expires + 0.1, "the end of the lease")
        for planted in (value, lease_codec.dump(replace(lease, expires=lease.expires + 1e6))):
            writer.write("node-2", planted)
            async with asyncio.timeout(10):
                while {"node-2": "other keys"}.items() - await _states(router):
                    continue
            async with Caller(router.url) as caller:
                result = [await caller.call("never", arguments={"name": "n"}) for _ in range(10)]
            assert {reply.headers["framehold-node"] for reply in result} == {"node-1"}
    finally:
        server.close()
        await server.wait_closed()
    assert not impostor.received


async def _states(router: RouterProcess) -> set[tuple[str, str]]:
    return {(node["node_id"], node["state"]) for node in await router.nodes()}
