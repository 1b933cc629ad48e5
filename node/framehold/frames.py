"""A live frame: the suspended handler, the asks that it waits on, and the request that currently carries its words.

The set of asks of a round is frozen after a few settled turns of the loop, so that branches of a gather leave together:

    1. the handler asks; the ask joins `unsent`; a turn counter starts, or starts again
    2. `SETTLE` turns without a further ask: if a round is open, everything that waits leaves as one `Asked`
    3. no round open (another branch asked while the frame was parked): it waits for the next retry

A frame that was cancelled is dead: whatever it still asks raises `CancelledError`, also in `finally`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from framehold_core import journal
from framehold_core.call import Phase
from framehold_core.errors import AskError, DuplicateAsk
from framehold_core.events import Answer
from framehold_core.journal import Draft, Kind, Lane

SETTLE = 3
"""Turns of the loop without a further ask after which a round's asks are complete; nested gathers need several."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a handler wants to know. `wire` is the request as the client gets it, `fp` its digest; `parse` turns a raw
    answer into what the handler awaits, or raises ValueError."""

    kind: str
    wire: dict[str, Any]
    fp: str
    parse: Callable[[Any], Any]


class Carrier(Protocol):
    """The request of a round, as far as a frame needs it: where its notifications go, and what its client can
    answer."""

    variables: contextvars.Context

    def refusal(self, question: Question) -> object | None:
        """The outcome to end the call with if this client can't be asked `question`; None if it can."""


class Keeper(Protocol):
    """What a frame needs of the runtime that holds it."""

    def phase(self) -> Phase: ...
    def noted(self, drafts: tuple[Draft, ...]) -> None: ...
    def asked(self, asks: tuple[Draft, ...]) -> None: ...
    def refused(self, outcome: object) -> None: ...


@dataclass(slots=True)
class Ask:
    """A question that waits for its answer."""

    key: str
    question: Question
    lane: Lane
    answer: asyncio.Future[Any]

    def draft(self, round_: int) -> Draft:
        """This ask as a journal entry."""
        return Draft(Kind.ASK, self.key, round_, self.lane, self.question.fp, "none", b"")


class Frame:
    """One entry into a handler. Lives on one event loop."""

    __slots__ = (
        "__weakref__",
        "_counts",
        "_keeper",
        "_loop",
        "_settling",
        "carrier",
        "context",
        "dead",
        "epoch",
        "pending",
        "prefilled",
        "round",
        "task",
    )

    def __init__(self, keeper: Keeper, epoch: int, carrier: Carrier, prefilled: dict[str, Any]) -> None:
        self._keeper = keeper
        self._counts: dict[str, int] | None = None
        self._settling = 0
        self._loop = asyncio.get_running_loop()
        self.epoch = epoch
        self.carrier: Carrier | None = carrier
        self.prefilled = prefilled
        self.pending: dict[str, Ask] = {}
        self.dead = False
        self.round = 1
        self.task: asyncio.Task[None] | None = None
        context = contextvars.copy_context()
        context.run(_seen.set, carrier.variables)
        self.context: contextvars.Context | None = context
        """The handler's own, while it runs. It is brought up to date here too: a handler may wait for others that
        ask."""

    async def ask(self, question: Question, key: str | None = None) -> Any:
        """Suspend until the client has answered; the parsed answer.

        Raises:
            DuplicateAsk: the same question, or the same key, is pending already.
            AskError: this is not the event loop that the handler was entered on.
            asyncio.CancelledError: the frame was torn down.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise AskError(
                "asked from another event loop than the handler's; nothing was asked; make the tool async and await"
            )
        if self.dead:
            # A handler that won't be cancelled and asks for ever must not keep the loop from everybody else.
            await asyncio.sleep(0)
            raise asyncio.CancelledError("this call's frame is gone: nothing can be asked any more")
        name = self._key(question) if key is None else key
        if self._waits(name):
            raise DuplicateAsk(
                f"a question with the key {name!r} is pending already: answers could be swapped; nothing was asked; "
                "give each its own key: framehold.ask(key, message, Model)"
            )
        if (known := self._prefilled(name, question)) is not None:
            return known.value
        lane = Lane.MAIN if asyncio.current_task() is self.task else Lane.SIDE
        ask = self.pending[name] = Ask(name, question, lane, loop.create_future())
        self.settle(loop)
        try:
            answer = await ask.answer
        finally:
            if self.pending.get(name) is ask:
                del self.pending[name]
        if self.carrier is not None:
            refresh(self.carrier.variables)
        return answer

    def settle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Freeze the round's asks once the handler has settled."""
        if self._settling == 0:
            loop.call_soon(self._turn, loop)
        self._settling = SETTLE

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._settling -= 1
        if self._settling > 0:
            loop.call_soon(self._turn, loop)
        elif not self.dead and self.pending and self._keeper.phase() is Phase.RUNNING:
            self._leave(self.carrier)

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
        self.prefilled = {}
        if not all(ask.answer.done() for ask in self.pending.values()):
            # The handler asked while nobody listened: it leaves with this round's asks.
            self.settle(asyncio.get_running_loop())

    def kill(self) -> asyncio.Task[None] | None:
        """Silence the frame and cancel its handler; the task to wait for, if it still runs."""
        self.dead, self.carrier = True, None
        task, self.task, self.context = self.task, None, None
        for ask in self.pending.values():
            ask.answer.cancel()
        self.pending = {}
        if task is None or task.done():
            return None
        task.cancel()
        return task

    def _key(self, question: Question) -> str:
        """An unkeyed ask is named by what it asks, and how often that was asked before."""
        stem = f"{question.kind}-{question.fp[:8]}"
        if self._counts is None:
            self._counts = {}
        count = self._counts.get(stem, 0) + 1
        if self._waits(f"{stem}-{count - 1}"):
            return f"{stem}-{count - 1}"
        self._counts[stem] = count
        return f"{stem}-{count}"

    def _waits(self, key: str) -> bool:
        """Whether a question under this key waits for its answer."""
        return key in self.pending and not self.pending[key].answer.done()

    def _prefilled(self, key: str, question: Question) -> _Known | None:
        """An answer that came with round 1. One of the wrong kind counts as missing."""
        if key not in self.prefilled:
            return None
        raw = self.prefilled.pop(key)
        try:
            value = question.parse(raw)
        except ValueError:
            return None
        data = journal.canonical(raw)
        ask = Draft(Kind.ASK, key, 0, Lane.MAIN, question.fp, "none", b"")
        self._keeper.noted((ask, Draft(Kind.ANSWER, key, 0, Lane.MAIN, journal.digest(data), "json", data)))
        return _Known(value)


@dataclass(frozen=True, slots=True)
class _Known:
    value: Any


OWN = "framehold_"
"""How the names of our own context variables begin: a request may carry those of a call that it was sent from."""
_seen: contextvars.ContextVar[contextvars.Context | None] = contextvars.ContextVar("framehold_round", default=None)
"""What the transport said in the last round that this context heard of; the next is compared with it."""


def refresh(fresh: contextvars.Context) -> None:
    """Take over what the transport changed between two rounds (access token, request id), in a context of the
    handler's.

    Only variables that differ between the two requests are set: what the handler set itself stays.
    """
    before = _seen.get()
    if before is fresh:
        return
    for variable, value in fresh.items():
        if not variable.name.startswith(OWN) and (before is None or before.get(variable) is not value):
            variable.set(value)
    _seen.set(fresh)
