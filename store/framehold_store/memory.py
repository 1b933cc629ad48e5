"""The store of one process: core's `record.apply` over a dict. Nothing of it outlives the process.

Memory is bounded by time and by number. A record is forgotten when it expires: on access at once, otherwise by a heap
that each request sweeps. Every call has one place in that heap; a place that comes up early, because a write has
moved the expiry, is put back. Of finished calls at most `max_tombstones` are kept, the oldest dropped first: a late
duplicate of a call that was dropped hears "invalid or expired" where it would have heard the outcome again.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from itertools import islice

from framehold_core import lease, record
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId, NodeId
from framehold_core.lease import NodeRecord, Renewal
from framehold_core.requests import Record, RecordState, Reply, Request, Stored

from .base import POLL, Clock, Done, Summary, Swept
from .feed import Feed

_log = logging.getLogger(__name__)

MAX_TOMBSTONES = 100_000
_SLACK = 1_000
_SWEEP = 32


class MemoryStore:
    """A `Store` in this process. `clock` gives seconds and never goes back; `poll` is that of the change feed."""

    def __init__(self, clock: Clock, *, max_tombstones: int = MAX_TOMBSTONES, poll: float = POLL) -> None:
        self._clock = clock
        self._max_tombstones = max_tombstones
        self._calls: dict[CallId, Stored] = {}
        self._due: list[tuple[float, CallId]] = []
        self._tombstones: OrderedDict[CallId, None] = OrderedDict()
        """The oldest first. A plain dict would look for that one behind the places of all that went before it."""
        self._nodes: dict[NodeId, NodeRecord] = {}
        self._feed = Feed(poll)
        self._hear: Callable[[bytes], None] | None = None
        self._writes: Counter[str] = Counter()

    def submit(self, request: Request, done: Done) -> None:
        reply = self._apply(request)
        try:
            done(reply)
        except Exception:
            _log.exception("whoever waited for the store failed on its reply; the reply stands")

    async def run(self, request: Request) -> Reply:
        return self._apply(request)

    def _apply(self, request: Request) -> Reply:
        now = self._clock()
        self._writes[type(request).__name__.lower()] += 1
        call = request.call
        before = self._calls.get(call)
        after, reply = record.apply(before, request, now)
        if after is not before:
            self._keep(call, before, after)
        self._sweep(now)
        return reply

    def _keep(self, call: CallId, before: Stored | None, after: Stored | None) -> None:
        if after is None:
            self._forget(call)
            return
        self._calls[call] = after
        if before is None:
            heapq.heappush(self._due, (after.record.expires, call))
        if after.record.state in (RecordState.DONE, RecordState.LOST):
            self._tombstones[call] = None
            if len(self._tombstones) > self._max_tombstones:
                self._forget(next(iter(self._tombstones)))
        elif self._tombstones:
            self._tombstones.pop(call, None)

    def _forget(self, call: CallId) -> None:
        self._calls.pop(call, None)
        self._tombstones.pop(call, None)
        if len(self._due) > 2 * len(self._calls) + _SLACK:
            self._due = [(stored.record.expires, call) for call, stored in self._calls.items()]
            heapq.heapify(self._due)

    def _sweep(self, now: float) -> None:
        """Forget what has expired: a few records per request, so that no single one pays for a crowd."""
        for _ in range(_SWEEP):
            if not self._due or self._due[0][0] > now:
                return
            _, call = heapq.heappop(self._due)
            stored = self._calls.get(call)
            if stored is None:
                continue
            if stored.record.expires <= now:
                self._forget(call)
            else:
                heapq.heappush(self._due, (stored.record.expires, call))

    async def register(self, node: NodeRecord, ttl: float) -> Renewal:
        self._writes["register"] += 1
        now = self._clock()
        stored = self._nodes.get(node.node)
        kept, renewal = lease.register(stored, node._replace(expires=now + ttl), now)
        self._nodes[node.node] = kept
        if renewal is Renewal.RENEWED:
            self._feed.notify(node.node)
        return renewal

    async def renew(self, node: NodeRecord, acknowledged: int, ttl: float) -> tuple[Renewal, int]:
        self._writes["renew"] += 1
        now = self._clock()
        stored = self._nodes.get(node.node)
        kept, renewal = lease.renew(stored, node._replace(expires=now + ttl), acknowledged, now)
        if kept is None:
            self._nodes.pop(node.node, None)
            return renewal, 0
        self._nodes[node.node] = kept
        if stored is not None and stored[4:7] != kept[4:7]:
            self._feed.notify(node.node)
        return renewal, kept.beat

    async def leave(self, node: NodeRecord) -> None:
        self._writes["leave"] += 1
        stored = self._nodes.get(node.node)
        if stored is not None and (stored.inc, stored.boot) == (node.inc, node.boot):
            del self._nodes[node.node]
            self._feed.notify(node.node)

    async def nodes(self, named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        now = self._clock()
        self._nodes = {name: node for name, node in self._nodes.items() if node.expires > now}
        return tuple(self._nodes[name] for name in sorted(self._nodes) if named is None or name in named)

    async def sweep(self, cursor: str = "", count: int = 100) -> Swept:
        """From the youngest call to the oldest: the cursor says how many are left. A call that goes away brings those
        behind it nearer to the front, which is still to come, and new ones come at the end."""
        if cursor and not cursor.isdecimal():
            raise StoreUnavailable("a sweep's cursor is none of this store's; nothing was looked at")
        left = min(int(cursor or len(self._calls)), len(self._calls))
        rest, now = max(0, left - count), self._clock()
        seen = ((call, self._calls[call].record) for call in islice(self._calls, rest, left))
        found = tuple(_summary(call, stored) for call, stored in seen if stored.expires > now)
        return Swept(str(rest or ""), found, 0)

    async def alive(self) -> int:
        return len(await MemoryStore.nodes(self))

    def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        return self._feed.changes()

    async def tell(self, message: bytes) -> None:
        if self._hear is not None:
            self._hear(message)

    def listen(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear

    async def open(self) -> None:
        """Nothing to make ready."""

    async def close(self) -> None:
        self._feed.close()

    @property
    def writes(self) -> Mapping[str, int]:
        return self._writes


def _summary(call: CallId, record: Record) -> Summary:
    head = record.head
    return Summary(
        *(call, record.state, record.owner, record.inc, head.boot, record.epoch, record.round, record.attempts),
        *(head.reentrant, head.tool, head.strategy, record.created, record.expires),
    )
