"""What our entry takes at a glance, the SDK's ladder lets pass too."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request, encode_header_value
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION

from framehold.http import classify

_META = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {}}
_METAS: tuple[Any, ...] = (
    _META,
    {**_META, CLIENT_INFO_META_KEY: None},
    {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION},
    None,
    [],
)
_VERSIONS = (LATEST_MODERN_VERSION, "2025-11-25", None, 20260728, [LATEST_MODERN_VERSION])
_NAMES = ("echo", "grüße", "日本", "=?base64?ZWNobw==?=", "=?", "", None, 5)
_METHODS = ("tools/call", "resources/read", "tools/callSaga")


def _headers(**text: str | None) -> list[tuple[bytes, bytes]]:
    names = {name: f"mcp-{name.replace('_', '-')}".encode() for name in text}
    return [(names[name], value.encode("latin-1")) for name, value in text.items() if value is not None]


def _bodies() -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = []
    for method, meta, name in itertools.product(_METHODS, _METAS, _NAMES):
        key = "uri" if method == "resources/read" else "name"
        bodies.append({"jsonrpc": "2.0", "id": 1, "method": method, "params": {key: name, "_meta": meta}})
    for version in _VERSIONS:
        params = {"name": "echo", "_meta": {**_META, PROTOCOL_VERSION_META_KEY: version}}
        bodies.append({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return bodies


@pytest.mark.parametrize("body", _bodies(), ids=json.dumps)
def test_a_glance_and_the_ladder_agree(body: dict[str, Any]) -> None:
    """Over every header that could stand before this body."""
    encoded = [encode_header_value(name) for name in _NAMES if isinstance(name, str)]
    names = dict.fromkeys([None, "echo", "grüße", "=?base64?ZWNobw==?=", "=?", "", *encoded])
    for method, version, name in itertools.product(_METHODS, (LATEST_MODERN_VERSION, "2025-11-25", None), names):
        headers = _headers(protocol_version=version, method=method, name=name)
        text = {key.decode(): value.decode("latin-1") for key, value in headers}
        passes = isinstance(classify_inbound_request(body, headers=text), InboundModernRoute)
        assert (classify.classified(headers, json.dumps(body).encode()) is not None) == passes


def test_a_header_that_is_there_twice_is_not_ordinary() -> None:
    """Whichever copy a reader takes."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "_meta": _META}})
    headers = _headers(protocol_version=LATEST_MODERN_VERSION, method="tools/call", name="echo")
    assert classify.classified(headers, body.encode()) is not None
    for header in headers:
        assert classify.classified([*headers, header], body.encode()) is None


def test_its_route_is_the_ladders() -> None:
    """With a client's name, and without one."""
    headers = _headers(protocol_version=LATEST_MODERN_VERSION, method="tools/call", name="echo")
    for info in ({}, {CLIENT_INFO_META_KEY: {"name": "n", "version": "1"}}):
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "echo", "_meta": {**_META, **info}},
        }
        found = classify.classified(headers, json.dumps(body).encode())
        assert found is not None and found.route == classify_inbound_request(body)
