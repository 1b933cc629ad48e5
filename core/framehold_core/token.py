"""The routing prefix of a token, and nothing else: sealing is the SDK's.

    h1.<call_id>.<sealed>     strategy hold: the call id is visible so that a router can steer by it
    s1.<sealed>               stateless: an author's own state, or strategy replay's journal

The visible call id is a hint until the seal is opened: whoever opens it must compare the two (node/sdk-seams.md,
"The codec"). The sealed part contains dots, so a token is split at most twice.
"""

from __future__ import annotations

from .ids import CallId, is_call_id
from .value import Value

HOLD = "h1."
STATELESS = "s1."


class Routed(Value):
    """A token's visible half. `call` is None for a stateless token."""

    call: CallId | None
    sealed: str


def hold(call: CallId, sealed: str) -> str:
    """Write a token that a router can steer."""
    return f"{HOLD}{call}.{sealed}"


def stateless(sealed: str) -> str:
    """Write a token that any node can serve."""
    return STATELESS + sealed


def named(token: str) -> CallId | None:
    """The call that a router can steer `token` by; None where it shows none. Nothing here is authenticated."""
    if not token.startswith(HOLD):
        return None
    end = token.find(".", len(HOLD))
    call = token[len(HOLD) : end]
    return CallId(call) if 0 < end < len(token) - 1 and is_call_id(call) else None


def halves(token: str) -> tuple[str, str]:
    """The call that a token shows, and its sealed part, as they stand there: both empty if it shows none. The call need
    not be the id of one."""
    if not token.startswith(HOLD):
        return "", ""
    call, _, sealed = token[len(HOLD) :].partition(".")
    return call, sealed


def parse(token: str) -> Routed | None:
    """Read the visible half of `token`; None where it has neither of the two shapes. Nothing here is authenticated."""
    call = named(token)
    if call is not None:
        return Routed(call, token[len(HOLD) + len(call) + 1 :])
    if token.startswith(STATELESS) and len(token) > len(STATELESS):
        return Routed(None, token[len(STATELESS) :])
    return None
