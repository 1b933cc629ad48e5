"""Node leases and the list of members, in all three stores."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from framehold_core.errors import ProtocolError, StoreUnavailable
from framehold_core.ids import NodeId
from framehold_core.lease import MARGIN, LeaseReply, NodeRecord, Renewal, no_lease
from framehold_core.requests import Verdict
from framehold_store import Store, StoreConfig, lease_codec
from framehold_store.embedded import EmbeddedStore, LocalServer
from framehold_store.keys import Keys
from framehold_store.redis import RedisStore
from framehold_store.registry import Registry
from tests.kit.leases import changed, lease
from tests.kit.redis_server import RedisServer
from tests.store.calls import Story

pytestmark = pytest.mark.anyio

TTL = 60.0
SOON = 10.0


def node(name: str = "node-1", inc: str = "inc-1", boot: str = "boot-1", **other: Any) -> NodeRecord:
    return lease(name, inc, boot, **({"address": 'http://a"b\\é:1', "stats": '{"n":1}', "seal": '"é'} | other))


async def said(reply: Awaitable[LeaseReply]) -> Renewal:
    return (await reply).result


async def names(store: Store) -> list[str]:
    return [found.node for found in await store.nodes()]


@pytest.fixture
async def redis_store(shared_server: RedisServer, namespace: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(StoreConfig(shared_server.url, namespace, op_timeout=5.0, poll=60.0))
    yield store
    await store.close()


RENEWED, TAKEN, LAPSED, ASTRAY = Renewal.RENEWED, Renewal.TAKEN, Renewal.LAPSED, Renewal.ASTRAY
TOO_LATE = TTL * (1 + MARGIN) + 5
LEASES: dict[str, tuple[dict[str, Any] | None, int | None, dict[str, Any], Renewal]] = {
    "a name that nobody has": (None, None, {}, RENEWED),
    "of another incarnation of the process": ({"inc": "inc-2", "beat": 3}, None, {}, RENEWED),
    "of another process": ({"boot": "boot-2"}, None, {"beat": 1}, TAKEN),
    "a beat that was seen": ({"beat": 3}, None, {"beat": 3}, LAPSED),
    "a beat below it": ({"beat": 3}, None, {"beat": 2}, LAPSED),
    "one that is over": (None, None, {"ttl": -0.001}, ASTRAY),
    "one that ends too late": (None, None, {"ttl": TOO_LATE}, ASTRAY),
    "as acknowledged": ({}, 0, {"beat": 7, "state": "draining", "stats": "{}", "seal": "s"}, RENEWED),
    "a renewal whose reply was lost": ({"beat": 1}, 0, {"beat": 2}, RENEWED),
    "a renewal that was seen": ({"beat": 3}, 2, {"beat": 3}, LAPSED),
    "a renewal below it": ({"beat": 3}, 2, {"beat": 2}, LAPSED),
    "a renewal of nothing": (None, 0, {"beat": 1}, LAPSED),
    "a renewal by an earlier incarnation": ({"inc": "inc-2", "beat": 3}, 0, {"beat": 4}, LAPSED),
    "a renewal of another process's": ({"boot": "boot-2", "beat": 3}, 0, {"beat": 4}, TAKEN),
    "a renewal that the store forgot": ({"beat": 4}, 5, {"beat": 6}, LAPSED),
    "a renewal that is over": ({}, 0, {"beat": 1, "ttl": -0.001}, ASTRAY),
    "a renewal that ends too late": ({}, 0, {"beat": 1, "ttl": TOO_LATE}, ASTRAY),
}
"""What stands there; the beat that was acknowledged, None of a registration; what is wanted; what becomes of it."""


@pytest.mark.parametrize(("there", "acknowledged", "wanted", "result"), LEASES.values(), ids=LEASES)
async def test_a_lease_is_granted_and_refused(
    store: Store, there: dict[str, Any] | None, acknowledged: int | None, wanted: dict[str, Any], result: Renewal
) -> None:
    """As core's `lease` says; who is refused is told what stands there, and the store's time."""
    stands, made = None if there is None else node(**there), node(**wanted)
    if stands is not None:
        assert await said(store.register(stands, TTL)) is RENEWED
    if acknowledged is None:
        reply = await store.register(made, TTL)
    else:
        reply = await store.renew(made, acknowledged, TTL)
    shown = None if result is RENEWED else stands
    assert reply == LeaseReply(result, reply.at, shown, b"" if shown is None else lease_codec.dump(shown))
    assert reply.at == pytest.approx(time.time(), abs=2)
    after = made if result is RENEWED else stands
    assert await store.nodes() == (() if after is None else (after,))


async def test_a_value_that_was_read_may_be_replaced(store: Store) -> None:
    """Whoever found that it is no lease of a live process says so by its bytes; one that came since stays."""
    await store.register(node(), TTL)
    raw = (await store.register(node(boot="boot-2"), TTL)).raw
    await store.renew(node(beat=1), 0, TTL)
    reply = await store.register(node(boot="boot-2"), TTL, raw)
    assert reply.result is Renewal.TAKEN and reply.raw != raw
    assert await said(store.register(node(boot="boot-2"), TTL, reply.raw)) is Renewal.RENEWED
    (found,) = await store.nodes()
    assert found.boot == "boot-2"


async def test_a_lapsed_lease_is_gone_for_good(store: Store) -> None:
    await store.register(node(ttl=0.05), TTL)
    while await store.nodes():
        pass
    assert await said(store.renew(node(beat=1), 0, TTL)) is Renewal.LAPSED
    assert await said(store.register(node(inc="inc-2"), TTL)) is Renewal.RENEWED
    assert await said(store.renew(node(beat=1), 0, TTL)) is Renewal.LAPSED


async def test_the_living_are_listed_by_name_and_counted(store: Store) -> None:
    """So that every reader builds the same ring. Each leaves by itself, and as often as it likes."""
    assert await store.count_nodes() == 0
    for name in ("node-10", "node-1", "a", "node-2"):
        await store.register(node(name), TTL)
    await store.unregister(node("a", inc="inc-0"))
    await store.unregister(node("a", boot="boot-0"))
    assert await names(store) == ["a", "node-1", "node-10", "node-2"]
    assert await store.count_nodes() == 4
    for _ in range(2):
        await store.unregister(node("a"))
        assert await store.count_nodes() == len(await store.nodes()) == 3


async def test_who_asks_for_leases_in_one_turn_shares_one_read(redis_store: RedisStore) -> None:
    """A node that takes over thousands of calls asks for each. Whoever asks later gets what is read later."""
    await redis_store.register(node("a"), TTL)
    asked = [asyncio.create_task(redis_store.nodes()) for _ in range(10)]
    named = [asyncio.create_task(redis_store.nodes({NodeId("a")})) for _ in range(10)]
    asked[0].cancel()
    for group in (asked[1:], named):
        first, *rest = await asyncio.gather(*group)
        assert len(first) == 1 and all(found is first for found in rest)
    await redis_store.register(node("b"), TTL)
    assert await names(redis_store) == ["a", "b"]


async def test_a_read_of_leases_that_fails_fails_for_all_who_asked(redis_store: RedisStore) -> None:
    asked = [asyncio.create_task(redis_store.nodes()) for _ in range(3)]
    closing = asyncio.create_task(redis_store.close())
    found = await asyncio.gather(*asked, return_exceptions=True)
    await closing
    assert all(isinstance(item, StoreUnavailable) for item in found)


async def test_a_lease_that_ends_is_counted_no_longer(store: Store) -> None:
    """Though nothing is said of it, and its name stays on the list for a while."""
    await store.register(node(), TTL)
    await store.register(node("short", ttl=0.05), 0.05)
    async with asyncio.timeout(SOON):
        while await names(store) != ["node-1"]:
            pass
    assert await store.count_nodes() == 1


News = frozenset[NodeId | None]


async def settled(feed: AsyncIterator[News]) -> "asyncio.Task[News]":
    """Read until the feed has been silent for a moment; the read that waits for the next change."""
    while True:
        task: asyncio.Task[News] = asyncio.ensure_future(anext(feed))
        done, _ = await asyncio.wait((task,), timeout=0.2)
        if not done:
            return task


async def named(waiting: "asyncio.Task[News]", feed: AsyncIterator[News]) -> News:
    """The next news that names its nodes. That a feed listens is news of any node, and may come late."""
    news = await waiting
    while None in news:
        news = await anext(feed)
    return news


async def test_each_change_wakes_every_reader_and_names_its_node(store: Store) -> None:
    """At once, long before the poll. Several changes may come as one set, none is lost."""
    feeds = [store.changes() for _ in range(2)]
    async with asyncio.timeout(SOON):
        for feed in feeds:
            await anext(feed)
    waiting = [await settled(feed) for feed in feeds]
    for number, change in enumerate(("register", "state", "address", "code", "leave", "register")):
        if change == "register":
            await store.register(node("a", beat=10 * number), TTL)
        elif change == "leave":
            await store.unregister(node("a"))
        else:
            await store.renew(changed(node("a", beat=number), change, "other"), number - 1, TTL)
        async with asyncio.timeout(SOON):
            assert await asyncio.gather(*map(named, waiting, feeds)) == [{"a"}, {"a"}], change
        waiting = [asyncio.ensure_future(anext(feed)) for feed in feeds]
    await store.register(node("b"), TTL)
    await store.unregister(node("a"))
    async with asyncio.timeout(SOON):
        news = set(await waiting[0])
        while news != {"a", "b"}:
            news |= await anext(feeds[0])
    assert [found.node for found in await store.nodes([NodeId("b"), NodeId("gone")])] == ["b"]


async def test_a_message_of_another_release_is_of_any_node(
    redis_store: RedisStore, shared_server: RedisServer, namespace: str
) -> None:
    for text in (b"register", b"\xff", f"fh:{namespace}:node:*".encode(), b""):
        waiting = await settled(redis_store.changes())
        with shared_server.client() as admin:
            admin.publish(f"fh:{namespace}:changes", text)
        async with asyncio.timeout(SOON):
            assert await waiting == {None}


async def test_a_heartbeat_wakes_nobody(store: Store) -> None:
    """Else every node would read the whole list for each beat of each other."""
    await store.register(node(), TTL)
    waiting = await settled(store.changes())
    await store.renew(node(stats="other", beat=1), 0, TTL)
    await store.register(node(boot="boot-2"), TTL)
    done, _ = await asyncio.wait((waiting,), timeout=0.2)
    assert not done
    waiting.cancel()


async def test_a_feed_ends_with_its_store(store: Store) -> None:
    waiting = await settled(store.changes())
    await store.close()
    async with asyncio.timeout(SOON):
        with pytest.raises(StopAsyncIteration):
            await waiting


async def test_a_store_that_was_closed_is_opened_again(store: Store) -> None:
    """Once and again: it answers, its feed goes on, and its messages are heard."""
    story = Story()
    await store.run(story.ask)
    for number in range(2):
        await store.close()
        await store.open()
        waiting = await settled(store.changes())
        reply: asyncio.Queue[bytes] = asyncio.Queue()
        store.subscribe(reply.put_nowait)
        assert (await store.run(story.read)).verdict is Verdict.OK
        assert await said(store.register(node(inc=f"inc-{number}"), TTL)) is Renewal.RENEWED
        async with asyncio.timeout(SOON):
            await waiting
            while reply.empty():
                await store.publish(b"hello")


async def test_a_poll_says_whether_news_was_heard(server: RedisServer) -> None:
    """A silence in which nothing could be heard may hide a change of any node: it counts as one."""
    store = RedisStore(StoreConfig(server.url, op_timeout=0.2, poll=0.05))
    feed = store.changes()
    async with asyncio.timeout(SOON):
        assert await anext(feed)
        while await anext(feed):
            pass
        await store.register(node(), TTL)
        while not await anext(feed):
            pass
        while await anext(feed):
            pass
        server.stop()
        while not await anext(feed):
            pass
        assert [await anext(feed) for _ in range(5)] == [{None}] * 5
        server.start()
        while await anext(feed):
            pass
    await store.close()


def asked(server: RedisServer) -> dict[str, int]:
    """How often each command was run since the last time; those of scripts are among them."""
    with server.client() as admin:
        stats = admin.info("commandstats")
        admin.config_resetstat()
    return {name.removeprefix("cmdstat_"): result["calls"] for name, result in stats.items()}


async def test_what_a_hundred_leases_ask_of_the_store(server: RedisServer) -> None:
    """All are read by one script, and counted by another: not by one command for each of them."""
    store = RedisStore(StoreConfig(server.url, op_timeout=5.0, poll=60.0))
    await asyncio.gather(*(store.register(node(f"node-{number}"), TTL) for number in range(100)))
    asked(server)
    assert len(await store.nodes()) == 100
    read = asked(server)
    assert (read["evalsha"], read["zrange"], read["strlen"], read["mget"]) == (2, 1, 100, 1)
    assert await store.count_nodes() == 100
    counted = asked(server)
    assert (counted["evalsha"], counted["zcount"]) == (1, 1)
    assert not {"get", "mget", "zrange"} & counted.keys()
    await store.close()


async def test_more_leases_than_one_command_asks_for(redis_store: RedisStore) -> None:
    many = [f"node-{number:03}" for number in range(300)]
    await asyncio.gather(*(redis_store.register(node(name), TTL) for name in many))
    assert await names(redis_store) == many


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LocalServer]:
    """The stand-in, as the processes of a local fleet share it."""
    server = LocalServer(str(tmp_path / "redis.sock"))
    yield server
    server.stop()


@pytest.mark.parametrize("kind", ["embedded", "served", "shared_server", "cluster"])
async def test_a_long_silence_is_no_loss(request: pytest.FixtureRequest, namespace: str, kind: str) -> None:
    """A server that is silent is asked whether it is there; as it is, nobody is woken and nobody listens anew."""
    settings: dict[str, Any] = {"namespace": namespace, "op_timeout": 0.1, "poll": 60.0}
    if kind == "embedded":
        store: RedisStore = EmbeddedStore(StoreConfig("embedded://", **settings))
    else:
        server = request.getfixturevalue(kind)
        store = RedisStore(StoreConfig(server.url, **settings))
    waiting = await settled(store.changes())
    done, _ = await asyncio.wait((waiting,), timeout=1.5)
    assert not done
    waiting.cancel()
    await store.close()


GARBAGE = [
    "garbage",
    "",
    "[1,",
    "[]",
    '[1,0,"i","b"]',
    '[1,"0","i","b",9999999999999,"x","","","","",""]',
    '[1,0,"i","b",9999999999999,"y","","","","",""]',
    '[1,0,"i","",9999999999999,"x","","","","",""]',
    '[2,0,"i","b",9999999999999,"x","","","","",""]',
    '[1,0,"i","b",9999999999999,"x","","","","","","more"]',
    '[1,0,"i","b",1,"x","","","","",""]',
]


@pytest.mark.parametrize("value", [*GARBAGE, b"\xff", "[" * 100_000, f"[1,{'9' * 400}"])
async def test_an_entry_that_is_no_lease_is_given_as_none(
    redis_store: RedisStore, shared_server: RedisServer, namespace: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The last one is a lease that has ended. With one line in the log, and no second one when it is read again."""
    kept = node()
    await redis_store.register(kept, TTL)
    with shared_server.client() as admin:
        admin.set(f"fh:{namespace}:node:x", value)
        admin.zadd(f"fh:{namespace}:nodes", {"x": 9e15})
    for _ in range(3):
        assert await redis_store.nodes() == (kept, no_lease(NodeId("x")))
    assert await redis_store.nodes([NodeId("x")]) == (no_lease(NodeId("x")),)
    assert [record.levelno for record in caplog.records if "no lease" in record.getMessage()] == [logging.WARNING]
    assert redis_store.unreadable_leases == 1


async def test_garbage_of_another_type_and_name(
    redis_store: RedisStore, shared_server: RedisServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A list where a lease should be, and a member that can be no node's name: a line each."""
    await redis_store.register(node(), TTL)
    with shared_server.client() as admin:
        admin.rpush(f"fh:{namespace}:node:x", "garbage")
        admin.zadd(f"fh:{namespace}:nodes", {"x": 9e15, b"\xff*}": 9e15})
    for _ in range(2):
        assert await names(redis_store) == ["node-1", "x"]
    assert len(caplog.records) == 2


@pytest.mark.parametrize("value", [*GARBAGE[:5], GARBAGE[-1], "x" * 5000])
async def test_garbage_stands_in_nobodys_way(
    redis_store: RedisStore, shared_server: RedisServer, namespace: str, value: str
) -> None:
    """A node may register over what is no lease or has ended, and does not renew it."""
    with shared_server.client() as admin:
        admin.set(f"fh:{namespace}:node:node-1", value)
    assert await said(redis_store.renew(node(beat=1), 0, TTL)) is Renewal.LAPSED
    await redis_store.unregister(node())
    assert await said(redis_store.register(node(), TTL)) is Renewal.RENEWED
    assert await names(redis_store) == ["node-1"]


@pytest.mark.parametrize("value", GARBAGE[5:-1])
async def test_what_begins_like_a_lease_is_given_back(
    redis_store: RedisStore, shared_server: RedisServer, namespace: str, value: str
) -> None:
    value = value.replace('"0"', "0").replace('"x"', '"elsewhere"').replace('""', '"b"', 1)
    with shared_server.client() as admin:
        admin.set(f"fh:{namespace}:node:node-1", value)
    for reply in (await redis_store.register(node(), TTL), await redis_store.renew(node(beat=1), 0, TTL)):
        assert (reply.result, reply.stored, reply.raw) == (Renewal.TAKEN, None, value.encode())
    assert await said(redis_store.register(node(), TTL, value.encode())) is Renewal.RENEWED


async def test_a_list_of_another_type(
    redis_store: RedisStore, shared_server: RedisServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A reader names the key; the next renewal replaces it."""
    with shared_server.client() as admin:
        admin.set(f"fh:{namespace}:nodes", "garbage")
    with pytest.raises(StoreUnavailable, match=f"fh:{namespace}:nodes"):
        await redis_store.nodes()
    assert await said(redis_store.register(node(), TTL)) is Renewal.RENEWED
    assert [lease.node for lease in await redis_store.nodes()] == ["node-1"]
    assert f"what stood at fh:{namespace}:nodes was none of this fleet's" in caplog.text


async def test_a_list_of_too_many_names_begins_anew(
    redis_store: RedisStore, shared_server: RedisServer, namespace: str
) -> None:
    """Whatever their ends are: they would hide nodes."""
    with shared_server.client() as admin:
        ends = admin.time()[0] * 1000
        admin.zadd(f"fh:{namespace}:nodes", {f"x{number}": ends for number in range(10_000)})
    await redis_store.register(node(), TTL)
    assert [lease.node for lease in await redis_store.nodes()] == ["node-1"]


async def test_a_name_long_gone_leaves_the_list(
    redis_store: RedisStore, shared_server: RedisServer, namespace: str
) -> None:
    """Each renewal forgets those whose lease ended more than a minute ago; a fresher one may only be late. One that
    would end later than any lease is nobody's."""
    with shared_server.client() as admin:
        seconds, _ = admin.time()
        members = {"old": (seconds - 61) * 1000, "late": (seconds - 50) * 1000, "never": float("inf")}
        admin.zadd(f"fh:{namespace}:nodes", members)
        await redis_store.register(node(), TTL)
        assert sorted(admin.zrange(f"fh:{namespace}:nodes", 0, -1)) == [b"late", b"node-1"]


async def test_a_lease_ends_by_itself(redis_store: RedisStore, shared_server: RedisServer, namespace: str) -> None:
    """The key goes when the lease ends, and a TTL from now at the latest."""
    key = f"fh:{namespace}:node:node-1"
    with shared_server.client() as admin:
        for beat, ttl in enumerate((60.0, 90.0, 90.0 * (1 + MARGIN / 2))):
            wanted = node(beat=beat, ttl=ttl)
            reply = await redis_store.register(wanted, min(ttl, 90.0))
            latest = round((reply.at + 90.0) * 1000)
            ends = int(admin.execute_command("PEXPIRETIME", key))
            assert ends == min(latest, round(wanted.expires * 1000))


async def test_an_incarnation_that_could_break_the_lease(redis_store: RedisStore) -> None:
    """The scripts compare it between quotes."""
    with pytest.raises(ProtocolError, match="incarnation or boot"):
        await redis_store.register(node(inc='a","b'), TTL)


async def test_a_registry_that_is_down(server: RedisServer) -> None:
    store = RedisStore(StoreConfig(server.url, op_timeout=0.1))
    server.pause()
    for attempt in (
        store.register(node(), TTL),
        store.renew(node(beat=1), 0, TTL),
        store.unregister(node()),
        store.nodes(),
    ):
        with pytest.raises(StoreUnavailable):
            await attempt
    server.resume()
    await store.close()


@pytest.mark.parametrize("reply", Renewal)
@pytest.mark.parametrize("turns", [(0, 2), (1, 1), (2, 0)], ids=["before", "beside", "after"])
async def test_a_lease_that_is_kept_without_the_list_is_logged_once(
    turns: tuple[int, int], reply: Renewal, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether the list fails before the reply to the lease comes or after it; not where the lease is refused."""

    async def script(name: str, *_: Any) -> Any:
        for _turn in range(turns[name != "member"]):
            await asyncio.sleep(0)
        if name == "member":
            raise StoreUnavailable("the list is down")
        return [reply.value.encode(), 1000]

    async def strings(*_: Any) -> Any:
        raise AssertionError("nothing is read")

    registry = Registry(Keys("default"), script, strings, 60.0, False)
    for beat in (1, 2):
        assert (await registry.renew(node(beat=beat), beat - 1, TTL)).result is reply
        for _turn in range(5):
            await asyncio.sleep(0)
    assert caplog.text.count("the lease of this node is kept") == (reply is RENEWED)
