"""A master under sentinels that dies, is replaced or demoted: the store finds the new one, and no reply is wrong."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_core.requests import Commit, Heal, Read, Verdict
from framehold_store import StoreConfig
from framehold_store.connections import open_pool
from framehold_store.redis import RedisStore
from tests.kit.redis_server import running
from tests.kit.redis_topologies import SentinelTrio
from tests.store.calls import HEAD, TTL, Story, batch, fence, new_call

pytestmark = pytest.mark.anyio

SOON = 15.0


@pytest.fixture
def trio() -> Iterator[SentinelTrio]:
    """Servers that the test may kill."""
    with running(SentinelTrio()) as built:
        yield built


@pytest.fixture
async def store(trio: SentinelTrio) -> AsyncIterator[RedisStore]:
    built = RedisStore(StoreConfig(trio.url, poll=60.0))
    yield built
    await built.close()


class Frame:
    """A live frame as a node keeps it: it repeats what it heard no answer to, and heals a store that went back."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.call = new_call()
        self.epoch = 1
        self.entries: tuple[bytes, ...] = ()
        self.healed = 0
        self.gap = 0.0
        """The longest wait, in seconds, from one acknowledgement to the next."""

    async def live(self, stop: asyncio.Event) -> None:
        last = time.monotonic()
        while not stop.is_set():
            try:
                await self.commit()
            except StoreUnavailable:
                await asyncio.sleep(0.01)
                continue
            self.gap = max(self.gap, time.monotonic() - last)
            last = time.monotonic()
            await asyncio.sleep(0)

    async def commit(self) -> None:
        n = len(self.entries)
        new = b"%d" % n
        where = fence(n, n, self.epoch)
        reply = await self.store.run(Commit(self.call, where, batch(self.entries, new), TTL, None, HEAD))
        if reply.verdict in (Verdict.OK, Verdict.ALREADY):
            self.entries += (new,)
        else:
            assert reply.verdict is Verdict.BEHIND
            await self.heal()

    async def heal(self) -> None:
        n = len(self.entries)
        stored = (await self.store.run(Read(self.call))).stored
        seen = stored.record.seen if stored else None
        whole = batch((), *self.entries)
        reply = await self.store.run(Heal(self.call, fence(n, n, self.epoch), seen, whole, (), (), HEAD, TTL))
        if reply.verdict in (Verdict.OK, Verdict.ALREADY):
            self.epoch = reply.epoch
            self.healed += 1

    async def check(self) -> None:
        """All that was ever acknowledged stands there, once and in order."""
        stored = (await self.store.run(Read(self.call))).stored
        assert stored is not None
        assert stored.journal[: len(self.entries)] == self.entries
        assert len(stored.journal) - len(self.entries) in (0, 1)


async def through(store: RedisStore, work: Callable[[], Any]) -> list[Frame]:
    """Twenty frames commit without a pause while `work` is done in a thread, and each fifty times behind it."""
    frames, stop = [Frame(store) for _ in range(20)], asyncio.Event()
    async with asyncio.timeout(30.0), asyncio.TaskGroup() as group:
        for frame in frames:
            group.create_task(frame.live(stop))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(work)
        enough = [len(frame.entries) + 50 for frame in frames]
        while any(len(frame.entries) < count for frame, count in zip(frames, enough, strict=True)):
            await asyncio.sleep(0.02)
        stop.set()
    for frame in frames:
        await frame.commit()
        await frame.check()
    return frames


async def test_a_fail_over_that_loses_acknowledged_writes(store: RedisStore, trio: SentinelTrio) -> None:
    """Requests fail until there is another master, and are answered again within seconds. The replica had lagged: each
    frame gets BEHIND, and heals its record. No frame gets OK."""

    def lag_and_kill() -> None:
        with trio.lagging():
            time.sleep(0.3)
            former = trio.kill_master()
            trio.await_master(former)

    frames = await through(store, lag_and_kill)
    assert min(frame.healed for frame in frames) == 1
    assert max(frame.gap for frame in frames) < 6.0


async def test_a_planned_fail_over_with_a_replica_required(store: RedisStore, trio: SentinelTrio) -> None:
    """min-replicas-to-write 1: the old master takes no writes once its replica was promoted, so that we leave it long
    before the sentinels demote it."""
    for server in trio.servers:
        with server.client() as client:
            client.config_set("min-replicas-to-write", 1)
            client.config_set("min-replicas-max-lag", 3)
    former = trio.master

    def promote() -> None:
        new = trio.failover()
        with new.client() as client:
            # The former master comes back as its replica by itself, but sentinels take ten seconds over it.
            client.config_set("min-replicas-to-write", 0)

    frames = await through(store, promote)
    assert max(frame.gap for frame in frames) < 4.0
    with former.client() as client:
        assert client.info("replication")["role"] == "master"
    with trio.master.client() as client:
        assert all(client.exists(f"fh:default:{{{frame.call}}}:r") for frame in frames)


async def test_a_demoted_master_that_answers_readonly(store: RedisStore, trio: SentinelTrio) -> None:
    """Nobody closed our connection to it: its first refusal makes the lane ask the sentinels, and no caller notices."""
    await store.run(Story().ask)
    former = trio.master
    new = await asyncio.to_thread(trio.failover)
    late = Story()
    await store.run(late.ask)
    with new.client() as client:
        assert not client.exists(f"fh:default:{{{late.call}}}:r")  # until then it is a master like any other
    with former.client() as client:
        client.replicaof("127.0.0.1", new.port)
    replies = await asyncio.gather(*(store.run(Story().ask) for _ in range(10)))
    assert {reply.verdict for reply in replies} == {Verdict.OK}
    assert (await store.run(late.ask_again)).verdict is Verdict.BEHIND


async def test_a_replica_that_sentinels_call_master_is_not_used(trio: SentinelTrio) -> None:
    """A sentinel may be the last to know. Reads of what may be old are no better than none."""
    with trio.master.client() as client:
        client.replicaof("127.0.0.1", 1)
    store = RedisStore(StoreConfig(trio.url, op_timeout=0.3))
    with pytest.raises(StoreUnavailable, match="name a master that isn't one"):
        await store.run(Story().read)
    await store.close()


async def test_a_master_that_hangs_is_left(trio: SentinelTrio) -> None:
    """It closes no connection and refuses none: requests and listeners go to the new master all the same."""
    store = RedisStore(StoreConfig(trio.url, op_timeout=0.3, poll=60.0))
    reply: asyncio.Queue[bytes] = asyncio.Queue()
    store.subscribe(reply.put_nowait)
    async with asyncio.timeout(SOON):
        while reply.empty():
            await store.publish(b"here")
            await asyncio.sleep(0.05)
    former = trio.master
    former.pause()
    await asyncio.to_thread(trio.await_master, former)
    while not reply.empty():
        reply.get_nowait()
    async with asyncio.timeout(SOON):
        while reply.empty():
            try:
                await store.publish(b"there")
            except StoreUnavailable:
                continue
            await asyncio.sleep(0.05)
    assert (await store.run(Story().ask)).verdict is Verdict.OK
    await store.close()


async def test_a_sentinel_that_hangs_is_passed_over(sentinels: SentinelTrio) -> None:
    sentinels.sentinels[0].pause()
    store = RedisStore(StoreConfig(sentinels.url))
    assert (await store.run(Story().ask)).verdict is Verdict.OK
    await store.close()
    sentinels.sentinels[0].resume()


async def test_no_sentinel_is_forgotten(sentinels: SentinelTrio) -> None:
    """However many connections ask at once, and however the first to be asked fails."""
    _, _, hosts = sentinels.url.partition("://")
    pool: Any = open_pool(StoreConfig(f"redis+sentinel://127.0.0.1:1,{hosts}"))
    asked = set(pool.sentinel_manager.sentinels)
    await asyncio.gather(*(pool.get_master_address() for _ in range(5)))
    assert set(pool.sentinel_manager.sentinels) == asked
    await pool.aclose()


async def test_without_a_master_the_service_is_named(sentinels: SentinelTrio) -> None:
    for url, name in (("redis+sentinel://127.0.0.1:1,127.0.0.1:2/fleet", "fleet"), (f"{sentinels.url}s", "fleets")):
        store = RedisStore(StoreConfig(url, op_timeout=0.3))
        with pytest.raises(StoreUnavailable, match=f"no sentinel that could be asked names a master of {name}"):
            await store.run(Story().ask)
        await store.close()


async def test_sentinels_and_servers_have_passwords_of_their_own(trio: SentinelTrio) -> None:
    """The URL's own are for the servers, its options for the sentinels; a wrong one appears in no error."""
    for sentinel in trio.sentinels:
        with sentinel.client() as client:
            client.execute_command("ACL", "SETUSER", "watcher", "on", ">ses@me", "+@all")
            client.execute_command("ACL", "SETUSER", "default", "off")
    with trio.servers[0].client() as client:
        client.execute_command("ACL", "SETUSER", "app", "on", ">op:en", "~*", "&*", "+@all")
    hosts = trio.url.partition("://")[2]
    options = "?sentinel_username=watcher&sentinel_password=ses%40me"
    store = RedisStore(StoreConfig(f"redis+sentinel://app:op%3Aen@{hosts}{options}"))
    assert (await store.run(Story().ask)).verdict is Verdict.OK
    with trio.servers[0].client() as client:
        assert "app" in {found["user"] for found in client.client_list()}
    await store.close()
    store = RedisStore(StoreConfig(f"redis+sentinel://app:op%3Aen@{hosts}?sentinel_password=wrong", op_timeout=0.3))
    with pytest.raises(StoreUnavailable) as caught:
        await store.run(Story().ask)
    assert "wrong" not in str(caught.value)
    await store.close()
