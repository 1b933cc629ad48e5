"""The connection of one request, or of one frame: the identity of the client, and little else.

The law: parts that hardly any handler uses are made when they are first read. The SDK gives each connection an event, a
state and an exit stack. A parked frame would hold all three, 2 KiB, for as long as its user takes to answer.
"""

from __future__ import annotations

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


class Identity(Connection):
    """A connection of 2026-07-28 with the identity of `known`, and a state of its own."""

    used = False
    """Whether the exit stack was made, so that it may have something to close."""

    def __init__(self, known: Connection) -> None:
        # The SDK's `__init__` is not called: it makes the parts that are lazy here.
        self.outbound, self.protocol_version, self.session_id = known.outbound, known.protocol_version, known.session_id
        self.client_params, self.client_capabilities = known.client_params, known.client_capabilities

    def __getattr__(self, name: str) -> Any:
        if name not in _LAZY_PARTS:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        if name == "exit_stack":
            self.used = True
        made = _LAZY_PARTS[name]()
        setattr(self, name, made)
        return made

    def __copy__(self) -> Identity:
        """A copy that shares the lazy parts too."""
        other = Identity(self)
        for name in _LAZY_PARTS:
            setattr(other, name, getattr(self, name))
        return other
