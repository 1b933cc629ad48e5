"""What whoever starts a node should know at once, because nothing fails by it."""

from __future__ import annotations

from collections.abc import Iterator

from .config import Settings
from .handlers import Handlers

_SHOWN = 10
"""How many handlers are named."""


def notices(settings: Settings, handlers: Handlers) -> Iterator[str]:
    """Lines for the log at the start."""
    asking, _, replayed = handlers.count(settings.strategy)
    if settings.rehearse:
        left = handlers.unmarked()
        named = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")
        yield (
            "FRAMEHOLD_REHEARSE is on: frames of re-entrant handlers are dropped after each round and rebuilt; "
            + (f"not rehearsed, since not marked: {named}" if left else f"{asking} of {asking} handlers that may ask")
        )
    if replayed and not settings.keys:
        yield (
            "strategy replay without FRAMEHOLD_KEYS: tokens carry whole calls, and this process alone can open them, "
            "until it ends; make one key for all processes with: framehold keys new"
        )
