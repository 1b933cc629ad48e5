"""Section `store`: the cost of a write while 32 writers share the adapter, and the number of writes of each round.

The two writes of a two-round call are made over and over, in two ways that take turns:

- together: 32 lanes share the adapter, so that its group commit sends their writes in batches,
- redis-py's own pipeline: the same scripts with the same arguments, 32 in each pipeline, on one connection.

The adapter is used through `Store.submit`, as on the node's hot path. The content of a write is made once, ahead of
time, so that only the cost of a write is measured. The writers are on the measured core, Redis is on the other.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio

from framehold_core import journal
from framehold_core.ending import COMPLETED
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, CallId, Incarnation, NodeId
from framehold_core.journal import Draft, EntryKind, EntryLane
from framehold_core.requests import Answered, Batch, Commit, Fence, Finish, Head, Reply, Request, Verdict
from framehold_loadtest.bench import child, weather
from framehold_loadtest.bench.in_process import PORT, local, scripted
from framehold_loadtest.local.listeners import Cores, redis_server
from framehold_loadtest.local.usage import cpu_seconds
from framehold_store import Store, StoreConfig, codec, open_store

LANES = 32
QUESTIONS = 5
"""Of the call whose writes are counted."""
_WARM_SECONDS = 0.5
_TURNS = 10
_SPARE_SECONDS = 20.0
_WAYS = 2
_GRACE_SECONDS = 3.0
_TTL = 600.0
_DONE = 1
"""What a script replies that has written."""
_OWNER, _INC, _BOOT = NodeId("bench"), Incarnation("1"), Boot("1")
_ASK = Draft(EntryKind.ASK, "units", 1, EntryLane.MAIN, journal.fingerprint("Which units?"), "json", bytes(300))
_ENTRIES = (journal.encode(journal.entry(0, _ASK, _ASK.value)),)
_BATCH = Batch(_ENTRIES, journal.chain(journal.GENESIS, _ENTRIES))
_HEAD = Head(_BOOT, False, "weather", "0" * 32, "tools/call", "weather", "0" * 32, "")
_ANSWERED = Answered(1, "0" * 32, ("units",))
_OUTCOME = bytes(250)


def measure(seconds: float, cores: Cores) -> dict[str, Any]:
    """Write for so many seconds in each way; one row, and the writes of each round of a call.

    Raises:
        NotAvailable: there is no Redis, or no write was acknowledged.
    """
    with redis_server(cores.load) as store:
        given = {"port": store.port, "store": store.pid, "seconds": seconds}
        row = child.run(write, cores.server, _WAYS * seconds + _SPARE_SECONDS, **given)
        rounds = child.run(count, cores.server, _SPARE_SECONDS, port=store.port)
    return {"rows": [row], "rounds": rounds}


async def count(port: int) -> list[int]:
    """How many writes each round of a call makes, from the first to the one that ends the call."""
    async with local(store_url=f"redis://127.0.0.1:{port}", keys=(secrets.token_hex(32),)) as app:
        call = scripted(0, QUESTIONS)
        # The first call of a process also has the store keep its code.
        await app.asked(call, 1)
        written = [app.writes]
        question = await app.asked(call, 1)
        written.append(app.writes)
        for _ in range(QUESTIONS - 1):
            question = await app.answered(call, question)
            written.append(app.writes)
        weather.check_result(await app.request(weather.second_round(PORT, call, question)), call)
        written.append(app.writes)
        return [after - before for before, after in itertools.pairwise(written)]


async def write(port: int, store: int, seconds: float) -> dict[str, Any]:
    """All turns, with the CPU of Redis, whose process id is `store`."""
    adapter = open_store(StoreConfig(url=f"redis://127.0.0.1:{port}"), time.monotonic)
    await adapter.open()
    client = redis.asyncio.Redis(port=port, protocol=2, single_connection_client=True)
    calls = (CallId(f"{number:032x}") for number in itertools.count(1))
    ways = [together(adapter, calls), pipelined(client, calls)]
    for way in ways:
        await _turn(way, _WARM_SECONDS, store)
    turns: list[list[Turn]] = [[] for _ in ways]
    for _ in range(_TURNS):
        for way, found in zip(ways, turns, strict=True):
            found.append(await _turn(way, seconds / _TURNS, store))
    await adapter.close()
    await client.aclose()
    return written(*turns)


@dataclass(slots=True)
class Tally:
    """What the writers of one turn have seen so far."""

    writes: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    stopping: bool = False
    writing: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """What one way did in one turn: its writes, and the seconds, and the CPU of the client and of Redis for them."""

    writes: int
    wall: float
    cpu: float
    store_cpu: float
    errors: Counter[str]

    @property
    def cpu_per_write(self) -> float:
        return self.cpu / self.writes


Way = Callable[[Tally, float], Awaitable[None]]
"""Writes for some seconds."""


def _commit(call: CallId) -> Commit:
    return Commit(call, Fence(_OWNER, _INC, 1, 0, 0), _BATCH, _TTL, head=_HEAD)


def _finish(call: CallId) -> Finish:
    return Finish(call, Fence(_OWNER, _INC, 1, 1, 1), _OUTCOME, COMPLETED, _TTL, _ANSWERED)


class LaneOfWrites:
    """One writer: sends its next write when the last one is acknowledged, and stops at the first that is not."""

    def __init__(self, store: Store, calls: Iterator[CallId], tally: Tally) -> None:
        self._store, self._calls, self._tally = store, calls, tally
        self._call: CallId | None = None
        tally.writing += 1

    def send(self) -> None:
        """Submit the next write."""
        self._store.submit(self._next(), self._acknowledged)

    def _next(self) -> Request:
        if self._call is None:
            self._call = next(self._calls)
            return _commit(self._call)
        call, self._call = self._call, None
        return _finish(call)

    def _acknowledged(self, reply: Reply | StoreUnavailable) -> None:
        tally = self._tally
        if isinstance(reply, StoreUnavailable) or reply.verdict is not Verdict.OK:
            tally.errors[str(reply) if isinstance(reply, StoreUnavailable) else reply.verdict.value] += 1
            tally.writing -= 1
            return
        tally.writes += 1
        if tally.stopping:
            tally.writing -= 1
        else:
            self.send()


def together(store: Store, calls: Iterator[CallId]) -> Way:
    """Lanes that share the adapter."""

    async def write(tally: Tally, seconds: float) -> None:
        for lane in [LaneOfWrites(store, calls, tally) for _ in range(LANES)]:
            lane.send()
        await asyncio.sleep(seconds)
        tally.stopping = True
        deadline = time.monotonic() + _GRACE_SECONDS
        while tally.writing and time.monotonic() < deadline:
            await asyncio.sleep(0.001)

    return write


def pipelined(client: redis.asyncio.Redis, calls: Iterator[CallId]) -> Way:
    """redis-py's own pipeline: the first writes of some calls in one, their last writes in the next."""
    scripts = [codec.encode(make(CallId("0" * 32)), 0) for make in (_commit, _finish)]

    async def write(tally: Tally, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            keys = [
                (f"fh:pipeline:{{{call}}}:r", f"fh:pipeline:{{{call}}}:j") for call in itertools.islice(calls, LANES)
            ]
            for script, arguments in scripts:
                pipeline = client.pipeline(transaction=False)
                for record, entries in keys:
                    pipeline.evalsha(script.sha, 2, record, entries, *arguments)
                replies = await pipeline.execute()
                if replies != [_DONE] * LANES:
                    tally.errors["redis-py's pipeline: a write was refused"] += 1
                tally.writes += LANES

    return write


async def _turn(way: Way, seconds: float, store: int) -> Turn:
    tally = Tally()
    began, cpu, store_cpu = time.perf_counter(), time.process_time(), cpu_seconds(store)
    await way(tally, seconds)
    wall, cpu, store_cpu = time.perf_counter() - began, time.process_time() - cpu, cpu_seconds(store) - store_cpu
    if not tally.writes:
        sys.exit(f"no write was acknowledged: {dict(tally.errors)}")
    return Turn(tally.writes, wall, cpu, store_cpu, tally.errors)


def written(together: Sequence[Turn], pipeline: Sequence[Turn]) -> dict[str, Any]:
    """What the turns of both ways come to: seconds per write, and errors by kind. `ratios` are of the client's CPU per
    write to that of redis-py's pipeline in the same turn."""
    return {
        "writes": sum(turn.writes for turn in together),
        "wall_per_write": _each(together, lambda turn: turn.wall),
        "cpu_per_write": _each(together, lambda turn: turn.cpu),
        "store_cpu_per_write": _each(together, lambda turn: turn.store_cpu),
        "pipeline_cpu_per_write": _each(pipeline, lambda turn: turn.cpu),
        "pipeline_store_cpu_per_write": _each(pipeline, lambda turn: turn.store_cpu),
        "ratios": [ours.cpu_per_write / other.cpu_per_write for ours, other in zip(together, pipeline, strict=True)],
        "errors": dict(sum((turn.errors for turn in (*together, *pipeline)), Counter[str]())),
    }


def _each(turns: Sequence[Turn], spent: Callable[[Turn], float]) -> float:
    return sum(map(spent, turns)) / sum(turn.writes for turn in turns)
