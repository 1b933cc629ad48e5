"""The outbox of one call: the writes that the store has not answered yet, of which at most one is in flight.

The law: a write leaves only when the write before it was answered. Each write continues the history that the one before
it made, so the store could not apply two of them in another order. A write that the store left unanswered is *stalled*:
it stays in flight, nothing overtakes it, and it is sent again as it was.
"""

from __future__ import annotations

from .effects import Op, Write
from .value import Value


class Outbox(Value):
    """Immutable. Each method that may send returns the next outbox and the writes to be sent now (none or one)."""

    in_flight: Write | None = None
    """The write whose answer is awaited. None also while a journal is replayed: then the queue is held back."""
    stalled: bool = False
    """Whether the store left the write in flight unanswered, so that it must be sent again."""
    queue: tuple[Write, ...] = ()
    """The writes behind the one in flight, the next one first."""

    def send(self, write: Write) -> tuple[Outbox, tuple[Write, ...]]:
        """Send `write`. Where another write is in flight `write` is lined up, and a stalled one is sent again."""
        if self.in_flight is None:
            return Outbox(write), (write,)
        return self.line_up(write).resend()

    def line_up(self, write: Write) -> Outbox:
        """Put `write` at the end of the queue, and send nothing."""
        return Outbox(self.in_flight, self.stalled, (*self.queue, write))

    def next(self) -> tuple[Outbox, tuple[Write, ...]]:
        """The write in flight was answered: send the next one."""
        if not self.queue:
            return EMPTY, ()
        write = self.queue[0]
        return Outbox(write, False, self.queue[1:]), (write,)

    def stall(self) -> Outbox:
        """The store left the write in flight unanswered."""
        return Outbox(self.in_flight, True, self.queue)

    def resend(self) -> tuple[Outbox, tuple[Write, ...]]:
        """Send the write in flight again where it is stalled, else nothing."""
        if not self.stalled or self.in_flight is None:
            return self, ()
        return Outbox(self.in_flight, False, self.queue), (self.in_flight,)

    @property
    def carries(self) -> bool:
        """Whether a write with journal entries is in flight or in the queue."""
        if self.in_flight is not None and self.in_flight.drafts:
            return True
        return bool(self.queue) and any(write.drafts for write in self.queue)

    def has(self, op: Op) -> bool:
        """Whether a write of kind `op` is in flight or in the queue."""
        if self.in_flight is not None and self.in_flight.op is op:
            return True
        return bool(self.queue) and any(write.op is op for write in self.queue)


EMPTY = Outbox()
