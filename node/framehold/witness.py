"""Who watches a call that is rehearsed (`testing`). In production nobody does, and nothing is asked here but where an
effect runs, a value is drawn, or a request is refused."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from framehold_core.effects import Refusal

from .chance import Chance


class Witness(Protocol):
    """Sees what no client is told."""

    @property
    def chance(self) -> Chance:
        """Where the call's recorded values come from instead."""

    def ran(self, key: str) -> None:
        """The effect of `once` under this key begins."""

    def refused(self, refusal: Refusal) -> None:
        """A request got neither questions nor an outcome."""


witness: ContextVar[Witness | None] = ContextVar("framehold_witness", default=None)
"""The witness of the running call."""
