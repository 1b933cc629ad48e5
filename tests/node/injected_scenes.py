"""What two nodes and a store are made to do, so that every await of the engine and of the store is reached.

Each scene raises `Silent` if something in it was lost without a word, or hung.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fakeredis import FakeServer

from framehold.engine.heartbeat import Heartbeat
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot
from framehold_core.pauses import Pause
from framehold_core.requests import Read
from framehold_core.value import replace
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.membership import DRAINING, LIVE
from framehold_fleet.members.ring import fresh_call
from framehold_store import StoreConfig
from framehold_store import system_clock as clock
from framehold_store.channels import follow
from framehold_store.embedded import EmbeddedStore
from framehold_store.keys import Keys
from framehold_store.memory import MemoryStore
from framehold_store.redis import RedisStore
from tests.kit.client import Reply
from tests.kit.leases import lease
from tests.kit.processes import until
from tests.kit.serving import Served
from tests.node.injected_pair import SOON, Pair, Silent, born, forget_lease, inside, release, shown

Scene = Callable[[Pair], Awaitable[None]]


# ---- what nodes do by themselves


async def idle(pair: Pair) -> None:
    """Heartbeats, sweeps, scans, and reads of the fleet."""
    await asyncio.gather(*(pulses.go_on() for pulses in pair.pulses))


async def lapse(pair: Pair) -> None:
    """A lease is gone: it is registered anew, and all frames are compared with the store."""
    name, asked = await pair.asked(pair.a)
    forget_lease(pair, "a")
    doubts = inside(pair.a).heartbeat.doubts

    def noticed() -> bool:
        inside(pair.a).heartbeat.announce(LIVE)
        return bool(inside(pair.a).heartbeat.doubts > doubts)

    await until(noticed, "the lapse to be noticed", SOON)
    await pair.ended(pair.a, name, asked)


async def eviction(pair: Pair) -> None:
    """Memory is short in one sweep: frames are evicted in two batches."""
    evicts, batches = inside(pair.a).eviction, [1, 1]
    footprint, evicts.footprint = evicts.footprint, evicts.footprint or object()
    evicts._evict_for_memory = lambda footprint: batches.pop() if batches else 0
    await until(lambda: not batches, "the sweep", SOON)
    del evicts._evict_for_memory
    evicts.footprint = footprint
    await idle(pair)


async def stumble(pair: Pair) -> None:
    """A sweep meets a bug of its own."""
    table, failures = inside(pair.a).table, [1]
    due = table.due

    def stumbling(now: float) -> Any:
        if failures:
            failures.clear()
            raise RuntimeError("injected by the scene")
        return due(now)

    table.due = stumbling
    await until(lambda: not failures, "the sweep", SOON)
    table.due = due
    await idle(pair)


# ---- calls


async def call(pair: Pair) -> None:
    inside(pair.a)._records.keeper._until.clear()
    await pair.call()


async def replay(pair: Pair) -> None:
    await pair.call(tool="replayed")


async def released(pair: Pair) -> None:
    """The call is handed off by one node and taken over by the other one."""
    await pair.call(to=pair.b, between=lambda name, asked: release(pair, asked))


async def moved(pair: Pair) -> None:
    """The other node has other code, and loads what the store keeps."""
    inside(pair.a)._records.keeper._until.clear()
    inside(pair.b)._records.keeper._loaded.clear()
    await pair.call(tool="moved", to=pair.b, between=lambda name, asked: release(pair, asked))


async def gone(pair: Pair) -> None:
    """The lease of the call's node is gone."""

    async def die(name: str, asked: Reply) -> None:
        forget_lease(pair, "a")

    await pair.call(to=pair.b, between=die)


async def suspected(pair: Pair) -> None:
    """The call stood in two processes that are gone: it waits until another suspect has moved on."""
    gate, other = inside(pair.b)._gate, object()

    async def let_go() -> None:
        with contextlib.suppress(AssertionError):
            await until(lambda: gate.suspects.waiting, "a suspect to wait", 0.5)
        gate.end_turn(other)

    async def die(name: str, asked: Reply) -> None:
        with pair.redis.client() as client:
            client.hset(Keys(pair.namespace).call(asked.token.split(".")[1])[0], "attempts", 1)
        forget_lease(pair, "a")
        gate.suspects.join(other)
        gate.suspects.next(clock.now(), others=False)
        going.append(asyncio.ensure_future(let_go()))

    going: list[asyncio.Future[None]] = []
    await pair.call(to=pair.b, between=die)
    await asyncio.gather(*going)
    if gate.suspects.waiting or gate.suspects.has_turn(other):
        raise Silent("a suspect waits for ever")


async def crowd(pair: Pair) -> None:
    """The call waits for a place, and then for bytes, before it is taken over."""
    gate = inside(pair.b)._gate
    name, asked = await pair.asked(pair.a)
    await release(pair, asked)
    free, gate._free = gate._free, 0
    gate._weight += gate._limit
    ending = asyncio.ensure_future(pair.ended(pair.b, name, asked))
    await until(lambda: gate._queue or ending.done(), "the wait for a place", SOON)
    gate._free += free
    gate._change_weight(0)
    await until(lambda: gate._weight_queue or ending.done() or not gate._queue, "the wait", SOON)
    await until(lambda: gate._weight_queue or ending.done() or pair.words, "the wait for bytes", SOON)
    gate._change_weight(-gate._limit)
    await ending
    if (gate._free, gate._weight) != (free, 0):
        raise Silent(f"the gate has {gate._free} of {free} places, and {gate._weight} bytes in use")


async def relayed(pair: Pair) -> None:
    await pair.call(to=pair.b)


async def unreachable(pair: Pair) -> None:
    """The node of the call can't be reached for a while."""
    beat = inside(pair.a).heartbeat
    address = beat.address

    async def hide(name: str, asked: Reply) -> None:
        beat.address = "http://127.0.0.1:9"
        await shown(pair, beat.address)
        asyncio.get_running_loop().call_later(0.1, show)

    def show() -> None:
        beat.address = address
        beat.announce(LIVE)

    try:
        await pair.call(to=pair.b, between=hide)
    finally:
        show()
        await shown(pair, address)


async def asked_about(pair: Pair) -> None:
    """What other parts of the node ask of its runtime."""
    a, b = inside(pair.a), inside(pair.b)
    name, asked = await pair.asked(pair.a)
    slot = pair.slot(pair.a, asked)
    if slot is None or slot.head is None:
        raise Silent("a call that has asked has no slot, or no record")
    state = f'F[1,"{slot.call.id}",1,1,1,"","a","x","{slot.head.seal}","hold"]'
    await pair.tried(lambda: b.kept_code(state))
    await pair.tried(lambda: b.peers.names(a.heartbeat.address))
    await pair.tried(lambda: b.peers.receiver("http://127.0.0.1:9"))
    await pair.tried(lambda: b.peers.address(a.peers.node, b.heartbeat.lease.boot))
    await pair.tried(lambda: b.peers.vanished((Boot("gone"),)))
    a.draining.unanswered += 1
    await pair.tried(lambda: a.draining.wait_for_responses(0.02))
    a.draining.unanswered -= 1
    await pair.ended(pair.a, name, asked)


async def left(pair: Pair) -> None:
    """The client leaves while an effect runs, and comes back."""
    name, asked = await pair.asked(pair.a, "slow")
    leaving = asyncio.ensure_future(
        pair.a.retry("slow", asked.token, asked.accept(word="word"), arguments={"name": name})
    )
    await until(lambda: leaving.done() or inside(pair.a).tasks._effects, "the effect", SOON)
    leaving.cancel()
    await asyncio.wait((leaving,))
    pair.held.set()
    await until(lambda: not inside(pair.a).tasks._effects, "the effect's end", SOON)
    await pair.ended(pair.a, name, asked, "slow")


async def cut(pair: Pair) -> None:
    """The connections to the store are lost, and one attempt to connect fails."""
    link = inside(pair.a).store._servers._lane._link
    usual, failures = link._load_scripts, iter((1,))

    async def load(connection: Any) -> None:
        if next(failures, 0):
            raise ConnectionResetError("injected by the scene")
        await usual(connection)

    async def lose(name: str, asked: Reply) -> None:
        link._load_scripts = load
        with pair.redis.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)
            client.client_kill_filter(_type="pubsub")

    await pair.call(between=lose)
    del link._load_scripts


async def bug(pair: Pair) -> None:
    """The lane of the store meets a bug of its own."""
    lane = inside(pair.a).store._servers._lane
    usual, failures = lane._link.drop, [1]

    async def drop() -> None:
        if failures:
            failures.clear()
            raise RuntimeError("injected by the scene")
        await usual()

    async def lose(name: str, asked: Reply) -> None:
        lane._link.drop = drop
        lane._lost(ConnectionError("injected by the scene"))
        await until(lambda: not failures, "the bug", SOON)

    await pair.call(between=lose)
    del lane._link.drop


# ---- nodes that begin and end


async def _end(pair: Pair, node: Served) -> None:
    """End a node whose effect is let go when the end waits for it."""
    ending = asyncio.ensure_future(pair.tried(inside(node).end))
    await until(lambda: ending.done() or inside(node).draining.closed, "the beginning of the end", SOON)
    pair.held.set()
    await ending


async def life(pair: Pair) -> None:
    """A node begins, and is drained and ended with a parked call and a round that runs."""
    async with born(pair) as node:
        name, asked = await pair.asked(node)
        running = await pair.running(node)
        await asyncio.gather(*(pair.tried(lambda: inside(node).drain(0.03)) for _ in range(2)))
        await _end(pair, node)
        await running
    await pair.ended(pair.b, name, asked)


async def life_without_store(pair: Pair) -> None:
    """A node is drained, and the store does not answer the release of a call."""
    async with born(pair) as node:
        name, asked = await pair.asked(node)
        store, usual, failures = inside(node).store, inside(node).store.submit, iter((1,))

        def submit(request: Any, done: Any) -> None:
            if type(request).__name__ == "Release" and next(failures, 0):
                done(StoreUnavailable("injected by the scene"))
            else:
                usual(request, done)

        store.submit = submit
        draining = asyncio.ensure_future(pair.tried(lambda: inside(node).drain(1.0)))
        await asyncio.sleep(0.03)
        await pair.mended(node)
        inside(node).heartbeat.announce(DRAINING)
        await draining
    await pair.ended(pair.b, name, asked)


async def life_of_a_stranger(pair: Pair) -> None:
    """Another process takes a node's name, while a call is parked and a round runs."""
    async with born(pair) as node:
        name, asked = await pair.asked(node)
        running = await pair.running(node)
        inside(node).heartbeat.lost.set()
        await _end(pair, node)
        await running
    await pair.ended(pair.b, name, asked)


async def taken(pair: Pair) -> None:
    """A node waits for the lease of its former life."""
    store = MemoryStore(time.monotonic)
    seals = LeaseSeal(Trust([b"k" * 32]), "ns")
    first, second = (Heartbeat(store, clock.system_clock(), "n", "", 0.25, seals) for _ in range(2))
    await store.register(first._record(await store.time()), 0.25)
    await pair.tried(second.open)
    if second.renewed_at is None or not second.is_registered:
        raise Silent("the node has no lease")
    await pair.tried(second.close)
    await pair.tried(store.count_nodes)


# ---- the store by itself


async def single(pair: Pair) -> None:
    config = StoreConfig(pair.redis.url, pair.namespace + "-store")
    store = RedisStore(config)

    async def forgotten() -> None:
        """What the store has lost of the tools is written again."""
        with pair.redis.client() as client:
            client.delete(Keys(config.namespace).tools)
        await store.tools()

    await used(pair, store, forgotten)


async def embedded(pair: Pair) -> None:
    await used(pair, EmbeddedStore(StoreConfig("embedded://", "store"), FakeServer()))


async def clustered(pair: Pair) -> None:
    store: Any = RedisStore(StoreConfig(pair.cluster.url, pair.namespace))

    async def leave() -> None:
        servers = store._servers
        await servers.primaries()
        servers._map.places = frozenset(sorted(servers._map.places)[:2])
        servers._remapped()

    await used(pair, store, leave)


async def watched(pair: Pair) -> None:
    await used(pair, RedisStore(StoreConfig(pair.sentinels.url, pair.namespace)))


async def demoted(pair: Pair) -> None:
    """The sentinels name a server that is no master."""
    store: Any = RedisStore(StoreConfig(pair.sentinels.url, pair.namespace))
    pool = store._servers._pool
    manager = pool.sentinel_manager
    discover = manager.discover_master
    replica = ("127.0.0.1", pair.sentinels.replica.port)
    failures = iter((1,))

    async def discovered(service: str) -> Any:
        return replica if next(failures, 0) else await discover(service)

    manager.discover_master = discovered
    await used(pair, store)


async def unheard(pair: Pair) -> None:
    """A channel is silent for a while: its server is asked whether it is there."""
    heard: list[bytes | None] = []
    channel = f"{pair.namespace}-channel"
    store = inside(pair.b).store
    following = asyncio.ensure_future(follow(store._servers.pool, channel, heard.append, 0.01))
    with pair.redis.client() as client:
        await until(lambda: None in heard, "the subscription", SOON)
        await asyncio.sleep(0.08)
        await until(lambda: client.publish(channel, "news") and b"news" in heard, "news", SOON)
    following.cancel()
    await asyncio.wait((following,))


async def out_of_reach(pair: Pair) -> None:
    """The store is closed while it tries to connect."""
    store: Any = RedisStore(StoreConfig("redis://127.0.0.1:9", "none"))

    async def load(connection: Any) -> None:
        await asyncio.Event().wait()

    reading = asyncio.ensure_future(store.run(Read(fresh_call())))
    store2: Any = RedisStore(StoreConfig(pair.redis.url, "none"))
    store2._servers._lane._link._load_scripts = load
    reading2 = asyncio.ensure_future(store2.run(Read(fresh_call())))
    await asyncio.sleep(0.02)
    await pair.tried(store.close)
    await pair.tried(store2.close)
    for one in (reading, reading2):
        done, _ = await asyncio.wait((one,), timeout=SOON)
        if not done or not isinstance(one.exception(), StoreUnavailable | RuntimeError | OSError):
            raise Silent("a request of a closed store has no answer")


async def used(pair: Pair, store: Any, *more: Callable[[], Awaitable[None]]) -> None:
    """Each operation of a store, and a message."""
    heard: list[bytes] = []
    await store.open()
    store.subscribe(heard.append)
    node = lease("other", ttl=5.0)
    changes = store.changes()
    pause = Pause("tool", 1.0, "me", "why")
    operations: list[Callable[[], Awaitable[Any]]] = [
        store.memory,
        store.unsaved,
        lambda: store.run(Read(fresh_call())),
        lambda: store.register(node, 5.0),
        lambda: store.renew(replace(node, beat=1), 0, 5.0),
        store.nodes,
        lambda: store.nodes((node.node,)),
        store.count_nodes,
        lambda: anext(changes),
        store.tools,
        lambda: store.died("tool", "boot", 3, "why"),
        lambda: store.cleared("tool"),
        lambda: store.pause(pause),
        lambda: store.resume("tool"),
        lambda: store.keep_code("a" * 32, b"code", 5.0),
        lambda: store.code("a" * 32),
        lambda: store.append_events([b"event" * 60_000, b"event"]),
        store.events,
        lambda: store.keep_sample(10, 1, b"sample", 5.0),
        lambda: store.samples(10, (1,)),
        store.scan,
        *more,
        lambda: store.run(Read(fresh_call())),
        lambda: store.unregister(node),
    ]
    for operation in operations:
        await pair.tried(operation)
    async with asyncio.timeout(SOON):
        while not heard:
            with contextlib.suppress(StoreUnavailable, RuntimeError, OSError):
                await store.publish(b"message")
            await asyncio.sleep(0.01)
    last = asyncio.ensure_future(store.run(Read(fresh_call())))
    await asyncio.sleep(0)
    await pair.tried(store.close)
    await asyncio.wait((last,), timeout=SOON)
    if not last.done():
        raise Silent("a request of a closed store has no answer")
    last.exception()


BACKGROUND: tuple[Scene, ...] = (idle, eviction, stumble)
_CALLS = (call, released, gone, suspected, lapse, moved, crowd, relayed, replay, left, cut, bug, unreachable)
_PARTS = (asked_about, taken, single, embedded, clustered, watched, demoted, unheard, out_of_reach)
_LIVES = (life, life_without_store, life_of_a_stranger)
SCENES: tuple[Scene, ...] = (*BACKGROUND, *_CALLS, *_PARTS, *_LIVES)
"""What costs the most comes last."""
