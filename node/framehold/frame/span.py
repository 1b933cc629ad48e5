"""The current span of a handler: it stands for the span of the round that runs the handler now.

The law: a handler lives longer than the requests whose spans it runs under, and OpenTelemetry restores the former
current span when a block ends. So the handler's context holds one span object for its whole life, and this object
delegates to the span of the present round. A span that begins after an answer is never a child of a round that has
ended. Without tracing nothing is done.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, Status, StatusCode
from opentelemetry.util.types import Attributes, AttributeValue


def recording_span() -> Span | None:
    """The current span if it is recorded, else None."""
    if not contexts.get_current():
        return None
    span = trace.get_current_span()
    return span if span.is_recording() else None


def trace_id() -> str:
    """The trace of the current span, as hex digits; empty if it is not recorded."""
    span = recording_span()
    return "" if span is None else trace.format_trace_id(span.get_span_context().trace_id)


def ids() -> dict[str, str]:
    """`trace_id` and `span_id` of the current span, as hex digits; empty if there is no span."""
    if not contexts.get_current():
        return {}
    here = trace.get_current_span().get_span_context()
    if not here.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(here.trace_id), "span_id": trace.format_span_id(here.span_id)}


class StandIn:
    """A value of a context variable of a handler, for the handler's whole life. `real` is the value that the request of
    the present round has for this variable."""

    def __init__(self, real: Any) -> None:
        self.real = real


class RoundSpan(StandIn, Span):
    """The span that a handler sees for its whole life. It delegates to `real`, the span of the present round. During a
    replay, new spans of the handler are children of `replay` instead."""

    real: Span

    def __init__(self, real: Span) -> None:
        super().__init__(real)
        self.replay: Span | None = None

    def __getattr__(self, name: str) -> Any:
        """What the round's span has besides: one that is recorded has a name and attributes."""
        if name == "real":
            # A copy is being made, and has nothing yet.
            raise AttributeError(name)
        return getattr(self.real, name)

    def end(self, end_time: int | None = None) -> None:
        """Do nothing: a round's span ends with its request."""

    def get_span_context(self) -> SpanContext:
        """The parent of a span that begins now."""
        return (self.replay or self.real).get_span_context()

    def is_recording(self) -> bool:
        """Whether the round's span is recorded."""
        return self.real.is_recording()

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Set attributes on the round's span. The methods below act on the round's span, too."""
        self.real.set_attributes(attributes)

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        self.real.set_attribute(key, value)

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        self.real.add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        self.real.add_link(context, attributes)

    def update_name(self, name: str) -> None:
        self.real.update_name(name)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self.real.set_status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        self.real.record_exception(exception, attributes, timestamp, escaped)


running: contextvars.ContextVar[RoundSpan | None] = contextvars.ContextVar("framehold_span", default=None)
"""The span object of the running handler; None if its round is not traced, and outside of handlers."""


def enter() -> None:
    """Give a new handler context its span object. Runs in that context, which is a copy of the request's."""
    if not contexts.get_current():
        return
    span = trace.get_current_span()
    own = RoundSpan(span) if span.get_span_context().is_valid else None
    running.set(own)
    if own is not None:
        for variable, value in contextvars.copy_context().items():
            if value is span:
                # A framework that keeps the span in a variable (FastMCP does) later compares it with the current one.
                variable.set(own)
        contexts.attach(trace.set_span_in_context(own))


def is_rounds(value: Any) -> bool:
    """Whether a value in a handler's context belongs to the tracing of its rounds: each request has its own."""
    return isinstance(value, Context | StandIn)


def next_value(mine: Any, fresh: Any) -> Any:
    """The new value of a context variable of a handler. `mine` is its value in the handler's context, `fresh` its value
    in the context of the request that resumes the handler.

    Usually that is `fresh`. An OpenTelemetry context is merged, so that the handler's span stays current. Where the
    handler has its span object and `fresh` is a span, the span object stays. Any other stand-in stays, too, and stands
    for `fresh` from now on."""
    if isinstance(fresh, Context):
        return _resumed(mine, fresh)
    if type(mine) is RoundSpan:
        # The check against an abstract class comes last: it takes ten times as long.
        return mine if isinstance(fresh, Span) else fresh
    if isinstance(mine, StandIn):
        mine.real = fresh
        return mine
    return fresh


def _resumed(mine: Context | None, fresh: Context) -> Context:
    """The OpenTelemetry context of a resumed handler. If the handler has a span of its own open, that one stays
    current; else the span of the present round becomes current."""
    own, span = running.get(), trace.get_current_span(fresh)
    if own is None:
        own = RoundSpan(span)
        running.set(own)
    else:
        own.real = span
    if mine is not None:
        open_ = trace.get_current_span(mine)
        if open_ is not own and open_.get_span_context().is_valid:
            return mine
    return trace.set_span_in_context(own, fresh)
