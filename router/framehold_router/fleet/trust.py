"""The internal headers between routers and nodes of a fleet, and the proof that a sender has the keys of the fleet.

Names of internal headers begin with `framehold-`. On a request they are believed only together with the secret of the
fleet, and dropped otherwise; a router drops those of a client. On a response they name the node that served; the client
gets them only if FRAMEHOLD_ROUTE_HEADERS is on.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterable, Sequence

from pydantic import SecretStr

from ..router_keys import RouterKey

PREFIX = b"framehold-"
SECRET = b"framehold-secret"
"""On requests: the secret of the fleet. Without it no other internal header is believed."""
CALL_ID = b"framehold-call-id"
"""On a request without a token: the id for the call that the request may start."""
VIA = b"framehold-via"
"""On requests: `router` or `node`, whichever relayed the request. A request from a node is never relayed again
(docs/protocol.md, rule 19)."""
FOR = b"framehold-for"
"""On requests: `client`, from a load balancer that shows the secret for its clients. Whoever sends the secret and no
other internal header is believed to be a part of the fleet itself."""
NODE = b"framehold-node"
"""On responses: the node that served."""
ROUTE = b"framehold-route"
"""On responses: how the request found its node: start, ring, lease, takeover or any."""
CODE = b"framehold-code"
"""On responses: `kept` if the call goes on with the code that it began with, and not with the node's present code."""
NOT_TAKEN = b"framehold-not-taken"
"""On responses to a router: the proof that nothing was started of the call whose id the router made. So it may send the
request to another node (docs/protocol.md, rule 9)."""
NOT_HELD = b"framehold-not-held"
"""On responses to a node that relays: this node doesn't hold the call, so the relaying node reads the store again."""

Header = tuple[bytes, bytes]


class Trust:
    """The secrets of the fleet, derived from its keys, or what routers have of them. The secret of the first key is
    sent; the secret of any key is believed, so that keys can be rotated."""

    def __init__(self, keys: Sequence[bytes | RouterKey]) -> None:
        derived = [RouterKey.of(key) if isinstance(key, bytes) else key for key in keys]
        self._secrets = tuple(key.wire.hex().encode() for key in derived)
        self.lease_keys = tuple(key.lease for key in derived)
        """The keys under which node leases are sealed (`LeaseSeal`)."""
        self._naming = derived[0].naming if derived else b""
        self._salt = self._naming or os.urandom(32)

    @property
    def header(self) -> Header:
        """The header with the secret, which is sent with internal headers.

        Raises:
            IndexError: there is no key.
        """
        return SECRET, self._secrets[0]

    def not_taken(self, call: str) -> bytes:
        """The proof that this node started nothing of a call. Empty without keys."""
        return self._seal("not taken", call).encode()

    def is_not_taken(self, proof: bytes, call: str) -> bool:
        """Whether `proof` was made for this call with one of the fleet's keys."""
        return self._is_seal(proof, "not taken", call)

    def _seal(self, *parts: str) -> str:
        return _seal(self.lease_keys[0], *parts) if self.lease_keys else ""

    def _is_seal(self, shown: bytes, *parts: str) -> bool:
        return any(hmac.compare_digest(shown, _seal(key, *parts).encode()) for key in self.lease_keys)

    def credential(self, token: SecretStr | None) -> str:
        """A name for an admin token, as events have it: who has the token and the keys of the fleet can compute it, and
        nobody can find the token from it. Empty without a token."""
        if token is None:
            return ""
        return hmac.new(self._naming, b"admin token " + token.get_secret_value().encode(), "sha256").hexdigest()[:8]

    def principal(self, name: str) -> str:
        """A name for a user, for operators: the same on all nodes of the fleet, and nobody without its keys can find
        the user from it. Without keys it is another one in each process."""
        return hmac.new(self._salt, b"principal " + name.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:8]

    def believed(self, headers: Iterable[Header]) -> dict[bytes, bytes] | None:
        """The internal headers among `headers` (names in lower case), without the secret; None if the secret is missing
        or wrong."""
        found = {name: value for name, value in headers if name.startswith(PREFIX)}
        shown = found.pop(SECRET, b"")
        return found if any(hmac.compare_digest(shown, secret) for secret in self._secrets) else None


def _seal(key: bytes, *parts: str) -> str:
    return hmac.new(key, json.dumps(parts).encode(), "sha256").hexdigest()[:32]


def without_internal(headers: Iterable[Header]) -> list[Header]:
    """`headers` without the internal ones."""
    return [item for item in headers if not item[0].startswith(PREFIX)]


_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade http2-settings expect content-length".split()
)
_END_TO_END = frozenset(
    b"host authorization content-type accept origin mcp-session-id mcp-protocol-version mcp-method mcp-name forwarded "
    b"x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-proto x-real-ip".split()
)


def end_to_end(headers: Iterable[Header]) -> list[Header]:
    """`headers` without the hop-by-hop ones (RFC 9110, 7.6.1) and without the length, which the sender of the relayed
    message sets again. Headers that `Connection` names are dropped too, except those that a client must not be able to
    take away from the server behind the router."""
    kept = list(headers)
    named = {part.strip().lower() for name, value in kept if name == b"connection" for part in value.split(b",")}
    dropped = _HOP_BY_HOP | (named - _END_TO_END)
    return [item for item in kept if item[0] not in dropped]
