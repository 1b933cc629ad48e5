"""Effects under `once`: what runs at most once per call.

Each effect runs in a task of its own, so that it is not cut off when its request ends (docs/protocol.md, rule 8):

    1. a frame that is being rebuilt finishes that first: recorded outcomes are returned in their order, no effect runs
       meanwhile, and one that is in doubt is so then
    2. the intent is written, and acknowledged while the node's lease window is open: `allowed`. An effect that was
       declared idempotent has no intent: it may run when all that the handler has learned is durable
    3. the effect runs; each waiting caller gets its outcome, decoded from what is written of it, as it would on replay
    4. the next write of the call takes the outcome along: `stored`. The task of the effect ends then

A caller that is cancelled while it waits gets its cancellation after 3. What depends on an outcome leaves the node
after 4 (`Effects.stored`).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from framehold_core.errors import InDoubt, ResultNotKept
from framehold_core.journal import Draft, Entry, EntryKind, EntryLane
from framehold_core.replay import Once
from framehold_core.writes import once_digest
from framehold_store.values import PackedResult, Values

from . import fingerprints
from .contained import ENDS_PROCESS, in_place_of, is_contained, starter
from .effect_call import call_effect, key_reused, running_effect
from .ports import FrameHost, RunningFrame
from .state_journal import StateJournal

_DOUBT = (
    "once({key!r}): its intent is recorded and no result is, so it may have run, or may yet run; it was not run again; "
    "look where it would show, or declare it idempotent=True if a second run under the same idempotency key is safe"
)
_BROKEN = (
    "once({key!r}) broke off from within by {error}, so how far it came is not known; it was not run again; look where "
    "it would show; to run it again, use another key"
)
_FULL = (
    "once({key!r}) ran and is not run again, but its result of {size} bytes was not kept: the journal of this call is "
    "full (FRAMEHOLD_MAX_JOURNAL); run fewer effects side by side, or keep large results elsewhere"
)


def in_doubt(key: str) -> InDoubt:
    """The error for an effect whose intent is recorded and whose result is not (docs/protocol.md, rule 13)."""
    return InDoubt(_DOUBT.format(key=key))


def broken_off(key: str, error: BaseException) -> InDoubt:
    """The error for an effect that was broken off from within: how far it came is not known, so that is no outcome."""
    return InDoubt(_BROKEN.format(key=key, error=type(error).__name__))


def _enter(key: str) -> None:
    """From now on the current context is that of the effect under `key`."""
    running_effect.set(key)
    starter.set(None)


async def wait_for_outcome(
    outcome: asyncio.Future[PackedResult], gone: Callable[[], bool] = lambda: False
) -> PackedResult:
    """Wait for the outcome of an effect. A cancellation of the caller is raised after that, or at once if `gone` says
    that the frame is gone."""
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError as error:
        if gone() or outcome.cancelled():
            raise
        cancelled = error.args
    # The scope is entered only after a cancellation: most calls never need it.
    with anyio.CancelScope(shield=True):
        while not outcome.done():
            try:
                await asyncio.shield(outcome)
            except asyncio.CancelledError as error:
                if gone() or outcome.cancelled():
                    raise
                cancelled = error.args
    # A new error: a local name for the caught one would make a cycle with its traceback.
    raise asyncio.CancelledError(*cancelled)


async def run_and_pack(values: Values, key: str, run: Callable[[], Coroutine[Any, Any, Any]]) -> PackedResult:
    """Run an effect; return its result or its error, encoded as it is stored."""
    try:
        return values.pack(await run())
    except Exception as error:
        return values.pack_error(error)
    except ENDS_PROCESS as error:
        if not is_contained(error):
            raise
        return values.pack_error(in_place_of(error))
    except BaseException as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return values.pack_error(broken_off(key, error))


@dataclass(slots=True, eq=False)
class Effect:
    """One `once` of a frame. Its task waits for two futures: `allowed` says whether the effect may run, `stored`
    resolves when its result is durable. `packed` is the result that waits to be handed out. `is_kept` says that the
    handler hears it as soon as it has settled. `intended_before` says that an intent and no result was recorded before
    the frame was rebuilt."""

    key: str
    name: str
    fp: str
    lane: EntryLane
    outcome: asyncio.Future[PackedResult]
    idempotent: bool = False
    intended_before: bool = False
    allowed: asyncio.Future[bool] | None = None
    stored: asyncio.Future[None] | None = None
    packed: PackedResult | None = None
    is_kept: bool = False
    task: asyncio.Task[None] | None = None

    def draft(self, kind: EntryKind, round_: int, packed: PackedResult) -> Draft:
        """A journal entry of this effect: its intent or its result."""
        return Draft(kind, self.key, round_, self.lane, self.fp, packed.codec, packed.data)

    def resolve(self, packed: PackedResult) -> None:
        """Give the outcome to all callers that wait for it."""
        if not self.outcome.done():
            self.outcome.set_result(packed)


class Effects:
    """The effects of one frame. `state_journal` has the entries that earlier rounds recorded, for a handler that
    returns its questions."""

    def __init__(self, frame: RunningFrame, journal: FrameHost, state_journal: StateJournal) -> None:
        self._frame, self._journal, self._state_journal = frame, journal, state_journal
        self._effects: dict[str, Effect] = {}
        """By the digest of their keys (`once_digest`), as core's events name them."""
        self._rebuilt: asyncio.Event | None = None

    @property
    def busy(self) -> bool:
        """Whether an effect has no outcome yet."""
        return any(not effect.outcome.done() for effect in self._effects.values())

    @property
    def settled(self) -> bool:
        """Whether each effect has an outcome that is durable."""
        return all(effect.task is None for effect in self._effects.values())

    async def stored(self) -> None:
        """Wait until all outcomes are durable that a caller has heard. They are written now, if they are not yet."""
        owed = [effect.stored for effect in self._effects.values() if effect.outcome.done() and effect.task is not None]
        waiting = [future for future in owed if future is not None and not future.done()]
        if waiting:
            self._journal.flush()
            await asyncio.wait(waiting)

    async def once(self, key: str, fn: Callable[..., Any], args: Any, kwargs: Any, idempotent: bool) -> Any:
        """Run `fn` at most once per call under `key`; return its result, or raise its error. See `authoring.once`."""
        await self._frame.check_allowed(f"once({key!r})")
        fp = fingerprints.of(fn, args, kwargs)
        digest = once_digest(key)
        effect = self._effects.get(digest)
        if effect is None:
            future = asyncio.get_running_loop().create_future()
            effect = Effect(key, fingerprints.name_of(fn), fp, self._frame.lane(), future, idempotent)
            known = self._is_recorded(effect)
            if not known and not effect.intended_before:
                self._journal.admit(f"once({key!r})")
            self._effects[digest] = effect
            if not known:
                run = partial(call_effect, fn, args, kwargs, self._may_begin)
                effect_run = self._run_and_record(effect, digest, run)
                context = contextvars.copy_context()
                context.run(_enter, key)
                effect.task = self._journal.shield(effect_run, context)
        elif effect.fp != fp:
            raise key_reused(key, effect.name, fingerprints.name_of(fn))
        if not effect.outcome.done():
            self._frame.note_wait()
        packed = await wait_for_outcome(effect.outcome, lambda: self._frame.dead)
        # Decoded for each caller: one may change the object that it gets.
        return self._journal.payloads.values.unpack(packed.codec, packed.data).get()

    def _is_recorded(self, effect: Effect) -> bool:
        """Look for a recorded outcome of `effect`; whether there was one. An outcome that an earlier round recorded is
        heard at once, one that is replayed in its turn (`give`).

        Raises:
            KeyReused: the key stands for another effect in the record.
        """
        payloads, call, key = self._journal.payloads, self._journal.call_id, effect.key
        past = self._state_journal.entries.get((EntryKind.RESULT, key))
        if past is not None:
            if past.fp != effect.fp:
                raise key_reused(key, effect.name, effect.name)
            recorded = partial(payloads.packed, self._state_journal.call, past)
            # The state was read before the call began. On a rebuild this may fail on this node: then the replay fails.
            effect.resolve(recorded() if self._frame.replay is None else self._frame.replayed(lambda _: recorded()))
            return True
        if self._frame.replay is None:
            return False
        found = self._frame.replayed(lambda replay: replay.cursor.once(key, effect.fp, effect.lane, effect.name))
        if isinstance(found, Entry):
            packed = self._frame.replayed(lambda _: payloads.packed(call, found))
            # The call's record has it, the state does not yet: the handler may still return a question.
            self._state_journal.added.append(effect.draft(EntryKind.RESULT, found.round, packed))
            if self._frame.hears_at_once(key):
                effect.resolve(packed)
            else:
                effect.packed = packed
            return True
        effect.intended_before = found is Once.NO_RESULT
        return False

    async def _run_and_record(self, effect: Effect, digest: str, run: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Write the intent, run the effect, write the result. See the module's numbered steps."""
        journal, values = self._journal, self._journal.payloads.values
        try:
            await self._wait_for_rebuild()
            is_in_doubt = effect.intended_before and not effect.idempotent
            if is_in_doubt or not await self._intend(effect, digest):
                packed = values.pack_error(in_doubt(effect.key))
            else:
                packed = await run_and_pack(values, effect.key, run)
            if not journal.keeps(len(packed.data)):
                packed = values.pack_error(ResultNotKept(_FULL.format(key=effect.key, size=len(packed.data))))
            if self._frame.dead:
                raise asyncio.CancelledError("this call's frame is gone: another may run the call, so nothing is kept")
            effect.stored, effect.packed = asyncio.get_running_loop().create_future(), packed
            kind = EntryKind.EFFECT if effect.idempotent else EntryKind.RESULT
            journal.resulted(digest, effect.draft(kind, self._frame.round, packed))
            await effect.stored
        finally:
            if not effect.is_kept:
                effect.outcome.cancel()
            effect.task = None
            self._settle()

    def _settle(self) -> None:
        """Let the frame ask what it has held back: where frames are dropped, no round ends while an effect runs."""
        if self._journal.drops and not self._frame.dead:
            self._frame.settle()

    def _may_begin(self) -> bool:
        """Whether the window is open at this moment: the loop may have been blocked since the intent was acknowledged,
        or all threads busy (docs/protocol.md, rule 6). A shut window ends in one of three ways: it opens again, the
        frame is verified under another lease, or the frame is dropped.

        Raises:
            CancelledError: the frame was dropped.
        """
        self._refuse_if_dead()
        return self._journal.may_run()

    def _refuse_if_dead(self) -> None:
        if self._frame.dead:
            raise asyncio.CancelledError("this call's frame is gone: nothing is run for it any more")

    async def _intend(self, effect: Effect, digest: str) -> bool:
        """Record the intent, if the effect needs one, and wait until the effect may run; False if it must not (rule
        13)."""
        self._refuse_if_dead()
        effect.allowed = asyncio.get_running_loop().create_future()
        intent = None
        if not effect.idempotent:
            name = PackedResult("text", effect.name.encode("utf-8", "replace"))
            intent = effect.draft(EntryKind.INTENT, self._frame.round, name)
        self._journal.intended(digest, intent)
        return await effect.allowed

    def decided(self, digest: str, may_run: bool) -> None:
        """Whether the effect whose key has this digest may run now, or must not."""
        effect = self._effects.get(digest)
        if effect is not None and effect.allowed is not None and not effect.allowed.done():
            effect.allowed.set_result(may_run)

    def result_kept(self, digest: str) -> None:
        """The callers of the effect whose key has this digest get its outcome, when the handler has settled."""
        effect = self._effects.get(digest)
        if effect is not None and effect.packed is not None:
            packed, effect.packed, effect.is_kept = effect.packed, None, True
            # In the state of a handler that returns its questions each effect is a RESULT: nothing there has intents.
            self._state_journal.added.append(effect.draft(EntryKind.RESULT, self._frame.round, packed))
            self._frame.hear(partial(self._hear, effect, packed))

    def _hear(self, effect: Effect, packed: PackedResult) -> None:
        effect.resolve(packed)
        self._settle()

    def results_stored(self, digests: Iterable[str]) -> None:
        """The results of the effects whose keys have these digests are durable."""
        for digest in digests:
            effect = self._effects.get(digest)
            if effect is not None and effect.stored is not None and not effect.stored.done():
                effect.stored.set_result(None)

    def give(self, key: str) -> None:
        """The replay has come to the recorded outcome of the effect under this key: whoever waits for it hears it."""
        effect = self._effects[once_digest(key)]
        assert effect.packed is not None, "the cursor gives a result after the handler has come to it"
        packed, effect.packed = effect.packed, None
        effect.resolve(packed)

    async def _wait_for_rebuild(self) -> None:
        if self._frame.replay is not None:
            if self._rebuilt is None:
                self._rebuilt = asyncio.Event()
            await self._rebuilt.wait()

    def frame_rebuilt(self) -> None:
        """The frame is rebuilt: effects that waited for that go on."""
        if self._rebuilt is not None:
            self._rebuilt.set()

    def kill(self) -> None:
        """The frame is gone. A running effect runs to its end and its result is dropped; the others don't begin."""
        self.frame_rebuilt()
        for effect in self._effects.values():
            effect.outcome.cancel()
            for step in (effect.allowed, effect.stored):
                if step is not None:
                    step.cancel()
            if effect.task is not None and effect.allowed is None:
                effect.task.cancel()
