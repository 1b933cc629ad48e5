"""The Store: what a node and a router may ask of whatever outlives them.

The law: every request is applied whole or not at all, by the rules of `framehold_core.record`, on the store's own
clock. A verdict other than OK left the record as it was, to the byte. A request whose reply was lost may be sent
again: it answers ALREADY, or what it would have answered the first time.

Durability is the backend's: an acknowledged write outlives this process in Redis (and Redis itself as far as its
persistence and its replicas go), and nothing in memory. PROTOCOL rule 7 says what happens when a store goes back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId, NodeId
from framehold_core.lease import NodeRecord, Renewal
from framehold_core.requests import RecordState, Reply, Request

Clock = Callable[[], float]
"""Seconds; for a store in memory, what its records' `created` and `expires` count in."""

Done = Callable[[Reply | StoreUnavailable], None]
"""Receives what came of a request. It must not raise: one that does is logged and silences nobody else."""

POLL = 2.0
"""Seconds between the wake-ups of a change feed that heard nothing: a lease that ran out announces itself to nobody."""


class Summary(NamedTuple):
    """What a sweep tells of a call's record, as it stood at some instant: no journal, no answers, no outcome. `created`
    and `expires` are seconds on the store's clock."""

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


class Swept(NamedTuple):
    """One step of a sweep. `cursor` is what the next step begins with: empty when all has been looked at. `unreadable`
    counts records that were passed over, corrupted or of a newer release."""

    cursor: str
    found: tuple[Summary, ...]
    unreadable: int


class Store(Protocol):
    """Leases, journals and the registry of nodes. Belongs to one event loop; only `writes` may be read from
    elsewhere."""

    def submit(self, request: Request, done: Done) -> None:
        """Send one request, group-committed with its neighbours: the hot path. Never blocks and never raises.

        `done` is called exactly once, from the event loop, possibly before `submit` returns (memory, a full queue), and
        within about the operation time-out. Requests of one call are applied in the order in which they were submitted.

        Atomicity: one request is one script. Durability: a reply means that the store acknowledged the write.
        Errors: `StoreUnavailable` where nobody answered in time; whether the request was applied is then unknown, and
        sending it again is safe. A corrupted record is one too: it was not guessed at.
        """

    async def run(self, request: Request) -> Reply:
        """`submit`, awaited. Cancelling the wait does not recall the request.

        Raises:
            StoreUnavailable: as for `submit`.
        """

    async def register(self, node: NodeRecord, ttl: float) -> Renewal:
        """Take the node lease if nobody has it, for `ttl` seconds: RENEWED or TAKEN (`lease.register`).

        `node.expires` is ignored: the store sets it. Atomic for the lease; idempotent for one incarnation. The list
        that `nodes` reads is completed by the same request or by the next renewal.

        Raises:
            StoreUnavailable: nobody answered in time; sending it again is safe.
        """

    async def renew(self, node: NodeRecord, acknowledged: int, ttl: float) -> tuple[Renewal, int]:
        """Extend the node lease by `ttl` seconds if it still is this incarnation's (`lease.renew`).

        Gives RENEWED with the new beat; LAPSED or TAKEN with the beat that stands there (0 where nothing does), having
        written nothing. `acknowledged` is the last beat that this node was told. `node.state`, `address`, `code` and
        `stats` replace the stored ones; `node.beat` and `node.expires` are ignored.

        Raises:
            StoreUnavailable: nobody answered in time; the lease may or may not have been extended.
        """

    async def leave(self, node: NodeRecord) -> None:
        """Delete the node lease if it still is this incarnation's. Idempotent.

        Raises:
            StoreUnavailable: nobody answered in time; the lease will run out by itself.
        """

    async def nodes(self, named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        """The live nodes, or those of them that are `named`, in order of their names. Not atomic across nodes: each
        lease is as it stood at some instant of the call. An entry that can't be read is skipped, with one log line
        until it changes where all were asked for.

        Raises:
            StoreUnavailable: nobody answered in time.
        """

    async def alive(self) -> int:
        """How many nodes there are; one that gave its lease back within a TTL may still be counted where the store was
        away meanwhile. One small read, however many they are.

        Raises:
            StoreUnavailable: nobody answered in time.
        """

    def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        """Yields the nodes whose leases may have changed: read them then, by `nodes`. None among them stands for all
        others: so it is at the start, and where something may have been missed. Yields an empty set at each poll
        interval, whatever was heard: a lease that ran out is no news, so `nodes` or `alive` tells of it.

        Where news can't be heard, each poll yields None. It may yield without a change, merges those that come while
        the reader is busy, and never raises over a store that is down. Ends when the store is closed.
        """

    async def sweep(self, cursor: str = "", count: int = 100) -> Swept:
        """Look at about `count` records, and write nothing: a step of a walk over all that the namespace has, for what
        may be late. `cursor` is empty to begin with, then what the step before gave.

        Each step costs the server about `count` small reads among other requests, however many records there are; it
        may find few or none, and the walk go on. A record that stands during the whole walk is found once or more; one
        that comes or goes meanwhile, perhaps. Steps may be repeated, and a walk broken off.

        Raises:
            StoreUnavailable: nobody answered in time, or the cursor is none of ours; the step may be repeated.
        """

    async def tell(self, message: bytes) -> None:
        """Say something to every node of the namespace, this one included. Nothing is stored: who doesn't listen now
        misses it, and order across nodes is nobody's.

        Raises:
            StoreUnavailable: nobody answered in time; whether it was said is unknown.
        """

    def listen(self, hear: Callable[[bytes], None]) -> None:
        """Call `hear` on the event loop with everything that is told, until the store is closed. Once per store; `hear`
        must not raise."""

    async def open(self) -> None:
        """Make ready. A store that is down now is no error here: requests answer `StoreUnavailable` until it is back.

        Raises:
            ConfigError: the store can never be used as configured.
        """

    async def close(self) -> None:
        """Let go of connections and tasks. Requests under way answer `StoreUnavailable`. Idempotent."""

    @property
    def writes(self) -> Mapping[str, int]:
        """Requests submitted since the start, by script name (`commit`, `renew`, ...), reads under `read`."""
