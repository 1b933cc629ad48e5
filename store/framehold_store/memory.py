"""The store of one process: core's `record.apply` over a dict. Nothing of it outlives the process.

Memory is bounded by time and by number. An expired record is dropped when it is next accessed, or by a heap of expiry
times: each request removes a few expired records from its top. Every call has one entry in the heap. An entry that
comes up too early, because a write has moved the expiry, is put back. At most `max_tombstones` records of finished
calls are kept, with MAX_OUTCOME_BYTES of outcomes; the oldest are dropped first. A record whose outcome was dropped has
an empty one: a late duplicate hears that the call has finished. One of a dropped record hears that the call is lost.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from itertools import islice

from framehold_core import lease, pauses, record
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId, NodeId
from framehold_core.lease import LeaseReply, NodeRecord, Renewal
from framehold_core.pauses import Pause, Tools
from framehold_core.requests import Record, RecordState, Reply, Request, Stored
from framehold_core.value import replace

from . import lease_codec
from .base import MAX_EVENT_AGE, MAX_EVENTS, POLL, Done, MemoryUse, ScanStep, StoredEvent, StreamName, Summary
from .feed import Feed

_log = logging.getLogger(__name__)

MAX_TOMBSTONES = 100_000
MAX_OUTCOME_BYTES = 64 * 2**20
"""Bytes of the outcomes of finished calls that are kept at most: of 2,000 calls with the largest outcomes."""
_STALE_ENTRIES = 1_000
"""Heap entries of dropped calls, beyond one for each call that is kept, that cause no clean-up of the heap."""
_EXPIRED_PER_REQUEST = 32


class MemoryStore:
    """A `Store` in this process. `clock` gives seconds since 1970 and never goes back; `poll` is the pause of the
    change feed in seconds."""

    def __init__(self, clock: Callable[[], float], *, max_tombstones: int = MAX_TOMBSTONES, poll: float = POLL) -> None:
        self._clock = clock
        self._max_tombstones = max_tombstones
        self._calls: dict[CallId, Stored] = {}
        self._due: list[tuple[float, CallId]] = []
        self._tombstones: OrderedDict[CallId, None] = OrderedDict()
        """Finished calls, the oldest first. In a plain dict, finding the first key would pass over the empty places of
        all dropped keys."""
        self._outcomes: OrderedDict[CallId, int] = OrderedDict()
        """Those whose outcomes are kept, with their bytes."""
        self._outcome_bytes = 0
        """The sum of these bytes."""
        self._nodes: dict[NodeId, NodeRecord] = {}
        self._pauses: dict[str, Pause] = {}
        self._deaths: dict[str, dict[str, float]] = {}
        self._codes: dict[str, tuple[bytes, float]] = {}
        self._poll = poll
        self._feed = Feed(poll)
        self._subscriber: Callable[[bytes], None] | None = None
        self._request_counts: Counter[str] = Counter()
        self._streams = defaultdict[StreamName, deque[tuple[float, int, bytes]]](lambda: deque(maxlen=MAX_EVENTS))
        """The event log: when each entry was added, its number, and the entry."""
        self._logged = 0
        self._samples: dict[tuple[int, int], tuple[float, bytes]] = {}
        """The samples by step and slot, each with the time at which it ends."""

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
        self._request_counts[type(request).__name__.lower()] += 1
        call = request.call
        before = self._calls.get(call)
        after, reply = record.apply(before, request, now)
        if after is not before:
            self._keep(call, before, after)
        self._drop_expired(now)
        return reply

    def _keep(self, call: CallId, before: Stored | None, after: Stored | None) -> None:
        if after is None:
            self._forget(call)
            return
        self._calls[call] = after
        if before is None:
            heapq.heappush(self._due, (after.record.expires, call))
        if call in self._outcomes:
            self._drop_outcome(call)
        if after.record.state in (RecordState.DONE, RecordState.LOST):
            self._tombstones[call] = None
            self._outcomes[call] = size = len(after.record.outcome)
            self._outcome_bytes += size
            if len(self._tombstones) > self._max_tombstones or self._outcome_bytes > MAX_OUTCOME_BYTES:
                self._drop_oldest()
        else:
            self._tombstones.pop(call, None)

    def _drop_oldest(self) -> None:
        while len(self._tombstones) > self._max_tombstones:
            self._forget(next(iter(self._tombstones)))
        while self._outcome_bytes > MAX_OUTCOME_BYTES:
            call = next(iter(self._outcomes))
            self._drop_outcome(call)
            stored = self._calls[call]
            self._calls[call] = replace(stored, record=replace(stored.record, outcome=b""))

    def _drop_outcome(self, call: CallId) -> None:
        self._outcome_bytes -= self._outcomes.pop(call, 0)

    def _forget(self, call: CallId) -> None:
        self._calls.pop(call, None)
        self._tombstones.pop(call, None)
        self._drop_outcome(call)
        if len(self._due) > 2 * len(self._calls) + _STALE_ENTRIES:
            self._due = [(stored.record.expires, call) for call, stored in self._calls.items()]
            heapq.heapify(self._due)

    def _drop_expired(self, now: float) -> None:
        """Drop expired records: a few per request, so that no single request pays for many."""
        for _ in range(_EXPIRED_PER_REQUEST):
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

    async def register(self, node: NodeRecord, ttl: float, over: bytes = b"") -> LeaseReply:
        self._request_counts["register"] += 1
        now, stored = self._clock(), self._lease(node.node)
        found = None if stored is not None and lease_codec.dump(stored) == over else stored
        kept, result = lease.register(found, node, ttl, now)
        if result is not Renewal.RENEWED or kept is None:
            return _refused(result, now, stored)
        self._nodes[node.node] = kept
        self._feed.notify(node.node)
        return LeaseReply(result, now)

    async def renew(self, node: NodeRecord, acknowledged: int, ttl: float) -> LeaseReply:
        self._request_counts["renew"] += 1
        now, stored = self._clock(), self._lease(node.node)
        kept, result = lease.renew(stored, node, acknowledged, ttl, now)
        if result is not Renewal.RENEWED or kept is None:
            return _refused(result, now, stored)
        self._nodes[node.node] = kept
        told = (kept.address, kept.state, kept.code)
        if stored is not None and (stored.address, stored.state, stored.code) != told:
            self._feed.notify(node.node)
        return LeaseReply(result, now)

    def _lease(self, node: NodeId) -> NodeRecord | None:
        """The lease of a node; None if it has none that lasts."""
        found = self._nodes.get(node)
        return found if found is not None and found.expires > self._clock() else None

    async def unregister(self, node: NodeRecord) -> None:
        self._request_counts["leave"] += 1
        stored = self._nodes.get(node.node)
        if stored is not None and (stored.inc, stored.boot) == (node.inc, node.boot):
            del self._nodes[node.node]
            self._feed.notify(node.node)

    async def nodes(self, named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        now = self._clock()
        self._nodes = {name: node for name, node in self._nodes.items() if node.expires > now}
        return tuple(self._nodes[name] for name in sorted(self._nodes) if named is None or name in named)

    async def scan(self, cursor: str = "", count: int = 100) -> ScanStep:
        """Read the calls from the youngest to the oldest; the cursor is the number of calls that are left. A dropped
        call moves the younger calls towards the old end, which is still to be read. New calls are added at the young
        end."""
        if cursor and not cursor.isdecimal():
            raise StoreUnavailable("a sweep's cursor is none of this store's; nothing was looked at")
        left = min(int(cursor or len(self._calls)), len(self._calls))
        rest, now = max(0, left - count), self._clock()
        seen = ((call, self._calls[call].record) for call in islice(self._calls, rest, left))
        found = tuple(_summary(call, stored) for call, stored in seen if stored.expires > now)
        return ScanStep(str(rest or ""), found, 0)

    async def tools(self) -> Tools:
        return Tools(tuple(self._pauses[tool] for tool in sorted(self._pauses)), frozenset(self._deaths))

    async def cleared(self, tool: str) -> None:
        self._deaths.pop(tool, None)

    async def pause(self, pause: Pause) -> None:
        self._pauses[pause.tool] = pause
        self._deaths.pop(pause.tool, None)

    async def resume(self, tool: str) -> bool:
        self._deaths.pop(tool, None)
        return self._pauses.pop(tool, None) is not None

    async def died(self, tool: str, boot: str, limit: int, why: str) -> tuple[Pause | None, bool]:
        deaths = self._deaths[tool] = pauses.add_death(self._deaths.get(tool, {}), boot, self._clock())
        known = self._pauses.get(tool)
        if known is not None or not pauses.is_poison(deaths, limit):
            return known, False
        pause = self._pauses[tool] = Pause(tool, self._clock(), pauses.FRAMEHOLD, why)
        return pause, True

    async def keep_code(self, digest: str, code: bytes, ttl: float) -> None:
        now = self._clock()
        self._codes = {name: kept for name, kept in self._codes.items() if kept[1] > now}
        _, until = self._codes.get(digest, (b"", 0.0))
        self._codes[digest] = (code, max(until, now + ttl))

    async def code(self, digest: str) -> bytes | None:
        found = self._codes.get(digest)
        return found[0] if found is not None and found[1] > self._clock() else None

    async def count_nodes(self) -> int:
        return len(await MemoryStore.nodes(self))

    def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        return self._feed.changes()

    async def publish(self, message: bytes) -> None:
        if self._subscriber is not None:
            self._subscriber(message)

    def subscribe(self, receive: Callable[[bytes], None]) -> None:
        self._subscriber = receive

    async def append_events(self, entries: Sequence[bytes], to: StreamName = "log") -> None:
        for entry in entries:
            self._logged += 1
            self._streams[to].append((self._clock(), self._logged, entry))

    async def events(self, after: str = "", count: int = 500, of: StreamName = "log") -> tuple[StoredEvent, ...]:
        last, kept_from = int(after or 0), self._clock() - MAX_EVENT_AGE[of]
        kept = (item for item in self._streams[of] if item[1] > last and item[0] >= kept_from)
        return tuple(StoredEvent(f"{number:012}", entry) for _, number, entry in islice(kept, count))

    async def keep_sample(self, step: int, slot: int, sample: bytes, ttl: float) -> None:
        now = self._clock()
        if (kept := self._samples.get((step, slot))) is None or kept[0] <= now:
            self._samples[step, slot] = now + ttl, sample
        for key in [key for key, (ends, _) in self._samples.items() if ends <= now]:
            del self._samples[key]

    async def samples(self, step: int, slots: Sequence[int]) -> tuple[bytes | None, ...]:
        now = self._clock()
        found = (self._samples.get((step, slot)) for slot in slots)
        return tuple(None if kept is None or kept[0] <= now else kept[1] for kept in found)

    async def time(self) -> float:
        return self._clock()

    async def memory(self) -> MemoryUse | None:
        return None

    async def unsaved(self) -> str:
        return ""

    async def open(self) -> None:
        if self._feed.closed:
            self._feed = Feed(self._poll)

    async def close(self) -> None:
        self._feed.close()

    @property
    def request_counts(self) -> Mapping[str, int]:
        return self._request_counts

    @property
    def unreadable_leases(self) -> int:
        return 0


def _refused(result: Renewal, now: float, stored: NodeRecord | None) -> LeaseReply:
    return LeaseReply(result, now, stored, b"" if stored is None else lease_codec.dump(stored))


def _summary(call: CallId, record: Record) -> Summary:
    head = record.head
    return Summary(
        *(call, record.state, record.owner, record.incarnation, head.boot, record.epoch, record.round, record.attempts),
        *(head.reentrant, head.tool, head.strategy, record.created, record.expires),
    )
