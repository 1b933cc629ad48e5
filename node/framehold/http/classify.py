"""Which requests of 2026-07-28 the entry serves: JSON-RPC requests whose routing headers agree with their bodies.

Headers that repeat the body word for word agree: that check is fast. For other headers the SDK's own check decides,
which also knows encoded names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    InboundModernRoute,
    classify_inbound_request,
)
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY, RequestId
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .. import json_text

_VERSION, _METHOD, _NAME = (name.encode() for name in (MCP_PROTOCOL_VERSION_HEADER, MCP_METHOD_HEADER, MCP_NAME_HEADER))
_ROUTING = {_VERSION, _METHOD, _NAME}
_ENCODED = b"=?"
"""The beginning of a header whose value is encoded. Such a header is left to the SDK's check."""


class Classified(NamedTuple):
    """A request that Framehold's entry serves: id, method and parameters. The parameters have a `_meta` that names the
    client."""

    id: RequestId
    method: str
    params: dict[str, Any]

    @property
    def route(self) -> InboundModernRoute:
        """The request's route, as the SDK's own check of inbound requests returns it."""
        meta = self.params["_meta"]
        version, capabilities = meta[PROTOCOL_VERSION_META_KEY], meta[CLIENT_CAPABILITIES_META_KEY]
        return InboundModernRoute(version, meta.get(CLIENT_INFO_META_KEY), capabilities)


def classified(headers: Sequence[tuple[bytes, bytes]], data: bytes) -> Classified | None:
    """The request that has these headers and this body (`data`); None if the entry does not serve it."""
    try:
        decoded = json_text.read(data)
        request_id, method, params = decoded["id"], decoded["method"], decoded["params"]
        typed = type(request_id) in (int, str) and type(method) is str and type(params) is dict
        if decoded["jsonrpc"] != "2.0" or not typed:
            return None
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    routing = [item for item in headers if item[0] in _ROUTING]
    values = dict(routing)
    # Of a header that is there twice, different readers would take different copies.
    if len(values) == len(routing) and (_repeats(values, method, params) or _agrees(values, decoded)):
        return Classified(request_id, method, params)
    return None


def _repeats(headers: Mapping[bytes, bytes], method: str, params: dict[str, Any]) -> bool:
    """Whether the routing headers repeat the body word for word."""
    meta, key = params.get("_meta"), NAME_BEARING_METHODS.get(method)
    if type(meta) is not dict or CLIENT_CAPABILITIES_META_KEY not in meta:
        return False
    version, name = meta.get(PROTOCOL_VERSION_META_KEY), headers.get(_NAME, _ENCODED)
    if version not in MODERN_PROTOCOL_VERSIONS or headers.get(_VERSION) != version.encode():
        return False
    if (named := headers.get(_METHOD)) is None or named.decode("latin-1") != method:
        return False
    return key is None or (not name.startswith(_ENCODED) and name.decode("latin-1") == params.get(key))


def _agrees(headers: Mapping[bytes, bytes], decoded: dict[str, Any]) -> bool:
    """Whether the SDK's check finds that the routing headers agree with the decoded body."""
    texts = {name.decode("ascii"): value.decode("latin-1") for name, value in headers.items()}
    return isinstance(classify_inbound_request(decoded, headers=texts), InboundModernRoute)
