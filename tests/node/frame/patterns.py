"""Handlers that do things side by side, in the ways that authors do.

Each gets `do(key)`, which runs an effect under `once`, and `ask(text)`. It returns a text that says what it heard, in
the order in which it heard it. Effects end in the order of `RANKS`, whatever order they are begun in. An effect whose
key is in `HELD` ends after `late()` was called in the handler, which is what a timer of its does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import anyio

RANKS = {"b": 0, "c": 1, "a": 2}
HELD = ("slow",)
BRIEF = 0.02
"""Seconds of the handlers' own timers."""


class Doing(NamedTuple):
    """What a handler may do."""

    do: Callable[[str], Awaitable[str]]
    ask: Callable[[str], Awaitable[str]]
    late: Callable[[], None]


Pattern = Callable[[Doing], Awaitable[str]]


async def gather(doing: Doing) -> str:
    return " ".join(await asyncio.gather(*map(doing.do, "abc")))


async def task_group(doing: Doing) -> str:
    heard: list[str] = []

    async def one(key: str) -> None:
        heard.append(await doing.do(key))

    async with asyncio.TaskGroup() as group:
        for key in "abc":
            group.create_task(one(key))
    return " ".join(heard)


async def as_completed(doing: Doing) -> str:
    return " ".join([await found for found in asyncio.as_completed([_task(doing, key) for key in "abc"])])


async def first_completed(doing: Doing) -> str:
    waiting, heard = {_task(doing, key) for key in "abc"}, []
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        heard.append("+".join(sorted(task.result() for task in done)))
    return " ".join(heard)


async def callbacks(doing: Doing) -> str:
    heard: list[str] = []
    tasks = [_task(doing, key) for key in "abc"]
    for task in tasks:
        task.add_done_callback(lambda done: heard.append(done.result()))
    await asyncio.wait(tasks)
    await asyncio.sleep(0)
    return " ".join(heard)


async def timeout_beside_an_effect(doing: Doing) -> str:
    """The cache is slow, so the database is asked, too."""
    cache = _task(doing, "slow")
    done, _ = await asyncio.wait([cache], timeout=BRIEF)
    heard = ["cache" if done else await doing.do("b")]
    doing.late()
    return " ".join([*heard, await cache])


async def timeout_beside_a_question(doing: Doing) -> str:
    """Whoever does not say so in time is reminded."""
    task = asyncio.ensure_future(doing.ask("color?"))
    done, _ = await asyncio.wait([task], timeout=BRIEF)
    heard = ["in time"] if done else [await doing.do("b")]
    return " ".join([*heard, await task])


async def queues(doing: Doing) -> str:
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def worker(key: str) -> None:
        await queue.put(await doing.do(key))

    workers = [asyncio.create_task(worker(key)) for key in "abc"]
    heard = [await queue.get() for _ in workers]
    return " ".join(heard)


async def locks(doing: Doing) -> str:
    lock, heard = asyncio.Lock(), []

    async def one(key: str) -> None:
        first = await doing.do(key)
        async with lock:
            heard.append(f"{first}{await doing.do(f'then {key}')}")

    await asyncio.gather(*map(one, "abc"))
    return " ".join(heard)


async def events(doing: Doing) -> str:
    event, heard = asyncio.Event(), []

    async def sets(key: str) -> None:
        heard.append(await doing.do(key))
        event.set()

    async def waits() -> None:
        await event.wait()
        heard.append("woken")

    await asyncio.gather(waits(), sets("b"), sets("a"))
    return " ".join(heard)


async def threads(doing: Doing) -> str:
    """Two threads have effects run, and ask."""
    loop, heard = asyncio.get_running_loop(), list[str]()

    def one(key: str) -> None:
        heard.append(asyncio.run_coroutine_threadsafe(_coroutine(doing.do(key)), loop).result())

    await asyncio.gather(*(asyncio.to_thread(one, key) for key in "ab"))
    return " ".join(sorted(heard))


async def streams_of_anyio(doing: Doing) -> str:
    send, receive = anyio.create_memory_object_stream[str](3)

    async def one(key: str) -> None:
        await send.send(await doing.do(key))

    async with anyio.create_task_group() as group:
        for key in "abc":
            group.start_soon(one, key)
        heard = [await receive.receive() for _ in range(3)]
    send.close()
    receive.close()
    return " ".join(heard)


async def questions_beside_effects(doing: Doing) -> str:
    heard: list[str] = []

    async def asks(text: str) -> None:
        heard.append(await doing.ask(text))

    await asyncio.gather(asks("color?"), _hears(doing, "a", heard), asks("size?"), _hears(doing, "b", heard))
    return " ".join(heard)


async def a_race_of_answer_and_effect(doing: Doing) -> str:
    """Whichever comes first decides what is asked next."""
    asked, done = asyncio.ensure_future(doing.ask("color?")), _task(doing, "b")
    first, _ = await asyncio.wait([asked, done], return_when=asyncio.FIRST_COMPLETED)
    words = "+".join(sorted(task.result() for task in first))
    await asyncio.wait([asked, done])
    return f"{words} first"


async def cancelled_branches(doing: Doing) -> str:
    """The first result ends the others."""
    heard: list[str] = []
    tasks = [asyncio.create_task(_hears(doing, key, heard)) for key in "bca"]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    return heard[0]


def _task(doing: Doing, key: str) -> asyncio.Task[str]:
    return asyncio.create_task(_coroutine(doing.do(key)), name=key)


async def _coroutine(waited: Awaitable[str]) -> str:
    return await waited


async def _hears(doing: Doing, key: str, heard: list[str]) -> None:
    heard.append(await doing.do(key))


PATTERNS: dict[str, Pattern] = {
    name: found
    for name, found in list(globals().items())
    if callable(found) and functools.partial(asyncio.iscoroutinefunction, found)() and not name.startswith("_")
}
