"""Tokens that show which call they name: a prefix before what the SDK's own codec sealed. Its crypto stays."""

from __future__ import annotations

import json
from typing import Any

from mcp.server.request_state import InvalidRequestState, RequestStateCodec
from pydantic_core import from_json

from framehold_core import token
from framehold_core.ids import CallId

from . import tokens, tracing


class PrefixCodec:
    """A codec that shows routers which call a token names. The prefix is authenticated by the sealed state behind
    it."""

    def __init__(self, inner: RequestStateCodec) -> None:
        self.inner = inner

    def seal(self, payload: bytes) -> str:
        """Seal, and prefix with the call id where the state names a call. A handler's own life of its questions takes
        the place of the policy's, and the next round learns of the span that this one is traced in."""
        envelope = _envelope(payload)
        state: str = envelope["s"]
        call, lifetime = tokens.named(state), tokens.lifetime(state)
        if call is None and state.startswith(tokens.OURS):
            raise InvalidRequestState("claims")
        own = tracing.minted()
        if lifetime is not None:
            own["exp"] = envelope["iat"] + lifetime
        if own:
            # Written as the SDK writes it: ASCII, which carries any text.
            payload = json.dumps({**envelope, **own}, separators=(",", ":")).encode()
        sealed = self.inner.seal(payload)
        return token.stateless(sealed) if call is None else token.hold(call, sealed)

    def unseal(self, wire: str) -> bytes:
        """Open a token whose visible call is the sealed one.

        Raises:
            InvalidRequestState: it is malformed, forged, or names another call than it seals.
        """
        routed = token.parse(wire)
        if routed is None:
            raise InvalidRequestState("malformed prefix")
        payload = self.inner.unseal(routed.sealed)
        envelope = _envelope(payload)
        if _call_in(envelope) != routed.call:
            raise InvalidRequestState("prefix")
        tracing.told(envelope)
        return payload


def _envelope(payload: bytes) -> dict[str, Any]:
    """The claims that are sealed round a state, which is their text `s`."""
    try:
        envelope = from_json(payload)
    except ValueError:
        # A lone surrogate in a name: only the standard library reads its escape.
        try:
            envelope = json.loads(payload)
        except ValueError:
            envelope = None
    if not isinstance(envelope, dict) or not isinstance(envelope.get("s"), str):
        raise InvalidRequestState("malformed")
    return envelope


def _call_in(envelope: dict[str, Any]) -> CallId | None:
    """The call that sealed claims name, if their state is one of ours."""
    state: str = envelope["s"]
    if not state.startswith(tokens.OURS):
        return None
    claims = tokens.read(state)
    if claims is None:
        raise InvalidRequestState("claims")
    return claims.call
