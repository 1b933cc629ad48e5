"""How a handler is entered: what a runtime, which knows no SDK, must know of a request's handler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .frames import Frame


class Entrance(Protocol):
    """How a handler is entered, and what its record says of it.

    `prefilled` are answers that came with round 1; `given` is what else came with it and must come again on replay, as
    JSON; `lifetime` is how long its questions may be answered, in seconds, None for as long as all others."""

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
        """Run the handler in `frame`, and tell `frame.ends` its outcome, whatever happens. Only a frame that is dead
        raises CancelledError. This is the frame's task: whoever awaited it would be one layer more to park."""

    def failed(self, outcome: object) -> bool:
        """Whether the handler raised."""

    def describe(self) -> dict[str, str]:
        """tool, code, method, target, and the digests args and principal: what the record says."""

    def dump(self, outcome: object) -> bytes:
        """An outcome for its tombstone."""

    def load(self, data: bytes) -> object:
        """An outcome from its tombstone."""
