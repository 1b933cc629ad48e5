"""A relay that makes a span of each request for a node. Only a router for which an OpenTelemetry provider is set uses
it, and only then is OpenTelemetry imported.

The law: tracing changes nothing of how a request is handled, and nothing of the request. So the node's span of a
request is no child of the router's: both are children of the client's span, which the `_meta` of the request names, and
both name the call.
"""

from __future__ import annotations

from typing import Any

import msgspec
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode

from framehold_core.ids import prefix
from framehold_fleet.http_client.node_connection import LinkFailure
from framehold_fleet.http_server.message import Request

from ..telemetry.counters import ABORTED
from .counted_relay import CountedRelay, CountedToNode
from .declined import DeclinedResponse

SPAN = "framehold route"
"""The name of the span of a request."""
_TRACE_FIELDS = ("traceparent", "tracestate", "baggage")
"""The keys of `_meta`, and the headers, that name a span."""


def provided() -> bool:
    """Whether a provider collects spans."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


class TracedRelay(CountedRelay):
    """A `CountedRelay` that makes a span of each request for a node."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.tracer = trace.get_tracer("framehold")
        self._to_node = TracedToNode


class TracedToNode(CountedToNode):
    """A request to a node, with a span from its arrival to the end of its response."""

    __slots__ = ("span",)

    relay: TracedRelay

    def start(self) -> None:
        self.span: Span = self.relay.tracer.start_span(SPAN, _client_context(self.request), SpanKind.SERVER)
        super().start()

    def log_fields(self) -> dict[str, str]:
        here = self.span.get_span_context()
        ids = {"trace_id": trace.format_trace_id(here.trace_id), "span_id": trace.format_span_id(here.span_id)}
        return {**super().log_fields(), **ids} if here.is_valid else super().log_fields()

    def unreached(self) -> None:
        self.span.add_event("node accepts no connection", {"framehold.node": self.placement.node})
        super().unreached()

    def unanswered(self, why: LinkFailure) -> None:
        self.span.add_event("node did not answer", {"framehold.node": self.placement.node, "why": why.value})
        super().unanswered(why)

    def give_up(self, declined: DeclinedResponse) -> None:
        self.status = 503
        super().give_up(declined)

    def refuse(self, status: int, message: str) -> None:
        self.status = status
        super().refuse(status, message)

    def _count(self, outcome: str) -> None:
        """End the span: this is called once for each request, at its end."""
        super()._count(outcome)
        span, facts = self.span, self.facts
        span.set_attributes({"framehold.kind": facts.kind.value, "framehold.route": self.route})
        if self.call is not None:
            span.set_attribute("framehold.call", prefix(self.call))
        if self.node is not None:
            span.set_attribute("framehold.to_node", self.node)
        if self.status:
            span.set_attribute("http.response.status_code", self.status)
        if outcome in (ABORTED, "5xx"):
            span.set_status(StatusCode.ERROR, outcome)
        span.end()


class _TracedParams(msgspec.Struct, gc=False):
    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict)


class _TracedBody(msgspec.Struct, gc=False):
    params: _TracedParams = msgspec.field(default_factory=_TracedParams)


_decode = msgspec.json.Decoder(_TracedBody).decode


def _client_context(request: Request) -> Context:
    """The client's span, as the `_meta` of the request names it, or else its headers; an empty context if neither
    does."""
    try:
        meta = _decode(request.body).params.meta
    except (msgspec.MsgspecError, ValueError, RecursionError):
        meta = {}
    if not isinstance(meta.get("traceparent"), str):
        meta = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.head.headers}
    carrier = {name: meta[name] for name in _TRACE_FIELDS if isinstance(meta.get(name), str)}
    return propagate.extract(carrier, Context())
