"""One handler of the SDK's server whose calls run in frames, and what those calls need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mcp.server.connection import Connection
from pydantic import BaseModel

from ..code.codes import Registered
from ..engine.runtime import Runtime
from .marks import Marks
from .session import Ctx

Handler = Callable[[Any, Any], Awaitable[Any]]
"""A request handler as the SDK calls it, with the request's context and its validated parameters."""
Connect = Callable[[Ctx], Connection]
"""Gives the connection that a frame begins under, from the context of the request that enters it."""


class HandlerLookup(Protocol):
    """Finds the author's function that serves a request, and its code. `params` are the request's raw parameters."""

    def marks(self, method: str, params: Mapping[str, Any]) -> Marks:
        """The marks of the function; `Marks()` if there is no such function."""
        ...

    def function(self, method: str, params: Mapping[str, Any]) -> Any:
        """The function; None if there is none."""
        ...

    def asks(self, method: str, params: Mapping[str, Any]) -> bool:
        """Whether the function may ask its client."""
        ...

    def takes_context(self, method: str, params: Mapping[str, Any]) -> bool:
        """Whether the function may ask, and gets the object by which functions usually do; true where that is not
        known."""
        ...

    def code(self, method: str, params: Mapping[str, Any]) -> str:
        """The digest of the function's code; empty if there is no such function, or its code can't be kept."""
        ...

    def written(self, method: str, params: Mapping[str, Any]) -> bytes:
        """The function's code as bytes for the store. Raises NotKept."""
        ...

    def kept(self, method: str, params: Mapping[str, Any], registered: Registered) -> Handler | None:
        """A handler that serves the request by a function of another release, as that was registered then. None if the
        server can't be served so."""
        ...


@dataclass(frozen=True, slots=True)
class WrappedHandler:
    """A handler, and what its calls need. A `Seam` makes one, and gives it to each of its calls."""

    enter: Handler
    """The handler, as a frame runs it."""
    method: str
    params_type: type[BaseModel]
    """The model of the parameters of `method`."""
    runtime: Runtime
    connect: Connect
    lookup: HandlerLookup
