"""The connection of one request, or of one frame: the identity of the client, and little else.

The law: parts that hardly any handler uses are made when they are first read. The SDK gives each connection an event, a
state and an exit stack. A parked frame would hold all three, 2 KiB, for as long as its user takes to answer. The
parameters of the client are copied when they are first read: a handler may change them, and clients with equal
identities share them.

A private part of the SDK is touched here; a test names the release: `Connection._client_params`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp.server.connection import Connection


def _born_ready() -> anyio.Event:
    event = anyio.Event()
    event.set()
    return event


_LAZY_PARTS: dict[str, Callable[[], Any]] = {"initialized": _born_ready, "state": dict, "exit_stack": AsyncExitStack}
_CLIENT = ("_client_params", "client_capabilities")
"""The parts that say who the client is; the first one is behind the SDK's `client_params`."""


class Identity(Connection):
    """A connection of 2026-07-28 with the identity of `known`, and a state of its own."""

    used = False
    """Whether the exit stack was made, so that it may have something to close."""

    def __init__(self, known: Connection) -> None:
        # The SDK's `__init__` is not called: it makes the parts that are lazy here.
        self.outbound, self.protocol_version, self.session_id = known.outbound, known.protocol_version, known.session_id
        self._known = known

    def __getattr__(self, name: str) -> Any:
        if name in _CLIENT:
            # Together: the parameters hold the capabilities.
            parts = copy.deepcopy([getattr(self._known, part) for part in _CLIENT])
            for part, made in zip(_CLIENT, parts, strict=True):
                vars(self).setdefault(part, made)
            return vars(self)[name]
        if name not in _LAZY_PARTS:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        if name == "exit_stack":
            self.used = True
        made = _LAZY_PARTS[name]()
        setattr(self, name, made)
        return made

    def __copy__(self) -> Identity:
        """A copy that shares the lazy parts too."""
        other = Identity(self._known)
        for name in (*_LAZY_PARTS, *_CLIENT):
            setattr(other, name, getattr(self, name))
        return other

    def leave(self) -> None:
        """The request has ended. A frame that waits keeps no copy of the client's parameters."""
        for part in _CLIENT:
            vars(self).pop(part, None)
