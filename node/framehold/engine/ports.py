"""What the engine needs from outside: from a request's handler, and from the store that keeps a call's record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from framehold_core.ending import Ending
from framehold_core.ids import NodeId
from framehold_core.lease import NodeRecord
from framehold_core.requests import Reply, Request
from framehold_store.base import Done
from framehold_store.named import Known

from ..code.codes import LoadedCode, Registered
from ..frame.frame import Frame


class HandlerEntry(Protocol):
    """A handler as the engine uses it: how it is entered, and what a call's record says about it.

    `prefilled` has the answers that came with round 1, by key. `given` is other input of round 1 that a replay needs
    again, as JSON bytes. `weight` is how many bytes its request takes in memory at most, 0 if these are few.
    `principal` names the authenticated user, None if there is none. `lifetime` is for how many seconds its questions
    may be answered, None for the node's default. `code` is the digest of its code, empty if it is not kept. `strategy`
    is `hold` or `replay`."""

    prefilled: Mapping[str, Any]
    given: bytes
    weight: int
    principal: str | None

    @property
    def tool(self) -> str: ...
    @property
    def reentrant(self) -> bool: ...
    @property
    def lifetime(self) -> float | None: ...
    @property
    def code(self) -> str: ...
    @property
    def strategy(self) -> str: ...
    @property
    def asks(self) -> bool | None:
        """Whether the handler asks or uses `once`, as far as can be known before it runs; None: not known."""
        ...

    async def enter(self, frame: Frame, given: bytes) -> None:
        """Run the handler within `frame.scope()` and pass its outcome to `frame.end`. Only a handler that was cancelled
        with its frame has no outcome. Raises CancelledError only if the frame is dead. This coroutine is the frame's
        task itself: a coroutine around it would add memory to each parked frame."""

    def ending(self, outcome: object) -> Ending:
        """How a call ends by this outcome: completed, or by an error of the tool or of the protocol."""

    def describe(self) -> dict[str, str]:
        """The fields of the record's head about this handler: tool, code, method, target, and the digests args and
        principal."""

    @property
    def enters_kept(self) -> bool:
        """Whether it enters kept code in place of the present code."""
        ...

    @property
    def known(self) -> Known:
        """The functions, classes and objects of the kept code that it enters, by their names; recorded values are read
        with these. Empty if it enters the present code."""
        ...

    @property
    def definition(self) -> str:
        """`file:line` of the present code of the handler, for messages; empty if it enters other code, or this is not
        known."""
        ...

    def written(self) -> bytes:
        """The handler's code as bytes for the store. Raises NotKept."""

    def enter_kept(self, digest: str, kept: LoadedCode, data: bytes) -> None:
        """Have kept code entered in place of the present code, which has another digest. `data` is what it was loaded
        from. Raises NotLoaded."""

    def dump(self, outcome: object) -> bytes:
        """Encode an outcome for its tombstone."""

    def load(self, data: bytes) -> object:
        """Decode an outcome from its tombstone."""


class CodeKeeper(Protocol):
    """Keeps the code of handlers in the store (docs/protocol.md, rule 28)."""

    def is_due(self, code: str, lifetime: float) -> bool:
        """Whether the store must be written before a call of this code may park, whose record lives for `lifetime`
        seconds."""

    async def keep(self, handler: HandlerEntry, lifetime: float) -> None:
        """Have the store keep a handler's code for at least `lifetime` seconds. Returns when it does, or can't."""

    async def load(self, handler: HandlerEntry, code: str) -> bool:
        """Have `handler` enter the kept code of this digest. Returns whether it will.

        Raises:
            StoreUnavailable: the store did not answer.
        """

    async def find(self, code: str) -> Registered | None:
        """The kept code of this digest; None if it can't be had or loaded here.

        Raises:
            StoreUnavailable: the store did not answer.
        """


class CallStore(Protocol):
    """The store of a call's record: a part of `framehold_store.base.Store`, or the record in a token
    (`token_record`)."""

    def submit(self, request: Request, done: Done) -> None:
        """Send a request. `done` is called with the reply, or with the error StoreUnavailable; maybe at once."""

    async def run(self, request: Request) -> Reply:
        """Send a request and wait for its reply. Raises StoreUnavailable."""

    async def nodes(self, named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        """The leases of all nodes on the list, or of those that are named. Raises StoreUnavailable."""
