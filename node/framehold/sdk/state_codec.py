"""Tokens whose call id is visible: a prefix before the text that the SDK's own codec sealed. The codec's cryptography
is not changed.

The SDK writes and judges the times of a token by the wall clock of its machine, which may be wrong. A token that leaves
this process has them on the store's clock: `seal` adds the difference of both clocks, and `unseal` takes off the
difference here. So the SDK refuses exactly what has expired on the store's clock.

A token whose making lies in the future was made before the store's clock was set back, as its seal proves. It is shown
to the SDK as made now.
"""

from __future__ import annotations

import math
from typing import Any

from mcp.server.request_state import InvalidRequestState, RequestStateCodec

from framehold_core import token
from framehold_core.clock import Clock
from framehold_core.ids import CallId

from .. import json_text
from ..engine import token_claims
from ..telemetry import tracing


class PrefixCodec:
    """A request-state codec that puts a prefix with the call id before each token, so that routers can read it. The
    sealed state repeats the call id: `unseal` compares both. `clock` has the time of the store."""

    def __init__(self, inner: RequestStateCodec, clock: Clock) -> None:
        self.inner, self.clock = inner, clock

    def seal(self, payload: bytes) -> str:
        """Seal `payload` (JSON claims), and put the call id before it if the state names a call.

        The claims are changed in three ways: their times are put on the store's clock; a lifetime that the handler set
        for its questions replaces that of the policy; and the span of this round is added, so that the next round is
        traced with it.

        Raises:
            InvalidRequestState: the state begins like one of Framehold's, and its claims can't be read.
        """
        envelope = _envelope(payload)
        state: str = envelope["s"]
        call, lifetime = token_claims.named(state), token_claims.lifetime(state)
        if call is None and state.startswith(token_claims.OURS):
            raise InvalidRequestState("claims")
        own = tracing.token_claims()
        if lifetime is not None:
            own["exp"] = envelope["iat"] + lifetime
        envelope.update(own)
        sealed = self.inner.seal(_moved(envelope, self.clock.offset, b"" if own else payload))
        return token.stateless(sealed) if call is None else token.hold(call, sealed)

    def unseal(self, wire: str) -> bytes:
        """Open a token. Its visible call id must be the sealed one.

        Raises:
            InvalidRequestState: the token is malformed or forged, or its visible call id is not the sealed one.
        """
        routed = token.parse(wire)
        if routed is None:
            raise InvalidRequestState("malformed prefix")
        payload = self.inner.unseal(routed.sealed)
        envelope = _envelope(payload)
        if not _names(envelope["s"], routed.call):
            raise InvalidRequestState("prefix")
        if tracing.SPANS in envelope:
            tracing.link_rounds(envelope)
        return _moved(envelope, -self.clock.offset, payload, self.clock.time())


def _moved(envelope: dict[str, Any], seconds: float, payload: bytes, latest: float = math.inf) -> bytes:
    """The claims as JSON, with their times moved by so many seconds, and as made at `latest` at the latest. `payload`
    is their JSON as they are, if it is there.

    Raises:
        InvalidRequestState: they have no times, or JSON can't carry them.
    """
    try:
        made = min(envelope["iat"], latest) + seconds
        if payload and made == envelope["iat"] and not seconds:
            return payload
        return json_text.write({**envelope, "iat": made, "exp": envelope["exp"] + seconds})
    except (LookupError, TypeError, ValueError, RecursionError):
        raise InvalidRequestState("times") from None


def _envelope(payload: bytes) -> dict[str, Any]:
    """The claims of a token as a mapping; the state is their text `s`. Raises InvalidRequestState."""
    try:
        envelope = json_text.read(payload)
    except ValueError:
        envelope = None
    if not isinstance(envelope, dict) or not isinstance(envelope.get("s"), str):
        raise InvalidRequestState("malformed")
    return envelope


def _names(state: str, call: CallId | None) -> bool:
    """Whether a sealed state names this call; for None, whether it is no state of a held call.

    Raises:
        InvalidRequestState: it is the state of a held call, and its claims can't be read.
    """
    if not state.startswith(token_claims.OURS):
        return call is None
    claims = token_claims.read(state)
    if claims is None:
        raise InvalidRequestState("claims")
    return claims.call == call
