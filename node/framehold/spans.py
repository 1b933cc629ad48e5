"""The span that a handler sees: that of the round which runs it now, whichever round entered it.

The law: a handler outlives the requests whose spans it runs under, and OpenTelemetry puts back what was current when a
block ends. So its context holds one span for as long as it lives, which stands for the present round's: what it begins
after an answer never hangs under a round that has ended. Where nobody traces, nothing is done.
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


def recorded() -> Span | None:
    """The current span, where it is recorded."""
    if not contexts.get_current():
        return None
    span = trace.get_current_span()
    return span if span.is_recording() else None


class RoundSpan(Span):
    """The span of the round that runs a handler. A handler has the same one for as long as it lives; `real` is whose
    turn it is. While what it does was done before, its spans hang under `replay` instead."""

    def __init__(self, real: Span) -> None:
        self.real = real
        self.replay: Span | None = None

    def end(self, end_time: int | None = None) -> None:
        """Nothing: a round's span ends with its request."""

    def get_span_context(self) -> SpanContext:
        """Whose child a span is that begins now."""
        return (self.replay or self.real).get_span_context()

    def is_recording(self) -> bool:
        """Whether the round's span is recorded."""
        return self.real.is_recording()

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        """On the round's span, as all that follows."""
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
"""A handler's own."""


def entered() -> None:
    """A handler's context begins, as that of the request that enters it."""
    if not contexts.get_current():
        return
    span = trace.get_current_span()
    own = RoundSpan(span) if span.get_span_context().is_valid else None
    running.set(own)
    if own is not None:
        for variable, value in contextvars.copy_context().items():
            if value is span:
                # Whoever else keeps it (FastMCP does) asks later whether it is the current one.
                variable.set(own)
        contexts.attach(trace.set_span_in_context(own))


def taken_over(mine: Any, fresh: Any) -> Any:
    """What a variable of a handler's context holds from now on, where `mine` is there and `fresh` is in that of the
    request which resumes it: the same, unless that is what is traced, or the span of it."""
    if isinstance(fresh, Context):
        return _resumed(mine, fresh)
    # Abstract classes are asked last: that takes ten times as long.
    return mine if type(mine) is RoundSpan and isinstance(fresh, Span) else fresh


def _resumed(mine: Context | None, fresh: Context) -> Context:
    """A span of the handler's own that is open goes on; else the present round's is the current one."""
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
