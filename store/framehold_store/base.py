"""The protocol `Store`: which operations a node and a router can send to the store.

The law: every request is applied whole or not at all, by the rules of `framehold_core.record`, on the store's own
clock. A verdict other than OK means that no byte of the record has changed. A request whose reply was lost may be sent
again: the second reply is ALREADY, or equals the lost one.

Durability depends on the backend. In Redis an acknowledged write outlives this process; it outlives Redis itself as
far as persistence and replicas of that Redis go. In memory nothing outlives the process. Rule 7 of docs/protocol.md
says what happens when a store loses acknowledged writes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId, NodeId
from framehold_core.lease import LeaseReply, NodeRecord
from framehold_core.pauses import Pause, Tools
from framehold_core.requests import RecordState, Reply, Request

Done = Callable[[Reply | StoreUnavailable], None]
"""Receives the reply to a request, or the error. It must not raise. If it raises all the same, the exception is logged
and other requests go on."""

POLL = 2.0
"""Seconds after which a change feed wakes its readers without a change: nobody announces a lease that has run out."""


class Summary(NamedTuple):
    """What a scan reads from one call's record, at one instant: no journal, no answers, no outcome. `created` and
    `expires` are seconds on the store's clock."""

    call: CallId
    state: RecordState
    owner: str
    inc: str
    boot: str
    epoch: int
    round: int
    attempts: int
    reentrant: bool
    tool: str
    strategy: str
    created: float
    expires: float


class ScanStep(NamedTuple):
    """The result of one step of a scan. The next step takes `cursor` as its argument; it is empty after the last step.
    `unreadable` counts the records that were skipped because they are corrupted or of a newer release."""

    cursor: str
    found: tuple[Summary, ...]
    unreadable: int


StreamName = Literal["log", "ended", "failed", "routers"]
"""A stream of a fleet, which operators look at: its event log, the calls that ended, those of them that failed, and
what its routers say of themselves."""
MAX_EVENTS = 5_000
"""Entries that a stream keeps at most."""
MAX_EVENT_AGE: Mapping[StreamName, float] = MappingProxyType(
    {"log": 86_400.0, "ended": 3_600.0, "failed": 3_600.0, "routers": 3_600.0}
)
"""Seconds for which each stream keeps an entry at most."""


class StoredEvent(NamedTuple):
    """One entry of the event log. `place` is greater than that of each entry before it."""

    place: str
    entry: bytes


class MemoryUse(NamedTuple):
    """How many bytes of memory a server of the store uses, and how many it may use."""

    used: int
    limit: int


class Store(Protocol):
    """Records and journals of calls, and the registry of nodes. Belongs to one event loop from `open` to `close`; only
    `request_counts` may be read from another thread. The methods are of these kinds:

    - records of calls: `submit`, `run`
    - node leases: `register`, `renew`, `unregister`, `nodes`, `count_nodes`, `changes`
    - a walk over all records: `scan`
    - paused tools: `tools`, `pause`, `resume`, `died`, `cleared`
    - the code of handlers: `keep_code`, `code`
    - messages between nodes: `publish`, `subscribe`
    - its clock: `time`
    - what operators see: `append_events`, `events`, `keep_sample`, `samples`, `memory`
    """

    def submit(self, request: Request, done: Done) -> None:
        """Send one request, in one batch with other requests that wait (group commit). This is the hot path. Never
        blocks and never raises.

        `done` is called exactly once, from the event loop, within about the operation time-out. It may be called before
        `submit` returns (store in memory, full queue). Requests of one call are applied in the order of their
        submission.

        Atomicity: one request is one script. Durability: a reply means that the store acknowledged the write.
        Errors: `done` receives `StoreUnavailable` if no answer came in time; whether the request was applied is then
        unknown, and sending it again is safe. It receives `StoreUnavailable` also for a corrupted record.
        """

    async def run(self, request: Request) -> Reply:
        """Send one request by `submit` and return its reply. Cancelling the wait does not take the request back.

        Raises:
            StoreUnavailable: no answer came in time (the request may have been applied), or the record is corrupted.
        """

    async def register(self, node: NodeRecord, ttl: float, over: bytes = b"") -> LeaseReply:
        """Take the node lease, as the node has written it, if nobody has it, or replace that of an earlier incarnation
        of the same process (`framehold_core.lease.register`). `over` is a stored value that may be replaced whatever it
        is, as an earlier reply had it in `raw`: the caller has found that it is no lease of a live process.

        Returns RENEWED; TAKEN if another process has it; LAPSED if the beat is not above the stored one; ASTRAY if the
        lease does not end within about `ttl` seconds. Nobody has verified what the reply gives back.

        Atomic for the lease; idempotent for one incarnation. The list of names that `nodes` reads may lack this node
        until its next renewal.

        Raises:
            StoreUnavailable: no answer came in time; sending it again, with a higher beat, is safe.
        """

    async def renew(self, node: NodeRecord, acknowledged: int, ttl: float) -> LeaseReply:
        """Replace the node lease by this one, which ends later, if it still belongs to this incarnation.

        `framehold_core.lease.renew` states the rule. `acknowledged` is the last beat for which the store returned
        RENEWED to this node.

        Returns RENEWED. Otherwise nothing was written, and it returns LAPSED, TAKEN or ASTRAY, and what is stored.

        Raises:
            StoreUnavailable: no answer came in time; the lease may or may not have been extended.
        """

    async def unregister(self, node: NodeRecord) -> None:
        """Delete the node lease if it still belongs to this incarnation. Idempotent.

        Raises:
            StoreUnavailable: no answer came in time; the lease will run out by itself.
        """

    async def nodes(self, named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        """The leases of all live nodes, or of the live nodes among `named`, in order of their names. Not atomic across
        nodes: each lease is as it stood at some instant of the call. An entry that is no lease, or a lease that has
        ended by the store's clock, is given as `no_lease`. A call without `named` logs it once, and again only after it
        has changed. Nobody has verified the leases: the caller verifies their seals.

        Raises:
            StoreUnavailable: no answer came in time.
        """

    async def count_nodes(self) -> int:
        """The number of live nodes. One small read, whatever the number. A node that unregistered less than a TTL ago
        may still be counted, if the store was unreachable just after that.

        Raises:
            StoreUnavailable: no answer came in time.
        """

    def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        """Yields sets of nodes whose leases may have changed; read these leases by `nodes`. None in a set stands for
        all nodes: the first set has it, and each set after which notices may have been missed. At each poll interval
        an empty set is yielded. A lease that has run out causes no notice: `nodes` or `count_nodes` shows it.

        While no notices can be received, each poll yields {None}. A set may come without a change. Changes that come
        while the reader is busy are merged into one set. A store that is down raises nothing here. Ends when the store
        is closed.
        """

    async def scan(self, cursor: str = "", count: int = 100) -> ScanStep:
        """Read about `count` records and write nothing. It is one step of a walk over all records of the namespace.
        `cursor` is empty for the first step, then the cursor that the step before returned.

        Each step costs the server about `count` small reads, however many records there are. A step may find few
        records or none although the walk is not over. A record that exists during the whole walk is found at least
        once. A record that is created or deleted during the walk may be missed. A step may be repeated, and a walk may
        be abandoned.

        Raises:
            StoreUnavailable: no answer came in time, or `cursor` is not a cursor of this store. The step may be
                repeated.
        """

    async def tools(self) -> Tools:
        """The paused tools, and those that the end of a process is held against; and the last loss of the store, as far
        as this object or another one has noticed it. One small read. What the store has lost since the last read, and
        this object knows, is written again.

        Raises:
            StoreUnavailable: no answer came in time.
        """

    async def pause(self, pause: Pause) -> None:
        """Pause a tool until it is resumed; its last pause counts. Durable like a record. The ends of processes that
        were held against the tool are forgotten.

        Raises:
            StoreUnavailable: no answer came in time; sending it again is safe.
        """

    async def resume(self, tool: str) -> bool:
        """End the pause of a tool; whether it was paused. The ends of processes that were held against the tool are
        forgotten. Idempotent.

        Raises:
            StoreUnavailable: no answer came in time; sending it again is safe.
        """

    async def died(self, tool: str, boot: str, limit: int, why: str) -> tuple[Pause | None, bool]:
        """Hold the end of a process against a tool, and pause the tool if `limit` is reached
        (`framehold_core.pauses.is_poison`). Atomic; an end that is reported again counts once.

        Returns:
            The pause of the tool, None if it is not paused; and whether this report paused it, with `why`.

        Raises:
            StoreUnavailable: no answer came in time; sending it again is safe.
        """

    async def cleared(self, tool: str) -> None:
        """Forget the ends of processes that were held against a tool. A pause stays. Idempotent.

        Raises:
            StoreUnavailable: no answer came in time; sending it again is safe.
        """

    async def keep_code(self, digest: str, code: bytes, ttl: float) -> None:
        """Store the code of a handler under its digest for `ttl` seconds from now. It replaces what is stored there; an
        end that is later stays. Idempotent.

        Raises:
            StoreFull: the store has no room for it.
            StoreUnavailable: no answer came in time; sending it again is safe.
        """

    async def code(self, digest: str) -> bytes | None:
        """The code that is stored under a digest; None if there is none. The bytes are as they were stored, empty if
        somebody else has written something else there: the caller verifies their seal.

        Raises:
            StoreUnavailable: no answer came in time.
        """

    async def publish(self, message: bytes) -> None:
        """Send a message to every node of the namespace, this node included. Nothing is stored: a node that has not
        subscribed now misses the message. Messages of different nodes arrive in any order.

        Raises:
            StoreUnavailable: no answer came in time; whether the message was sent is unknown.
        """

    def subscribe(self, receive: Callable[[bytes], None]) -> None:
        """Call `receive` on the event loop with every published message, until the store is closed. May be called once
        from `open` to `close`. `receive` must not raise."""

    async def append_events(self, entries: Sequence[bytes], to: StreamName = "log") -> None:
        """Add entries to a stream of the namespace. It keeps the last MAX_EVENTS entries, none for longer than its
        MAX_EVENT_AGE. An entry may be added twice.

        Raises:
            StoreFull: the store has no room for them.
            StoreUnavailable: no answer came in time; some of them may have been added.
        """

    async def events(self, after: str = "", count: int = 500, of: StreamName = "log") -> tuple[StoredEvent, ...]:
        """The first `count` entries of a stream after the place `after`, in order. An entry that is none of ours
        is empty.

        Raises:
            StoreUnavailable: no answer came in time, or somebody else has written there.
        """

    async def keep_sample(self, step: int, slot: int, sample: bytes, ttl: float) -> None:
        """Keep the figures of the fleet in one slot of `step` seconds, for `ttl` seconds. `slot` is the number of the
        slot: seconds since 1970, divided by `step`. Where a sample is kept for this slot already, it stays.

        Raises:
            StoreFull: the store has no room for it.
            StoreUnavailable: no answer came in time; it may have been kept.
        """

    async def samples(self, step: int, slots: Sequence[int]) -> tuple[bytes | None, ...]:
        """The samples of these slots in their order, None for each that is not there.

        Raises:
            StoreUnavailable: no answer came in time, or somebody else has written there.
        """

    async def time(self) -> float:
        """The store's clock, in seconds since 1970: that of the server that has the list of nodes.

        Raises:
            StoreUnavailable: no answer came in time.
        """

    async def memory(self) -> MemoryUse | None:
        """The memory of the server that is the fullest; None if no server has a limit, or none says so.

        Raises:
            StoreUnavailable: no answer came in time.
        """

    async def unsaved(self) -> str:
        """By which field of INFO a server's last save to disk failed, as `rdb_last_bgsave_status:err`; empty if none
        failed, or none says so.

        Raises:
            StoreUnavailable: no answer came in time.
        """

    async def open(self) -> None:
        """Make ready, for the first time or again after `close`, in this or another event loop. A store in memory keeps
        its records meanwhile. A store that is down now is no error here: requests get `StoreUnavailable` until it is
        back.

        Raises:
            ConfigError: the store can never be used as configured.
        """

    async def close(self) -> None:
        """Close connections and end tasks, until the next `open`. Requests under way get `StoreUnavailable`.
        Idempotent."""

    @property
    def request_counts(self) -> Mapping[str, int]:
        """How many requests were submitted since the start, by the name of their script (`commit`, `renew`, `leave`,
        ...). Reads are among them, as `read`."""

    @property
    def unreadable_leases(self) -> int:
        """How many entries of the node registry the last `nodes()` of all leases could not read."""
