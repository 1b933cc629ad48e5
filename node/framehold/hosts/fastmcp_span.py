"""FastMCP's span of a request, for a component that outlives its requests.

FastMCP makes the span when a request arrives. Where it enters a component, it gives this span the name of the
component, if the span is still the current one; else it makes a second span. In a frame the current span is an object
of Framehold (`frame.span`), so FastMCP has to find this object where it kept its span.

FastMCP 4.2 keeps a record in a context variable: the span, and the error that the span is to show when its request
ends. In a frame a stand-in takes the place of the record. FastMCP 4.1 keeps the bare span there, which `frame.span`
replaces.

Private part of FastMCP that is touched here (if it is missing, a request may have a second span; a test names the
release):

- `telemetry._active_seam_span`: the record, with `span` and `error`
"""

from __future__ import annotations

import contextvars
from typing import Any

from fastmcp.server import telemetry

from ..frame.span import RoundSpan, StandIn, running

_record: contextvars.ContextVar[Any] | None = getattr(telemetry, "_active_seam_span", None)


class RoundRecord(StandIn):
    """FastMCP's record of the span of the present round's request."""

    @property
    def span(self) -> RoundSpan | None:
        """The current span of the handler, as long as the handler has no span of its own open."""
        return running.get()

    @property
    def error(self) -> Any:
        """The error that the span of the present round shows when its request ends."""
        return self.real.error

    @error.setter
    def error(self, error: Any) -> None:
        self.real.error = error


def follow_rounds() -> None:
    """Have FastMCP's record follow the rounds of a handler. Runs in the handler's context, before FastMCP enters the
    component. Nothing is done where no frame runs the component, or nobody traces."""
    present, own = None if _record is None else _record.get(), running.get()
    if _record is not None and own is not None and getattr(present, "span", None) is own.real:
        _record.set(RoundRecord(present))
