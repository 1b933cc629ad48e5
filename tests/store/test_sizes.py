"""Whoever writes the store may write anything of any size: no read of it brings more than its limit."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import Any, get_args

import pytest
import redis as client

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId, NodeId
from framehold_core.lease import Renewal, no_lease
from framehold_core.pauses import Pause
from framehold_core.requests import Evidence, Request, Seen
from framehold_store import Store, StoreConfig
from framehold_store.connections import open_pool
from framehold_store.keys import MAX_EVENT, MAX_LEASE, MAX_MESSAGE, MAX_RECORD, MAX_SAMPLE, MAX_TOOLS
from framehold_store.pipe import TransportPipe
from framehold_store.redis import RedisStore
from tests.kit.leases import lease
from tests.kit.redis_server import RedisServer, Wire
from tests.store.calls import E0, E1, Story, fence
from tests.store.conftest import URLS

pytestmark = pytest.mark.anyio

JOURNAL, CODE = 64 * 1024, 8 * 1024
"""The limits of the stores of these tests, in bytes."""
SMALL = 16 * 1024
"""Bytes that no reply beyond a limit has: it is not sent at all, or it is a note that says so."""
BIG = b"x" * (1 << 20)
"""More than any value here may have, but a whole record."""
DIGEST = "0" * 32


class Meter:
    """Counts the bytes that the store's connections have read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = 0
        received = TransportPipe.data_received

        def data_received(pipe: TransportPipe, data: bytes) -> None:
            self.read += len(data)
            received(pipe, data)

        monkeypatch.setattr(TransportPipe, "data_received", data_received)


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    return Meter(monkeypatch)


class Planter:
    """Writes the store of one namespace as somebody who has its address and no key."""

    def __init__(self, url: str, namespace: str) -> None:
        self.at = f"fh:{namespace}:"
        if "+cluster" in url:
            host, _, port = url.partition("://")[2].split(",")[0].partition(":")
            self.client: Any = client.RedisCluster(host=host, port=int(port), protocol=2)
        else:
            self.client = client.Redis.from_url(url, protocol=2)

    def record(self, call: str) -> str:
        return f"{self.at}{{{call}}}:r"

    def journal(self, call: str) -> str:
        return f"{self.at}{{{call}}}:j"


@pytest.fixture(params=["redis", "cluster"])
async def bounded(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[tuple[RedisStore, Planter]]:
    """A store with small limits, and who writes to its servers."""
    url = request.getfixturevalue(URLS[request.param]).url
    built = RedisStore(StoreConfig(url, namespace, op_timeout=10.0, poll=60.0, max_journal=JOURNAL, max_code=CODE))
    planter = Planter(url, namespace)
    yield built, planter
    await built.close()
    planter.client.close()


def journal_of(planter: Planter, call: CallId, *entries: bytes) -> None:
    """Append to a journal, and have its record count these entries."""
    planter.client.rpush(planter.journal(call), *entries)
    planter.client.hincrby(planter.record(call), "n", len(entries))


CALLS: dict[str, Callable[[Planter, CallId], object]] = {
    "a field": lambda at, call: at.client.hset(at.record(call), "outcome", b"x" * (MAX_RECORD + 1)),
    "a name": lambda at, call: at.client.hset(at.record(call), b"x" * (MAX_RECORD + 1), ""),
    "many fields": lambda at, call: at.client.hset(
        at.record(call), mapping={f"{number}": "" for number in range(MAX_RECORD // 128)}
    ),
    "an entry": lambda at, call: journal_of(at, call, BIG),
    "many entries": lambda at, call: journal_of(at, call, *[b""] * (JOURNAL // 64)),
    "long entries": lambda at, call: journal_of(at, call, *[b"x" * 100] * (JOURNAL // 160)),
}
"""What may be too large about a call."""


@pytest.mark.parametrize("what", CALLS)
async def test_no_request_brings_a_call_that_is_too_large(
    bounded: tuple[RedisStore, Planter], meter: Meter, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reads or claims it is told its size; whoever else meets it is refused, or writes."""
    store, planter = bounded
    for owner in ("node-1", "another"):
        story = Story()
        await store.run(story.ask)
        planter.client.hset(planter.record(story.call), "owner", owner)
        CALLS[what](planter, story.call)
        before = planter.client.hgetall(planter.record(story.call))
        for request in (story.read, story.claims(Seen(1, owner, "inc-1"), Evidence.GONE)):
            meter.read = 0
            with pytest.raises(StoreUnavailable, match=r"its (record|journal) takes \d+ bytes or more"):
                await store.run(request)
            assert meter.read < SMALL
            assert planter.client.hgetall(planter.record(story.call)) == before, "nothing was written"
        heal = story.heals(Seen(1, owner, "inc-1"), fence(2, 2), E0, E1)
        others = (value for value in vars(story).values() if isinstance(value, get_args(Request)))
        for request in (*others, heal):
            meter.read = 0
            try:
                await store.run(request)
            except StoreUnavailable as error:
                assert "bytes or more" in str(error), type(request)
            assert meter.read < SMALL, type(request)
    assert "FRAMEHOLD_MAX_JOURNAL" in caplog.text


async def test_what_is_far_too_large_does_not_hold_the_server_up(server: RedisServer) -> None:
    store = RedisStore(StoreConfig(server.url, op_timeout=10.0, max_journal=JOURNAL))
    planter, story = Planter(server.url, "default"), Story()
    await store.run(story.ask)
    journal_of(planter, story.call, BIG)
    planter.client.config_resetstat()
    with pytest.raises(StoreUnavailable, match="its journal takes"):
        await store.run(story.read)
    assert "cmdstat_lrange" not in planter.client.info("commandstats")
    await store.close()
    planter.client.close()


async def test_a_call_at_its_limit_is_read(bounded: tuple[RedisStore, Planter]) -> None:
    """To the byte: an entry counts its bytes and 64."""
    store, planter = bounded
    story = Story()
    await store.run(story.ask)
    count = JOURNAL // 164 - 1
    left = JOURNAL - count * 164 - len(E0) - 2 * 64
    journal_of(planter, story.call, *[b"x" * 100] * count, b"x" * left)
    stored = (await store.run(story.read)).stored
    assert stored is not None and sum(len(item) + 64 for item in stored.journal) == JOURNAL


async def read_tools(store: Store, planter: Planter) -> None:
    planter.client.hset(f"{planter.at}tools", "p:" + "x" * MAX_TOOLS, "")
    with pytest.raises(StoreUnavailable, match="the paused tools can't be read"):
        await store.tools()
    # What this process knows is written again, though the mark has become too large.
    planter.client.delete(f"{planter.at}tools")
    await store.pause(Pause("known", 1.0, "me", "why"))
    planter.client.delete(f"{planter.at}tools")
    planter.client.hset(f"{planter.at}tools", mapping={"m": "x" * 300, "p:other": "?"})
    assert [pause.tool for pause in (await store.tools()).paused] == ["known", "other"]


async def died(store: Store, planter: Planter) -> None:
    """The end of a process counts, and a pause that can't be read stands."""
    planter.client.hset(f"{planter.at}tools", mapping={"p:died": BIG + BIG, "d:died": BIG + BIG})
    pause, fresh = await store.died("died", "boot", 2, "why")
    assert pause is not None and "can't be read" in pause.why and not fresh


async def resumed(store: Store, planter: Planter) -> None:
    planter.client.hset(f"{planter.at}tools", "p:resumed", BIG + BIG)
    assert await store.resume("resumed")
    assert not await store.resume("resumed")


async def paused(store: Store, planter: Planter) -> None:
    planter.client.hset(f"{planter.at}tools", "p:paused", BIG)
    await store.pause(Pause("paused", 1.0, "me", "why"))


async def read_nodes(store: Store, planter: Planter) -> None:
    """A name is cut, a lease is passed over; both are named once."""
    planter.client.set(f"{planter.at}node:big", b'[1,1,"i","b",' + BIG)
    planter.client.set(f"{planter.at}node:over", b"x" * (MAX_LEASE + 1))
    planter.client.zadd(f"{planter.at}nodes", dict.fromkeys(("big", "over", BIG), time.time() * 1000 + 60_000))
    small = lease("n")
    await store.register(small, 60.0)
    for _ in range(2):
        found = await store.nodes()
        assert store.unreadable_leases == 3
        assert found == (no_lease(NodeId("big")), small, no_lease(NodeId("over")))
        assert await store.nodes([NodeId("big"), NodeId("n")]) == found[:2]


async def renewed(store: Store, planter: Planter) -> None:
    """A name under which such a value stands, or one of another type, is free: it is no lease."""
    wanted, key = lease("n"), f"{planter.at}node:n"
    for plant, value in (("set", b'[1,1,"i","b",9999999999999,' + BIG), ("rpush", BIG)):
        planter.client.delete(key)
        getattr(planter.client, plant)(key, value)
        reply = await store.renew(wanted, 0, 60.0)
        assert (reply.result, reply.stored, reply.raw) == (Renewal.LAPSED, None, b"")
        await store.unregister(wanted)
        assert (await store.register(wanted, 60.0)).result is Renewal.RENEWED


async def read_code(store: Store, planter: Planter) -> None:
    planter.client.set(f"{planter.at}code:{DIGEST}", b"9" * 13 + BIG)
    assert await store.code(DIGEST) == b"", "no code of this fleet: no seal of it verifies"
    await store.keep_code(DIGEST, b"code", 60.0)
    assert await store.code(DIGEST) == b"code"


async def read_events(store: Store, planter: Planter) -> None:
    """They are passed over one by one."""
    await store.append_events([b"first", b"x" * MAX_EVENT])
    planter.client.xadd(f"{planter.at}log", {"e": b"x" * (MAX_EVENT + 1)})
    planter.client.xadd(f"{planter.at}log", {"e": BIG, "f": BIG, BIG: ""})
    await store.append_events([b"last"])
    assert [len(event.entry) for event in await store.events()] == [5, MAX_EVENT, 0, 0, 4]


async def read_samples(store: Store, planter: Planter) -> None:
    planter.client.set(f"{planter.at}{{history}}:10:2", b"x" * (MAX_SAMPLE + 1))
    planter.client.set(f"{planter.at}{{history}}:10:3", BIG)
    await store.keep_sample(10, 1, b"sample", 60.0)
    assert await store.samples(10, range(5)) == (None, b"sample", None, None, None)


async def scanned(store: Store, planter: Planter) -> None:
    """Such records are counted as unreadable, the others are found."""
    stories = [Story() for _ in range(3)]
    for story in stories:
        await store.run(story.ask)
    planter.client.hset(planter.record(stories[0].call), "tool", BIG)
    planter.client.hset(planter.record(stories[1].call), "note", BIG)
    planter.client.hset(planter.record("x" * len(BIG)), "v", "1")
    found, unreadable, cursor = set(), 0, ""
    while True:
        step = await store.scan(cursor)
        found |= {summary.call for summary in step.found}
        unreadable, cursor = unreadable + step.unreadable, step.cursor
        if not cursor:
            break
    assert {story.call for story in stories} - found == {stories[0].call}
    assert unreadable == 2


READS: dict[str, Callable[[Store, Planter], Awaitable[None]]] = {
    "tools": read_tools,
    "died": died,
    "resume": resumed,
    "pause": paused,
    "nodes": read_nodes,
    "renew": renewed,
    "code": read_code,
    "events": read_events,
    "samples": read_samples,
    "scan": scanned,
}
"""The methods of a store whose reply has what others may have written: how each meets what is too large."""
OTHERS = {
    "submit, run": "test_no_request_brings_a_call_that_is_too_large",
    "changes, subscribe": "test_a_message_that_is_too_large_ends_its_connection",
    "register, unregister": "READS, renew",
    "keep_code, append_events, keep_sample, publish, cleared": "their replies have nothing that was stored",
    "count_nodes, memory, time, unsaved": "their replies are numbers, and what the server says of itself",
    "open, close, request_counts, unreadable_leases": "they ask for nothing",
}


def test_each_method_of_a_store_is_accounted_for() -> None:
    """A new one needs a limit, and a line here that shows it."""
    methods = {name for name, _ in inspect.getmembers(Store) if not name.startswith("_")}
    assert methods == READS.keys() | {name for names in OTHERS for name in names.split(", ")}


@pytest.mark.parametrize("method", READS)
async def test_no_read_brings_what_is_too_large(
    bounded: tuple[RedisStore, Planter], meter: Meter, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, planter = bounded
    await store.count_nodes()
    meter.read = 0
    await READS[method](store, planter)
    assert meter.read < 4 * SMALL
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == len(set(texts)), "each is named once"


GUARDED = {
    "size HGETALL, LRANGE": "fields and items count what they read",
    "claim HGETALL": "after `fields` has measured the record",
    "strings MGET": "after STRLEN",
    "lease GET": "after STRLEN",
    "keep GET": "no reply has it",
    "record HMGET": "no reply has them, but the epoch as a number",
    "fence HGET": "no reply has it",
    "finish HGET": "no reply has it",
    "summary HMGET": "measured by `size`",
    "version HGET": "after HSTRLEN",
    "members ZRANGE": "each name is cut",
    "events XRANGE": "each entry is measured",
    "keys SCAN": "each key is measured",
}
"""The commands that give what is stored, by script, and what keeps a reply from having too much of it."""
_READING = r"GET|MGET|GETRANGE|HGET|HMGET|HGETALL|HKEYS|HVALS|LRANGE|LINDEX|ZRANGE|XRANGE|XREAD|SMEMBERS|[HZS]?SCAN"


def test_what_reads_the_store_is_a_script_that_measures() -> None:
    """No command of the code itself gives what is stored, and each command of a script is accounted for."""
    folder = files("framehold_store")
    modules = [path.read_text() for path in folder.iterdir() if path.name.endswith(".py")]
    assert [found for text in modules for found in re.findall(rf'"({_READING})"', text)] == []
    lua = [path for path in folder.joinpath("scripts").iterdir() if path.name.endswith(".lua")]
    scripts = {path.name: path.read_text() for path in lua}
    found = {
        (name.removesuffix(".lua"), command)
        for name, text in scripts.items()
        for command in re.findall(rf"redis\.p?call\('({_READING})'", text)
    }
    assert found == {(line.split()[0], command) for line in GUARDED for command in line.split(" ", 1)[1].split(", ")}


@pytest.mark.parametrize("channel", ["changes", "events"])
async def test_a_message_that_is_too_large_ends_its_connection(
    shared_server: Any, namespace: str, channel: str
) -> None:
    """It is not kept until it is complete; who listens hears the next one."""
    async with Wire(shared_server.port) as wire:
        store = RedisStore(StoreConfig(f"redis://127.0.0.1:{wire.port}", namespace, op_timeout=5.0, poll=60.0))
        heard: asyncio.Queue[Any] = asyncio.Queue()
        store.subscribe(heard.put_nowait)
        changes = store.changes()
        await anext(changes)
        planter = Planter(shared_server.url, namespace)
        async with asyncio.timeout(10.0):
            while planter.client.publish(f"{planter.at}{channel}", b"x" * (2 * MAX_MESSAGE)) == 0:
                await asyncio.sleep(0)
            before = wire.connections
            while wire.connections == before:
                await asyncio.sleep(0)
            while heard.empty():
                planter.client.publish(f"{planter.at}events", b"next")
                await asyncio.sleep(0)
        assert heard.get_nowait() == b"next"
        await store.close()


async def test_a_reply_to_redis_py_is_bounded_too(shared_server: Any) -> None:
    """Whatever its own commands ask for: the map of a cluster, the masters of a sentinel."""
    pool = open_pool(StoreConfig(shared_server.url))
    async with client.asyncio.Redis(connection_pool=pool) as user:
        assert await user.echo("x" * (MAX_MESSAGE // 2)) == b"x" * (MAX_MESSAGE // 2)
        with pytest.raises(client.ConnectionError, match="more than"):
            await user.echo("x" * (2 * MAX_MESSAGE))
    await pool.aclose()
