"""An effect begins while it may, and in no other moment, whatever kind of function it is."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from framehold.frame import effect_call
from framehold.frame.effect_call import call_effect, key_reused
from tests.kit.effects import SOON
from tests.kit.processes import until

pytestmark = pytest.mark.anyio


class Door:
    """Says whether an effect may begin, and notes what ran, and in which thread it was asked."""

    def __init__(self) -> None:
        self.is_open, self.ran, self.asked = False, list[str](), list[bool]()
        self.made: Coroutine[Any, Any, str] | None = None
        self.shuts_in_threads = False
        self.gone = False

    def __call__(self) -> bool:
        in_loop = threading.current_thread() is threading.main_thread()
        self.asked.append(in_loop)
        if self.gone:
            raise asyncio.CancelledError("the frame is gone")
        if self.shuts_in_threads and not in_loop:
            self.is_open = self.shuts_in_threads = False
        return self.is_open

    async def by_loop(self) -> str:
        self.ran.append("loop")
        return "done"

    def in_a_thread(self) -> str:
        self.ran.append("thread")
        return "done"

    def in_both(self) -> Coroutine[Any, Any, str]:
        self.ran.append("thread")
        self.made, self.is_open = self.by_loop(), False
        return self.made


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Door:
    monkeypatch.setattr(effect_call, "WINDOW_POLL", 0.001)
    return Door()


def begun(door: Door, effect: Callable[[], Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(call_effect(effect, (), {}, door))


async def asks(door: Door) -> None:
    """It has been asked a few times more, on the loop."""
    before = len(door.asked)
    await until(lambda: len(door.asked) > before + 3, "the next questions")


@pytest.mark.parametrize("kind", ["by_loop", "in_a_thread"])
async def test_an_effect_waits_until_it_may_begin(door: Door, kind: str) -> None:
    running = begun(door, getattr(door, kind))
    await asks(door)
    assert door.ran == [] and all(door.asked)
    door.is_open = True
    assert await asyncio.wait_for(running, SOON) == "done" and len(door.ran) == 1


async def test_an_effect_that_came_to_its_thread_too_late_waits_on_the_loop(door: Door) -> None:
    """All threads were busy: meanwhile it may begin no more."""
    door.is_open = door.shuts_in_threads = True
    running = begun(door, door.in_a_thread)
    await until(lambda: not all(door.asked), "the question in a thread")
    door.asked.clear()
    await asks(door)
    assert door.ran == [] and all(door.asked)
    door.is_open = True
    assert await asyncio.wait_for(running, SOON) == "done" and door.ran == ["thread"]


async def test_what_a_function_returns_begins_while_it_may(door: Door) -> None:
    """A plain function has made a coroutine, and the window has shut since."""
    door.is_open = True
    running = begun(door, door.in_both)
    await until(lambda: door.made is not None, "the coroutine")
    await asks(door)
    assert door.ran == ["thread"]
    door.is_open = True
    assert await asyncio.wait_for(running, SOON) == "done" and door.ran == ["thread", "loop"]


async def test_what_may_not_begin_any_more_is_closed(door: Door) -> None:
    door.is_open = True
    running = begun(door, door.in_both)
    await until(lambda: door.made is not None, "the coroutine")
    door.gone = True
    with pytest.raises(asyncio.CancelledError, match="the frame is gone"):
        await asyncio.wait_for(running, SOON)
    assert door.made is not None and inspect.getcoroutinestate(door.made) == inspect.CORO_CLOSED


@pytest.mark.parametrize(
    ("name", "says"), [("shop.pay", "shop.pay with other arguments"), ("shop.ship", "shop.pay, not shop.ship")]
)
def test_a_key_that_stands_for_two_effects_is_told_with_both(name: str, says: str) -> None:
    assert f"once('k') stands for {says} in this call already" in str(key_reused("k", "shop.pay", name))
