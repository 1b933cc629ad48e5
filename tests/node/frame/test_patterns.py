"""Each way to do things side by side goes on to the same end after a kill at each recorded step.

Each pattern gets `do(key)`, which runs an effect under `once`, and `ask(text)`. It returns a text that says what it
heard, in the order in which it heard it. Effects end in the order of `RANKS`, whatever order they are begun in. An
effect whose key is in `HELD` ends after `late()` was called in the handler, which is what a timer of its does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import pytest

from framehold.app import assemble
from framehold.config import Settings
from framehold.engine.replies import Ended, Parked
from framehold.engine.runtime import Runtime
from framehold.engine.token_claims import Claims
from framehold.frame.frame import Frame
from framehold_core.errors import StoreUnavailable
from framehold_core.journal import EntryKind, decode_all
from framehold_core.requests import Reply, Request
from framehold_store import system_clock as clock
from tests.kit.engine import Carrier, Engine, ScriptHandler, SilentStore, question

pytestmark = pytest.mark.anyio

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


async def as_completed(doing: Doing) -> str:
    return " ".join([await found for found in asyncio.as_completed([_task(doing, key) for key in "abc"])])


async def first_completed(doing: Doing) -> str:
    waiting, heard = {_task(doing, key) for key in "abc"}, []
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        heard.append("+".join(sorted(task.result() for task in done)))
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


PATTERNS: tuple[Pattern, ...] = (
    gather,
    as_completed,
    first_completed,
    timeout_beside_an_effect,
    timeout_beside_a_question,
    queues,
    locks,
    events,
    threads,
    streams_of_anyio,
    questions_beside_effects,
    a_race_of_answer_and_effect,
    cancelled_branches,
)


class Heard(SilentStore):
    """A store that keeps all requests that change a call."""

    def __init__(self) -> None:
        super().__init__(clock.now)
        self.requests: list[Request] = []

    def submit(self, request: Request, done: Callable[[Reply | StoreUnavailable], None]) -> None:
        if hasattr(request, "fence"):
            self.requests.append(request)
        super().submit(request, done)


class World:
    """What is outside of processes: which effects have ended, for good."""

    def __init__(self, *ended: str) -> None:
        self._ended = set(ended)
        self._moved = asyncio.Condition()
        self._late = asyncio.Event()

    async def effect(self, key: str) -> str:
        """Ends when all have ended that are to end before it."""
        if key in HELD:
            await self._late.wait()
        before = {other for other, rank in RANKS.items() if rank < RANKS.get(key, 0)}
        async with self._moved:
            await self._moved.wait_for(lambda: before & self._begun <= self._ended)
            self._ended.add(key)
            self._moved.notify_all()
        return key

    def handler(self, pattern: Pattern) -> Callable[[Frame], Any]:
        """A handler that asks, does as the pattern says, asks what it has heard, and ends with that."""

        async def run(frame: Frame) -> str:
            async def do(key: str) -> str:
                self._begun.add(key)
                return str(await frame.recorded.once(key, self.effect, (key,), {}, True))

            async def ask(text: str) -> str:
                return str(await frame.ask(question(text)))

            await ask("begin?")
            text = await pattern(Doing(do, ask, self._late.set))
            return f"{text} / {await ask(f'{text}?')}"

        self._begun = set(self._ended)
        return run


@asynccontextmanager
async def node(name: str, store: Heard) -> AsyncIterator[Runtime]:
    runtime = assemble(
        Settings(node_id=name, lease_ttl=5.0, advertise_url="", max_round=10, keys=("k" * 40,)),
        *(store, True, clock.system_clock()),
    )
    await runtime.open()
    try:
        yield runtime
    finally:
        await runtime.close()


class Client:
    """Answers questions with their own texts until a call has ended. `rounds` has what it sent for each: how many
    requests the store had had before, the claims of the token, and the answers."""

    def __init__(self, runtime: Runtime, store: Heard) -> None:
        self._runtime, self._store = runtime, store
        self.rounds: list[tuple[int, Claims, dict[str, str]]] = []

    async def ends(self, reply: Any, handler_entry: Callable[[], ScriptHandler]) -> str:
        while isinstance(reply, Parked):
            answers = {key: wire["asks"] for key, wire in reply.questions.items()}
            claims = Engine(self._runtime, self._store).claims(reply)
            self.rounds.append((len(self._store.requests), claims, answers))
            reply = await self._runtime.retry(claims, answers, handler_entry(), Carrier())
        assert isinstance(reply, Ended) and isinstance(reply.outcome, str), reply
        return reply.outcome


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_it_goes_on_to_the_same_end_after_a_kill_at_each_step(pattern: Pattern) -> None:
    store, world = Heard(), World()

    def handler_entry(of: World) -> Callable[[], ScriptHandler]:
        handler = of.handler(pattern)
        return lambda: ScriptHandler(handler, reentrant=True)

    async with node("first", store) as runtime:
        client = Client(runtime, store)
        text = await client.ends(await runtime.start(handler_entry(world)(), Carrier()), handler_entry(world))
    requests = store.requests
    assert text.count("/") == 1 and len(requests) >= 4
    for kill in range(1, len(requests)):
        again = Heard()
        for item in requests[:kill]:
            await again.run(item)
        stored = again._calls[requests[0].call]
        ended = [item.key for item in decode_all(stored.journal) if item.kind is EntryKind.EFFECT]
        _, claims, answers = [sent for sent in client.rounds if sent[0] <= kill][-1]
        async with node("second", again) as runtime:
            then = handler_entry(World(*ended))
            reply = await runtime.retry(claims, answers, then(), Carrier())
            assert (kill, ended, await Client(runtime, again).ends(reply, then)) == (kill, ended, text)
