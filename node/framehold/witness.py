"""Who watches a call that is rehearsed (`testing`). In production nobody does, and nothing is asked here but where an
effect runs, a value is drawn, or something is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol, TypeVar

from framehold_core.effects import Refusal

from .chance import Chance

ErrorT = TypeVar("ErrorT", bound=Exception)


class Witness(Protocol):
    """Sees what no client is told."""

    @property
    def chance(self) -> Chance:
        """Where the call's recorded values come from instead."""

    async def effect(self, key: str, call: partial[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """The effect of `once` under this key begins: what it gives, or raise what it raises. `call` is its function
        with its arguments; `run` runs it."""

    def misused(self, error: Exception) -> None:
        """The handler did what it may not, and is told so."""

    def refused(self, refusal: Refusal) -> None:
        """A request got neither questions nor an outcome."""


witness: ContextVar[Witness | None] = ContextVar("framehold_witness", default=None)
"""The witness of the running call."""


def misused(error: ErrorT) -> ErrorT:
    """The same error, which tells a handler that it did what it may not."""
    if (watching := witness.get()) is not None:
        watching.misused(error)
    return error
