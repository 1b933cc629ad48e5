"""What the engine needs from outside: from a request's handler, and from the store that keeps a call's record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from framehold_core.lease import NodeRecord
from framehold_core.requests import Reply, Request
from framehold_store.base import Done

from ..frame.frame import Frame


class HandlerEntry(Protocol):
    """A handler as the engine uses it: how it is entered, and what a call's record says about it.

    `prefilled` has the answers that came with round 1, by key. `given` is other input of round 1 that a replay needs
    again, as JSON bytes. `principal` names the authenticated user, None if there is none. `lifetime` is for how many
    seconds its questions may be answered, None for the node's default. `code` is the digest of its code. `strategy` is
    `hold` or `replay`."""

    prefilled: Mapping[str, Any]
    given: bytes
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

    async def enter(self, frame: Frame, given: bytes) -> None:
        """Run the handler in `frame` and pass its outcome to `frame.end`, whatever happens. Raises CancelledError only
        if the frame is dead. This coroutine is the frame's task itself: a coroutine around it would add memory to each
        parked frame."""

    def failed(self, outcome: object) -> bool:
        """Whether this outcome is an error of the handler."""

    def raised(self, outcome: object) -> tuple[str, str] | None:
        """The class of the exception that this outcome was made of, and its place `module:function:line`, empty if it
        is not in the author's code. None where there was no exception, or where that is not known."""

    def describe(self) -> dict[str, str]:
        """The fields of the record's head about this handler: tool, code, method, target, and the digests args and
        principal."""

    def dump(self, outcome: object) -> bytes:
        """Encode an outcome for its tombstone."""

    def load(self, data: bytes) -> object:
        """Decode an outcome from its tombstone."""


class CallStore(Protocol):
    """The store of a call's record: a part of `framehold_store.base.Store`, or the record in a token
    (`token_record`)."""

    def submit(self, request: Request, done: Done) -> None:
        """Send a request. `done` is called with the reply, or with the error StoreUnavailable; maybe at once."""

    async def run(self, request: Request) -> Reply:
        """Send a request and wait for its reply. Raises StoreUnavailable."""

    async def nodes(self) -> tuple[NodeRecord, ...]:
        """The leases of all nodes. Raises StoreUnavailable."""
