"""Which `Host` the pages of a node answer to, and who may use its admin API: the parts of its fleet, and anybody who
sends the admin token.

The law: a client can't use this API. A request that a router or a node forwards for a client counts as the client's
own, whatever headers it has or lacks: its sender has stated for whom it asks (`hop.Hop.role`).
"""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import Scope

from framehold_fleet.guard.hosts import is_answered

from ..config import Settings
from ..sdk.hop import Hop


def answers(hop: Hop, scope: Scope, settings: Settings) -> bool:
    """Whether pages answer to the `Host` of a request. A part of the fleet reaches this node by any name that leads to
    it."""
    if hop.inside:
        return True
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return all(is_answered(host, settings.allowed_hosts) for host in hosts)


def allowed(hop: Hop, scope: Scope, settings: Settings) -> bool:
    """Whether a request may use the admin API: a part of the fleet sent it in its own name, or it has
    `FRAMEHOLD_ADMIN_TOKEN` as its bearer token."""
    return hop.inside or _is_admin_token(_shown(scope), settings)


def is_guess(scope: Scope, settings: Settings) -> bool:
    """Whether a request shows a token, where one is set, and the token is wrong."""
    shown = _shown(scope)
    return shown is not None and settings.admin_token is not None and not _is_admin_token(shown, settings)


def refusal(settings: Settings) -> str:
    """The error text for a request that may not use the admin API."""
    if settings.admin_token is None:
        return (
            "only the fleet itself may ask this, since FRAMEHOLD_ADMIN_TOKEN is not set; nothing was returned or done"
        )
    return "the admin token is missing or wrong; nothing was returned or done; send it as Authorization: Bearer ..."


def _shown(scope: Scope) -> bytes | None:
    """The bearer token of a request; None if it has none."""
    scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else None


def _is_admin_token(shown: bytes | None, settings: Settings) -> bool:
    if settings.admin_token is None or shown is None:
        return False
    return hmac.compare_digest(shown, settings.admin_token.get_secret_value().encode())
