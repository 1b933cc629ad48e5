"""A router's spans: one for each request to a node, beside the node's own, and nothing where nobody traces."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from framehold_router import app
from framehold_router.routing.relay import RequestRelay
from framehold_router.routing.traced_relay import SPAN, TracedRelay
from framehold_router.telemetry.counters import Meter
from tests.kit.tracing import Traces, parent, traces
from tests.kit.tracing import said as attributes
from tests.router.wires import CALL, Client, both_loops, closing, node, nowhere, ok, post, router, silent

anyio_backend = both_loops

CLIENT = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
AT_CLIENT = int("ab" * 16, 16), int("cd" * 8, 16)
TOKEN = f"h1.{CALL}.sealed"


@pytest.fixture
def seen() -> Iterator[Traces]:
    with traces() as found:
        yield found


@pytest.fixture
def traced(seen: Traces) -> partial[RequestRelay]:
    return partial(TracedRelay, Meter())  # type: ignore[return-value]  # it is a Relay, but partial is invariant


def call(state: str | None = None, **meta: Any) -> bytes:
    params = {"name": "book", "_meta": meta, **({} if state is None else {"requestState": state})}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return post(json.dumps(body).encode(), "MCP-Protocol-Version: 2026-07-28")


async def test_a_request_is_one_span_that_names_call_node_and_status(
    seen: Traces, traced: partial[RequestRelay]
) -> None:
    async with node(ok()) as upstream, router(upstream.address, mint=True, relay=traced) as it:
        for asked in (call(traceparent=CLIENT), call(TOKEN), post(b"no JSON", f"traceparent: {CLIENT}")):
            assert (await it.ask(asked)).status == 200
        await it.ask(call(traceparent=["odd"]))
    first, second, third, last = seen.named(SPAN)
    assert [parent(span) for span in (first, second, third, last)] == [AT_CLIENT, None, AT_CLIENT, None]
    common = {"call": CALL[:8], "to_node": "n0", "route": "any"}
    assert attributes(first) == {**common, "kind": "start"} and attributes(second) == {**common, "kind": "retry"}
    assert (first.attributes or {})["http.response.status_code"] == 200
    assert first.status.status_code is StatusCode.UNSET and first.events == ()


async def test_what_a_request_met_on_its_way_is_an_event(seen: Traces, traced: partial[RequestRelay]) -> None:
    async with node(closing(b"")) as broken, router(nowhere(), broken.address, relay=traced) as it:
        assert (await it.ask(call())).status == 502
    (span,) = seen.named(SPAN)
    assert [(event.name, dict(event.attributes or {}).get("framehold.node")) for event in span.events] == [
        ("node accepts no connection", "n0"),
        ("node did not answer", "n1"),
    ]
    assert (span.status.status_code, (span.attributes or {})["http.response.status_code"]) == (StatusCode.ERROR, 502)


async def test_a_client_that_leaves_ends_its_span(seen: Traces, traced: partial[RequestRelay]) -> None:
    async with node(silent) as upstream, router(upstream.address, relay=traced) as it:
        client: Client = await it.client()
        client.send(call())
        await upstream.arrived.wait()
        client.writer.transport.abort()
        while not seen.named(SPAN):
            await asyncio.sleep(0)
    (span,) = seen.named(SPAN)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "aborted")


async def test_a_line_about_a_request_names_its_span(
    seen: Traces, traced: partial[RequestRelay], caplog: pytest.LogCaptureFixture
) -> None:
    async with router(relay=traced) as it:
        assert (await it.ask(call(TOKEN))).status == 503
    (span,) = seen.named(SPAN)
    assert span.context is not None
    (line,) = (vars(record) for record in caplog.records if record.levelno == logging.WARNING)
    assert (line["call"], int(line["trace_id"], 16), int(line["span_id"], 16)) == (
        CALL[:8],
        span.context.trace_id,
        span.context.span_id,
    )


def test_a_router_makes_spans_where_there_is_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    assert app._traced_relay() is None
    with traces():
        assert app._traced_relay() is TracedRelay
    monkeypatch.delitem(sys.modules, "framehold_router.routing.traced_relay")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delattr(sys.modules["framehold_router.routing"], "traced_relay", raising=False)
    assert app._traced_relay() is None
