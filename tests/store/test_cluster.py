"""A Redis Cluster that moves and breaks under load: nothing is lost, nothing is overtaken."""

import asyncio
import gc
import re
import secrets
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import pytest
from redis.crc import key_slot

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId, NodeId
from framehold_core.lease import Renewal
from framehold_core.requests import Commit, Read, Reply, Verdict
from framehold_store import StoreConfig
from framehold_store.cluster_slots import SlotMap
from framehold_store.keys import Keys
from framehold_store.redis import RedisStore
from tests.kit.leases import lease
from tests.kit.redis_server import running
from tests.kit.redis_topologies import ClusterTrio
from tests.store.calls import HEAD, TTL, Story, batch, fence

pytestmark = pytest.mark.anyio

T = TypeVar("T")
SOON = 15.0
KEYS = Keys("default")


@pytest.fixture
def trio() -> Iterator[ClusterTrio]:
    """A cluster of which the test may kill a server."""
    with running(ClusterTrio()) as built:
        yield built


@pytest.fixture(scope="module")
def lasting() -> Iterator[ClusterTrio]:
    """A cluster of which a test may move slots and pause servers, if it leaves all of them running and no slot torn."""
    with running(ClusterTrio()) as built:
        yield built


@pytest.fixture
async def store(lasting: ClusterTrio) -> AsyncIterator[RedisStore]:
    built = RedisStore(StoreConfig(lasting.url, op_timeout=5.0, poll=60.0))
    yield built
    await built.close()


def record(call: str) -> str:
    return KEYS.call(call)[0]


def calls_beside(call: str, count: int) -> list[CallId]:
    """Calls whose keys are in the slot of `call`."""
    slot = key_slot(call.encode())
    found: list[CallId] = []
    while len(found) < count:
        if key_slot((other := secrets.token_hex(16)).encode()) == slot:
            found.append(CallId(other))
    return found


class Writer:
    """One call's commits, each on top of the one before, submitted without waiting for any."""

    def __init__(self, store: RedisStore, call: CallId) -> None:
        self.store, self.call = store, call
        self.entries: tuple[bytes, ...] = ()
        self.replies: list[asyncio.Future[Any]] = []

    def write(self, count: int) -> None:
        for _ in range(count):
            n = len(self.entries)
            new = b"%d" % n
            future = asyncio.get_running_loop().create_future()
            request = Commit(self.call, fence(n, n), batch(self.entries, new), TTL, None, HEAD)
            self.store.submit(request, future.set_result)
            self.entries += (new,)
            self.replies.append(future)

    async def check(self) -> None:
        """All were applied in their order, and all of them stand there."""
        async with asyncio.timeout(SOON):
            text = await asyncio.gather(*self.replies)
        assert {reply.verdict for reply in text if isinstance(reply, Reply)} <= {Verdict.OK, Verdict.ALREADY}
        assert not [reply for reply in text if not isinstance(reply, Reply)]
        stored = (await self.store.run(Read(self.call))).stored
        assert stored is not None
        assert stored.journal == self.entries


async def while_writing(writers: list[Writer], work: Callable[[], Any]) -> Any:
    """Do blocking work in a thread; the writers write on meanwhile."""
    done = asyncio.ensure_future(asyncio.to_thread(work))
    while not done.done():
        for writer in writers:
            writer.write(2)
        await asyncio.sleep(0.002)
    return await done


async def test_one_server_of_the_url_is_enough(lasting: ClusterTrio) -> None:
    """It says who the others are; a host that is down is passed over."""
    port = lasting.servers[1].port
    store = RedisStore(StoreConfig(f"redis+cluster://127.0.0.1:1,127.0.0.1:{port}", op_timeout=5.0))
    replies = await asyncio.gather(*(store.run(Story().ask) for _ in range(50)))
    assert {reply.verdict for reply in replies} == {Verdict.OK}
    await store.close()


async def test_closing_cuts_a_reading_of_the_map_off_and_leaves_no_connection(lasting: ClusterTrio) -> None:
    """Whichever step it had come to: nobody else knows of its connection."""
    with warnings.catch_warnings():
        # What other tests have left over is not meant.
        warnings.simplefilter("ignore")
        gc.collect()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for turns in range(40):
            slots = SlotMap(StoreConfig(lasting.url, op_timeout=5.0), lambda: None)
            slots.refresh()
            for _ in range(turns):
                await asyncio.sleep(0)
            await slots.close()
        gc.collect()
    assert [str(warning.message) for warning in warned if warning.category is ResourceWarning] == []


async def test_a_slot_moved_under_load(store: RedisStore, lasting: ClusterTrio) -> None:
    """Requests of each call stay in order while its keys are on either side, and on both; calls that begin in between
    wait for the end."""
    first = CallId(secrets.token_hex(16))
    old = [Writer(store, call) for call in [first, *calls_beside(first, 5)]]
    for writer in old:
        writer.write(1)
    await asyncio.gather(*(writer.replies[0] for writer in old))
    key, to = record(first), (await asyncio.to_thread(lasting.owner, record(first)) + 1) % 3
    source = await while_writing(old, lambda: lasting.begin_move(key, to))
    new = [Writer(store, call) for call in calls_beside(first, 5)]
    # One key at a time: for a moment a call's record is there and its journal here.
    await while_writing([*old, *new], lambda: lasting.carry_keys(key, source, to, 1))
    await while_writing([*old, *new], lambda: lasting.end_move(key, source, to))
    assert await asyncio.to_thread(lasting.owner, key) == to
    for writer in [*old, *new]:
        writer.write(1)
        await writer.check()


async def test_a_slot_that_stays_torn_fails_in_time(lasting: ClusterTrio) -> None:
    store = RedisStore(StoreConfig(lasting.url, op_timeout=0.5))
    call = CallId(secrets.token_hex(16))
    key, to = record(call), (lasting.owner(record(call)) + 1) % 3
    source = lasting.begin_move(key, to)
    writer = Writer(store, call)
    writer.write(3)
    async with asyncio.timeout(2.0):
        first, *behind = await asyncio.gather(*writer.replies)
    assert isinstance(first, StoreUnavailable)
    assert re.search(r"commit was not (applied|sent); it is safe to try again", str(first))
    assert all(isinstance(outcome, StoreUnavailable) for outcome in behind)
    lasting.end_move(key, source, to)
    again = Writer(store, call)
    again.write(3)
    await again.check()
    await store.close()


async def until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(SOON):
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                continue


async def test_a_primary_that_dies_is_replaced_by_its_replica(trio: ClusterTrio) -> None:
    """Its calls go on at the replica as soon as that serves them, what waits meanwhile too: it was never sent, or may
    safely be sent again. No notice comes, so the map is read again."""
    store = RedisStore(StoreConfig(trio.url, op_timeout=10.0))
    story = Story()
    await store.run(story.ask)
    of = trio.owner(record(story.call))
    replica = await asyncio.to_thread(trio.add_replica, of)
    trio.servers[of].kill()
    waiting = [asyncio.ensure_future(store.run(request)) for request in (story.ask_again, story.read)]
    await asyncio.to_thread(trio.take_over, replica)
    async with asyncio.timeout(9.0):
        written, read = await asyncio.gather(*waiting)
    assert written.verdict is Verdict.OK
    assert read.stored is not None and read.stored.record.round == 2
    await store.close()


async def test_one_primary_down_stops_its_own_calls_only(lasting: ClusterTrio) -> None:
    store = RedisStore(StoreConfig(lasting.url, op_timeout=0.5))
    await asyncio.gather(*(store.run(Story().ask) for _ in range(30)))
    stories: dict[bool, list[Story]] = {False: [], True: []}
    while min(map(len, stories.values())) < 10:
        story = Story()
        stories[lasting.owner(record(story.call)) == 0].append(story)
    lasting.servers[0].pause()
    replies = await asyncio.gather(*(store.run(story.ask) for story in stories[False]))
    assert {reply.verdict for reply in replies} == {Verdict.OK}
    dead = await asyncio.gather(*(store.run(story.ask) for story in stories[True]), return_exceptions=True)
    assert all(isinstance(error, StoreUnavailable) for error in dead)
    lasting.servers[0].resume()
    for story in stories[True]:
        assert (await until_answered(partial(store.run, story.ask))).verdict in (Verdict.OK, Verdict.ALREADY)
    await store.close()


async def test_a_lease_is_kept_while_the_list_of_nodes_is_down(
    lasting: ClusterTrio, caplog: pytest.LogCaptureFixture
) -> None:
    """The reply of the lease's own server decides, and comes at once. The log says it once for each outage."""
    store = RedisStore(StoreConfig(lasting.url, op_timeout=1.0))
    dead = lasting.owner(KEYS.nodes)
    name = next(f"n{i}" for i in range(99) if lasting.owner(KEYS.node(NodeId(f"n{i}"))) != dead)
    await store.register(lease(name), 60.0)
    lasting.servers[dead].pause()
    try:
        for beat in (1, 2):
            async with asyncio.timeout(0.5):
                reply = await store.renew(lease(name, beat=beat), beat - 1, 60.0)
            assert reply.result is Renewal.RENEWED
            with pytest.raises(StoreUnavailable):
                await store.nodes()
        assert caplog.text.count("the list of nodes at") == 1
    finally:
        lasting.servers[dead].resume()
    assert [found.node for found in await until_answered(store.nodes)] == [name]
    await store.close()


async def test_every_server_of_the_cluster_is_a_good_place_to_listen(trio: ClusterTrio) -> None:
    """A message reaches all subscribers, at whichever server; when a server dies, they subscribe at another."""
    stores = [RedisStore(StoreConfig(trio.url, op_timeout=0.5, poll=60.0)) for _ in range(4)]
    reply: list[asyncio.Queue[bytes]] = [asyncio.Queue() for _ in stores]
    for store, queue in zip(stores, reply, strict=True):
        store.subscribe(queue.put_nowait)
    await all_hear(stores, reply)
    events = key_slot(KEYS.events.encode()) * 3 // 16384
    trio.servers[(events + 1) % 3].kill()
    await all_hear(stores, reply)
    for store in stores:
        await store.close()


async def all_hear(stores: list[RedisStore], reply: list["asyncio.Queue[bytes]"]) -> None:
    """Publish until every subscriber has received one message: nothing is stored for a late subscriber."""
    async with asyncio.timeout(SOON):
        while True:
            message = secrets.token_bytes(8)
            await stores[0].publish(message)
            await asyncio.sleep(0.1)
            text = [[queue.get_nowait() for _ in range(queue.qsize())] for queue in reply]
            if all(message in one for one in text):
                return


async def test_closing_answers_what_is_left(lasting: ClusterTrio) -> None:
    store = RedisStore(StoreConfig(lasting.url, op_timeout=60.0))
    call = CallId(secrets.token_hex(16))
    key, to = record(call), (lasting.owner(record(call)) + 1) % 3
    source = lasting.begin_move(key, to)
    lasting.servers[2].pause()
    writers = [Writer(store, call), *(Writer(store, Story().call) for _ in range(20))]
    for writer in writers:
        writer.write(5)
    await asyncio.sleep(0.2)
    await store.close()
    await store.close()
    for writer in writers:
        async with asyncio.timeout(1.0):
            assert all(
                isinstance(outcome, Reply | StoreUnavailable) for outcome in await asyncio.gather(*writer.replies)
            )
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.run(Story().ask)
    lasting.servers[2].resume()
    lasting.carry_keys(key, source, to)
    lasting.end_move(key, source, to)


@pytest.mark.parametrize("silent", [False, True], ids=["nobody listens", "it does not answer"])
async def test_requests_of_one_call_do_not_fail_one_after_the_other(silent: bool) -> None:
    """Each fails at its own deadline, also where those of other calls wait for the same server: so no queue grows."""

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1] if silent else 1
    store = RedisStore(StoreConfig(f"redis+cluster://127.0.0.1:{port}", op_timeout=1.0))
    loop, call = asyncio.get_running_loop(), Story().call

    async def failed_after(of: CallId) -> float:
        began = loop.time()
        with pytest.raises(StoreUnavailable):
            await store.run(Read(of))
        return loop.time() - began

    under_way: list[asyncio.Task[float]] = []
    for _ in range(12):
        under_way += (asyncio.create_task(failed_after(of)) for of in (call, Story().call, call))
        await asyncio.sleep(0.05)
    async with asyncio.timeout(SOON):
        times = await asyncio.gather(*under_way)
    assert min(times) > 0.9 and max(times) < 1.5, times
    await store.close()
    server.close()


async def test_what_waits_for_another_request_of_its_call_is_bounded(lasting: ClusterTrio) -> None:
    store = RedisStore(StoreConfig(lasting.url, op_timeout=0.5, max_queue=3))
    for server in lasting.servers:
        server.pause()
    writer = Writer(store, CallId(secrets.token_hex(16)))
    writer.write(5)
    outcome = writer.replies[4].result()
    assert "max_queue" in str(outcome)
    assert "was not sent" in str(outcome)
    for server in lasting.servers:
        server.resume()
    await asyncio.wait(writer.replies)
    again = Writer(store, CallId(secrets.token_hex(16)))
    again.write(4)
    assert not any("max_queue" in str(outcome) for outcome in await asyncio.gather(*again.replies)), (
        "room is given back"
    )
    await store.close()


async def test_a_server_that_is_no_cluster_is_told_as_such(
    shared_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A sweep needs the map; requests go to the server that is there."""
    store = RedisStore(StoreConfig(f"redis+cluster://127.0.0.1:{shared_server.port}", op_timeout=0.3))
    with pytest.raises(StoreUnavailable, match="no server of the cluster says who holds its slots"):
        await store.scan()
    assert "cluster support disabled" in caplog.text
    await store.close()


async def test_a_server_that_knows_an_old_map_only_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first servers are gone and out of date; the last one knows who holds the slots now."""
    gone, stale, fresh, heir = ("a", 1), ("b", 1), ("c", 1), ("d", 1)
    maps = {stale: {0: gone, 1: stale, 2: fresh}, fresh: {0: heir, 1: stale, 2: fresh}}

    async def ask(_: SlotMap, place: tuple[str, int]) -> dict[int, tuple[str, int]]:
        if place == gone:
            raise ConnectionRefusedError
        return dict(maps[place])

    monkeypatch.setattr(SlotMap, "_ask", ask)
    read = asyncio.Event()
    found = SlotMap(StoreConfig("redis+cluster://a:1,b:1,c:1"), read.set)
    async with asyncio.timeout(SOON):
        while found.place(0) != heir:
            read.clear()
            found.refresh()
            await read.wait()
    await found.close()
