"""How an effect is called: when it may begin, on the loop or in a thread, and under which names."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from framehold.frame import effect_call
from framehold.frame.effect_call import call_effect, key_reused, refuse_inside_effect, running_effect
from framehold.frame.rehearsal import rehearsal_observer
from framehold_core.errors import AskError
from tests.kit.effects import SOON
from tests.kit.engine import turns

pytestmark = pytest.mark.anyio


class Window:
    """A lease's window that an effect is to begin in, and the threads in which it was looked at while it was shut."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.is_open, self.is_over, self.looked = is_open, False, list[str]()
        self.ran: list[str] = []

    def may_begin(self) -> bool:
        assert len(self.looked) < 200, "it is looked at without a pause"
        if self.is_over:
            raise asyncio.CancelledError("gone")
        if not self.is_open:
            self.looked.append(threading.current_thread().name)
        return self.is_open

    async def runs(self) -> str:
        assert self.is_open
        self.ran.append("it")
        await asyncio.sleep(0)
        return "done"

    def returns_work(self) -> Coroutine[Any, Any, str]:
        """The window shuts while this runs in its thread."""
        self.is_open = False
        return self.runs()


@pytest.fixture
async def thread(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ThreadPoolExecutor]:
    """The only thread that effects have."""
    with ThreadPoolExecutor(1, "only") as only:
        monkeypatch.setattr(effect_call, "_threads", only)
        yield only


async def passes(thread: ThreadPoolExecutor, times: int = 5) -> None:
    """What waited for the thread, and for the loop, had its turn."""
    for _ in range(times):
        await turns(5)
        await asyncio.wrap_future(thread.submit(int))


@pytest.mark.parametrize("kind", ["coroutine function", "function that returns a coroutine"])
async def test_what_runs_on_the_loop_begins_while_the_window_is_open(kind: str, thread: ThreadPoolExecutor) -> None:
    window = Window(is_open=kind != "coroutine function")
    fn = window.runs if kind == "coroutine function" else window.returns_work
    calling = asyncio.create_task(call_effect(fn, (), {}, window.may_begin))
    await passes(thread)
    assert window.ran == [] and not calling.done()
    window.is_open = True
    assert await asyncio.wait_for(calling, SOON) == "done" and window.ran == ["it"]


async def test_a_shut_window_is_not_looked_at_in_thread_after_thread(thread: ThreadPoolExecutor) -> None:
    """All threads were busy until it shut: the effect takes one again when the window is open."""
    window, busy = Window(is_open=True), threading.Event()
    thread.submit(busy.wait, SOON)
    calling = asyncio.create_task(call_effect(lambda: "done", (), {}, window.may_begin))
    await turns(5)
    window.is_open = False
    busy.set()
    await passes(thread)
    assert [name for name in window.looked if name.startswith("only")] == window.looked[:1]
    window.is_open = True
    assert await asyncio.wait_for(calling, SOON) == "done"


async def test_work_that_must_not_begin_any_more_is_closed(thread: ThreadPoolExecutor) -> None:
    """Its function has run in a thread; what it returned is not awaited, and leaves no warning."""
    window, work = Window(is_open=True), list[Coroutine[Any, Any, str]]()

    def returns_work() -> Awaitable[str]:
        window.is_over = True
        work.append(window.runs())
        return work[0]

    with pytest.raises(asyncio.CancelledError, match="gone"):
        await call_effect(returns_work, (), {}, window.may_begin)
    assert inspect.getcoroutinestate(work[0]) == inspect.CORO_CLOSED and window.ran == []


async def test_a_coroutine_function_needs_no_thread(thread: ThreadPoolExecutor) -> None:
    busy = threading.Event()
    thread.submit(busy.wait, 2 * SOON)
    try:
        window = Window(is_open=True)
        assert await asyncio.wait_for(call_effect(window.runs, (), {}, window.may_begin), SOON) == "done"
    finally:
        busy.set()


class Observer:
    """Notes the keys of the effects that it runs."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def effect(self, key: str, call: partial[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        self.keys.append(key)
        return await run()


@pytest.mark.parametrize("key", [None, "k"])
async def test_who_rehearses_a_call_is_told_the_key_of_each_effect(key: str | None) -> None:
    """None is told where an effect is called outside of `once`."""
    watching, window, context = Observer(), Window(is_open=True), contextvars.copy_context()
    context.run(rehearsal_observer.set, watching)  # type: ignore[arg-type]  # nothing else of it is called
    context.run(running_effect.set, key)
    assert await asyncio.create_task(call_effect(window.runs, (), {}), context=context) == "done"
    assert watching.keys == [key or ""]


@pytest.mark.parametrize(
    ("name", "found"), [("mail", "mail with other arguments"), ("pay", "mail, not pay")], ids=["one", "two"]
)
def test_the_error_for_a_key_that_is_used_again_names_both_effects(name: str, found: str) -> None:
    assert str(key_reused("k", "mail", name)).startswith(f"once('k') stands for {found} in this call already;")


def test_what_an_effect_must_not_do_is_refused_with_the_key_of_the_effect() -> None:
    refuse_inside_effect("a question")
    context = contextvars.copy_context()
    context.run(running_effect.set, "k")
    with pytest.raises(AskError, match=r"a question inside the effect of once\('k'\)"):
        context.run(refuse_inside_effect, "a question")
