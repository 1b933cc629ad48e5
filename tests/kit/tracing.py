"""A tracer provider and a meter provider for the tests of one module, and what they collected.

OpenTelemetry has one of each for a process, for good. So that no other test is traced, both are taken away again, and
with them what tracers have remembered of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

import mcp.shared._otel as sdk
import opentelemetry.metrics._internal as api_of_metrics
import opentelemetry.trace as api
from mcp.server.mcpserver import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import SpanContext

import framehold
from tests.kit import serving
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word
from tests.kit.serving import said as word_of


class Choosing(Sampler):
    """Samples whatever begins a trace for as long as `on`."""

    on = True

    def should_sample(self, *args: Any, **named: Any) -> SamplingResult:
        return SamplingResult(Decision.RECORD_AND_SAMPLE if self.on else Decision.DROP)

    def get_description(self) -> str:
        return "as it is told"


class Traces:
    """The spans that have ended."""

    def __init__(self) -> None:
        self.sampler, self._exporter = Choosing(), InMemorySpanExporter()
        self.provider = TracerProvider(sampler=ParentBased(self.sampler))
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def clear(self) -> None:
        """Forget what was collected."""
        self._exporter.clear()
        self.sampler.on = True

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of this name, in the order in which they began."""
        found = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        """The only one of this name."""
        (found,) = self.named(name)
        return found


@contextmanager
def traces() -> Iterator[Traces]:
    """Trace what begins from now on."""
    found = Traces()
    api._TRACER_PROVIDER = found.provider
    try:
        yield found
    finally:
        api._TRACER_PROVIDER = None
        for remembers in (sdk._tracer, tracer):
            if isinstance(remembers, api.ProxyTracer):
                remembers._real_tracer = None
        found.provider.shutdown()


@contextmanager
def measured() -> Iterator[InMemoryMetricReader]:
    """Collect metrics of what is attached from now on."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    api_of_metrics._METER_PROVIDER = provider
    try:
        yield reader
    finally:
        api_of_metrics._METER_PROVIDER = None
        provider.shutdown()


tracer = api.get_tracer("a test's own")


@framehold.reentrant
async def two(ctx: Context) -> str:
    """Asks twice, in spans of its own."""
    with tracer.start_as_current_span("first"):
        first = word_of(await ctx.elicit("one", Word))
        with tracer.start_as_current_span("inner"):
            pass
    with tracer.start_as_current_span("between"):
        api.get_current_span().add_event("here")
    second = word_of(await ctx.elicit("two", Word))
    api.get_current_span().set_attribute("own", "said in round 3")
    with tracer.start_as_current_span("last"):
        return f"{first} {second}"


def at(span: ReadableSpan) -> tuple[int, int]:
    """Which span it is."""
    context = span.get_span_context()
    assert context is not None
    return _names(context)


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    """Which span it hangs under."""
    return None if span.parent is None else _names(span.parent)


def links(span: ReadableSpan) -> dict[str, tuple[int, int]]:
    """Which spans it leads to, by what they are to it."""
    return {str((link.attributes or {})["framehold.link"]): _names(link.context) for link in span.links}


def said(span: ReadableSpan) -> dict[str, Any]:
    """What Framehold says on it, without its prefix."""
    found = span.attributes or {}
    return {name.removeprefix("framehold."): found[name] for name in found if name.startswith("framehold.")}


def _names(context: SpanContext) -> tuple[int, int]:
    return context.trace_id, context.span_id


def pair(redis: RedisServer, namespace: str, **settings: Any) -> AbstractAsyncContextManager[serving.Pair]:
    """Two nodes of one store that serve `two`, and a client of each."""
    return serving.pair(redis, namespace, two, lease_ttl=5.0, route_headers=True, **settings)
