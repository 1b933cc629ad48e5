"""The readers of a request in one process: the router's facts and the node's parameters, beside what the SDK reads."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

from mcp.shared.inbound import (
    InboundModernRoute,
    classify_inbound_request,
    encode_header_value,
    find_duplicated_routing_header,
)
from mcp_types import JSONRPCRequest
from pydantic import ValidationError

from framehold.http import classify
from framehold_core import token
from framehold_fleet.http_server.message import Request
from framehold_fleet.http_server.request_head import RequestHead
from framehold_router.routing import request_facts
from framehold_router.routing.request_facts import WITH_SAGAS, Facts, RequestKind

from .bodies import RESUME, REVISION, Writer, request, spoiled
from .part import Outcome, played

Headers = list[tuple[bytes, bytes]]


def drawn(draw: Random) -> tuple[Headers, bytes]:
    """A body, and headers that mostly agree with it."""
    data = Writer(draw).encoded(request(draw))
    if draw.random() < 0.4:
        data = spoiled(draw, data)
    try:
        whole = json.loads(data)
        method, params = whole["method"], whole["params"]
        name = str(params.get("name", params.get("uri"))).encode("utf-8", "replace").decode()
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        method, name = "tools/call", "tool"
    named = draw.choice([name, encode_header_value(name)] * 16 + ["other"])
    texts = {"mcp-protocol-version": REVISION, "mcp-method": str(method), "mcp-name": named}
    headers = [(key.encode(), text.encode("utf-8", "replace")) for key, text in texts.items() if draw.random() < 0.99]
    return headers + (draw.sample(headers, 1) if headers and draw.random() < 0.02 else []), data


def meant(headers: Headers, data: bytes) -> JSONRPCRequest | None:
    """The request as the SDK's endpoint reads it; None if that refuses it."""
    texts = [(name.decode(), value.decode("latin-1")) for name, value in headers]
    try:
        whole = json.loads(data)
        found = JSONRPCRequest.model_validate(whole) if not isinstance(whole, dict) or "id" in whole else None
    except (ValueError, RecursionError, ValidationError):
        return None
    if found is None or find_duplicated_routing_header(texts) is not None:
        return None
    route = classify_inbound_request(whole, headers=dict(reversed(texts)))
    return found if isinstance(route, InboundModernRoute) else None


def difference(headers: Headers, data: bytes) -> str | None:
    """What the router or the node reads otherwise than the SDK; None if they agree."""
    sdk = meant(headers, data)
    try:
        facts = request_facts.read(
            Request(RequestHead(b"POST", b"/mcp", [(b"host", b"h"), *headers], ""), data), WITH_SAGAS
        )
        found = classify.classified(headers, data)
    except Exception as error:
        return f"a reader raises {error!r}"
    if sdk is None:
        return None if found is None else f"the SDK refuses it, the node reads {found!r}"
    if sdk.method not in WITH_SAGAS:
        return None if facts.kind is RequestKind.ANY else f"no call, and the router says {facts!r}"
    said = (sdk.id, sdk.method, sdk.params)
    if found is None or repr(tuple(found)) != repr(said):
        return f"the SDK reads {said!r}, the node {found!r}"
    wanted = _wanted(sdk)
    return None if wanted in (None, facts) else f"the SDK means {wanted!r}, the router says {facts!r}"


def _wanted(sdk: JSONRPCRequest) -> Facts | None:
    """The router's facts of a request; None where its token is no text, which every node refuses."""
    state: Any = (sdk.params or {}).get("sagaToken" if sdk.method == RESUME else "requestState")
    if type(state) not in (str, type(None)):
        return None
    call = token.named(state) if state else None
    return Facts(RequestKind.START) if call is None else Facts(RequestKind.RETRY, call)


async def _wrong(number: int) -> str | None:
    headers, data = drawn(Random(number))
    wrong = difference(headers, data)
    return None if wrong is None else f"{wrong[:2000]}\n  {headers!r}\n  {data[:2000]!r}"


def run(seed: int, seconds: float) -> Outcome:
    """Draw bodies from the seeds that begin with `seed`, for some seconds."""
    return asyncio.run(played(seed, seconds, _wrong))
