"""What routers and nodes of a fleet tell each other in headers.

Their names begin with `framehold-`. On a request they count only with the fleet's secret beside them and are dropped
otherwise; a client's own never get past a router. On a response they tell the router who served, and reach the client
only where FRAMEHOLD_ROUTE_HEADERS says so.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Sequence

from framehold_store.seal import derive

PREFIX = b"framehold-"
SECRET = b"framehold-secret"
"""On requests: the fleet's secret, which every other internal header needs beside it."""
CALL_ID = b"framehold-call-id"
"""On a request without a token: the id that its call shall have, if it becomes one."""
VIA = b"framehold-via"
"""On requests: `router`, or `node` where a node relays. What came from a node is never relayed again (rule 19)."""
NODE = b"framehold-node"
"""On responses: the node that served."""
ROUTE = b"framehold-route"
"""On responses: how the request found its node: start, ring, lease, takeover or any."""
NOT_HELD = b"framehold-not-held"
"""On responses to a relay: this node doesn't hold the call; the one that relays reads the store again."""

Header = tuple[bytes, bytes]


class Trust:
    """The fleet's secret, derived from its keys: the first key's is sent, any key's is believed (rotation)."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._secrets = tuple(derive(key, "framehold fleet secret 1", 32).hex().encode() for key in keys)
        self._lease_keys = tuple(derive(key, "framehold node lease 1", 32) for key in keys)

    @property
    def header(self) -> Header:
        """What is put beside internal headers. Raises IndexError where there is no key."""
        return SECRET, self._secrets[0]

    def seal(self, node: str, boot: str, address: str) -> str:
        """What a lease shows to be believed: that this life of a node is reached at `address`. Empty without keys."""
        return _seal(self._lease_keys[0], node, boot, address) if self._lease_keys else ""

    def sealed(self, seal: str, node: str, boot: str, address: str) -> bool:
        """Whether whoever wrote that has one of the fleet's keys. Without keys anybody is believed."""
        wanted = (_seal(key, node, boot, address) for key in self._lease_keys)
        shown = seal.encode("utf-8", "replace")
        return not self._lease_keys or any(hmac.compare_digest(shown, one.encode()) for one in wanted)

    def believed(self, headers: Iterable[Header]) -> dict[bytes, bytes] | None:
        """The internal headers among `headers` (names in lower case), less the secret; None where that is missing or
        wrong."""
        found = {name: value for name, value in headers if name.startswith(PREFIX)}
        said = found.pop(SECRET, b"")
        return found if any(hmac.compare_digest(said, secret) for secret in self._secrets) else None


def _seal(key: bytes, *said: str) -> str:
    return hmac.new(key, json.dumps(said).encode(), "sha256").hexdigest()[:32]


def without_internal(headers: Iterable[Header]) -> list[Header]:
    """`headers` less all internal ones."""
    return [item for item in headers if not item[0].startswith(PREFIX)]


_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade expect content-length".split()
)
_END_TO_END = frozenset(
    b"host authorization content-type accept origin mcp-session-id mcp-protocol-version mcp-method mcp-name forwarded "
    b"x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-proto x-real-ip".split()
)


def end_to_end(headers: Iterable[Header]) -> list[Header]:
    """`headers` less those of one connection (RFC 9110, 7.6.1) and the length, which whoever sends them on states anew.
    What `Connection` names goes too, but for what no client may take from the server behind us."""
    kept = list(headers)
    named = {part.strip().lower() for name, value in kept if name == b"connection" for part in value.split(b",")}
    dropped = _HOP_BY_HOP | (named - _END_TO_END)
    return [item for item in kept if item[0] not in dropped]
