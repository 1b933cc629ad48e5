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
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import mcp_types as types

from framehold_core.effects import Reason, Refusal
from framehold_core.ids import CallId
from framehold_core.replay import DEPENDS
from framehold_store.memory import MemoryStore
from framehold_store.system_clock import system_clock

from ..frame.difference import difference
from ..frame.effect_call import running_effect
from ..frame.entropy import SeededEntropy
from ..frame.rehearsal import rehearsal_observer
from ..sdk.unawaited import unawaited
from ..telemetry.failures import raised_by_author
from .client_script import HELD, AskedQuestion, ClientScript, RehearsalFailed, differing, read
from .kept_code import KeptCode
from .mistakes import MISUSE, logged_exceptions
from .recorded_effects import RecordedEffects
from .server_double import Node, Original, Reply, opened

Way = Literal["hold", "replay", "rebuild"]

Answering = Callable[[Sequence[AskedQuestion], Sequence[AskedQuestion]], dict[str, Any]]
"""Gives the answers to the questions of a round, by key, from these questions and those of earlier rounds."""

PAUSE = 0.05
"""Seconds until a client that was asked nothing sends its next request. The SDK's own client waits as long."""


class Steady(SeededEntropy):
    """A source of time and random values: the time stands still at `instant` (seconds since the epoch), and the values
    come from `seed` (up to 64 bytes)."""

    def __init__(self, seed: bytes, instant: float) -> None:
        super().__init__(seed, instant, os.urandom)
        self._drawn: Counter[str] = Counter()
        self._calls = itertools.count(1)

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
        return hashlib.blake2b(what.encode("utf-8", "surrogatepass"), key=self.seed, digest_size=16).digest()


class Park(NamedTuple):
    """Where a call waits: `params` are those of its next request, with the answers; `asked` and `effects` are how many
    questions and effects came before."""

    params: dict[str, Any]
    asked: int
    effects: int


@dataclass
class PlayedCall:
    """A call that was played in one way, and the rehearsal observer of that.

    - `way`, `entropy`, `known`, `allow_misuse`: its way, its time and random values, the effects of the held call, and
      whether misuse of Framehold is allowed
    - `asked`, `effects`: its questions, and the keys of its effects, in order
    - `asking`: the parameters of the last question that its handler came to
    - `parks`: where it waited, one for each round that asked
    - `reply`: the reply to its last request
    - `raised`, `reported`, `place`: the last exception of the handler, the one that was made of it, and the line of the
      author's code that raised it (`module:function:line`, empty if not known)
    - `failure`: the first fault that was found in this run alone, without a comparison
    """

    way: str
    entropy: Steady
    known: RecordedEffects
    allow_misuse: bool = False
    asked: list[AskedQuestion] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    parks: list[Park] = field(default_factory=list)
    asking: Mapping[str, Any] = field(default_factory=dict)
    reply: Reply = field(default_factory=dict)
    raised: BaseException | None = None
    reported: BaseException | None = None
    place: str = ""
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
            return await self.known.again(key, self.effects.count(key), call)
        except RehearsalFailed as error:
            self.fails(f"the call differs under {self.way}: {error}")
            raise

    def misused(self, error: Exception) -> None:
        """The handler misused Framehold, and got `error`."""
        if not self.allow_misuse:
            self.fails(f"the call misuses framehold: {error} (under {self.way})")

    def broke(self, error: BaseException) -> None:
        """The handler raised `error`, or the SDK did around an exception of the handler."""
        self.reported, (self.raised, self.place) = error, raised_by_author(error)
        if isinstance(self.raised, MISUSE):
            self.misused(self.raised)

    def asks(self, params: Mapping[str, Any]) -> None:
        """The handler asks a question with these parameters."""
        self.asking = params

    def refused(self, refusal: Refusal) -> None:
        """The call ended with a refusal of the node, not with a result of its handler."""
        what = "the call diverges" if refusal.reason is Reason.DIVERGED else f"the call ends ({refusal.reason.value})"
        self.fails(f"{what} under {self.way}, after {self.last()}: {refusal.detail or 'its handler is not continued'}")

    def fails(self, why: str) -> None:
        """Fail the run. The first reason is kept."""
        self.failure = self.failure or RehearsalFailed(why)

    def ended(self) -> str:
        """A text about the exception that ended the call; empty if its reply is no error, or is one without an
        exception."""
        if self.raised is None or not is_error(self.reply):
            return ""
        text = f": {self.raised}" if str(self.raised) else ""
        what = f"{type(self.raised).__name__}{text}"
        return f"the handler raised {what} ({self.place})" if self.place else f"the call failed with {what}"

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
    - `raises`: the exception with which the held call has to end, or several; empty: it has to end without one
    """

    original: Original
    method: str
    params: dict[str, Any]
    seed: bytes
    instant: float
    timeout: float
    allow_misuse: bool
    raises: type[BaseException] | tuple[type[BaseException], ...] = ()

    async def play(
        self, way: Way, script: ClientScript, known: RecordedEffects, code: KeptCode | None = None
    ) -> PlayedCall:
        """Play the call from its first request to its end, or to the first fault. `known` are the effects of the held
        call. `code` keeps the code of its handler; None: nothing does."""
        run = PlayedCall(way, self.entropy(), known, self.allow_misuse)
        await self.go_on(run, script.first if way == "hold" else partial(script.again, way), code)
        return run

    def entropy(self) -> Steady:
        """The source of time and random values for one way."""
        return Steady(self.seed, self.instant)

    async def go_on(self, run: PlayedCall, answers: Answering, code: KeptCode | None) -> None:
        """Play the rest of a call that waits in its last park; all of it if it has none. `answers` gives the answers to
        the questions of a round, from these and the earlier ones. `code` is as for `play`."""
        before, limit = rehearsal_observer.set(run), asyncio.timeout(self.timeout)
        try:
            with unawaited.reported():
                async with limit:
                    await self._rounds(run, answers, code)
        except TimeoutError:
            if not limit.expired():
                raise
            run.fails(
                f"the call did not end in {self.timeout:g} s under {run.way}; it was cancelled after {run.last()}"
            )
        finally:
            rehearsal_observer.reset(before)
        for effect, count in Counter(run.effects).items():
            if count > 1:
                run.fails(f"the effect {effect!r} of once ran {count} times under {run.way}")

    async def _rounds(self, run: PlayedCall, answers: Answering, code: KeptCode | None) -> None:
        strategy: Literal["hold", "replay"] = "hold" if run.way in ("hold", "rebuild") else "replay"
        params = run.parks[-1].params if run.parks else self.params
        node, send = (
            Node(self.original, self.method, strategy, MemoryStore(system_clock().time), run.entropy.call, code),
            None,
        )
        async with AsyncExitStack() as stack:
            for round_ in itertools.count(len(run.parks) + 1):
                if send is None or run.way == "rebuild":
                    await stack.aclose()
                    send = await stack.enter_async_context(opened(node, f"round-{round_}"))
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
                run.parks.append(Park(params, len(run.asked), len(run.effects)))


def compare(held: PlayedCall, other: PlayedCall, script: ClientScript) -> None:
    """Compare a run with the held one.

    Raises:
        RehearsalFailed: they differ. The text has the first difference.
    """
    missing = script.unasked(other.asked)
    found = other_end(held, other) if missing is None else f"it does not ask {missing}; likely {DEPENDS}"
    if found is not None:
        raised = "" if held.ended() or not (why := other.ended()) else f"; {why}"
        raise RehearsalFailed(f"the call differs under {other.way}: {found}{raised}") from other.raised


def is_error(reply: Reply) -> bool:
    """Whether a reply is an error, or the error result of a tool."""
    return isinstance(reply, types.ErrorData) or reply.get("isError") is True


def other_end(held: PlayedCall, other: PlayedCall, since: str = HELD) -> str | None:
    """A text about the first difference in the effects or the result of a run; None if there is none. `since` is as for
    `differing`."""
    if Counter(held.effects) != Counter(other.effects):
        return differing("the list of effects", held.effects, other.effects, since)
    found = difference(_shown(held.reply), _shown(other.reply), "")
    return None if found is None else differing(found[0].removeprefix(".") or "the result", *found[1:], since)


def _shown(reply: Reply) -> dict[str, Any]:
    if isinstance(reply, types.ErrorData):
        return {"error": reply.model_dump(by_alias=True, mode="json", exclude_none=True)}
    return {"result": reply}
