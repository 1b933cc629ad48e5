"""Each way to do things side by side goes on to the same end after a kill at each recorded step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

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
from tests.node.desk import Card, Desk, Moody, Talk, question
from tests.node.frame.patterns import HELD, PATTERNS, RANKS, Doing, Pattern

pytestmark = pytest.mark.anyio


class Heard(Moody):
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

    async def ends(self, reply: Any, talk: Callable[[], Talk]) -> str:
        while isinstance(reply, Parked):
            answers = {key: wire["asks"] for key, wire in reply.questions.items()}
            claims = Desk(self._runtime, self._store).claims(reply)
            self.rounds.append((len(self._store.requests), claims, answers))
            reply = await self._runtime.retry(claims, answers, talk(), Card())
        assert isinstance(reply, Ended) and isinstance(reply.outcome, str), reply
        return reply.outcome


@pytest.mark.parametrize("name", PATTERNS)
async def test_it_goes_on_to_the_same_end_after_a_kill_at_each_step(name: str) -> None:
    store, world = Heard(), World()

    def talk(of: World) -> Callable[[], Talk]:
        handler = of.handler(PATTERNS[name])
        return lambda: Talk(handler, reentrant=True)

    async with node("first", store) as runtime:
        client = Client(runtime, store)
        text = await client.ends(await runtime.start(talk(world)(), Card()), talk(world))
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
            then = talk(World(*ended))
            reply = await runtime.retry(claims, answers, then(), Card())
            assert (kill, ended, await Client(runtime, again).ends(reply, then)) == (kill, ended, text)
