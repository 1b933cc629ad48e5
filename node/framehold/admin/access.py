"""Who may use the admin API of a node: the parts of its fleet, and anybody who sends the admin token.

The law: a client can't use this API. A request that a router or a node forwards for a client has the fleet's secret
too, but counts as the client's own (`hop.Hop.inside`).
"""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import Scope

from ..config import Settings
from ..sdk.hop import Hop


def allowed(hop: Hop, scope: Scope, settings: Settings) -> bool:
    """Whether a request may use the admin API: a part of the fleet sent it in its own name, or it has
    `FRAMEHOLD_ADMIN_TOKEN` as its bearer token."""
    return hop.inside or _has_admin_token(Headers(scope=scope).get("authorization", ""), settings)


def refusal(settings: Settings) -> str:
    """The error text for a request that may not use the admin API."""
    if settings.admin_token is None:
        return (
            "only the fleet itself may ask this, since FRAMEHOLD_ADMIN_TOKEN is not set; nothing was returned or done"
        )
    return "the admin token is missing or wrong; nothing was returned or done; send it as Authorization: Bearer ..."


def _has_admin_token(authorization: str, settings: Settings) -> bool:
    scheme, _, token = authorization.partition(" ")
    if settings.admin_token is None or scheme.lower() != "bearer":
        return False
    wanted = settings.admin_token.get_secret_value().encode()
    return hmac.compare_digest(token.strip().encode("latin-1", "replace"), wanted)
