"""Which requests of 2026-07-28 are ordinary: JSON-RPC, with routing headers that say what the body says.

A request whose headers repeat its body word for word is seen to agree at a glance. Any other is asked of the SDK's own
ladder, which knows of encoded names."""

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
from pydantic_core import from_json

_VERSION, _METHOD, _NAME = (name.encode() for name in (MCP_PROTOCOL_VERSION_HEADER, MCP_METHOD_HEADER, MCP_NAME_HEADER))
_ROUTING = {_VERSION, _METHOD, _NAME}
_ENCODED = b"=?"
"""How a header begins whose value had to be encoded, as far as is looked here."""


class Ordinary(NamedTuple):
    """A request that our entry serves: its envelope, its parameters. Their `_meta` holds its client."""

    id: RequestId
    method: str
    params: dict[str, Any]

    @property
    def route(self) -> InboundModernRoute:
        """The same, as the SDK's ladder tells it."""
        meta = self.params["_meta"]
        version, capabilities = meta[PROTOCOL_VERSION_META_KEY], meta[CLIENT_CAPABILITIES_META_KEY]
        return InboundModernRoute(version, meta.get(CLIENT_INFO_META_KEY), capabilities)


def ordinary(headers: Sequence[tuple[bytes, bytes]], data: bytes) -> Ordinary | None:
    """The request with these headers and this body as an ordinary one; None for whatever is not."""
    try:
        decoded = from_json(data)
        request_id, method, params = decoded["id"], decoded["method"], decoded["params"]
        typed = type(request_id) in (int, str) and type(method) is str and type(params) is dict
        if decoded["jsonrpc"] != "2.0" or not typed:
            return None
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    routing = [item for item in headers if item[0] in _ROUTING]
    said = dict(routing)
    # Of a header that is there twice, readers would see different ones.
    if len(said) == len(routing) and (_repeats(said, method, params) or _agrees(said, decoded)):
        return Ordinary(request_id, method, params)
    return None


def _repeats(said: Mapping[bytes, bytes], method: str, params: dict[str, Any]) -> bool:
    """Whether headers repeat the body word for word."""
    meta, key = params.get("_meta"), NAME_BEARING_METHODS.get(method)
    if type(meta) is not dict or CLIENT_CAPABILITIES_META_KEY not in meta:
        return False
    version, name = meta.get(PROTOCOL_VERSION_META_KEY), said.get(_NAME, _ENCODED)
    if version not in MODERN_PROTOCOL_VERSIONS or said.get(_VERSION) != version.encode():
        return False
    if said.get(_METHOD) != method.encode():
        return False
    return key is None or (not name.startswith(_ENCODED) and name.decode("latin-1") == params.get(key))


def _agrees(said: Mapping[bytes, bytes], decoded: dict[str, Any]) -> bool:
    """Whether they agree as the SDK sees it."""
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in said.items()}
    return isinstance(classify_inbound_request(decoded, headers=headers), InboundModernRoute)
