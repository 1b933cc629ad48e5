"""Warnings at the start of a node, about settings that work but are probably not meant."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import Settings
from .handlers import Handlers

_SHOWN = 10
"""How many handlers a warning names."""


def notices(settings: Settings, handlers: Handlers, address: str, over_http: bool) -> Iterator[str]:
    """The log lines. `address` is the URL at which others reach this process, or empty; `over_http`: whether
    Framehold's ASGI app serves it."""
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
    if settings.store_url is not None and not address:
        yield from _unaddressed(settings, over_http)


def _unaddressed(settings: Settings, over_http: bool) -> Iterator[str]:
    """The warning about a process that other nodes know of and can't reach."""
    if over_http:
        yield (
            "FRAMEHOLD_ADVERTISE_URL is not set, and the store is shared: a round that reaches another process than "
            "the one that holds its call is refused with 503 while that one lives, and taken over only when its lease "
            "has run out; set FRAMEHOLD_ADVERTISE_URL=http://host:port of this process, or start it with: framehold "
            "node"
        )
    elif "namespace" not in settings.model_fields_set:
        yield (
            "the store is shared, and no router or node can reach this process: its calls are carried on elsewhere "
            "only when it has ended; give processes on standard input and output a FRAMEHOLD_NAMESPACE of their own, "
            "and one that is reached over HTTP its FRAMEHOLD_ADVERTISE_URL=http://host:port"
        )
