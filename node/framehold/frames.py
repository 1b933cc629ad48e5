"""A live frame: the suspended handler, the asks that it waits on, and the request that currently carries its words.

The set of asks of a round is frozen after a few settled turns of the loop, so that branches of a gather leave together:

    1. the handler asks; the ask joins `unsent`; a turn counter starts, or starts again
    2. `SETTLE` turns without a further ask: if a round is open, everything that waits leaves as one `Asked`
    3. no round open (another branch asked while the frame was parked): it waits for the next retry

A frame that was cancelled is dead: whatever it still asks raises `CancelledError`, also in `finally`. One that is
being rebuilt hears what is recorded instead, round by round, until it stands where it stood (`rebuild`).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from framehold_core import journal
from framehold_core.call import Phase
from framehold_core.events import Answer
from framehold_core.journal import Lane

from . import loops
from .asks import NOTHING, Ask, Carrier, Keeper, Question, beforehand, numbered, stem_of, swapped
from .calling import outside
from .learned import Learned
from .rebuild import STRAYED, Rebuild
from .variables import begun, refresh

FoundT = TypeVar("FoundT")

SETTLE = 3
"""Turns of the loop without a further ask after which a round's asks are complete; nested gathers need several."""


class _Known(NamedTuple):
    value: Any


class Frame:
    """One entry into a handler. Lives on one event loop. `replay` is its journal while it is being rebuilt, `rest`
    answers from before that go with the next."""

    __slots__ = (
        "__weakref__",
        "_asked",
        "_keeper",
        "_learned",
        "_loop",
        "_settling",
        "carrier",
        "context",
        "dead",
        "epoch",
        "pending",
        "prefilled",
        "replay",
        "rest",
        "round",
        "task",
    )

    def __init__(
        self, keeper: Keeper, epoch: int, carrier: Carrier, prefilled: Mapping[str, Any], replay: Rebuild | None = None
    ) -> None:
        self._keeper, self.replay = keeper, replay
        self._learned: Learned | None = None
        self.rest: tuple[Answer, ...] = ()
        self._asked: tuple[str, ...] = ()
        self._settling = 0
        self._loop = asyncio.get_running_loop()
        self.epoch = epoch
        self.carrier: Carrier | None = carrier
        self.prefilled = prefilled
        self.pending: dict[str, Ask] = {}
        self.dead = False
        self.round = 1
        self.task: asyncio.Task[None] | None = None
        self.context: contextvars.Context | None = begun(carrier.variables)
        """The handler's own, while it runs; brought up to date here too, for one that waits for others who ask."""

    async def ask(self, question: Question, key: str | None = None) -> Any:
        """Suspend until the client has answered; what it said.

        Raises:
            DuplicateAsk: the same question, or the same key, is pending already.
            AskError: this is not the event loop that the handler was entered on, or an effect of `once` asks.
            LimitExceeded: the call's journal is as long as it may be.
            asyncio.CancelledError: the frame was torn down.
        """
        await self.here("a question")
        if self.replay is None:
            self._keeper.admit("a question")
        name = self._key(question) if key is None else key
        if self._waits(name):
            raise swapped(name)
        known = self._prefilled(name, question) if self.replay is None else self._again(name, question)
        if known is not None:
            return question.heard(known.value)
        ask = self.pending[name] = Ask(name, question, self.lane(), self._loop.create_future())
        self.settle()
        try:
            answer = await ask.answer
        finally:
            if self.pending.get(name) is ask:
                del self.pending[name]
        if self.carrier is not None:
            refresh(self.carrier.variables)
        return question.heard(answer)

    async def here(self, what: str) -> None:
        """Raise where a handler may not do `what`; see `ask`."""
        loops.check(self._loop, what)
        if self.dead:
            # A handler that won't be cancelled and asks for ever must not keep the loop from everybody else.
            await asyncio.sleep(0)
            raise asyncio.CancelledError(f"this call's frame is gone: {what} comes too late")
        outside(what)

    def at_home(self, run: Callable[[], FoundT]) -> FoundT:
        """What `run` gives on the handler's loop. Another thread waits for it: only that loop records in order."""
        return loops.run_on(self._loop, run)

    def lane(self) -> Lane:
        """Whether the handler's own task runs, or one that it started."""
        return Lane.MAIN if asyncio.current_task() is self.task else Lane.SIDE

    @property
    def learned(self) -> Learned:
        """What this handler learns beside its answers."""
        if self._learned is None:
            self._learned = Learned(self, self._keeper)
        return self._learned

    def record(self) -> tuple[bytes, ...]:
        """The same, as it goes into a state; empty where nothing was learned."""
        return () if self._learned is None else self._learned.record()

    def settle(self) -> None:
        """Freeze the round's asks once the handler has settled, or hear the next of what is recorded."""
        if self._settling == 0:
            self._loop.call_soon(self._turn)
        self._settling = SETTLE

    def _turn(self) -> None:
        self._settling -= 1
        if self._settling > 0:
            self._loop.call_soon(self._turn)
        elif self.dead:
            return
        elif self.replay is not None:
            self._hear(self.replay)
        elif self.pending and self._keeper.phase() is Phase.RUNNING and not self._stays():
            self._leave(self.carrier)

    def _stays(self) -> bool:
        """Whether the frame would be dropped after the round, in the middle of an effect (rule 8)."""
        return self._keeper.drops and self._learned is not None and self._learned.onces.busy

    # ---- while it is being rebuilt

    @property
    def silent(self) -> bool:
        """Whether what the handler says was said before."""
        return self.replay is not None and not self.replay.cursor.live

    def replayed(self, read: Callable[[Rebuild], FoundT]) -> FoundT:
        """Read of the journal that is replayed.

        Raises:
            asyncio.CancelledError: the handler went another way than it did, or what is recorded can't be read: the
                frame has ended.
        """
        replay = self.replay
        assert replay is not None, "only a frame that is being rebuilt has a journal to read"
        try:
            found = read(replay)
        except STRAYED as error:
            self._keeper.strayed(error)
            raise asyncio.CancelledError("this call's frame is gone: it can't be rebuilt") from None
        self.settle()
        return found

    def _again(self, key: str, question: Question) -> _Known | None:
        """A question that was asked before, or is beyond the record; its answer where that came with round 1."""

        def look(replay: Rebuild) -> _Known | None:
            replay.wires[key] = question.wire
            item = replay.cursor.ask(key, question.fp, self.lane(), question.text)
            return None if item is None else _Known(replay.answer(item, question.parse))

        return self.replayed(look)

    def _hear(self, replay: Rebuild) -> None:
        """The handler has settled: give it the next round that is recorded; after the last the frame goes on live."""
        try:
            if replay.hear(self.pending):
                self.settle()
            elif replay.cursor.live:
                self._revive(replay)
        except STRAYED as error:
            self._keeper.strayed(error)

    def _revive(self, replay: Rebuild) -> None:
        self.rest = replay.rest()
        self._keeper.rebuilt()
        self.replay = None
        if self._learned is not None:
            self._learned.onces.revive()
        if self.pending and not self.dead:
            self.settle()

    def ends(self, outcome: object) -> None:
        """The handler has ended. Where it is being rebuilt, it must have come to all that is recorded."""
        # What the handler's context holds leads back to the frame: let go of it, or a collector has to.
        self.task = self.context = None
        if self.replay is not None and not self.dead:
            try:
                self.replay.cursor.finish()
                self._revive(self.replay)
            except STRAYED as error:
                self._keeper.strayed(error)
        if self._learned is not None and not self._learned.onces.busy:
            self._learned = None
        self._keeper.ended(self, outcome)

    # ---- the end of a round

    def _leave(self, carrier: Carrier | None) -> None:
        """Ask everything that waits of the client that carries this round, if it can be asked all of it."""
        asks = tuple(ask for ask in self.pending.values() if not ask.answer.done())
        if not asks:
            return
        refusals = () if carrier is None else (carrier.refusal(ask.question) for ask in asks)
        refusal = next((item for item in refusals if item is not None), None)
        if refusal is None:
            self._keeper.asked(tuple(ask.draft(self.round) for ask in asks))
        else:
            # Raised into the handler it could be swallowed: the call ends here instead.
            self._keeper.refused(refusal)

    def deliver(self, answers: tuple[Answer, ...], parsed: dict[str, Any], asked: dict[str, str]) -> None:
        """Wake the asks that were answered. `parsed` holds what was parsed already; the rest is parsed again. `asked`
        holds the digests of the questions that the client saw: a handler that gave one up may ask another under its
        key."""
        if self.carrier is not None and self.context is not None:
            self.context.run(refresh, self.carrier.variables)
        for answer in answers:
            ask = self.pending.get(answer.key)
            if ask is None or ask.answer.done() or ask.question.fp != asked.get(answer.key):
                continue
            value = parsed[answer.key] if answer.key in parsed else ask.question.parse(journal.parse(answer.value))
            ask.answer.set_result(value)
        self.prefilled = NOTHING
        if not all(ask.answer.done() for ask in self.pending.values()):
            # The handler asked while nobody listened: it leaves with this round's asks.
            self.settle()

    def kill(self) -> asyncio.Task[None] | None:
        """Silence the frame and cancel its handler; the task to wait for, if it still runs."""
        self.dead, self.carrier = True, None
        task, self.task, self.context = self.task, None, None
        for ask in self.pending.values():
            ask.answer.cancel()
        self.pending = {}
        if self._learned is not None:
            self._learned.onces.kill()
        if task is None or task.done():
            return None
        task.cancel()
        return task

    def _key(self, question: Question) -> str:
        """An unkeyed ask is named by what it asks, and how often that was asked before."""
        stem = stem_of(question.kind, question.fp)
        before = self._asked.count(stem)
        if self._waits(last := numbered(stem, before)):
            return last
        self._asked += (stem,)
        return numbered(stem, before + 1)

    def _waits(self, key: str) -> bool:
        """Whether a question under this key waits for its answer."""
        return key in self.pending and not self.pending[key].answer.done()

    def _prefilled(self, key: str, question: Question) -> _Known | None:
        """An answer that came with round 1. One of the wrong kind counts as missing."""
        if key not in self.prefilled:
            return None
        raw = self.prefilled[key]
        self.prefilled = {name: item for name, item in self.prefilled.items() if name != key}
        try:
            value = question.parse(raw)
        except ValueError:
            return None
        self._keeper.noted(beforehand(key, question, self.lane(), journal.canonical(raw)))
        return _Known(value)
