"""Effects under `once`: what runs at most once per call.

Each has a task of its own, so that nobody's leaving cuts it off (PROTOCOL rule 8):

    1. the frame is rebuilt, if it is being rebuilt: what is recorded is given at once, nothing runs meanwhile
    2. the intent is written, and acknowledged while the node's window is open: `go`
    3. it runs; what it gives or raises is written: `kept`
    4. whoever waits for it hears what was written, decoded, as a replay would

Whoever is cancelled while waiting is so after 4.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import anyio

from framehold_core.errors import InDoubt
from framehold_core.ids import CallId
from framehold_core.journal import Draft, Entry, Kind, Lane
from framehold_core.replay import Once
from framehold_core.writes import once_digest
from framehold_store.values import Packed, Values

from . import fingerprints
from .calling import called, inside, reused
from .chance import Chance
from .past import Past
from .payloads import Payloads
from .rebuild import Rebuild

WINDOW = 0.05
"""Seconds between two looks at a node lease that is not valid."""
_DOUBT = (
    "once({key!r}): its intent is recorded and no result is, so it may have run, or may yet run; it was not run again; "
    "look where it would show, or declare it idempotent=True if a second run under the same idempotency key is safe"
)


def doubt(key: str) -> InDoubt:
    """What is known of an effect that broke off from within, too. That is no outcome (rule 13): nobody knows how far it
    came."""
    return InDoubt(_DOUBT.format(key=key))


async def heard(outcome: asyncio.Future[Packed], gone: Callable[[], bool] = lambda: False) -> Packed:
    """What came of an effect. A cancellation of whoever waits lands after it, unless the frame is gone."""
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError as error:
        if gone() or outcome.cancelled():
            raise
        cancelled = error.args
    # Most never come here: a scope is entered when somebody has cancelled.
    with anyio.CancelScope(shield=True):
        while not outcome.done():
            try:
                await asyncio.shield(outcome)
            except asyncio.CancelledError as error:
                if gone() or outcome.cancelled():
                    raise
                cancelled = error.args
    # A fresh one: to keep the other here would tie it to its own traceback.
    raise asyncio.CancelledError(*cancelled)


async def outcome(values: Values, key: str, run: Callable[[], Coroutine[Any, Any, Any]]) -> Packed:
    """Run an effect; what it came to, as it is stored."""
    try:
        return values.pack(await run())
    except Exception as error:
        return values.pack_error(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return values.pack_error(doubt(key))


class Host(Protocol):
    """What is needed of the frame."""

    dead: bool
    round: int
    replay: Rebuild | None

    async def here(self, what: str) -> None: ...
    def at_home(self, run: Callable[[], Any]) -> Any: ...
    def lane(self) -> Lane: ...
    def replayed(self, read: Callable[[Rebuild], Any]) -> Any: ...
    def settle(self) -> None: ...


class Scribe(Protocol):
    """What is needed of the runtime that holds the call."""

    @property
    def payloads(self) -> Payloads: ...
    @property
    def chance(self) -> Chance: ...
    @property
    def drops(self) -> bool: ...
    @property
    def call_id(self) -> CallId: ...
    def noted(self, drafts: tuple[Draft, ...]) -> None: ...
    def intended(self, key: str, draft: Draft) -> None: ...
    def resulted(self, key: str, draft: Draft) -> None: ...
    def may_run(self) -> bool: ...
    def admit(self, what: str) -> None: ...
    def shield(self, effect: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]: ...


@dataclass(slots=True, eq=False)
class Effect:
    """One `once` of this frame. `go` and `kept` are what it waits for in its task, `again` that it was intended
    before."""

    key: str
    name: str
    fp: str
    lane: Lane
    outcome: asyncio.Future[Packed]
    idempotent: bool = False
    again: bool = False
    go: asyncio.Future[bool] | None = None
    kept: asyncio.Future[None] | None = None
    task: asyncio.Task[None] | None = None

    def draft(self, kind: Kind, round_: int, packed: Packed) -> Draft:
        """An entry of it."""
        return Draft(kind, self.key, round_, self.lane, self.fp, packed.codec, packed.data)

    def give(self, packed: Packed) -> None:
        """Whoever waits hears this."""
        if not self.outcome.done():
            self.outcome.set_result(packed)


class Onces:
    """The effects of one frame. `past` is what earlier rounds of a handler that parks by hand have learned."""

    def __init__(self, frame: Host, scribe: Scribe, past: Past) -> None:
        self._frame, self._scribe, self._past = frame, scribe, past
        self._effects: dict[str, Effect] = {}
        """By the digest of their keys, as core names them."""
        self._rebuilt: asyncio.Event | None = None

    @property
    def busy(self) -> bool:
        """Whether an effect is under way."""
        return any(not effect.outcome.done() for effect in self._effects.values())

    async def once(self, key: str, fn: Callable[..., Any], args: Any, kwargs: Any, idempotent: bool) -> Any:
        """Run `fn` at most once per call under `key`; what it gave, or raise what it raised. See `authoring.once`."""
        await self._frame.here(f"once({key!r})")
        fp = fingerprints.of(fn, args, kwargs)
        digest = once_digest(key)
        effect = self._effects.get(digest)
        if effect is None:
            future = asyncio.get_running_loop().create_future()
            effect = Effect(key, fingerprints.name_of(fn), fp, self._frame.lane(), future, idempotent)
            known = self._known(effect)
            if not known and not effect.again:
                self._scribe.admit(f"once({key!r})")
            self._effects[digest] = effect
            if not known:
                seen_through = self._see_through(effect, digest, lambda: called(fn, args, kwargs))
                effect.task = self._scribe.shield(seen_through, contextvars.copy_context())
        elif effect.fp != fp:
            raise reused(key, effect.name, fingerprints.name_of(fn))
        packed = await heard(effect.outcome, lambda: self._frame.dead)
        # Decoded for each who waits: what one does to it is no other's business.
        return self._scribe.payloads.values.unpack(packed.codec, packed.data).get()

    def _known(self, effect: Effect) -> bool:
        """Whether what came of an effect is recorded, and given now."""
        payloads, call, key = self._scribe.payloads, self._scribe.call_id, effect.key
        past = self._past.entries.get((Kind.RESULT, key))
        if past is not None:
            if past.fp != effect.fp:
                raise reused(key, effect.name, effect.name)
            recorded = partial(payloads.packed, self._past.call, past)
            # A state is looked at before its call begins; when its frame is rebuilt, this node may read it otherwise.
            effect.give(recorded() if self._frame.replay is None else self._frame.replayed(lambda _: recorded()))
            return True
        if self._frame.replay is None:
            return False
        found = self._frame.replayed(lambda replay: replay.cursor.once(key, effect.fp, effect.lane, effect.name))
        if isinstance(found, Entry):
            packed = self._frame.replayed(lambda _: payloads.packed(call, found))
            # Recorded here, it is still news to the state of a handler that parks by hand in the end.
            self._past.fresh.append(effect.draft(Kind.RESULT, found.round, packed))
            effect.give(packed)
        elif found is Once.IN_DOUBT and not effect.idempotent:
            effect.give(payloads.values.pack_error(doubt(key)))
        effect.again = found is Once.IN_DOUBT
        return effect.outcome.done()

    async def _see_through(self, effect: Effect, digest: str, run: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Intent, effect, result."""
        scribe, values = self._scribe, self._scribe.payloads.values
        inside.set(effect.key)
        try:
            await self._revived()
            if not await self._let_go(effect, digest):
                packed = values.pack_error(doubt(effect.key))
            else:
                packed = await outcome(values, effect.key, run)
            if self._frame.dead:
                raise asyncio.CancelledError("this call's frame is gone: another may run the call, so nothing is kept")
            effect.kept = asyncio.get_running_loop().create_future()
            draft = effect.draft(Kind.RESULT, self._frame.round, packed)
            scribe.resulted(digest, draft)
            await effect.kept
            self._past.fresh.append(draft)
            effect.give(packed)
        finally:
            effect.outcome.cancel()
            effect.task = None
            if scribe.drops and not self._frame.dead:
                self._frame.settle()

    async def _let_go(self, effect: Effect, digest: str) -> bool:
        """Wait until the effect may run; False where it must not (rules 6 and 13)."""
        if not (effect.again or await self._intended(effect, digest) or effect.idempotent):
            return False
        # The loop may have stood still since it was let go. A window that is shut opens again, or the frame is verified
        # under another lease, or it goes.
        while not self._frame.dead:
            if self._scribe.may_run():
                return True
            await asyncio.sleep(WINDOW)
        return False

    async def _intended(self, effect: Effect, digest: str) -> bool:
        """Record the intent, and wait until the effect is let go; whether it is."""
        if self._frame.dead:
            raise asyncio.CancelledError("this call's frame is gone: nothing is run for it any more")
        effect.go = asyncio.get_running_loop().create_future()
        intent = effect.draft(Kind.INTENT, self._frame.round, Packed("text", effect.name.encode("utf-8", "replace")))
        self._scribe.intended(digest, intent)
        return await effect.go

    def go(self, digest: str, let_go: bool) -> None:
        """The intent of the effect whose key has this digest is durable: it may run, or must not."""
        effect = self._effects.get(digest)
        if effect is not None and effect.go is not None and not effect.go.done():
            effect.go.set_result(let_go)

    def kept(self, digest: str) -> None:
        """Its result is durable."""
        effect = self._effects.get(digest)
        if effect is not None and effect.kept is not None and not effect.kept.done():
            effect.kept.set_result(None)

    async def _revived(self) -> None:
        if self._frame.replay is not None:
            if self._rebuilt is None:
                self._rebuilt = asyncio.Event()
            await self._rebuilt.wait()

    def revive(self) -> None:
        """The frame is rebuilt: what waited for that goes on."""
        if self._rebuilt is not None:
            self._rebuilt.set()

    def kill(self) -> None:
        """The frame is gone. An effect that runs comes to its end and is heard by nobody; others don't begin."""
        self.revive()
        for effect in self._effects.values():
            effect.outcome.cancel()
            for step in (effect.go, effect.kept):
                if step is not None:
                    step.cancel()
            if effect.task is not None and effect.go is None and not effect.again:
                effect.task.cancel()
