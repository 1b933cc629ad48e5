"""A call that is played several times, each time on nodes of its own.

    hold      one node: the frame waits in memory
    replay    one node: each answer enters the handler anew, from the journal in the token
    rebuild   a node for each round over one store: the one before is closed, the next claims the call and rebuilds it

Effects of `once` run while it is held; the other ways are given what they came to.
The values of a call come from one seed in all of them, and its time stands still: what differs is the handler's doing.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import mcp_types as types

from framehold_core.effects import Reason, Refusal
from framehold_core.ids import CallId
from framehold_core.replay import DEPENDS
from framehold_store.memory import MemoryStore

from .. import clock
from ..calling import inside
from ..witness import witness
from .double import Original, Reply, opened
from .effects import Effects
from .mistakes import MISUSE, overheard, unawaited
from .script import Asked, RehearsalFailed, Script, difference, differing, read

Way = Literal["hold", "replay", "rebuild"]

PAUSE = 0.05
"""Seconds until a client that was asked nothing sends its next request, as the SDK's own has it."""


class Steady:
    """Time that stands still (seconds since the epoch), and randomness from a seed (up to 64 bytes)."""

    def __init__(self, seed: bytes, instant: float) -> None:
        self._seed, self._instant = seed, instant
        self._drawn: Counter[str] = Counter()
        self._calls = itertools.count(1)

    def now(self) -> float:
        """The instant."""
        return self._instant

    def draw(self, key: str) -> bytes:
        """16 bytes: the same for the same key, or for the same effect where nothing is recorded. Drawn again they are
        others, so that a value which got lost shows."""
        what = f"value {key}" if key else f"effect {inside.get()}"
        self._drawn[what] += 1
        return self._bytes(f"{self._drawn[what]} {what}")

    def call(self) -> CallId:
        """The id of the next call: a handler that parks by hand begins one each round."""
        return CallId(self._bytes(f"call {next(self._calls)}").hex())

    def _bytes(self, what: str) -> bytes:
        return hashlib.blake2b(what.encode("utf-8", "surrogatepass"), key=self._seed, digest_size=16).digest()


@dataclass
class Run:
    """A call as it was played in one way, and its witness. `reply` is what the last request got; `raised` what the
    handler raised last, if the SDK keeps it from the client; `failure` what is wrong with this run by itself."""

    way: Way
    chance: Steady
    known: Effects
    allow_misuse: bool = False
    asked: list[Asked] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    reply: Reply = field(default_factory=dict)
    raised: BaseException | None = None
    failure: Exception | None = None

    def ran(self, key: str) -> None:
        """An effect begins."""
        self.effects.append(key)

    async def effect(self, key: str, call: partial[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """An effect begins: it runs while the call is held, else it is given what it came to then."""
        self.ran(key)
        if self.way == "hold":
            return await self.known.run(key, call, run)
        try:
            return self.known.again(key, self.effects.count(key), call)
        except RehearsalFailed as error:
            self.fails(f"the call differs under {self.way}: {error}")
            raise

    def misused(self, error: Exception) -> None:
        """The handler did what it may not."""
        if not self.allow_misuse:
            self.fails(f"the call misuses framehold: {error} (under {self.way})")

    def broke(self, error: BaseException) -> None:
        """The handler raised this."""
        self.raised = error
        if isinstance(error, MISUSE):
            self.misused(error)

    def refused(self, refusal: Refusal) -> None:
        """The call has no answer here."""
        what = "the call diverges" if refusal.reason is Reason.DIVERGED else f"the call ends ({refusal.reason.value})"
        self.fails(f"{what} under {self.way}, after {self.last()}: {refusal.detail or 'its handler is not continued'}")

    def fails(self, why: str) -> None:
        """The first reason is kept."""
        self.failure = self.failure or RehearsalFailed(why)

    def last(self) -> str:
        """The last question in words."""
        return f"question {len(self.asked)}, {self.asked[-1]}" if self.asked else "no question"


class Act(NamedTuple):
    """What is played: a request's method and parameters (JSON), seed and instant as for `Steady`, how many seconds each
    way may take, and whether the handler may do what it may not."""

    original: Original
    method: str
    params: dict[str, Any]
    seed: bytes
    instant: float
    timeout: float
    allow_misuse: bool

    async def play(self, way: Way, script: Script, known: Effects) -> Run:
        """The call from its first request to its end, or to what went wrong. `known` are its effects."""
        run = Run(way, Steady(self.seed, self.instant), known, self.allow_misuse)
        before, limit = witness.set(run), asyncio.timeout(self.timeout)
        try:
            with unawaited():
                async with limit:
                    await self._rounds(run, script)
        except TimeoutError:
            if not limit.expired():
                raise
            run.fails(f"the call did not end in {self.timeout:g} s under {way}; it was cancelled after {run.last()}")
        finally:
            witness.reset(before)
        for effect, count in Counter(run.effects).items():
            if count > 1:
                run.fails(f"the effect {effect!r} of once ran {count} times under {way}")
        return run

    async def _rounds(self, run: Run, script: Script) -> None:
        answers = script.first if run.way == "hold" else partial(script.again, run.way)
        strategy: Literal["hold", "replay"] = "replay" if run.way == "replay" else "hold"
        params, store, send = self.params, MemoryStore(clock.now), None
        async with AsyncExitStack() as stack:
            for round_ in itertools.count(1):
                if send is None or run.way == "rebuild":
                    await stack.aclose()
                    node = opened(self.original, self.method, strategy, f"{run.way}-{round_}", store, run.chance.call)
                    send = await stack.enter_async_context(node)
                with overheard(run):
                    run.reply = reply = await send(params)
                if run.failure is not None or isinstance(reply, types.ErrorData):
                    return
                if reply.get("resultType") != "input_required":
                    return
                asked = read(reply.get("inputRequests") or {}, round_)
                try:
                    given = answers(asked, run.asked)
                except Exception as error:
                    # Raised from here it would pass through the author's lifespan, which may make another of it.
                    run.failure = error
                    return
                run.asked += asked
                if not asked:
                    await asyncio.sleep(PAUSE)
                back = {"inputResponses": given, "requestState": reply.get("requestState")}
                params = {**self.params, **{name: value for name, value in back.items() if value}}


def compare(held: Run, other: Run, script: Script) -> None:
    """Find the first thing in which a run differs from the one that was held.

    Raises:
        RehearsalFailed: it differs.
    """
    found = next((why for check in _CHECKS if (why := check(held, other, script)) is not None), None)
    if found is not None:
        raise RehearsalFailed(f"the call differs under {other.way}: {found}")


def _questions(held: Run, other: Run, script: Script) -> str | None:
    missing = script.unasked(other.asked)
    return None if missing is None else f"it does not ask {missing}; likely {DEPENDS}"


def _effects(held: Run, other: Run, script: Script) -> str | None:
    if Counter(held.effects) == Counter(other.effects):
        return None
    return differing("the list of effects", held.effects, other.effects)


def _replies(held: Run, other: Run, script: Script) -> str | None:
    found = difference(_shown(held.reply), _shown(other.reply), "")
    return None if found is None else differing(found[0].removeprefix(".") or "the result", *found[1:])


def _shown(reply: Reply) -> dict[str, Any]:
    if isinstance(reply, types.ErrorData):
        return {"error": reply.model_dump(by_alias=True, mode="json", exclude_none=True)}
    return {"result": reply}


_CHECKS: tuple[Callable[[Run, Run, Script], str | None], ...] = (_questions, _effects, _replies)
