"""The generator of section `replay`: the size of a call's record, and the CPU of entering a handler again with it.

It runs the server in its own process, without sockets. Sizes are those of a call of ten questions. Costs are CPU of the
last request of a call, from its arrival at the ASGI app to the whole reply, once the call has recorded some entries:
questions and their answers in a row, or results of effects and one question. The same request is measured four ways:

    live        strategy hold, its frame is in memory: nothing is replayed
    dropped     strategy hold, its frame was dropped: rebuilt from the record in the store in memory
    token       strategy replay: rebuilt from the token; the handler ends, so no new token is made
    token, on   strategy replay: rebuilt from the token; the handler asks once more, so the next token is made

The cost of a replay includes: opening the token or reading the store, decoding entries, the hash chain, opening sealed
values, the SDK's work for each question, and the handler's turns. Decoding, hash chain and opening are also measured
alone, once each, on the same journal. It prints one `Found`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import NamedTuple

import uvloop

from framehold_core import events as ev
from framehold_core import journal, token
from framehold_core.ids import CallId
from framehold_core.journal import Entry
from framehold_core.requests import Read
from framehold_loadtest.bench.generators import weather
from framehold_loadtest.bench.generators.in_process import PORT, Local, local, scripted
from framehold_loadtest.client.connection import Response
from framehold_loadtest.client.rounds import Asked

QUESTIONS = 10
PAIRS = (1, 10, 100)
"""Answered questions, or effects, that a call has recorded: two entries each, and the ask that waits."""
WAYS = ("live", "dropped", "token", "token, on")
PARTS = ("decode", "hash chain", "open values")
_WARM = 1
_IN_A_ROW = 3


@dataclass(slots=True)
class Found:
    """Bytes after each question. CPU in seconds, one figure for each repetition: of a request by what is recorded
    ("asks" or "effects"), by way, by number of entries; of a part by what is recorded."""

    journal_bytes: list[int] = field(default_factory=list)
    hold_token: list[int] = field(default_factory=list)
    replay_token: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=lambda: [2 * pairs + 1 for pairs in PAIRS])
    requests: dict[str, dict[str, list[list[float]]]] = field(default_factory=dict)
    parts: dict[str, dict[str, list[list[float]]]] = field(default_factory=dict)


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


async def record(app: Local, question: Asked) -> tuple[CallId, tuple[bytes, ...]]:
    """The journal of a held call, as the store has it."""
    named = token.parse(question.token)
    assert named is not None and named.call is not None, "the token of a held call names it"
    reply = await app.runtime.store.run(Read(named.call))
    assert reply.stored is not None, "a parked call has a record"
    return named.call, reply.stored.journal


async def weigh(held: Local, replayed: Local, found: Found) -> None:
    """The bytes after each question of a call."""
    call = scripted(0, QUESTIONS)
    question, carried = await held.asked(call, 1), await replayed.asked(call, 1)
    for number in range(QUESTIONS):
        if number:
            question, carried = await held.answered(call, question), await replayed.answered(call, carried)
        _, entries = await record(held, question)
        found.journal_bytes.append(sum(map(len, entries)))
        found.hold_token.append(len(question.token))
        found.replay_token.append(len(carried.token))
    for app, last in ((held, question), (replayed, carried)):
        weather.check_result(await app.request(weather.second_round(PORT, call, last)), call)


async def _timed(app: Local, data: bytes) -> tuple[float, Response]:
    began = time.thread_time()
    reply = await app.request(data)
    return time.thread_time() - began, reply


async def _held(app: Local, shape: Shape, *, drop: bool) -> float:
    """A fresh call each time: its record is spent by its last request."""
    call = shape.call()
    question = await app.asked(call, shape.questions)
    if drop:
        name, _ = await record(app, question)
        slot = app.runtime.table.get(name)
        assert slot is not None, "a parked call is in the table"
        app.runtime.feed(slot, ev.Evict())
        assert slot.frame is None, "the frame was dropped"
    seconds, reply = await _timed(app, weather.second_round(PORT, call, question))
    weather.check_result(reply, call)
    return seconds


class Tokens:
    """Tokens of replayed calls, made once: a client may send the same one again."""

    def __init__(self, app: Local) -> None:
        self._app = app
        self._requests: dict[tuple[Shape, int], bytes] = {}

    async def replayed(self, shape: Shape, more: int) -> float:
        """The last request of a call that asks `more` afterwards."""
        call = shape.call(more)
        data = self._requests.get((shape, more))
        if data is None:
            question = await self._app.asked(call, shape.questions)
            data = self._requests[shape, more] = weather.second_round(PORT, call, question)
        seconds, reply = await _timed(self._app, data)
        if more:
            weather.read_question(reply)
        else:
            weather.check_result(reply, call)
        return seconds


async def cost(held: Local, replayed: Local, repetitions: int, found: Found) -> None:
    """All ways with all journals, in turn."""
    tokens = Tokens(replayed)
    ways: dict[str, Callable[[Shape], Awaitable[float]]] = {
        "live": lambda shape: _held(held, shape, drop=False),
        "dropped": lambda shape: _held(held, shape, drop=True),
        "token": lambda shape: tokens.replayed(shape, 0),
        "token, on": lambda shape: tokens.replayed(shape, 1),
    }
    for what in SHAPES:
        found.requests[what] = {way: [] for way in WAYS}
        found.parts[what] = {part: [] for part in PARTS}
    for repetition in range(_WARM + repetitions):
        for what, shape_of in SHAPES.items():
            for way in WAYS:
                await ways[way](shape_of(PAIRS[1]))  # the caches are full of the way before
                seconds = [await _middle(ways[way], shape_of(pairs)) for pairs in PAIRS]
                if repetition >= _WARM:
                    found.requests[what][way].append(seconds)
            parts = [await _parts(held, shape_of(pairs)) for pairs in PAIRS]
            if repetition >= _WARM:
                for part, figures in zip(PARTS, zip(*parts, strict=True), strict=True):
                    found.parts[what][part].append(list(figures))


async def _middle(way: Callable[[Shape], Awaitable[float]], shape: Shape) -> float:
    """The median of a few in a row."""
    return median([await way(shape) for _ in range(_IN_A_ROW)])


async def _parts(app: Local, shape: Shape) -> list[float]:
    """What decoding, the hash chain and opening take of a journal, once each, in the order of `PARTS`."""
    question = await app.asked(shape.call(), shape.questions)
    name, raw = await record(app, question)
    began = time.thread_time()
    entries = journal.decode_all(raw)
    decoded = time.thread_time()
    journal.chain(journal.GENESIS, raw)
    chained = time.thread_time()
    for item in filter(_heard, entries):
        app.runtime.payloads.opened(name, item)
    opened = time.thread_time()
    return [decoded - began, chained - decoded, opened - chained]


def _heard(item: Entry) -> bool:
    """Whether a replay opens this entry: what the handler asked for is distinguished by its digest."""
    return item.kind in (journal.EntryKind.ANSWER, journal.EntryKind.RESULT, journal.EntryKind.EFFECT)


async def _run(options: argparse.Namespace) -> Found:
    found = Found()
    async with AsyncExitStack() as stack:
        held = await stack.enter_async_context(local(strategy="hold"))
        replayed = await stack.enter_async_context(local(strategy="replay"))
        await weigh(held, replayed, found)
        await cost(held, replayed, options.repetitions, found)
    return found


def main() -> None:
    """Weigh and replay, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, required=True)
    print(json.dumps(asdict(uvloop.run(_run(parser.parse_args())))))


if __name__ == "__main__":
    main()
