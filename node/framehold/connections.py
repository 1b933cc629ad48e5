"""The connection of one request, or of one frame: who the client is, and little else.

The law: what hardly any handler uses is made when it is asked for. The SDK gives each connection an event, a state and
a stack for what is to be torn down; a parked frame would hold all three for as long as its user thinks, 2 KiB.
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


_LATER: dict[str, Callable[[], Any]] = {"initialized": _born_ready, "state": dict, "exit_stack": AsyncExitStack}


class Identity(Connection):
    """A connection of 2026-07-28 with the identity of `known`, and a state of its own."""

    used = False
    """Whether something may wait to be torn down."""

    def __init__(self, known: Connection) -> None:
        # The SDK's own makes all that is made later here.
        self.outbound, self.protocol_version, self.session_id = known.outbound, known.protocol_version, known.session_id
        self.client_params, self.client_capabilities = known.client_params, known.client_capabilities

    def __getattr__(self, name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        if name == "exit_stack":
            self.used = True
        made = _LATER[name]()
        setattr(self, name, made)
        return made

    def __copy__(self) -> Identity:
        """One that shares all that is made later, too."""
        other = Identity(self)
        for name in _LATER:
            setattr(other, name, getattr(self, name))
        return other
