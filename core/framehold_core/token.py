"""The routing prefix of a token, and nothing else: sealing is the SDK's.

    h1.<call_id>.<sealed>     strategy hold: the call id is visible so that a router can steer by it
    s1.<sealed>               stateless: an author's own state, or strategy replay's journal

The visible call id is a hint until the seal is opened: whoever opens it must compare the two (`MCP.md`, "Codec"). The
sealed part contains dots, so a token is split at most twice.
"""

from __future__ import annotations

from typing import NamedTuple

from .ids import CallId, is_call_id

HOLD = "h1."
STATELESS = "s1."


class Routed(NamedTuple):
    """A token's visible half. `call` is None for a stateless token."""

    call: CallId | None
    sealed: str


def hold(call: CallId, sealed: str) -> str:
    """Write a token that a router can steer."""
    return f"{HOLD}{call}.{sealed}"


def stateless(sealed: str) -> str:
    """Write a token that any node can serve."""
    return STATELESS + sealed


def parse(token: str) -> Routed | None:
    """Read the visible half of `token`; None when it has neither shape. Nothing here is authenticated."""
    if token.startswith(HOLD):
        _, call, *rest = token.split(".", 2)
        return Routed(CallId(call), rest[0]) if rest and rest[0] and is_call_id(call) else None
    if token.startswith(STATELESS) and len(token) > len(STATELESS):
        return Routed(None, token[len(STATELESS) :])
    return None
