"""OpenTelemetry traces of the rounds of a call, so that a call can be followed over nodes and takeovers.

The law: the SDK or FastMCP makes the span of a request. This module adds to the current span, and does nothing if none
is recorded. No call depends on it.

- a token carries, sealed, the span that it was made in and the span in which its call began: the span of the next round
  links to both
- a replay has a span of its own, a child of the round that waits for it; spans that the handler makes during the replay
  are its children
- other spans of a handler are children of the round that runs the handler now (`frame.span`)
- the time for which a request waits for the lease of a node that is out of reach is a span of its own, a child of the
  span that found the node out of reach
- the span of a round in which the handler raised has the class and the place of the exception, and not its text: the
  text may hold what a user typed
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
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.ending import Ending
from framehold_core.ids import prefix

from ..engine.heartbeat import Alone, Heartbeat
from ..engine.observer import Observer, RequestEnd
from ..engine.replies import Elsewhere, Ended
from ..engine.slot import Arrival, Slot
from ..engine.token_record import TokenRecord
from ..frame.logged_call import log_fields
from ..frame.span import RoundSpan, recording_span, running

logger = logging.getLogger(__name__)

SPANS = "trace"
"""The claim of a token that names spans. The codec that seals a state ignores claims that it doesn't know."""
PREVIOUS, FIRST = "previous round", "first round"
"""Values of a link's attribute `framehold.link`: the round that the link leads to."""
_FLUSH_TIMEOUT = 5000
"""Milliseconds to wait for the collector of spans when the node ends."""
REPLAY, LEASE_WAIT = "framehold replay", "framehold wait for lease"
"""The names of the spans of a replay, and of a wait for a node's lease to run out or for the node to come back."""

_TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
"""A span in the format of W3C's traceparent."""
_call_began: contextvars.ContextVar[tuple[SpanContext, str] | None] = contextvars.ContextVar(
    "framehold_began", default=None
)
"""Two spans: that of this request, and that in which its call began (as a traceparent)."""
_led_elsewhere: contextvars.ContextVar[SpanContext | None] = contextvars.ContextVar("framehold_elsewhere", default=None)
"""The last span of this request in which another node was found to hold its call."""


def has_provider() -> bool:
    """Whether a provider collects spans, as far as is known now. While there is none, OpenTelemetry reads the
    environment at each call; here it does so only once."""
    _make_provider()
    return trace._TRACER_PROVIDER is not None


@cache
def _make_provider() -> None:
    """Make the provider that the environment names, if any."""
    trace.get_tracer_provider()


async def flush() -> None:
    """Send the collected spans and metrics to their collector. A process that is ended by a signal may not do that by
    itself."""
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        if (hand_over := getattr(provider, "force_flush", None)) is not None:
            try:
                await asyncio.to_thread(hand_over, _FLUSH_TIMEOUT)
            except Exception:
                logger.exception("what was traced or measured last could not be handed over; it is lost")


# ---- from round to round


def token_claims() -> dict[str, Any]:
    """The claims for a token that name this round's span and the first round's; empty if no span is recorded."""
    span = recording_span()
    if span is None:
        return {}
    here = span.get_span_context()
    this, began = _traceparent(here), _call_began.get()
    # A request that a handler sends to a server in its own process inherits the variable: compare its span.
    first = began[1] if began is not None and began[0] == here else this
    return {SPANS: this if first == this else f"{this} {first}"}


def link_rounds(claims: Mapping[str, Any]) -> None:
    """Link this round's span to the spans that the claims of its token name."""
    names = claims.get(SPANS)
    if not isinstance(names, str) or (span := recording_span()) is None:
        return
    texts, here = names.split(" "), span.get_span_context()
    _call_began.set((here, texts[-1]))
    for text, what in zip(texts, (PREVIOUS, FIRST), strict=False):
        found = _read(text)
        # A client of an earlier revision is asked within one request: its token never leaves it.
        if found is not None and found.span_id != here.span_id:
            span.add_link(found, {"framehold.link": what})


def record_lease_wait(began: int, address: str, result: str) -> None:
    """Record that this request has waited, since `began` (nanoseconds since 1970), for the node at `address`, which was
    out of reach. `result` says how the wait ended. Nothing is recorded for a request that is not traced."""
    parent = _led_elsewhere.get()
    if parent is None:
        return
    call = log_fields().get("call", "")
    attributes = {"framehold.call": call, "framehold.address": address, "framehold.result": result}
    context = trace.set_span_in_context(NonRecordingSpan(parent))
    trace.get_tracer("framehold").start_span(LEASE_WAIT, context, attributes=attributes, start_time=began).end()


def _traceparent(at: SpanContext) -> str:
    return f"00-{at.trace_id:032x}-{at.span_id:016x}-{at.trace_flags:02x}"


def _read(text: str) -> SpanContext | None:
    match = _TRACEPARENT.fullmatch(text)
    if match is None:
        return None
    names = int(match[1], 16), int(match[2], 16)
    found = SpanContext(*names, is_remote=True, trace_flags=TraceFlags(int(match[3], 16)))
    return found if found.is_valid else None


# ---- spans and attributes of a round


class _Replay(NamedTuple):
    """A replay under way: its span, and the span object that the handler sees."""

    span: Span
    seen: RoundSpan | None


class Tracing(Observer):
    """Sets attributes about the call on the span of each request, and makes the spans of replays. The lease of
    `heartbeat` names this node."""

    def __init__(self, heartbeat: Heartbeat | Alone) -> None:
        self._heartbeat = heartbeat
        self._tracer = trace.get_tracer("framehold")
        self._replays: dict[Slot, _Replay] = {}
        self._routes: dict[int, str] = {}
        """The route (`takeover` or `replay`) of each request that waited for a replay, by waiter."""

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """A replay begins, or ends."""
        if slot.call.phase is Phase.REBUILDING:
            if was is not Phase.REBUILDING:
                self._begin(slot)
        elif was is Phase.REBUILDING:
            self._end(slot, "" if isinstance(event, ev.Rebuilt) else type(event).__name__.lower())

    def _begin(self, slot: Slot) -> None:
        frame, held = slot.frame, slot.call.undecided
        # A call that its token carries was on no node.
        from_node = (
            {"framehold.from_node": held[0].node} if held and not isinstance(slot.backing.records, TokenRecord) else {}
        )
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
            attributes={**self._about(slot), **from_node, "framehold.entries": len(slot.log), "framehold.route": route},
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

    def answered(self, slot: Slot, arrival: Arrival, answer: RequestEnd, seconds: float) -> None:
        """A request has its reply: set the attributes of its span, which is the current one."""
        event = arrival.event
        assert event is not None, "a request that was fed has an event"
        if slot.call.phase is not Phase.REBUILDING:
            self._end(slot, "broken")
        route, span = self._routes.pop(event.waiter, None), recording_span()
        if span is None:
            return
        number = 1 if isinstance(event, ev.Start) else event.round + 1
        span.set_attributes({**self._about(slot), "framehold.round": number})
        if isinstance(answer, Elsewhere):
            route = "relay"
            span.set_attribute("framehold.to_node", answer.node)
            _led_elsewhere.set(span.get_span_context())
        elif isinstance(answer, Ended):
            _record_failure(span, slot.handler.ending(answer.outcome))
        elif isinstance(answer, fx.Refusal):
            span.set_attribute("framehold.refused", answer.reason.value)
        span.set_attribute("framehold.route", route or ("start" if isinstance(event, ev.Start) else "resume"))

    def _about(self, slot: Slot) -> dict[str, AttributeValue]:
        return {
            "framehold.call": prefix(slot.call.id),
            # Half of a surrogate pair would make the whole batch of spans fail on its way to the collector.
            "framehold.tool": slot.tool.encode("utf-8", "replace").decode(),
            "framehold.epoch": slot.call.epoch,
            "framehold.node": self._heartbeat.lease.node,
        }


def _record_failure(span: Span, ending: Ending) -> None:
    """Add OpenTelemetry's event for an exception, with its class and its place (`module:function:line`), if the handler
    raised one that is known."""
    if ending.error:
        span.add_event("exception", {"exception.type": ending.error, "framehold.place": ending.place})
