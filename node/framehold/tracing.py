"""Traces: what OpenTelemetry is told of the rounds of a call, so that they can be followed over nodes and takeovers.

The law: the span of a request is made by the SDK, or by FastMCP; what stands here adds to the span that is current, and
where none is recorded it does nothing. Nothing of a call rests on it.

- a token carries, sealed, the span that it was made in and the one in which its call began: the next round's span links
  to both
- a replay is a span of its own, under the round that waits for it; what the handler does again hangs under it
- a handler's spans hang under the round that runs it now (`spans`)
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanContext, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.ids import prefix

from .passing import Passing
from .slots import Answer, Elsewhere, Slot
from .spans import RoundSpan, recorded, running
from .watch import Watch

logger = logging.getLogger(__name__)

SPANS = "trace"
"""The claim of a token that names spans: what seals a state passes over what it doesn't know."""
PREVIOUS, FIRST = "previous round", "first round"
"""What a link leads to, as its attribute `framehold.link` says."""
_PATIENCE = 5000
"""Milliseconds that the collector of spans gets in the end."""
REPLAY = "framehold replay"
"""The name of the span of a replay."""

_SPELT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
"""A span as W3C's traceparent spells it."""
_began: contextvars.ContextVar[tuple[SpanContext, str] | None] = contextvars.ContextVar("framehold_began", default=None)
"""The span of this request, and the one that its call began in."""


def provided() -> bool:
    """Whether somebody collects spans, as far as is known now. OpenTelemetry asks the environment each time while there
    is no provider: it is let do that once."""
    _found()
    return trace._TRACER_PROVIDER is not None


@cache
def _found() -> None:
    """Have the provider made that the environment names."""
    trace.get_tracer_provider()


async def flush() -> None:
    """Have what was collected handed over, spans and metrics: a process that a signal ends may not come to do it by
    itself."""
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        if (hand_over := getattr(provider, "force_flush", None)) is not None:
            try:
                await asyncio.to_thread(hand_over, _PATIENCE)
            except Exception:
                logger.exception("what was traced or measured last could not be handed over; it is lost")


# ---- from round to round


def minted() -> dict[str, Any]:
    """What a token tells the next round of this one's span; empty where none is recorded."""
    span = recorded()
    if span is None:
        return {}
    here = span.get_span_context()
    spelt, began = _spelt(here), _began.get()
    # What a handler asks of a server in its own process inherits what its own request knew.
    first = began[1] if began is not None and began[0] == here else spelt
    return {SPANS: spelt if first == spelt else f"{spelt} {first}"}


def told(claims: Mapping[str, Any]) -> None:
    """Link this round's span to those that its token tells of."""
    said = claims.get(SPANS)
    if not isinstance(said, str) or (span := recorded()) is None:
        return
    texts, here = said.split(" "), span.get_span_context()
    _began.set((here, texts[-1]))
    for text, what in zip(texts, (PREVIOUS, FIRST), strict=False):
        found = _read(text)
        # A client of an earlier revision is asked within one request: its token never leaves it.
        if found is not None and found.span_id != here.span_id:
            span.add_link(found, {"framehold.link": what})


def _spelt(at: SpanContext) -> str:
    return f"00-{at.trace_id:032x}-{at.span_id:016x}-{at.trace_flags:02x}"


def _read(text: str) -> SpanContext | None:
    match = _SPELT.fullmatch(text)
    if match is None:
        return None
    names = int(match[1], 16), int(match[2], 16)
    found = SpanContext(*names, is_remote=True, trace_flags=TraceFlags(int(match[3], 16)))
    return found if found.is_valid else None


# ---- what is told of a round


class _Replay(NamedTuple):
    """A replay under way: its span, and the one that the handler sees."""

    span: Span
    seen: RoundSpan | None


class Tracing(Watch):
    """Says on the span of each request what became of it, and makes the spans of replays. `node` is this node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._tracer = trace.get_tracer("framehold")
        self._replays: dict[Slot, _Replay] = {}
        self._routes: dict[int, str] = {}
        """Requests that waited for a replay, and why there was one."""

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """A replay begins, or ends."""
        if slot.call.phase is Phase.REBUILDING:
            if was is not Phase.REBUILDING:
                self._begin(slot)
        elif was is Phase.REBUILDING:
            self._end(slot, "" if isinstance(event, ev.Rebuilt) else type(event).__name__.lower())

    def _begin(self, slot: Slot) -> None:
        frame, held = slot.frame, slot.call.held
        # What a token carries whole was nobody's.
        said = {"framehold.from_node": held[0].node} if held and not isinstance(slot.home.records, Passing) else {}
        route = "takeover" if slot.orphaned else "replay"
        self._routes |= {item.waiter: route for item in held if item.waiter in slot.arrivals}
        if frame is None or frame.context is None or frame.carrier is None:
            return
        round_ = frame.carrier.variables.run(trace.get_current_span)
        if not round_.is_recording():
            return
        span = self._tracer.start_span(
            REPLAY,
            trace.set_span_in_context(round_),
            attributes={**self._about(slot), **said, "framehold.entries": len(slot.log), "framehold.route": route},
        )
        seen = frame.context.run(running.get)
        if seen is not None:
            seen.replay = span
        self._replays[slot] = _Replay(span, seen)

    def _end(self, slot: Slot, why: str) -> None:
        replay = self._replays.pop(slot, None)
        if replay is None:
            return
        if why:
            replay.span.set_status(StatusCode.ERROR, why)
        replay.span.end()
        if replay.seen is not None:
            replay.seen.replay = None

    def answered(self, slot: Slot, event: ev.Start | ev.Retry, answer: Answer | None, seconds: float) -> None:
        """A request is answered, within its span."""
        if slot.call.phase is not Phase.REBUILDING:
            self._end(slot, "broken")
        route, span = self._routes.pop(event.waiter, None), recorded()
        if span is None:
            return
        number = 1 if isinstance(event, ev.Start) else event.round + 1
        span.set_attributes({**self._about(slot), "framehold.round": number})
        if isinstance(answer, Elsewhere):
            route = "relay"
            span.set_attribute("framehold.to_node", answer.node)
        elif isinstance(answer, fx.Refusal):
            span.set_attribute("framehold.refused", answer.reason.value)
        span.set_attribute("framehold.route", route or ("start" if isinstance(event, ev.Start) else "resume"))

    def _about(self, slot: Slot) -> dict[str, AttributeValue]:
        return {
            "framehold.call": prefix(slot.call.id),
            # Half of a surrogate pair would keep a whole batch of spans from its collector.
            "framehold.tool": slot.tool.encode("utf-8", "replace").decode(),
            "framehold.epoch": slot.call.epoch,
            "framehold.node": self._node,
        }
