"""Messages at the start of a node: warnings about settings that work but are probably not meant, and the refusal of
several workers that would have to be one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from framehold_core.errors import ConfigError

from ..config import Settings, workers
from .handlers import HandlerCode, Handlers

_SHOWN = 10
"""How many handlers a warning names."""


_ONE_EACH = (
    "run one worker a process, each on a port of its own, with FRAMEHOLD_NODE_ID, FRAMEHOLD_ADVERTISE_URL and a shared "
    "store; or FRAMEHOLD_STRATEGY=replay with FRAMEHOLD_KEYS and without a store (docs/hosting.md)"
)


def refuse_workers(settings: Settings) -> None:
    """Refuse to start an app that is one of several workers over a shared store.

    Raises:
        ConfigError: the workers would have one node id and one address.
    """
    if settings.store_url is not None and (number := workers()) > 1:
        raise ConfigError(
            f"this process is one of {number} workers of one server: they have one address, so no round can be sent to "
            f"the worker that holds its call; nothing was started; {_ONE_EACH}"
        )


def notices(
    settings: Settings, handlers: Handlers, address: str, over_http: bool, code: Sequence[HandlerCode] = ()
) -> Iterator[str]:
    """The log lines. `address` is the URL at which others reach this process, or empty; `over_http`: whether
    Framehold's ASGI app serves it. `code` is that of the re-entrant handlers."""
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
    yield from _not_kept([item for item in code if item.problem])
    replays = settings.strategy == "replay" and settings.keys
    if settings.store_url is None and not replays and (number := workers()) > 1:
        yield (
            f"this process is one of {number} workers of one server, and each holds calls and sessions of its own: "
            f"answers that reach another worker are refused as invalid or expired; {_ONE_EACH}"
        )
    if settings.store_url is not None and not address:
        yield from _unaddressed(settings, over_http)


def _not_kept(found: Sequence[HandlerCode]) -> Iterator[str]:
    """A warning for each of the first handlers whose code can't be kept."""
    for item in found[:_SHOWN]:
        yield (
            f"the code of {item.name} is not kept: {item.problem}; a call of it that loses its node in a deploy is "
            "carried on by the new code, and stopped where that does something else"
        )
    if len(found) > _SHOWN:
        yield f"the code of {len(found) - _SHOWN} more handlers is not kept: framehold doctor names them"


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
