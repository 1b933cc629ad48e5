"""The headers that a router and a node of a fleet exchange: the internal ones, and which of all others are passed on.

Names of internal headers begin with `framehold-`. On a request they are believed as far as the role goes that its
sender proves, and dropped otherwise; a router drops those of a client. On a response they name the node that served;
the client gets them only if FRAMEHOLD_ROUTE_HEADERS is on.
"""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = b"framehold-"
CALL_ID = b"framehold-call-id"
"""On a request without a token: the id for the call that the request may start."""
NODE = b"framehold-node"
"""On responses: the node that served."""
ROUTE = b"framehold-route"
"""On responses: how the request found its node: start, ring, lease, takeover or any."""
CODE = b"framehold-code"
"""On responses: `kept` if the call goes on with the code that it began with, and not with the node's present code."""
NOT_TAKEN = b"framehold-not-taken"
"""On responses to a router: the node's statement that it started nothing of the call whose id the router made. So the
router may send the request to another node (docs/protocol.md, rule 9)."""
NOT_HELD = b"framehold-not-held"
"""On responses to a node that relays: this node doesn't hold the call, so the relaying node reads the store again."""
CREDENTIAL = "operator-credential"
"""On an action that a router sends to a node: the name of the operator's admin token."""

Header = tuple[bytes, bytes]


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
