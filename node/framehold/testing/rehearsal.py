"""A call that is played several times, each time on nodes of its own.

    hold      one node: the frame waits in memory
    replay    one node: each answer enters the handler again, from the journal in the token
    rebuild   one node for each round, over one store: the previous node is closed, the next claims the call and
              rebuilds its frame

Effects of `once` run while the call is held; in the other ways they get the result of that run. The random values of a
call come from the same seed in all ways, and its time stands still. So the handler causes every difference.
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
from ..frame.effect_call import running_effect
from ..frame.rehearsal import rehearsal_observer
from .client_script import Asked, RehearsalFailed, Script, difference, differing, read
from .mistakes import MISUSE, logged_exceptions, unawaited
from .recorded_effects import Effects
from .server_double import Original, Reply, opened

Way = Literal["hold", "replay", "rebuild"]

PAUSE = 0.05
"""Seconds until a client that was asked nothing sends its next request. The SDK's own client waits as long."""


class Steady:
    """A source of time and random values: the time stands still at `instant` (seconds since the epoch), and the values
    come from `seed` (up to 64 bytes)."""

    def __init__(self, seed: bytes, instant: float) -> None:
        self._seed, self._instant = seed, instant
        self._drawn: Counter[str] = Counter()
        self._calls = itertools.count(1)

    def now(self) -> float:
        """The time, in seconds since the epoch. It is always the same."""
        return self._instant

    def draw(self, key: str) -> bytes:
        """16 bytes for `key`; for an empty key, bytes for the effect that runs. Each further draw for the same key or
        effect gives other bytes, so that a value which was lost, and is drawn again, shows as a difference."""
        what = f"value {key}" if key else f"effect {running_effect.get()}"
        self._drawn[what] += 1
        return self._bytes(f"{self._drawn[what]} {what}")

    def call(self) -> CallId:
        """The id of the next call. A handler that parks by hand begins a new call in each round."""
        return CallId(self._bytes(f"call {next(self._calls)}").hex())

    def _bytes(self, what: str) -> bytes:
        return hashlib.blake2b(what.encode("utf-8", "surrogatepass"), key=self._seed, digest_size=16).digest()


@dataclass
class Run:
    """A call that was played in one way, and the rehearsal observer of that.

    - `way`, `entropy`, `known`, `allow_misuse`: its way, its time and random values, the effects of the held call, and
      whether misuse of Framehold is allowed
    - `asked`, `effects`: its questions, and the keys of its effects, in order
    - `reply`: the reply to its last request
    - `raised`: the last exception of the handler, if the SDK hides it from the client
    - `failure`: the first fault that was found in this run alone, without a comparison
    """

    way: Way
    entropy: Steady
    known: Effects
    allow_misuse: bool = False
    asked: list[Asked] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    reply: Reply = field(default_factory=dict)
    raised: BaseException | None = None
    failure: Exception | None = None

    def ran(self, key: str) -> None:
        """Count an effect that begins."""
        self.effects.append(key)

    async def effect(self, key: str, call: partial[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """Run an effect while the call is held; in the other ways return the result of that run, or raise its error."""
        self.ran(key)
        if self.way == "hold":
            return await self.known.run(key, call, run)
        try:
            return self.known.again(key, self.effects.count(key), call)
        except RehearsalFailed as error:
            self.fails(f"the call differs under {self.way}: {error}")
            raise

    def misused(self, error: Exception) -> None:
        """The handler misused Framehold, and got `error`."""
        if not self.allow_misuse:
            self.fails(f"the call misuses framehold: {error} (under {self.way})")

    def broke(self, error: BaseException) -> None:
        """The handler raised `error`."""
        self.raised = error
        if isinstance(error, MISUSE):
            self.misused(error)

    def refused(self, refusal: Refusal) -> None:
        """The call ended with a refusal of the node, not with a result of its handler."""
        what = "the call diverges" if refusal.reason is Reason.DIVERGED else f"the call ends ({refusal.reason.value})"
        self.fails(f"{what} under {self.way}, after {self.last()}: {refusal.detail or 'its handler is not continued'}")

    def fails(self, why: str) -> None:
        """Fail the run. The first reason is kept."""
        self.failure = self.failure or RehearsalFailed(why)

    def last(self) -> str:
        """A text that names the last question."""
        return f"question {len(self.asked)}, {self.asked[-1]}" if self.asked else "no question"


class Act(NamedTuple):
    """A call to play.

    - `original`: the server to double, and its key
    - `method`, `params`: those of the call's first request; the parameters are JSON
    - `seed`, `instant`: as for `Steady`
    - `timeout`: seconds that each way may take
    - `allow_misuse`: whether the handler may misuse Framehold
    """

    original: Original
    method: str
    params: dict[str, Any]
    seed: bytes
    instant: float
    timeout: float
    allow_misuse: bool

    async def play(self, way: Way, script: Script, known: Effects) -> Run:
        """Play the call from its first request to its end, or to the first fault. `known` are the effects of the held
        call."""
        run = Run(way, Steady(self.seed, self.instant), known, self.allow_misuse)
        before, limit = rehearsal_observer.set(run), asyncio.timeout(self.timeout)
        try:
            with unawaited():
                async with limit:
                    await self._rounds(run, script)
        except TimeoutError:
            if not limit.expired():
                raise
            run.fails(f"the call did not end in {self.timeout:g} s under {way}; it was cancelled after {run.last()}")
        finally:
            rehearsal_observer.reset(before)
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
                    node = opened(self.original, self.method, strategy, f"{run.way}-{round_}", store, run.entropy.call)
                    send = await stack.enter_async_context(node)
                with logged_exceptions(run):
                    run.reply = reply = await send(params)
                if run.failure is not None or isinstance(reply, types.ErrorData):
                    return
                if reply.get("resultType") != "input_required":
                    return
                asked = read(reply.get("inputRequests") or {}, round_)
                try:
                    given = answers(asked, run.asked)
                except Exception as error:
                    # Not raised here: the author's lifespan is on the way, and may turn it into another error.
                    run.failure = error
                    return
                run.asked += asked
                if not asked:
                    await asyncio.sleep(PAUSE)
                back = {"inputResponses": given, "requestState": reply.get("requestState")}
                params = {**self.params, **{name: value for name, value in back.items() if value}}


def compare(held: Run, other: Run, script: Script) -> None:
    """Compare a run with the held one.

    Raises:
        RehearsalFailed: they differ. The text has the first difference.
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
