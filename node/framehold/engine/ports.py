"""What the engine needs of the handler of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from framehold_core.ending import Ending
from framehold_store.named import Known

from ..code.codes import LoadedCode
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
