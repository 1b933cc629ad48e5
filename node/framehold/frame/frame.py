"""A live frame: the suspended handler, the questions that it waits on, and the request that carries its round.

The set of questions of a round is closed when the handler has settled. One that has started no task has settled as soon
as its own task waits for a question or for an effect. Any other has a few turns of the loop without a further question,
so that the branches of a gather ask together:

    1. the handler asks; the question joins `pending`; a turn counter starts, or starts again
    2. `SETTLE` turns without a further question: if a round is open, all pending questions leave as one `Asked` event
    3. no round is open (another branch asked while the frame was parked): the question waits for the next retry

A frame ends early as the SDK ends a request: its handler runs in a cancel scope of anyio's, and that scope is
cancelled. What the handler shields runs to its end, its threads can ask whether they are cancelled, and a handler that
swallows the cancellation gets it again. The frame is dead from that moment: each further question raises
`CancelledError`, also in `finally`.

A frame that is being rebuilt gets what is recorded instead, one delivery after the other, each when the frame has
settled again, until it stands where its journal ends (`rebuild`).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

import anyio

from framehold_core import journal
from framehold_core.call import Phase
from framehold_core.errors import DivergenceError
from framehold_core.events import Answer
from framehold_core.journal import EntryLane

from . import contained, loop
from .asks import NO_ANSWERS, Ask, Question, duplicate_ask, key_stem, numbered_key, prefilled_drafts
from .context import handler_context, refresh
from .effect_call import refuse_inside_effect
from .ports import FrameHost, RoundCarrier
from .rebuild import REPLAY_ERRORS, Rebuild
from .recorded import FrameRecord

FoundT = TypeVar("FoundT")

SETTLE = 3
"""Turns of the loop without a further question after which a round's questions are complete. Nested gathers need
several."""
SETTLE_FULLY = 12
"""Turns after which a handler has done what a delivery let it do: one gather around another takes two. Fewer are
counted where no callback at all waits for its turn, since then nothing else runs on the node."""


class _KnownAnswer(NamedTuple):
    value: Any


class Frame:
    """One entry into a handler. It lives on one event loop. `replay` is its journal while it is rebuilt, else None.
    `leftover_answers` are recorded answers of a round that was answered only in part; they are delivered together with
    the next answers."""

    __slots__ = (
        "__weakref__",
        "_asked",
        "_deliveries",
        "_host",
        "_recorded",
        "_scope",
        "_settling",
        "branches",
        "carrier",
        "context",
        "dead",
        "epoch",
        "leftover_answers",
        "loop",
        "pending",
        "prefilled",
        "replay",
        "round",
        "task",
    )

    def __init__(
        self,
        host: FrameHost,
        epoch: int,
        carrier: RoundCarrier,
        prefilled: Mapping[str, Any],
        replay: Rebuild | None = None,
    ) -> None:
        self._host, self.replay = host, replay
        self._recorded: FrameRecord | None = None
        self.leftover_answers: tuple[Answer, ...] = ()
        self._asked: tuple[str, ...] = ()
        self._settling = 0
        self.branches = False
        self._deliveries: deque[Callable[[], None]] | None = None
        self.loop = asyncio.get_running_loop()
        self.epoch = epoch
        self.carrier: RoundCarrier | None = carrier
        self.prefilled = prefilled
        self.pending: dict[str, Ask] = {}
        self.dead = False
        self.round = 1
        self.task: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None
        self.context: contextvars.Context | None = handler_context(carrier.variables, self)
        """The handler's own context, None once it has ended. `deliver` refreshes it, since a handler may wait for
        other tasks that ask for it."""
        carrier.handler_context = self.context

    def scope(self) -> anyio.CancelScope:
        """Make the scope that the handler runs in. Called once, by the handler's task: only a task can make one."""
        self._scope = anyio.CancelScope()
        return self._scope

    @property
    def ended(self) -> bool:
        """Whether the handler has run to its end. One that is cancelled may still run."""
        return self.context is None and self._scope is None

    @property
    def log_fields(self) -> Mapping[str, Any]:
        """The fields of a log line that the handler writes now; see `logged_call`."""
        return self._host.log_fields(self)

    async def ask(self, question: Question, key: str | None = None) -> Any:
        """Suspend until the client has answered; return its answer (`Question.result`).

        Raises:
            DuplicateAsk: the same question, or the same key, is pending already.
            AskError: this is not the event loop that the handler was entered on, or an effect of `once` asks.
            LimitExceeded: the call's journal is as long as it may be, or too many threads wait for answers.
            asyncio.CancelledError: the frame was torn down.
        """
        await self.check_allowed("a question")
        if self.replay is None:
            self._host.admit("a question")
        name = self._key(question) if key is None else key
        if self._is_pending(name):
            raise duplicate_ask(name)
        known = None
        if self.replay is not None:
            known = self._recorded_answer(name, question)
        elif name in self.prefilled:
            known = self._prefilled_answer(name, question)
        if known is not None:
            return question.result(known.value)
        is_main = (running := asyncio.current_task()) is self.task
        thread = None if is_main else self._host.asking_threads.begin(self.task, running)
        lane = EntryLane.MAIN if is_main else self.lane()
        ask = self.pending[name] = Ask(name, question, lane, self.loop.create_future())
        self.settle()
        self.note_wait()
        try:
            answer = await ask.answer
        finally:
            if self.pending.get(name) is ask:
                del self.pending[name]
            if thread is not None:
                self._host.asking_threads.end(thread)
        if self.carrier is not None:
            refresh(self.carrier.variables)
        return question.result(answer)

    async def check_allowed(self, what: str) -> None:
        """Raise if the running code may not do `what` in this frame.

        Raises:
            AskError: this is another event loop than the handler's, or the code belongs to an effect of `once`.
            asyncio.CancelledError: the frame was torn down.
        """
        loop.check(self.loop, what)
        if self.dead:
            # A handler that swallows its cancellation and asks in a loop must not block the event loop.
            await asyncio.sleep(0)
            raise asyncio.CancelledError(f"this call's frame is gone: {what} comes too late")
        refuse_inside_effect(what)

    def run_on_loop(self, run: Callable[[], FoundT]) -> FoundT:
        """Call `run` on the handler's loop and return its result. Another thread waits for it: only that loop records
        in order."""
        return loop.run_on(self.loop, run)

    def lane(self) -> EntryLane:
        """MAIN if the handler's own task runs, or the thread that it waits for; SIDE for a task that it started."""
        running = asyncio.current_task()
        is_main = running is self.task or self._host.asking_threads.runs_for(self.task, running)
        return EntryLane.MAIN if is_main else EntryLane.SIDE

    @property
    def recorded(self) -> FrameRecord:
        """The effects and values of this handler that are recorded beside its answers."""
        if self._recorded is None:
            self._recorded = FrameRecord(self, self._host)
        return self._recorded

    async def results_stored(self) -> None:
        """Wait until the results of all effects are durable that the handler has heard: what it says next may rest on
        them."""
        if self._recorded is not None:
            await self._recorded.effects.stored()

    def state_entries(self) -> tuple[bytes, ...]:
        """Encoded entries for a state token: what was recorded beside the answers. Empty if nothing was recorded."""
        return () if self._recorded is None else self._recorded.state_entries()

    def settle(self) -> None:
        """Start the turn counter again. When it runs out, the round's questions are closed, or what was heard next is
        delivered if the frame is being rebuilt."""
        if self._settling == 0:
            self.loop.call_soon(self._turn)
        self._settling = max(self._settling, SETTLE if self.replay is None else SETTLE_FULLY)

    def note_wait(self) -> None:
        """The running task is about to wait for a question, or for an effect. If it is the handler's own and there is
        no other, nothing of the handler can go on: it has settled."""
        if self._settling <= 1 or self.branches or self.replay is not None:
            return
        if asyncio.current_task() is self.task and contained.sees_tasks(self.loop):
            self._settling = 1

    @property
    def settles(self) -> bool:
        """Whether the handler has something to do, or may have: it has not settled."""
        return self._settling > 0

    def hears_at_once(self, key: str) -> bool:
        """Whether the handler that comes to an effect whose result is recorded hears it at once: it is next, and
        nothing else of the handler can go on meanwhile."""
        task, own = asyncio.current_task(), 1 if self._settling else 0
        if task is None or task.cancelling() or not loop.has_nothing_to_run(self.loop, own):
            return False
        return self.replayed(lambda replay: replay.cursor.takes(key))

    def hear(self, delivery: Callable[[], None]) -> None:
        """Deliver something to the handler when it has settled: the answers of a round, or the result of an effect. Of
        two that come in one turn it hears the second one when it has done what the first one lets it do; a replay
        delivers them so, too (docs/protocol.md, rule 12)."""
        if self._settling == 0:
            self._deliver(delivery)
            return
        if self._deliveries is None:
            self._deliveries = deque()
        self._deliveries.append(delivery)

    def _deliver(self, delivery: Callable[[], None]) -> None:
        delivery()
        self.settle()
        self._settling = SETTLE_FULLY

    def _turn(self) -> None:
        self._settling -= 1
        # Turns that are counted also where no callback waits for its turn.
        least = SETTLE if self.replay is None else 0
        if self._settling > least and loop.has_nothing_to_run(self.loop, 0):
            self._settling = least
        if self._settling > 0:
            self.loop.call_soon(self._turn)
        elif self.dead:
            return
        elif self._deliveries:
            self._deliver(self._deliveries.popleft())
        elif self.replay is not None:
            self._deliver_next(self.replay)
        elif self.pending and self._host.phase() is Phase.RUNNING and not self._waits_for_effect():
            self._ask_client(self.carrier)

    def _waits_for_effect(self) -> bool:
        """Whether the round must wait for an effect that runs: the frame is dropped after the round, and that must not
        happen in the middle of an effect (docs/protocol.md, rule 8)."""
        return self._host.drops and self._recorded is not None and self._recorded.effects.busy

    # ---- while it is being rebuilt

    @property
    def silent(self) -> bool:
        """Whether the handler's notifications are dropped: it repeats what it did before its frame was rebuilt."""
        return self.replay is not None and not self.replay.cursor.live

    def replayed(self, read: Callable[[Rebuild], FoundT]) -> FoundT:
        """Call `read` with the journal that is replayed and return its result.

        Raises:
            asyncio.CancelledError: the replay diverged, or a recorded entry can't be read; the frame has ended.
        """
        replay = self.replay
        assert replay is not None, "only a frame that is being rebuilt has a journal to read"
        try:
            found = read(replay)
        except REPLAY_ERRORS as error:
            self._host.replay_failed(error)
            raise asyncio.CancelledError("this call's frame is gone: it can't be rebuilt") from None
        self.settle()
        return found

    def _recorded_answer(self, key: str, question: Question) -> _KnownAnswer | None:
        """Check a question against the journal that is replayed. Return its answer if that came with round 1, else
        None: the answer comes with a later recorded round, or the question is new."""

        def look(replay: Rebuild) -> _KnownAnswer | None:
            replay.wires[key] = question.wire
            item = replay.cursor.ask(key, question.fp, self.lane(), question.text)
            return None if item is None else _KnownAnswer(replay.answer(item, question.parse))

        return self.replayed(look)

    def _deliver_next(self, replay: Rebuild) -> None:
        """The handler has settled: deliver to it what it heard next. After the last delivery the frame goes live."""
        try:
            if replay.deliver_next(self.pending, self.recorded.effects.give):
                self.settle()
            elif replay.cursor.live:
                self._go_live(replay)
        except REPLAY_ERRORS as error:
            self._host.replay_failed(error)

    def _go_live(self, replay: Rebuild) -> None:
        """The frame stands where its journal ends: from here on it asks its client."""
        self.leftover_answers = replay.leftover_answers()
        self._host.rebuilt()
        self.replay = None
        if self._recorded is not None:
            self._recorded.effects.frame_rebuilt()
        if self.pending and not self.dead:
            self.settle()

    def end(self, outcome: object) -> None:
        """The handler has ended with `outcome`. If the frame is being rebuilt, the handler must have reached all
        recorded entries; otherwise the replay has failed."""
        # The context refers back to the frame: break the cycle here, or the garbage collector has to.
        self.task = self.context = self._scope = None
        if self.replay is not None and not self.dead:
            try:
                self.replay.cursor.finish()
                self._go_live(self.replay)
            except REPLAY_ERRORS as error:
                self._host.replay_failed(error, outcome)
        if self._recorded is not None and self._recorded.effects.settled:
            self._recorded = None
        self._host.ended(self, outcome)

    # ---- the end of a round

    def _ask_client(self, carrier: RoundCarrier | None) -> None:
        """Send all pending questions to the client that carries this round. If it can't be asked one of them, none is
        asked and the call ends with a refusal."""
        asks = tuple(ask for ask in self.pending.values() if not ask.answer.done())
        if not asks:
            return
        refusals = () if carrier is None else (carrier.refusal(ask.question) for ask in asks)
        refusal = next((item for item in refusals if item is not None), None)
        if refusal is None:
            self._host.asked(tuple(ask.draft(self.round) for ask in asks))
        else:
            # The handler could swallow an error that is raised into it: the call ends here instead.
            self._host.refused(refusal)

    def fail(self, outcome: object, why: str) -> None:
        """The handler has made a mistake, `why`: end the call with `outcome` and cancel the handler. A frame that is
        being rebuilt is not continued."""
        if self.dead:
            return
        if self.replay is None:
            self._host.refused(outcome)
        else:
            self._host.replay_failed(DivergenceError(f"{why}; it was not continued"))

    def deliver(self, answers: tuple[Answer, ...], parsed: dict[str, Any], asked: dict[str, str]) -> None:
        """Resolve the questions that were answered. `parsed` holds the answers that are parsed already, by key; the
        others are parsed here. `asked` holds the digests of the questions that the client was shown, by key: a handler
        may give up one of them and ask another question under its key, and that one is not answered."""
        if self.carrier is not None and self.context is not None:
            self.context.run(refresh, self.carrier.variables)
            self.carrier.handler_context = self.context
        self.prefilled = NO_ANSWERS
        if self._recorded is None:
            # Nothing else can come meanwhile that the handler could hear.
            self._answer(answers, parsed, asked)
        else:
            self.hear(partial(self._answer, answers, parsed, asked))

    def _answer(self, answers: tuple[Answer, ...], parsed: dict[str, Any], asked: dict[str, str]) -> None:
        for answer in answers:
            ask = self.pending.get(answer.key)
            if ask is None or ask.answer.done() or ask.question.fp != asked.get(answer.key):
                continue
            value = parsed[answer.key] if answer.key in parsed else ask.question.parse(journal.parse(answer.value))
            ask.answer.set_result(value)
        if not all(ask.answer.done() for ask in self.pending.values()):
            # A question that was asked while the frame was parked is sent with the questions of this round.
            self.settle()

    def kill(self) -> asyncio.Task[None] | None:
        """Mark the frame dead and cancel its handler. Return the handler's task if it still runs, else None. The
        request that carries the round gets it, too: it leaves after the handler. A handler that has not begun is not
        entered."""
        carrier, self.carrier, self.dead = self.carrier, None, True
        task, self.task, self.context = self.task, None, None
        if self._scope is not None:
            self._scope.cancel()
        for ask in self.pending.values():
            # A question in a shielded scope, or in a task that the handler does not wait for.
            ask.answer.cancel()
        self.pending = {}
        # It refers back to the frame: the cycle is broken here, too.
        recorded, self._recorded = self._recorded, None
        if recorded is not None:
            recorded.effects.kill()
        if task is None or task.done():
            return None
        if carrier is not None:
            carrier.ending = task
        return task

    def _key(self, question: Question) -> str:
        """The key of a question whose author gave none: its kind, its digest, and how often it was asked before."""
        stem = key_stem(question.kind, question.fp)
        before = self._asked.count(stem)
        if self.pending and self._is_pending(last := numbered_key(stem, before)):
            return last
        self._asked += (stem,)
        return numbered_key(stem, before + 1)

    def _is_pending(self, key: str) -> bool:
        """Whether a question under this key waits for its answer."""
        return key in self.pending and not self.pending[key].answer.done()

    def _prefilled_answer(self, key: str, question: Question) -> _KnownAnswer | None:
        """The answer that came with round 1 under this key, recorded and used up; None if it is of the wrong kind: it
        counts as missing."""
        raw = self.prefilled[key]
        self.prefilled = {name: item for name, item in self.prefilled.items() if name != key}
        try:
            value = question.parse(raw)
        except ValueError:
            return None
        self._host.noted(prefilled_drafts(key, question, self.lane(), journal.canonical(raw)))
        return _KnownAnswer(value)
