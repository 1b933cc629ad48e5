"""One handler of the SDK's server whose calls run in frames, and what those calls need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server.connection import Connection
from pydantic import BaseModel

from ..code.codes import Codes, NotKept, Registered
from ..engine.runtime import Runtime
from .marks import Marks
from .session import Ctx

Handler = Callable[[Any, Any], Awaitable[Any]]
"""A request handler as the SDK calls it, with the request's context and its validated parameters."""
Connect = Callable[[Ctx], Connection]
"""Gives the connection that a frame begins under, from the context of the request that enters it."""


@dataclass(frozen=True, slots=True)
class FoundHandler:
    """The author's function that serves a request, as it is registered now. `function` is None if there is none.

    `asks()` says whether it may ask its client; `takes_context()` whether it may ask, and gets the object by which
    functions usually do, true where that is not known."""

    function: Any
    marks: Marks
    asks: Callable[[], bool]
    takes_context: Callable[[], bool]
    codes: Codes
    registered: Callable[[], Registered | None]
    """How it is registered; None if there is none."""
    kept: Callable[[Registered], Handler | None]
    """A handler that serves the request by a function of another release, as that was registered then. None if the
    server can't be served so; raises anything if it can't be made."""
    obstacle: Callable[[], str] = str
    """Why its code is not kept, whatever it consists of; empty if it may be."""

    def code(self) -> str:
        """The digest of its code; empty if there is no such function."""
        found = self.registered()
        return "" if found is None else self.codes.of(found).digest

    def written(self) -> bytes:
        """Its code as bytes for the store. Raises NotKept; OSError: its source can't be read now."""
        found = self.registered()
        if found is None:
            raise NotKept("there is no such handler any more")
        if why := self.obstacle():
            raise NotKept(why)
        return self.codes.write(found)


Find = Callable[[str, Mapping[str, Any]], FoundHandler]
"""Finds the handler of a request by its method and its raw parameters. It enters, creates and refuses nothing."""


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
    find: Find
