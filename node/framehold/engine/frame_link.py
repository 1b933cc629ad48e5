"""Connects one frame to the engine: each report of the frame becomes an event of its call."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.ending import COMPLETED
from framehold_core.errors import DivergenceError, LimitExceeded
from framehold_core.ids import CallId
from framehold_core.journal import Draft

from ..frame.asking_threads import AskingThreads
from ..frame.entropy import Entropy
from ..frame.frame import Frame
from ..frame.payloads import Payloads
from .loop import Feed
from .slot import Slot, size_of
from .table import CallTable
from .tasks import Tasks


@dataclass(frozen=True, slots=True)
class FrameServices:
    """The parts of the engine that all frames of a node share. `max_journal` and `most_written` are in bytes. `rebuilt`
    and `ended` are called when a frame is rebuilt or its handler has ended; they decide which event that is."""

    table: CallTable
    feed: Feed
    payloads: Payloads
    tasks: Tasks
    asking_threads: AskingThreads
    max_journal: int
    most_written: int
    rebuilt: Callable[[Slot], None]
    ended: Callable[[Slot, Frame, object], None]


class FrameLink:
    """The host of one frame (`frame.ports.FrameHost`)."""

    __slots__ = ("_services", "_slot")

    def __init__(self, slot: Slot, services: FrameServices) -> None:
        self._slot, self._services = slot, services

    @property
    def call_id(self) -> CallId:
        """The id of the call."""
        return self._slot.call.id

    @property
    def payloads(self) -> Payloads:
        """Seals and opens values of journal entries, and reads them with the classes of the code that the call runs."""
        known = self._slot.handler.known
        return self._services.payloads.knowing(known) if known else self._services.payloads

    @property
    def entropy(self) -> Entropy:
        """The source of recorded values."""
        return self._slot.backing.entropy

    @property
    def drops(self) -> bool:
        """Whether the frame is dropped after each round."""
        return self._slot.backing.drops

    @property
    def asking_threads(self) -> AskingThreads:
        """The threads of this node's handlers that wait for answers."""
        return self._services.asking_threads

    def log_fields(self, frame: Frame) -> Mapping[str, Any]:
        """The fields of a log line of `frame`. A frame that was dropped has its own round and epoch: the call may go on
        in another one."""
        fields = self._slot.log_fields
        if self._slot.frame is not frame:
            fields |= {"round": frame.round, "epoch": frame.epoch}
        return fields

    def phase(self) -> Phase:
        """The phase of the call."""
        return self._slot.call.phase

    def may_run(self) -> bool:
        """Whether an effect may run now; see `Slot.may_run`."""
        return self._slot.may_run()

    def admit(self, what: str) -> None:
        """Raise LimitExceeded if the journal is too long for one more entry, or those of its user are. `what` names it
        for the error."""
        if (principal := self._slot.handler.principal) is not None:
            self._services.table.admit_entry(principal, what)
        limit = self._services.max_journal
        if (size := self._slot.size + self._slot.unwritten) >= limit:
            raise LimitExceeded(
                f"{what} is one too many: this call's journal has {size} bytes, its limit is {limit} "
                "(FRAMEHOLD_MAX_JOURNAL); nothing was asked or run; keep large results elsewhere and their names here",
                limit="MAX_JOURNAL",
            )

    def keeps(self, size: int) -> bool:
        """Whether the journal takes a result of `size` bytes: effects that run side by side were each admitted before
        the others had theirs."""
        return self._slot.size + self._slot.unwritten + size <= self._services.most_written

    def shield(self, effect: Coroutine[object, object, None], context: contextvars.Context) -> asyncio.Task[None]:
        """Run an effect in a task that no cancellation of a request ends."""
        return self._services.tasks.shield(effect, context)

    def noted(self, drafts: tuple[Draft, ...]) -> None:
        """Record entries; they are sent with the next write."""
        self._slot.unwritten += size_of(drafts)
        self._services.feed(self._slot, ev.Noted(drafts))

    def asked(self, asks: tuple[Draft, ...]) -> None:
        """The handler waits for the answers to these questions."""
        self._services.feed(self._slot, ev.Asked(asks))

    def intended(self, key: str, draft: Draft | None) -> None:
        """`once` is about to run the effect whose key has the digest `key`; `draft` is its intent, None if it needs
        none."""
        self._services.feed(self._slot, ev.Intended(key, draft, draft is None and self._slot.may_run()))

    def resulted(self, key: str, draft: Draft) -> None:
        """The effect whose key has the digest `key` has run; `draft` is its result."""
        self._slot.unwritten += size_of((draft,))
        self._services.feed(self._slot, ev.Resulted(key, draft))

    def flush(self) -> None:
        """Write the results that the call owes."""
        self._services.feed(self._slot, ev.Flush())

    def rebuilt(self) -> None:
        """The frame stands where its journal ends."""
        self._services.rebuilt(self._slot)

    def replay_failed(self, error: Exception, outcome: object = None) -> None:
        """The frame can't be rebuilt: `error` says why. Called by the handler's code that diverges, or while the
        handler waits; or with the `outcome` with which the handler has ended."""
        if isinstance(error, DivergenceError):
            ending = COMPLETED if outcome is None else self._slot.handler.ending(outcome)
            raised = f"; it raised {ending.error} at {ending.place or 'no line of yours'}" if ending.error else ""
            self._services.feed(self._slot, ev.Diverged(f"{error}{self._slot.stands()}{raised}"))
        else:
            self._services.feed(self._slot, ev.Unreadable(str(error)))

    def refused(self, outcome: object) -> None:
        """The client can't be asked: the call ends with `outcome`, and the handler is cancelled."""
        frame = self._slot.frame
        if frame is not None:
            self._services.feed(self._slot, ev.Finished(outcome, self._slot.handler.ending(outcome)))
            self._services.tasks.cancel_frame(frame)

    def ended(self, frame: Frame, outcome: object) -> None:
        """The handler of `frame` has ended with `outcome`."""
        self._services.ended(self._slot, frame, outcome)
