"""Section `replay`: what re-entering a handler costs, against holding its frame; and what one `once` costs.

All runs in one process on the measured core, without HTTP; only Redis is another. Sizes are those of a call of ten
questions. Costs of a replay are CPU of the last request of a call, from its arrival at the ASGI app to the whole reply,
once the call has recorded some entries: questions and their answers in a row, or results of effects and one question.
The same request is measured four ways:

    live        strategy hold, its frame is in memory: nothing is replayed
    dropped     strategy hold, its frame was dropped: rebuilt from the record in the store in memory
    token       strategy replay: rebuilt from the token; the handler ends, so no new token is made
    token, on   strategy replay: rebuilt from the token; the handler asks once more, so the next token is made

An effect under `once` is compared with the same effect run directly, which does nothing. A batch is one call, or 32
calls at once whose writes share the group commit. Each call has one effect under `once`, so that it has a record, then
20 more effects: under `once` in one batch, directly in the next. A twentieth of the difference is the cost of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

from framehold_core import events as ev
from framehold_core import token
from framehold_core.ids import CallId
from framehold_core.requests import Read
from framehold_loadtest.bench import child, weather
from framehold_loadtest.bench.in_process import PORT, Local, local, scripted
from framehold_loadtest.client.connection import Response
from framehold_loadtest.client.rounds import Asked
from framehold_loadtest.local.listeners import Cores, redis_server
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.local.usage import cpu_seconds
from framehold_loadtest.stats import Spread

QUESTIONS = 10
PAIRS = (1, 10, 100)
"""Answered questions, or effects, that a call has recorded: two entries each, and the ask that waits."""
ENTRIES = [2 * pairs + 1 for pairs in PAIRS]
EFFECTS = 20
"""In a row in a call: the cost of a write in memory grows with the journal, so they are few."""
TOGETHER = 32
_IN_A_ROW = 3
_WARM = 3
_SPARE_SECONDS = 60.0
_SECONDS_PER_REPETITION = 5.0  # on a slow machine
_UNDER_ONCE, _DIRECTLY = scripted(1 + EFFECTS, 0), scripted(1, 0, direct=EFFECTS)


def measure(replays: int, onces: int, cores: Cores) -> dict[str, Any]:
    """So many repetitions of each stage; what was not available is said."""
    missing: dict[str, str] = {}
    found: dict[str, Any] = {"plan": {"replays": replays, "onces": onces}, "not_available": missing}
    with contextlib.ExitStack() as stack:
        given: dict[str, Any] = {"repetitions": onces}
        try:
            store = stack.enter_context(redis_server(cores.load))
            given |= {"port": store.port, "store": store.pid}
        except NotAvailable as reason:
            missing["once, Redis"] = str(reason)
        stages: dict[str, tuple[Any, dict[str, Any]]] = {
            "record": (replay, {"repetitions": replays}),
            "rows": (once, given),
        }
        for name, (stage, of_stage) in stages.items():
            seconds = _SPARE_SECONDS + _SECONDS_PER_REPETITION * of_stage["repetitions"]
            try:
                found[name] = child.run(stage, cores.server, seconds, **of_stage)
            except NotAvailable as reason:
                missing[name] = str(reason)
    return found


# ---- replays


class Shape(NamedTuple):
    """What a measured call records: so many effects, and questions of which the last one waits."""

    effects: int
    questions: int

    def call(self, more: int = 0) -> weather.Call:
        """The call, which asks `more` afterwards."""
        return scripted(self.effects, self.questions + more)


SHAPES: dict[str, Callable[[int], Shape]] = {
    "asks": lambda pairs: Shape(0, pairs + 1),
    "effects": lambda pairs: Shape(pairs, 1),
}


async def replay(repetitions: int) -> dict[str, Any]:
    """Bytes after each question, and what each way takes: seconds of a request at each number of entries, of one more
    entry, and of a request with none, by the line through the shortest and the longest record."""
    async with AsyncExitStack() as stack:
        held = await stack.enter_async_context(local(strategy="hold"))
        replayed = await stack.enter_async_context(local(strategy="replay"))
        sizes, seen = await _weigh(held, replayed), await _cost(held, replayed, repetitions)
    rows = []
    for (what, way), runs in seen.items():
        rise = [(run[-1] - run[0]) / (ENTRIES[-1] - ENTRIES[0]) for run in runs]
        fixed = [run[0] - ENTRIES[0] * each for run, each in zip(runs, rise, strict=True)]
        requests = [median(column) for column in zip(*runs, strict=True)]
        per_entry = asdict(Spread.of(rise))
        rows.append({"what": what, "way": way, "requests": requests, "per_entry": per_entry,
                     "fixed": asdict(Spread.of(fixed))})  # fmt: skip
    return {"sizes": sizes, "rows": rows}


async def _weigh(held: Local, replayed: Local) -> dict[str, list[int]]:
    """The bytes after each question of a call."""
    call, found = scripted(0, QUESTIONS), {name: list[int]() for name in ("journal", "hold_token", "replay_token")}
    question, carried = await held.asked(call, 1), await replayed.asked(call, 1)
    for number in range(QUESTIONS):
        if number:
            question, carried = await held.answered(call, question), await replayed.answered(call, carried)
        _, size = await _record(held, question)
        for name, of in (("journal", size), ("hold_token", len(question.token)), ("replay_token", len(carried.token))):
            found[name].append(of)
    for app, last in ((held, question), (replayed, carried)):
        weather.check_result(await app.request(weather.second_round(PORT, call, last)), call)
    return found


async def _record(app: Local, question: Asked) -> tuple[CallId, int]:
    """A held call, and the bytes of its journal in the store."""
    named = token.parse(question.token)
    assert named is not None and named.call is not None, "the token of a held call names it"
    reply = await app.runtime.store.run(Read(named.call))
    assert reply.stored is not None, "a parked call has a record"
    return named.call, sum(map(len, reply.stored.journal))


async def _cost(held: Local, replayed: Local, repetitions: int) -> dict[tuple[str, str], list[list[float]]]:
    """All ways with all journals, in turn. The first repetition is not counted."""
    made: dict[tuple[Shape, int], bytes] = {}
    ways: dict[str, Callable[[Shape], Awaitable[float]]] = {
        "live": lambda shape: _held(held, shape, drop=False),
        "dropped": lambda shape: _held(held, shape, drop=True),
        "token": lambda shape: _replayed(replayed, made, shape, 0),
        "token, on": lambda shape: _replayed(replayed, made, shape, 1),
    }
    found: dict[tuple[str, str], list[list[float]]] = {(what, way): [] for what in SHAPES for way in ways}
    for repetition in range(1 + repetitions):
        for what, shape_of in SHAPES.items():
            for way, request in ways.items():
                await request(shape_of(PAIRS[1]))  # the caches are full of the way before
                seconds = [median([await request(shape_of(pairs)) for _ in range(_IN_A_ROW)]) for pairs in PAIRS]
                if repetition:
                    found[what, way].append(seconds)
    return found


async def _timed(app: Local, data: bytes) -> tuple[float, Response]:
    began = time.thread_time()
    reply = await app.request(data)
    return time.thread_time() - began, reply


async def _held(app: Local, shape: Shape, *, drop: bool) -> float:
    """A fresh call each time: its record is spent by its last request."""
    call = shape.call()
    question = await app.asked(call, shape.questions)
    if drop:
        name, _ = await _record(app, question)
        slot = app.runtime.table.get(name)
        assert slot is not None, "a parked call is in the table"
        app.runtime.feed(slot, ev.Evict())
        assert slot.frame is None, "the frame was dropped"
    seconds, reply = await _timed(app, weather.second_round(PORT, call, question))
    weather.check_result(reply, call)
    return seconds


async def _replayed(app: Local, made: dict[tuple[Shape, int], bytes], shape: Shape, more: int) -> float:
    """The last request of a call that asks `more` afterwards. Its token is made once: a client may send it again."""
    call = shape.call(more)
    if (shape, more) not in made:
        question = await app.asked(call, shape.questions)
        made[shape, more] = weather.second_round(PORT, call, question)
    seconds, reply = await _timed(app, made[shape, more])
    if more:
        weather.read_question(reply)
    else:
        weather.check_result(reply, call)
    return seconds


# ---- once


class Instant(NamedTuple):
    """Counters, before or after a batch; `writes` are those that reached the store."""

    wall: float
    cpu: float
    store_cpu: float
    writes: float


@dataclass(frozen=True, slots=True)
class Site:
    """An open server, and the process id of its Redis; 0 in memory."""

    app: Local
    store: int

    async def batch(self, call: weather.Call, count: int) -> Instant:
        """What so many calls at once took."""
        data, before = weather.first_round(PORT, call), self._now()
        replies = await asyncio.gather(*(self.app.request(data) for _ in range(count)))
        after = self._now()
        for reply in replies:
            weather.check_result(reply, call)
        return Instant(*(end - start for start, end in zip(before, after, strict=True)))

    def _now(self) -> Instant:
        redis = cpu_seconds(self.store) if self.store else 0.0
        return Instant(time.perf_counter(), time.process_time(), redis, self.app.writes)


async def once(repetitions: int, port: int = 0, store: int = 0) -> list[dict[str, Any]]:
    """A row for each store and number of calls at once; that of Redis if there is one at a port. Seconds beyond the
    effect."""
    settings: dict[str, dict[str, Any]] = {"memory": {}}
    if port:
        settings["Redis"] = {"store_url": f"redis://127.0.0.1:{port}", "keys": (secrets.token_hex(32),)}
    async with AsyncExitStack() as stack:
        sites = {name: Site(await stack.enter_async_context(local(**chosen)), store if chosen else 0)
                 for name, chosen in settings.items()}  # fmt: skip
        found: dict[tuple[str, int], list[Instant]] = {(name, calls): [] for name in sites for calls in (1, TOGETHER)}
        for repetition in range(_WARM + repetitions):
            for (name, calls), differences in found.items():
                without = await sites[name].batch(_DIRECTLY, calls)
                under = await sites[name].batch(_UNDER_ONCE, calls)
                if repetition >= _WARM:
                    pairs = zip(under, without, strict=True)
                    differences.append(Instant(*((more - less) / (EFFECTS * calls) for more, less in pairs)))
    return [_row(name, calls, differences) for (name, calls), differences in found.items()]


def _row(store: str, calls: int, differences: Sequence[Instant]) -> dict[str, Any]:
    wall, cpu, store_cpu, writes = zip(*differences, strict=True)
    spreads = {"wall": asdict(Spread.of(wall)), "cpu": asdict(Spread.of(cpu))}
    return {"store": store, "calls": calls, **spreads, "store_cpu": median(store_cpu), "writes": max(writes)}
