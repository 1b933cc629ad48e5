"""The thread that looks what an event loop is busy with: what it sees, how long it stays, and what it leaves behind."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from framehold.telemetry import sampler
from framehold.telemetry.sampler import LINGER, MAX_LOOKS, WINDOW_SECONDS, Look, Sampler, Seen, summary
from framehold.telemetry.stacks import PARTS
from tests.processes import DEADLINE, until

pytestmark = pytest.mark.alone

HERE = __name__


@asynccontextmanager
async def looking(now: Callable[[], float] = time.monotonic) -> AsyncIterator[Sampler]:
    """A sampler that has begun."""
    made = Sampler(frozenset, now)
    try:
        made.ask()
        await until(lambda: made.thread, "a thread")
        yield made
    finally:
        made.close()


def burn(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def seen(looks: Sampler, samples: int, meanwhile: Callable[[], Any] = lambda: None) -> Seen:
    """What was seen in at least so many looks."""
    while (result := looks.ask()).samples < samples:
        meanwhile()
        await asyncio.sleep(0.01)
    return result


def test_a_quiet_loop_is_idle(run: Callable[[Awaitable[None]], None]) -> None:
    async def quiet() -> None:
        async with looking() as looks:
            result = await seen(looks, 25)
            async with asyncio.timeout(DEADLINE):
                # Where others have the processor the little that it does takes longer: it evens out.
                while result.parts["idle"] <= 0.9:
                    result = await seen(looks, result.samples + 5)
            assert list(result.parts) == list(PARTS) and sum(result.parts.values()) == pytest.approx(1)

    run(quiet())


def test_a_busy_function_is_seen_by_its_name(run: Callable[[Awaitable[None]], None]) -> None:
    async def busy() -> None:
        async with looking() as looks:
            result = await seen(looks, 20, lambda: burn(0.1))
            assert result.parts["handlers"] > 0.5
            assert result.hot[0][0] == f"{HERE}.burn:{burn.__code__.co_firstlineno}" and result.hot[0][1] > 0.5

    run(busy())


def test_work_in_short_bursts_is_seen(run: Callable[[Awaitable[None]], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits for the interpreter gets it when the loop has done its work and waits: by looks alone, and
    without the processor's time, the loop would be idle."""
    monkeypatch.setattr(sampler, "_cpu_clock", lambda ident: lambda: 0.0)

    async def bursts() -> None:
        async with looking() as looks:
            # About half of the time; a handful of looks may see less of it, but not all of them nothing.
            async with asyncio.timeout(DEADLINE):
                while (result := looks.ask()).samples < 40 or result.parts["handlers"] <= 0.25:
                    burn(0.004)
                    await asyncio.sleep(0.004)

    run(bursts())


def test_a_call_that_keeps_the_interpreter_counts_for_all_of_its_time(
    run: Callable[[Awaitable[None]], None],
) -> None:
    """Nobody can look meanwhile."""

    def keep() -> int:
        return sum(range(20_000_000))

    async def kept() -> None:
        async with looking() as looks:
            await seen(looks, 2)
            began = time.monotonic()
            keep()
            took = time.monotonic() - began
            result = await seen(looks, 6)
            assert result.parts["handlers"] * result.seconds > 0.6 * took

    run(kept())


def test_the_setting_of_the_interpreter_is_put_back() -> None:
    """By samplers of several nodes in a process too."""
    usual = sys.getswitchinterval()

    async def together() -> None:
        async with looking() as one, looking() as other:
            await seen(one, 8)
            await seen(other, 8)

    asyncio.run(together())
    assert sys.getswitchinterval() == usual


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


async def test_the_thread_ends_when_nobody_has_asked_for_a_while() -> None:
    clock = Clock()
    async with looking(clock) as looks:
        thread = looks.thread
        assert thread is not None and thread.daemon
        clock.at += LINGER - 1
        assert looks.ask().samples >= 0
        clock.at += LINGER - 1
        kept = len(looks._looks)
        await until(lambda: len(looks._looks) > kept + 1, "further looks")
        assert thread.is_alive() and looks.thread is thread, "it was asked less than 30 s ago"
        clock.at += 1
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive() and looks.thread is None


async def test_whoever_asks_after_its_end_begins_anew() -> None:
    """What was seen before says nothing of the time between."""
    clock = Clock()
    async with looking(clock) as looks:
        first = looks.thread
        assert first is not None
        await until(lambda: looks.ask().samples, "a look")
        clock.at += LINGER
        await asyncio.to_thread(first.join, 10)
        assert looks.ask() == Seen(0.0, 0, {}, [])
        await until(lambda: looks.thread, "another thread")
        assert looks.thread is not first


async def test_nothing_is_left_once_it_is_closed() -> None:
    async with looking() as looks:
        thread = looks.thread
        assert thread is not None
        looks.close()
        assert not thread.is_alive() and looks.thread is None
        looks.close()
    looks = Sampler(frozenset)
    looks.ask()
    looks.close()
    await asyncio.sleep(0)
    assert looks.thread is None, "closed before it had begun"
    assert "framehold-sampler" not in {thread.name for thread in threading.enumerate()}


def test_another_loop_is_looked_at_anew(run: Callable[[Awaitable[None]], None]) -> None:
    """A process may run one loop after another: what looks at the first tells nothing of the second."""
    looks = Sampler(frozenset)

    async def begins() -> None:
        await seen(looks, 1)

    async def goes_on() -> None:
        assert looks.ask().samples == 0
        result = await seen(looks, 3)
        assert result.parts["idle"] > 0.5, result

    try:
        asyncio.run(begins())
        first = looks.thread
        run(goes_on())
        assert first is not None and looks.thread is not first
        first.join(10)
        assert not first.is_alive() and looks.thread is not None
    finally:
        looks.close()


async def test_a_thread_that_could_not_begin_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has only so many; whoever asks is answered all the same."""
    looks = Sampler(frozenset)
    result: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: result.append(what["exception"]))

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        looks.ask()
        await until(lambda: result, "a refusal")
    assert looks.ask() == Seen(0.0, 0, {}, [])
    await until(lambda: looks.ask().samples, "a look")
    looks.close()


async def test_asked_at_once_by_many_one_thread_looks() -> None:
    async with looking() as looks:
        for _ in range(5):
            looks.ask()
        await asyncio.sleep(0)
        assert [thread.name for thread in threading.enumerate()].count("framehold-sampler") == 1


async def test_the_last_minute_is_told_and_no_more() -> None:
    clock = Clock()
    async with looking(clock) as looks:
        await until(lambda: looks.ask().samples, "a look")
        for _ in range(3):
            clock.at += LINGER - 1
            looks.ask()
        old = len(looks._looks)
        await until(lambda: len(looks._looks) > old, "a look of now")
        result = looks.ask()
        young = [kept for kept in tuple(looks._looks) if kept.at >= clock.at - WINDOW_SECONDS]
        assert 0 < result.samples <= len(young) < len(looks._looks) <= MAX_LOOKS


def look(part: str, seconds: float = 1.0, cpu: float = 0.0, where: str = "m.f:1") -> Look:
    return Look(0.0, seconds, cpu, part, "" if part == "idle" else where)


def test_each_look_counts_by_the_time_that_it_stands_for() -> None:
    result = summary([look("idle", 6), look("handlers", 3, where="m.slow:1"), look("store", 1)])
    assert {part: share for part, share in result.parts.items() if share} == pytest.approx(
        {"idle": 0.6, "handlers": 0.3, "store": 0.1}
    )
    assert result.hot == [("m.slow:1", 0.75), ("m.f:1", 0.25)] and (result.seconds, result.samples) == (10, 3)


def test_what_the_thread_took_of_the_processor_was_not_idle() -> None:
    """It is what it was seen at when it was seen at work; what never was is told as other."""
    result = summary([look("idle", 8, cpu=3), look("handlers", 1, cpu=1), look("store", 1, cpu=1)])
    assert result.parts["idle"] == pytest.approx(0.5)
    assert result.parts["handlers"] == result.parts["store"] == pytest.approx(0.25)
    unseen = summary([look("idle", 10, cpu=2)])
    assert (unseen.parts["idle"], unseen.parts["other"], unseen.hot) == (0.8, 0.2, [])


def test_a_handler_that_waits_keeps_the_loop_though_it_takes_no_processor() -> None:
    assert summary([look("handlers", 5), look("idle", 5)]).parts["handlers"] == 0.5


def test_more_of_the_processor_than_there_was_time_is_no_more_than_all() -> None:
    """Two clocks never agree wholly."""
    result = summary([look("idle", 1, cpu=1.5), look("store", 1, cpu=1)])
    assert result.parts["idle"] == 0 and result.parts["store"] == 1 and sum(result.parts.values()) == 1


def test_without_a_look_nothing_is_told() -> None:
    assert summary([]) == Seen(0.0, 0, {}, [])
