"""What the processes of a fleet prove to each other with its keys. Internal headers carry the proofs (`statements`,
`plane`)."""

from __future__ import annotations

import hmac
import os
import ssl
from collections.abc import Sequence

from pydantic import SecretStr

from framehold_core.errors import ConfigError

from . import plane
from .router_keys import RouterKey
from .statements import Statements


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
