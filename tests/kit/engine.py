"""A runtime without HTTP and SDK: handlers are plain coroutines over a frame, clients are method calls."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import anyio

from framehold.app import assemble
from framehold.code.codes import LoadedCode, NotKept, NotLoaded
from framehold.config import Settings
from framehold.engine.replies import Answer, Ended, Parked
from framehold.engine.runtime import Runtime
from framehold.engine.token_claims import Claims
from framehold.frame import contained
from framehold.frame.asks import Question
from framehold.frame.frame import Frame
from framehold_core import effects as fx
from framehold_core import journal
from framehold_core.ending import COMPLETED, Ending, How
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import NodeId
from framehold_core.requests import Request
from framehold_store import system_clock as clock
from framehold_store.base import Done
from framehold_store.memory import MemoryStore

Script = Callable[[Frame], Awaitable[object]]


def a_text(raw: Any) -> str:
    """Answers of these tests are texts."""
    if not isinstance(raw, str):
        raise ValueError("a text is wanted")
    return raw


def question(text: str, kind: str = "elicit") -> Question:
    """A question whose answer is a text."""
    return Question(kind, {"asks": text}, journal.digest(text.encode()), a_text)


class Carrier:
    """A request's carrier: the context of its arrival, and the texts that its client can't be asked."""

    def __init__(self, *unable: str) -> None:
        self.variables = contextvars.copy_context()
        self.handler_context: contextvars.Context | None = None
        self.ending: asyncio.Task[None] | None = None
        self.came = time.time()
        self._unable = unable

    def taken_over(self) -> None:
        """No process but this one is ever gone here."""

    may_be_passed_on = False

    def passed_on(self, address: str) -> None:
        """There is no other node here."""

    def runs_kept_code(self) -> None:
        """No code is kept here."""

    def refusal(self, asked: Question) -> object | None:
        text = asked.wire["asks"]
        return f"can't be asked {text}" if text in self._unable else None


class ScriptHandler:
    """How these tests' handlers are entered."""

    principal: str | None = None
    lifetime: float | None = None
    tool = code = definition = ""
    weight = 0
    enters_kept = False
    known: ClassVar[dict[Any, Any]] = {}
    asks = None

    def __init__(
        self,
        script: Script,
        prefilled: Mapping[str, Any] | None = None,
        *,
        reentrant: bool = False,
        strategy: str = "hold",
    ) -> None:
        self._script, self._entered = script, False
        self.prefilled: Mapping[str, Any] = dict(prefilled or {})
        self.reentrant, self.strategy, self.given = reentrant, strategy, b""

    async def enter(self, frame: Frame, given: bytes) -> None:
        if frame.dead:
            return
        outcome: object = None
        with frame.scope() as scope:
            try:
                # As a request of the SDK, whose context is given away to its handler.
                assert not self._entered, "a request enters its handler once"
                self._entered = True
                outcome = await self._script(frame)
            except Exception as error:
                outcome = error
        try:
            if not scope.cancelled_caught:
                frame.end(outcome)
        finally:
            del outcome

    def ending(self, outcome: object) -> Ending:
        return Ending(How.TOOL_ERROR, type(outcome).__name__) if isinstance(outcome, Exception) else COMPLETED

    def describe(self) -> dict[str, str]:
        return dict.fromkeys(("tool", "code", "method", "target", "args", "principal"), "")

    def written(self) -> bytes:
        raise NotKept("a script of a test has no code")

    def enter_kept(self, digest: str, kept: LoadedCode, data: bytes) -> None:
        raise NotLoaded("a script of a test has no code")

    def dump(self, outcome: object) -> bytes:
        if not isinstance(outcome, str):
            raise TypeError("this outcome has no stored form")
        return outcome.encode()

    def load(self, data: bytes) -> object:
        return data.decode()


class SilentStore(MemoryStore):
    """A store in memory that can be told to fall silent, and to keep writes of one kind back. `down` is whether it is
    silent, `held` is what it keeps back."""

    down = False
    held: list[tuple[Request, Done]]

    def submit(self, request: Request, done: Done) -> None:
        if self.down:
            asyncio.get_running_loop().call_soon(done, StoreUnavailable("the store is away"))
        else:
            super().submit(request, done)

    def hold(self, kind: type[Request]) -> None:
        """Keep the writes of this kind back until `let_go`."""
        self.held, submit = [], self.submit

        def held(request: Request, done: Done) -> None:
            if isinstance(request, kind):
                self.held.append((request, done))
            else:
                submit(request, done)

        self.submit = held

    def let_go(self) -> None:
        """Take what was kept back, and hold nothing any more."""
        del self.submit
        for request, done in self.held:
            self.submit(request, done)


class Engine:
    """Starts calls and answers their questions."""

    def __init__(self, runtime: Runtime, store: SilentStore) -> None:
        self.runtime, self.store, self.counts = runtime, store, runtime.counts

    async def start(
        self, script: Script, prefilled: Mapping[str, Any] | None = None, carrier: Carrier | None = None
    ) -> Any:
        return await self.runtime.start(ScriptHandler(script, prefilled), carrier or Carrier())

    async def parked(self, script: Script) -> Parked:
        """Start a call that is to ask."""
        answer = await self.start(script)
        assert isinstance(answer, Parked), answer
        return answer

    async def ended(self, script: Script) -> object:
        """Start a call, answer each question with its own text, and give what it came to."""
        reply: Answer = await self.start(script)
        while isinstance(reply, Parked):
            reply = await self.retry(reply, {key: wire["asks"] for key, wire in reply.questions.items()})
        assert isinstance(reply, Ended), reply
        return reply.outcome

    async def retry(self, parked: Parked, answers: Mapping[str, Any], carrier: Carrier | None = None) -> Any:
        """Send answers with the token of `parked`."""
        return await self.runtime.retry(self.claims(parked), answers, ScriptHandler(_never), carrier or Carrier())

    def claims(self, parked: Parked) -> Claims:
        return claims(parked, self.runtime)

    def frame(self, parked: Parked) -> Frame:
        """The live frame of a call."""
        slot = self.runtime.table.get(parked.call)
        assert slot is not None and slot.frame is not None, "there is no live frame"
        return slot.frame


def claims(parked: Parked, runtime: Runtime) -> Claims:
    """What the token of a reply claims that `runtime` gives now."""
    at, held = parked.at, runtime.heartbeat.lease
    named = (parked.call, at.round, at.epoch, at.position, at.round_history, NodeId(held.node), held.boot)
    return Claims(*named, parked.head)


async def _never(frame: Frame) -> object:
    raise AssertionError("a retry enters no handler")


@asynccontextmanager
async def engine(*, shared: bool = False, **settings: Any) -> AsyncIterator[Engine]:
    """An open runtime over a store in memory, which other nodes could share if `shared`."""
    store = SilentStore(clock.now)
    runtime = assemble(
        Settings(node_id="desk", lease_ttl=5.0, advertise_url="", **settings), store, shared, clock.system_clock()
    )
    loop = asyncio.get_running_loop()
    contained.contain(loop)
    await runtime.open()
    try:
        yield Engine(runtime, store)
    finally:
        await runtime.close()
        contained.release(loop)


def texts(parked: Parked) -> list[str]:
    """What a reply asks, in order."""
    return [wire["asks"] for wire in parked.questions.values()]


def reason(answer: object) -> fx.Reason:
    """Why a request was refused."""
    assert isinstance(answer, fx.Refusal), answer
    return answer.reason


async def shielded(event: asyncio.Event) -> None:
    """Wait for `event` in a handler that is cancelled."""
    with anyio.CancelScope(shield=True):
        await event.wait()


async def turns(count: int) -> None:
    """Let the loop turn this often."""
    for _ in range(count):
        await asyncio.sleep(0)
