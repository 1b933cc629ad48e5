"""Who may ask a node about its calls, and tell it what to do: its fleet, and whoever shows the admin token.

The law: a client reaches nothing of this. What a router or a node passes on for one brings the fleet's secret too, and
counts as the client's own (`hop.Hop.inside`).
"""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import Scope

from .config import Settings
from .hop import Hop


def allowed(hop: Hop, scope: Scope, settings: Settings) -> bool:
    """Whether a part of the fleet asks in its own name, or somebody with `FRAMEHOLD_ADMIN_TOKEN` as its bearer."""
    return hop.inside or _shown(Headers(scope=scope).get("authorization", ""), settings)


def refusal(settings: Settings) -> str:
    """What whoever may not is told."""
    if settings.admin_token is None:
        return "only the fleet itself may ask this, since FRAMEHOLD_ADMIN_TOKEN is not set; nothing was told or done"
    return "the admin token is missing or wrong; nothing was told or done; send it as Authorization: Bearer ..."


def _shown(authorization: str, settings: Settings) -> bool:
    scheme, _, token = authorization.partition(" ")
    if settings.admin_token is None or scheme.lower() != "bearer":
        return False
    wanted = settings.admin_token.get_secret_value().encode()
    return hmac.compare_digest(token.strip().encode("latin-1", "replace"), wanted)
