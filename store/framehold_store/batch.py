"""Group commit: a lane sends commands to one Redis in batches.

The law: every item is settled exactly once, in time; items of one call are applied in the order of their submission;
a reply is never matched to the request of another item. One batch is in flight at a time; items that are submitted
meanwhile form the next batch:

    1  submit puts an item on the queue; the lane takes the queue on the next turn of the event loop
    2  the lane writes up to 64 queued items at once, gets their replies in order, and settles each item at its reply
    3  the connection is lost, the server takes no writes any more (it is a replica now, or a master without its
       replicas, which may have been replaced), or the oldest item of the batch is overdue: the connection is dropped.
       Items without a reply may have been applied. They go back to the head of the queue, in order, and are sent once
       more if time allows: all are idempotent by position. Items that were sent twice get StoreUnavailable
       The time in which the event loop of this process stood is not the store's: where its replies may have come
       meanwhile, GRACE is left to read them
    4  NOSCRIPT: that item was not applied. At the end of the batch the connection is made anew, which loads the
       scripts, and the item is sent again. Every later item of the same key in this batch is sent again too: if the
       script came back in between, the later item has overtaken the first

A connection that stands serves in callbacks of the event loop (`pipe.py`): a write that travels alone takes one turn of
the loop to be sent and one to be settled, and no task runs. The lane's task makes connections, and ends the lane. One
timer watches all batches and the queue; it is set anew only when it fires, or when it would fire too late. The queue is
in the order of deadlines: a cluster sends an item anew, with the deadline that it has.

The lane exists because it is faster than redis-py's pipeline: for 32 writers it takes two fifths to a half of the
client's CPU for each script, encoding and decoding included. A write that travels alone takes six tenths of the CPU of
redis-py's own call; most of what is left is the kernel's.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import hiredis
from redis.exceptions import ConnectionError, NoScriptError, ResponseError

from framehold_core.errors import StoreRefused, StoreUnavailable

from .link import StoreLink, words_of
from .pipe import Pipe

_log = logging.getLogger(__name__)

pack: Callable[[tuple[str | bytes | int, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]
"""One command in Redis' wire format. (hiredis' stub promises tuples of one element; any length works.)"""

BATCH = 64
"""Items of one batch at most."""
_BATCH_BYTES = 1 << 20
_TRIES = 2
LATE = 0.1
"""Seconds by which a deadline is noticed too late where the event loop stood, or the process got no processor."""
GRACE = 0.2
"""Seconds that are left then to send what was not sent, and to read the replies that have come."""
_BUG_PAUSE = 0.1
"""Seconds after a bug of the lane itself before it makes a connection again."""

Settle = Callable[[Any], None]
"""Receives a raw reply, an error reply of the server as a ResponseError, or StoreUnavailable. Must not raise."""


class Item:
    """One packed command and the callback that settles it. Items of one `key` keep their order. `what` names the
    command in messages. The first lane that takes the item sets `deadline`, in seconds on the clock of the event
    loop. `excused` says whether it was put off once since the loop stood."""

    __slots__ = ("deadline", "excused", "key", "packed", "settle", "tries", "what")

    def __init__(self, packed: bytes, key: str, what: str, settle: Settle) -> None:
        self.packed = packed
        self.key = key
        self.what = what
        self.settle = settle
        self.deadline = 0.0
        self.excused = False
        self.tries = 0


class BatchLane:
    """Group commit to one server. An item is settled at the latest `timeout` seconds after its submission, or GRACE
    after the event loop stood; at most `limit` items wait in the queue."""

    def __init__(self, link: StoreLink, timeout: float, limit: int) -> None:
        self._link = link
        self._timeout = timeout
        self._limit = limit
        self._queue: deque[Item] = deque()
        self._flight: deque[Item] = deque()
        self._again: list[Item] = []
        """Items of the batch in flight whose script was missing, and later items of their keys."""
        self._refusal = ""
        """What the server said when it last refused all writes; empty once it has answered otherwise."""
        self._pipe: Pipe | None = None
        self._busy = False
        """A batch is in flight, a turn of the lane is due, or its task makes a connection."""
        self._until = math.inf
        """The deadline of the batch in flight; infinite once it was noticed too late."""
        self._timer: asyncio.Handle | None = None
        self._fires = math.inf
        """When the timer fires; uvloop's does not say it."""
        self._broken: asyncio.Future[None] | None = None
        """What the task waits for while there is a connection."""
        self._task: asyncio.Task[None] | None = None
        self._context = contextvars.Context()
        """Empty: the lane serves all requests, and takes over nothing of the first one."""
        self._closed = False

    def submit(self, item: Item) -> None:
        """Queue one item. It is settled by its deadline: its own if it has one, else `timeout` seconds from now. If the
        queue is full or the lane is closed, it is settled at once with StoreUnavailable."""
        if self._closed:
            item.settle(StoreUnavailable(f"the store is closed; {item.what} was not sent"))
            return
        if len(self._queue) >= self._limit:
            item.settle(
                StoreUnavailable(
                    f"{self._limit} requests wait for the store already (max_queue); {item.what} was not sent; "
                    "try again later, or look why the store is slow"
                )
            )
            return
        loop = asyncio.get_running_loop()
        if not item.deadline:
            item.deadline = loop.time() + self._timeout
        self._enqueue(item)
        if self._busy:
            self._watch(item.deadline)
            return
        self._busy = True
        if self._task is None:
            name = f"framehold lane {self._link.name}"
            self._task = loop.create_task(self._run(), name=name, context=self._context)
        else:
            loop.call_soon(self._first_batch, context=self._context)

    def _enqueue(self, item: Item) -> None:
        """Queue an item before those that are due later, and behind each of its key."""
        queue, place = self._queue, len(self._queue)
        while place and queue[place - 1].deadline > item.deadline and queue[place - 1].key != item.key:
            place -= 1
        queue.insert(place, item)

    def recall(self) -> list[Item]:
        """Empty the queue and return its items, which are not settled. Items in flight stay: they are settled, or put
        back into the queue."""
        waiting = [*self._queue]
        self._queue.clear()
        return waiting

    @property
    def idle(self) -> bool:
        """Whether no item is queued or in flight."""
        return not self._queue and not self._flight

    async def close(self) -> None:
        """Settle all items that are left with StoreUnavailable, and drop the connection. Idempotent."""
        self._closed = True
        task, self._task = self._task, None
        try:
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))
            await self._link.drop()
        finally:
            self._settle_left()

    def _settle_left(self) -> None:
        left = [*self._again, *self._flight, *self._queue]
        self._again.clear()
        self._flight.clear()
        self._queue.clear()
        for item in left:
            item.settle(StoreUnavailable(f"the store was closed; {item.what} may or may not have been applied"))

    async def _run(self) -> None:
        """Make a connection, and a new one each time it is lost."""
        pause = 0.0
        try:
            while True:
                try:
                    if pause:
                        await asyncio.sleep(pause)
                    self._broken = asyncio.get_running_loop().create_future()
                    await self._link.drop()
                    if self._queue:
                        self._pipe = await self._connected()
                    self._next_batch()
                    await self._broken
                    pause = 0.0
                except Exception as error:
                    self._bug(error)
                    # Nothing may have waited for anything: without a pause the event loop would serve nothing else.
                    pause = _BUG_PAUSE
        finally:
            # It ends by cancellation only: by `close`, or with the event loop.
            self._closed = True
            self._leave_pipe()
            self._settle_left()

    def _bug(self, error: Exception) -> None:
        _log.exception("store %s: a bug in the lane; its connection is made anew", self._link.name, exc_info=error)
        self._lost(error)

    async def _connected(self) -> Pipe:
        """Wait for a connection. The timer settles the items whose deadline passes meanwhile. In a task of its own: an
        error at its end does not stand in the way of `close`."""
        loop = asyncio.get_running_loop()
        self._look(loop.time())
        task = loop.create_task(self._link.connect(self._received, self._lost))
        try:
            await asyncio.wait((task,))
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _take(self) -> None:
        """Move the items of the next batch from the queue to `_flight`."""
        self._expire(asyncio.get_running_loop().time())
        queue, flight, size = self._queue, self._flight, 0
        while queue and len(flight) < BATCH and size < _BATCH_BYTES:
            item = queue.popleft()
            item.tries += 1
            size += len(item.packed)
            flight.append(item)

    def _first_batch(self) -> None:
        # Nothing was sent yet: if these items are late, the loop stood before the lane's turn.
        self._leave_grace()
        self._next_batch()

    def _following_batch(self, ended: float) -> None:
        if asyncio.get_running_loop().time() >= ended + LATE:
            self._leave_grace()
        self._next_batch()

    def _next_batch(self) -> None:
        """Send the next batch; without a connection the task makes one first."""
        if self._closed:
            return
        if self._pipe is None and self._queue:
            self._renew()
            return
        self._take()
        self._busy = bool(self._flight)
        if self._pipe is not None and self._flight:
            self._until = self._flight[0].deadline
            self._watch(self._until)
            try:
                self._pipe.write(b"".join([item.packed for item in self._flight]))
            except ConnectionError as error:
                self._lost(error)

    def _received(self, raw: Any) -> None:
        """Take the reply to the first item in flight."""
        try:
            if isinstance(raw, Exception) and (not isinstance(raw, ResponseError) or _takes_no_writes(raw)):
                before, self._refusal = self._refusal, words_of(raw)
                self._lost(raw, repeated=bool(before) and self._refusal == before)
                return
            self._refusal = ""
            item = self._flight.popleft()
            if isinstance(raw, NoScriptError) or (self._again and any(item.key == other.key for other in self._again)):
                self._again.append(item)
            else:
                item.settle(raw)
            if not self._flight:
                self._batch_ended()
        except Exception as error:
            self._bug(error)

    def _batch_ended(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        # Where the loop stood, the last reply may be read before the timer has its turn.
        self._has_stood(now)
        self._until = math.inf
        if self._again:
            again, self._again = self._again, []
            self._put_back(again)
            _log.info("store %s had lost the scripts; it is connected anew to load them", self._link.name)
            self._renew()
        elif self._queue:
            # On the next turn: whoever was answered may send more, which travels in the same batch.
            loop.call_soon(self._following_batch, now, context=self._context)
        else:
            self._busy = False

    def _lost(self, error: Exception, repeated: bool = False) -> None:
        """Leave a connection that is lost or too slow. Which items in flight were applied is unknown; each goes back to
        the queue if it was sent once only. `repeated`: the line of the log was written for the same cause before."""
        left = [*self._again, *self._flight]
        if left:
            _log.log(
                logging.DEBUG if repeated else logging.WARNING,
                "store %s: the connection was dropped with %d requests unanswered (%s); they are sent once more if "
                "time allows",
                self._link.name,
                len(left),
                f"{type(error).__name__}: {error}".rstrip(": "),
            )
        self._again.clear()
        self._flight.clear()
        self._put_back(left)
        self._renew()

    def _renew(self) -> None:
        """Have the task make a new connection."""
        self._busy = True
        self._until = math.inf
        self._leave_pipe()
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(None)

    def _leave_pipe(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()
        timer, self._timer, self._fires = self._timer, None, math.inf
        if timer is not None:
            timer.cancel()

    def _watch(self, deadline: float) -> None:
        """Notice when `deadline` passes before the batch has ended, or the item was sent. GRACE, once given, is left
        whole."""
        if self._fires <= deadline or (self._flight and self._until == math.inf):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._fires = deadline
        self._timer = asyncio.get_running_loop().call_at(deadline, self._due, context=self._context)

    def _due(self) -> None:
        self._timer, self._fires = None, math.inf
        if self._pipe is not None and not self._flight:
            # A turn of the lane is due, which looks at the queue, or nothing waits.
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._flight and now < self._until < math.inf:
            self._watch(self._until)
        elif self._flight and self._has_stood(now):
            self._timer = loop.call_later(GRACE, self._due, context=self._context)
            return
        elif self._flight:
            self._lost(TimeoutError())
        self._look(now)

    def _look(self, now: float) -> None:
        """Settle the items of the queue that are overdue, and look again when the next one is."""
        self._expire(now)
        if self._queue:
            self._watch(self._queue[0].deadline)

    def _has_stood(self, now: float) -> bool:
        """Whether the deadline of the batch is noticed too late, since the loop stood, for the first time."""
        late = now >= self._until + LATE
        if late:
            self._until = math.inf
            self._leave_grace()
        return late

    def _leave_grace(self) -> None:
        """Give all items that are not settled GRACE at least."""
        until = asyncio.get_running_loop().time() + GRACE
        for items in (self._flight, self._queue):
            for item in items:
                item.deadline, item.excused = max(item.deadline, until), True

    def _put_back(self, items: Iterable[Item]) -> None:
        """Put items back to the head of the queue, in order. Items that were sent twice are settled with an error."""
        waiting = []
        for item in items:
            if item.tries < _TRIES:
                waiting.append(item)
            else:
                item.settle(self._failure(item, "failed twice"))
        behind, self._queue = self._queue, deque(waiting)
        for item in behind:
            self._enqueue(item)

    def _expire(self, now: float) -> None:
        """Settle the items of the queue that are overdue. Where that is noticed too late, the loop stood."""
        if self._queue and now >= self._queue[0].deadline + LATE and not self._queue[0].excused:
            self._leave_grace()
        while self._queue and self._queue[0].deadline <= now:
            item = self._queue.popleft()
            item.settle(self._failure(item, f"did not answer within {self._timeout:g} s"))

    def _failure(self, item: Item, what: str) -> StoreUnavailable:
        trouble = f" ({self._link.trouble})" if self._link.trouble else ""
        sent = "may or may not have been applied" if item.tries else "was not sent"
        text = f"the store {what}{trouble}; {item.what} {sent}; it is safe to try again"
        says = self._refusal or self._link.refusal
        failure = StoreRefused(text, says) if says else StoreUnavailable(text)
        failure.limit = self._link.limit
        return failure


def _takes_no_writes(error: ResponseError) -> bool:
    """Whether the server refuses writes, and another one may take them."""
    return words_of(error).startswith(("READONLY", "NOREPLICAS"))
