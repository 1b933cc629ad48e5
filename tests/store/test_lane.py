"""The lane alone, on virtual time: what it sends and when, and how each request is settled."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from redis.exceptions import ConnectionError, ResponseError

from framehold_core.errors import StoreRefused, StoreUnavailable
from framehold_store import batch
from framehold_store.batch import BATCH, GRACE, LATE, BatchLane, Item
from tests.seeded import loop as virtual
from tests.seeded.loop import SeededLoop


class Scripted:
    """A connection. The test says what comes back."""

    def __init__(self, receive: Callable[[Any], None], lost: Callable[[Exception], None]) -> None:
        self._receive, self.lost = receive, lost
        self.sent, self.closed, self.error = list[bytes](), False, None

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def reply(self, *replies: object) -> None:
        for raw in replies:
            self._receive(raw)

    def close(self) -> None:
        self.closed = True


class Road:
    """A link that is `up` or not. Each step takes a moment; `steps` are those that have ended, but for `connects`,
    which begin."""

    name, trouble, limit, refusal = "scripted", "", "", ""

    def __init__(self) -> None:
        self.up, self.pipes, self.steps = asyncio.Event(), list[Scripted](), list[str]()
        self.up.set()

    async def connect(self, receive: Any, lost: Any) -> Scripted:
        self.steps.append("connects")
        try:
            await self.up.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            self.steps.append("gave up")
            raise
        self.pipes.append(Scripted(receive, lost))
        return self.pipes[-1]

    async def drop(self) -> None:
        await asyncio.sleep(0.001)
        self.steps.append("dropped")


class Bench:
    """A lane whose requests have a second. `settled` has the reply to each request, and when it came."""

    def __init__(self, loop: SeededLoop) -> None:
        self.loop, self.road = loop, Road()
        self.lane = BatchLane(self.road, 1.0, 1000)  # type: ignore[arg-type]  # as much of a link as a lane uses
        self.settled: dict[str, tuple[float, Any]] = {}

    def submit(self, name: str, deadline: float = 0.0, packed: bytes = b"") -> None:
        def settle(raw: object) -> None:
            assert name not in self.settled, "it is settled once"
            self.settled[name] = round(self.loop.time(), 6), raw

        item = Item(packed or name.encode(), name, "commit", settle)
        item.deadline = deadline
        self.lane.submit(item)

    async def connected(self) -> Scripted:
        """Its connection, when a first request was answered. The timer of that one is set."""
        self.submit("first")
        await asyncio.sleep(0.01)
        (pipe,) = self.road.pipes
        pipe.reply(0)
        pipe.sent.clear()
        return pipe

    async def at(self, moment: float) -> None:
        """Wait until `moment`."""
        await asyncio.sleep(moment - self.loop.time())

    def stand_until(self, moment: float) -> None:
        """Nothing else runs until `moment`."""
        self.loop._passed = moment

    def unanswered(self, name: str) -> float:
        """When a request was settled without a reply."""
        moment, raw = self.settled[name]
        assert isinstance(raw, StoreUnavailable), raw
        return moment


Scene = Callable[..., Awaitable[None]]


def scene(play: Scene) -> Callable[..., None]:
    """A test with a lane of its own, on virtual time. Time passes while nothing can run, and by `stand_until`."""

    @functools.wraps(play)
    def test(monkeypatch: pytest.MonkeyPatch, **others: Any) -> None:
        monkeypatch.setattr(virtual, "STEP", 0.0)
        loop, wrong = SeededLoop(Random(0), most_steps=5_000), list[Any]()
        loop.set_exception_handler(lambda _, context: wrong.append(context))

        async def played() -> None:
            bench = Bench(loop)
            await play(bench, **others)
            await bench.lane.close()

        with contextlib.closing(loop):
            loop.run_until_complete(loop.create_task(played()))
        assert not wrong

    wanted = list(inspect.signature(play).parameters.values())[1:]
    own = inspect.Parameter("monkeypatch", inspect.Parameter.KEYWORD_ONLY)
    test.__signature__ = inspect.Signature([*wanted, own])  # type: ignore[attr-defined]
    return test


# What is sent


@scene
async def test_a_batch_has_so_many_requests(at: Bench) -> None:
    pipe = await at.connected()
    for number in range(BATCH + 1):
        at.submit(f"{number}", packed=b".")
    await asyncio.sleep(0)
    assert pipe.sent == [b"." * BATCH]
    pipe.reply(*range(BATCH))
    await asyncio.sleep(0)
    assert pipe.sent[1:] == [b"."]


@scene
async def test_a_batch_has_so_many_bytes(at: Bench) -> None:
    pipe, half = await at.connected(), bytes(batch._BATCH_BYTES // 2)
    for number in range(3):
        at.submit(f"{number}", packed=half)
    await asyncio.sleep(0)
    assert list(map(len, pipe.sent)) == [batch._BATCH_BYTES]


@scene
async def test_a_lane_is_idle_when_nothing_waits(at: Bench) -> None:
    at.road.up.clear()
    at.submit("a")
    assert not at.lane.idle
    at.road.up.set()
    await at.at(0.5)
    assert at.road.pipes[0].sent
    assert not at.lane.idle
    at.road.pipes[0].reply(1)
    assert at.lane.idle


@scene
async def test_a_connection_is_made_when_the_one_before_is_dropped(at: Bench) -> None:
    """All is over when the lane has closed."""
    at.road.up.clear()
    at.submit("a")
    await at.at(0.5)
    await at.lane.close()
    assert at.road.steps == ["dropped", "connects", "gave up", "dropped"]
    assert "the store was closed" in str(at.settled["a"][1])


@scene
async def test_a_lane_that_closes_sends_nothing(at: Bench) -> None:
    pipe = await at.connected()
    closing = asyncio.create_task(at.lane.close())
    at.submit("a")
    await closing
    assert not pipe.sent and at.unanswered("a")


# Deadlines


@scene
async def test_each_request_without_a_connection_ends_at_its_deadline(at: Bench) -> None:
    """Not later, if one that is due later comes behind it."""
    at.road.up.clear()
    at.submit("a")
    await at.at(0.5)
    at.submit("b")
    await at.at(2.0)
    assert (at.unanswered("a"), at.unanswered("b")) == (1.0, 1.5)


@scene
async def test_a_connection_is_dropped_at_the_deadline_of_its_batch(at: Bench) -> None:
    """And not at that of a batch before it, whose timer is used."""
    pipe = await at.connected()
    await at.at(0.5)
    at.submit("a")
    await at.at(1.49)
    assert not pipe.closed
    await at.at(1.51)
    assert pipe.closed and at.unanswered("a") == 1.5


@scene
async def test_a_request_is_sent_twice(at: Bench) -> None:
    """By a second connection, if time allows."""
    pipe = await at.connected()
    await at.at(0.5)
    at.submit("a")
    await at.at(0.6)
    pipe.lost(ConnectionError("reset"))
    await at.at(0.7)
    _, second = at.road.pipes
    assert pipe.closed and pipe.sent == second.sent == [b"a"]
    second.lost(ConnectionError("reset"))
    assert "failed twice" in str(at.settled["a"][1])


@scene
async def test_what_was_refused_is_said(at: Bench) -> None:
    at.road.up.clear()
    at.road.refusal = "NOAUTH"
    at.submit("a")
    await at.at(1.5)
    assert isinstance(at.settled["a"][1], StoreRefused)


# An event loop that stood


@scene
async def test_a_batch_is_given_a_moment_where_the_loop_stood(at: Bench) -> None:
    """From LATE on: its replies may have come. Without them that is the end of its connection, whatever is asked
    meanwhile."""
    pipe = await at.connected()
    at.submit("a")
    await at.at(0.5)
    at.stand_until(at.loop.time() + 0.51 + LATE)
    await at.at(1.01 + LATE + GRACE / 2)
    assert not pipe.closed
    at.submit("b")
    await at.at(1.01 + LATE + GRACE + 0.001)
    assert pipe.closed


@scene
async def test_replies_that_came_while_the_loop_stood_are_read(at: Bench) -> None:
    pipe = await at.connected()
    at.submit("a")
    await at.at(0.5)
    at.stand_until(2.0)
    await at.at(2.1)
    pipe.reply(1)
    assert at.settled["a"] == (2.1, 1)


@pytest.mark.parametrize("timer", ["of the connection before", "of a request that was due later"])
@scene
async def test_a_timer_that_is_replaced_fires_no_more(at: Bench, timer: str) -> None:
    """It would cut off the moment that is left after the loop stood."""
    pipe = await at.connected()
    if timer == "of the connection before":
        at.submit("a")
        await at.at(0.5)
        pipe.lost(ConnectionError("reset"))
        await at.at(0.9)
    else:
        await at.at(1.02)
        for name, deadline in (("later", 6.0), ("late", 5.0), ("early", 3.0)):
            at.submit(name, deadline)
        await asyncio.sleep(0)
        pipe.reply(1, 1, 1)
        await at.at(4.0)
        at.submit("a", deadline=4.9)
        await at.at(4.8)
    pipe = at.road.pipes[-1]
    at.stand_until(6.0)
    await at.at(6.1)
    assert not pipe.closed
    pipe.reply(1)
    assert at.settled["a"] == (6.1, 1)


@scene
async def test_what_waits_is_given_a_moment_where_the_loop_stood(at: Bench) -> None:
    """From LATE on."""
    at.road.up.clear()
    at.submit("a")
    await at.at(0.5)
    at.stand_until(1.0 + LATE)
    await at.at(1.5)
    assert at.unanswered("a") == round(1.0 + LATE + GRACE, 6)


@scene
async def test_what_waits_is_given_a_moment_once(at: Bench) -> None:
    at.road.up.clear()
    at.submit("a")
    for moment in (1.5, 1.9, 2.4):
        await asyncio.sleep(0.01)
        at.stand_until(moment)
    await asyncio.sleep(0.01)
    assert at.unanswered("a") == 1.9


@scene
async def test_what_waited_behind_a_batch_is_given_a_moment_where_the_loop_stood(at: Bench) -> None:
    """From LATE on."""
    pipe = await at.connected()
    at.submit("a")
    await at.at(0.5)
    at.submit("b", deadline=0.5 + LATE / 2)
    pipe.reply(1)
    at.stand_until(at.loop.time() + LATE)
    await asyncio.sleep(0.001)
    assert pipe.sent == [b"a", b"b"]


@scene
async def test_what_waited_behind_a_batch_ends_at_its_deadline(at: Bench) -> None:
    """The lane goes on with the next one."""
    pipe = await at.connected()
    at.submit("a")
    await at.at(0.5)
    at.submit("b", deadline=0.5 + LATE / 4)
    pipe.reply(1)
    at.stand_until(0.5 + LATE / 2)
    await asyncio.sleep(0.001)
    assert at.unanswered("b") == 0.5 + LATE / 2
    at.submit("c")
    await asyncio.sleep(0.001)
    assert pipe.sent == [b"a", b"c"]


@scene
async def test_what_was_submitted_before_the_loop_stood_is_sent(at: Bench) -> None:
    """Also where the timer of an earlier batch has its turn first."""
    pipe = await at.connected()
    await at.at(0.99)
    at.loop.call_at(0.995, at.submit, "a", 1.15)
    at.stand_until(1.2)
    await asyncio.sleep(0.001)
    assert pipe.sent == [b"a"]


# What comes back


@scene
async def test_bytes_that_are_no_reply_end_the_connection(at: Bench) -> None:
    pipe = await at.connected()
    at.submit("a")
    await asyncio.sleep(0)
    pipe.reply(ValueError("no reply"))
    await asyncio.sleep(0.01)
    assert pipe.closed and at.road.pipes[1].sent == [b"a"]


READONLY, NOREPLICAS = ResponseError("READONLY now"), ResponseError("NOREPLICAS now")
ERRORS: list[tuple[list[Exception], list[int]]] = [
    ([READONLY, READONLY], [logging.WARNING, logging.DEBUG]),
    ([READONLY, NOREPLICAS], [logging.WARNING, logging.WARNING]),
    ([ValueError("no reply"), ValueError("no reply")], [logging.WARNING, logging.WARNING]),
]


@pytest.mark.parametrize(("errors", "levels"), ERRORS)
@scene
async def test_a_cause_is_told_once(
    at: Bench, errors: list[Exception], levels: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Requests that come meanwhile meet it again."""
    caplog.set_level(logging.DEBUG, batch.__name__)
    await at.connected()
    at.submit("a")
    for error in errors:
        await asyncio.sleep(0.01)
        at.road.pipes[-1].reply(error)
    told = [record.levelno for record in caplog.records if "connection was dropped" in record.getMessage()]
    assert told == levels
