"""The internal headers between routers and nodes of a fleet, and what its processes prove with keys of the fleet.

Names of internal headers begin with `framehold-`. On a request they are believed as far as the role goes that its
sender proves (`statements`, `plane`), and dropped otherwise; a router drops those of a client. On a response they name
the node that served; the client gets them only if FRAMEHOLD_ROUTE_HEADERS is on.
"""

from __future__ import annotations

import hmac
import os
import ssl
from collections.abc import Iterable, Sequence

from pydantic import SecretStr

from framehold_core.errors import ConfigError

from ..router_keys import RouterKey
from . import plane
from .statements import Statements

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

Header = tuple[bytes, bytes]


class Trust:
    """What the keys of the fleet are for between its processes, made of the keys, or of what routers have of them. The
    first key makes a proof; that of any key is believed, so that keys can be rotated. `statements` are those of routers
    and nodes. `tls` checks the certificates of nodes; None: as any client of this machine would.

    Raises:
        ConfigError: `authority` is no file of certificates.
    """

    def __init__(self, keys: Sequence[bytes | RouterKey], authority: str = "") -> None:
        self.tls = _checking(authority) if authority else None
        derived = [RouterKey.of(key) if isinstance(key, bytes) else key for key in keys]
        self.statements = Statements([key.wire for key in derived])
        self._plane_keys = tuple(plane.key_of(key.wire) for key in derived)
        self.lease_keys = tuple(key.lease for key in derived)
        """The keys under which node leases are sealed (`LeaseSeal`)."""
        self._naming = derived[0].naming if derived else b""
        self._salt = self._naming or os.urandom(32)

    @property
    def plane_key(self) -> str:
        """The key of load balancers, as `framehold keys plane` prints it.

        Raises:
            IndexError: there is no key.
        """
        return plane.shown(self._plane_keys[0])

    def plane_proof(self, value: bytes, method: bytes, path: bytes, call: bytes, now: float) -> bool:
        """Whether a load balancer of this fleet sent this request for a client. `call` is the value of CALL_ID, and
        `now` the time in seconds since 1970."""
        return plane.is_proved(self._plane_keys, value, method, path, call, now)

    def plane_answer(self, nonce: str, node: str) -> bytes | None:
        """What `node` answers to the nonce of a load balancer's check; None if that is no nonce, or there is no key."""
        return plane.answer(self._plane_keys, nonce, node) if self._plane_keys else None

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


def _checking(authority: str) -> ssl.SSLContext:
    """What believes a certificate if this authority signed it."""
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise ConfigError(
            f"FRAMEHOLD_FLEET_CA is wrong: {authority} can't be read as certificates ({error.strerror or error}); "
            "nothing was started; name a file in PEM format"
        ) from None


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
