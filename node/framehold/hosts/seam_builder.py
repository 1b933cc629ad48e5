"""Builds the seams of one attached server: a seam stands before each handler that may ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types.methods import INPUT_REQUIRED_METHODS
from pydantic import BaseModel

from ..code.codes import Codes
from ..config import Settings
from ..engine.runtime import Runtime
from ..sdk.seam import Seam
from ..sdk.wrapped_handler import Find, Handler
from ..wires.legacy_session import LegacyCalls
from ..wires.legacy_shim import for_older
from .connections import connection_of


@dataclass(frozen=True, slots=True)
class SeamBuilder:
    """The parts that all seams of one attached server share."""

    runtime: Runtime
    settings: Settings
    boundary: RequestStateBoundary
    """Seals and verifies the server's request states."""
    security: RequestStateSecurity
    """The policy of `boundary`."""
    find: Find
    """Finds the handler of a request of any method."""
    codes: Codes
    """Knows the code of each handler."""

    def seam(self, handler: Handler, method: str, params_type: type[BaseModel], find: Find) -> Seam:
        """A seam before `handler`, which serves requests of `method`."""
        older = for_older(handler, method, params_type, self.boundary, self.settings)
        earlier = LegacyCalls(older, self.runtime)
        return Seam(handler, method, params_type, self.runtime, connection_of, find, earlier)

    def wrap_handlers(self, server: Server[Any]) -> None:
        """Put a seam before each handler of `server` that may ask, unless one stands there."""
        for method in sorted(INPUT_REQUIRED_METHODS):
            entry = server.get_request_handler(method)
            if entry is not None and not isinstance(entry.handler, Seam):
                seam = self.seam(entry.handler, method, entry.params_type, self.find)
                server.add_request_handler(method, entry.params_type, seam)
