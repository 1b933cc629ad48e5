"""The identities of the clients that send requests to one entry: each is parsed once and validated once.

A client states its identity in the `_meta` of every request: protocol version, name and version, capabilities. To parse
and to validate it costs more than the rest of a round's beginning. So both results are kept here, by the identity's
JSON.

The law: bounded. Clients choose their identities. An identity longer than `MAX_IDENTITY_BYTES` is not kept, and at most
`MAX_IDENTITIES` are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp.server.connection import Connection
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from .. import json_text

IDENTITY = (PROTOCOL_VERSION_META_KEY, CLIENT_INFO_META_KEY, CLIENT_CAPABILITIES_META_KEY)
"""The keys of a `_meta` that state the identity of its client."""
MAX_IDENTITIES = 1024
MAX_IDENTITY_BYTES = 4096
_IDENTITY = set(IDENTITY)
_PLAIN = {"progressToken", "traceparent", "tracestate", "baggage"}
"""Further keys of a `_meta` that are valid with any text as value."""


class Client(NamedTuple):
    """A client whose identity the SDK has validated, and the progress token of its request. Nothing of it is given to
    handlers, since clients with equal identities share it."""

    connection: Connection
    progress: str | int | None


class ClientIdentities:
    """Belongs to one `HttpEntry`, and is shared by its kernels."""

    def __init__(self) -> None:
        self._clients: dict[bytes, Client] = {}
        self._connections: OrderedDict[bytes, Connection] = OrderedDict()
        self._valid: set[bytes] = set()

    def connection(self, meta: Mapping[str, Any]) -> Connection:
        """The connection of the client that `meta` names, which all requests with this identity share."""
        identity: list[Any] = list(map(meta.get, IDENTITY))
        key = json_text.write(identity)
        known = self._connections.get(key)
        if known is None:
            known = Connection.from_envelope(*identity)
            if len(key) <= MAX_IDENTITY_BYTES:
                self._connections[key] = known
            if len(self._connections) > MAX_IDENTITIES:
                self._connections.popitem(last=False)
        return known

    def client(self, data: bytes) -> Client | None:
        """The client whose request has this `_meta` (JSON); None if the SDK has to validate it."""
        if (known := self._clients.get(data)) is not None:
            return known
        meta = json_text.read(data)
        if not self.is_valid(meta):
            return None
        client = Client(self.connection(meta), progress_token_from_params({"_meta": meta}))
        # What else a `_meta` holds differs in each request.
        if len(data) <= MAX_IDENTITY_BYTES and meta.keys() <= _IDENTITY:
            if len(self._clients) >= MAX_IDENTITIES:
                self._clients.clear()
            self._clients[data] = client
        return client

    def keep_valid(self, meta: Any) -> None:
        """Keep the identity in `meta`, which the SDK has just validated."""
        if isinstance(meta, dict):
            key = json_text.write(list(map(meta.get, IDENTITY)))
            if len(self._valid) >= MAX_IDENTITIES:
                # Clients choose them: junk may cost others a validation, not their place for good.
                self._valid.clear()
            if len(key) <= MAX_IDENTITY_BYTES:
                self._valid.add(key)

    def is_valid(self, meta: Any) -> bool:
        """Whether the SDK would find nothing wrong with `meta`: it holds an identity that was validated before, and
        beside it only plain texts under known keys, and a progress token that is a text or an integer."""
        if not isinstance(meta, dict):
            # A middleware left none.
            return False
        for name, value in meta.items():
            if name == "progressToken" and type(value) is int:
                continue
            if name not in IDENTITY and (name not in _PLAIN or not isinstance(value, str)):
                return False
        return json_text.write(list(map(meta.get, IDENTITY))) in self._valid
