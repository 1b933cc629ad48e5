"""The token of a tool's round, sealed and opened in one step.

A token has three layers: Framehold's claims (`engine/token_claims.py`); the boundary's envelope, which binds them to
the request (`RequestStateBoundary`); and the prefix with the call id, whose codec knows the store's clock
(`state_codec`). On the long path three parts of the code open one layer each. Here they are opened together, and
`tests/ordinary/test_token.py` holds that both ways open the same tokens.

The law: nothing is refused here. The request of a token that `open` does not take goes to the entry, which refuses it
or takes it.

Private parts of the SDK that are touched here; a test names the release and checks them:

- `RequestStateBoundary._security`, `_audience`: the policy of the boundary, and what it binds tokens to
- `_principal_claim`, `_principal_matches`: the claim of a user, with a salt of its own in each token
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from typing import Any, NamedTuple

import msgspec
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    InvalidRequestState,
    RequestStateSecurity,
    _principal_claim,
    _principal_matches,
    authenticated_principal,
    compact_json,
)

from framehold_core import journal, token
from framehold_core.clock import Clock
from framehold_core.ids import CallId

from ..engine import token_claims
from ..engine.replies import Parked
from ..engine.token_claims import Claims
from .boundary import Binding, Boundary
from .state_codec import PrefixCodec

METHOD = "tools/call"


class Target(NamedTuple):
    """What a request is for: its method, and the name or the URI in its parameters. `label` is the name for logs and
    metrics: that of the tool or the prompt; for a resource it is the method."""

    method: str
    name: str
    label: str


class _Envelope(msgspec.Struct, omit_defaults=True):
    """The boundary's claims, as the SDK names them: format, times in seconds since 1970, method, target and digest of
    the arguments that the token is for, the state, audience and user."""

    v: int
    iat: float
    exp: float
    m: str
    t: str
    a: str
    s: str
    aud: str | None = None
    p: Any = None


_write, _read = msgspec.json.Encoder().encode, msgspec.json.Decoder(_Envelope).decode


class Tokens:
    """Seals and opens the tokens of one server. `codec` is that of the SDK, `clock` has the time of the store,
    `audience` is what the boundary binds tokens to, `ttl` is for how many seconds they are valid. `user` is a user as
    `signed_in` names one; None is nobody."""

    def __init__(
        self, security: RequestStateSecurity, codec: AESGCMRequestStateCodec, clock: Clock, audience: Any
    ) -> None:
        self._security, self._codec, self._clock, self._audience = security, codec, clock, audience

    def seal(self, parked: Parked, node: str, boot: str, target: Target, arguments: str, user: str | None) -> str:
        """The token of a round that waits for answers. `arguments` is the digest of the request's arguments."""
        state, now = token_claims.mint(parked, node, boot), self._clock.time()
        expires = now + (parked.lifetime or self._security.ttl)
        claim = None if user is None else _principal_claim(user)
        envelope = _Envelope(1, now, expires, target.method, target.name, arguments, state, self._audience, claim)
        return token.hold(parked.call, self._codec.seal(_write(envelope)))

    def open(self, call: CallId, sealed: str, target: Target, arguments: str, user: str | None) -> Claims | None:
        """The claims of a token for this call, this target, these arguments and this user; None if the SDK's way has to
        look at it. `sealed` is the sealed part of the token."""
        try:
            envelope = _read(self._codec.unseal(sealed))
        except (InvalidRequestState, msgspec.MsgspecError):
            return None
        if (
            envelope.v != 1
            or not self._clock.time() < envelope.exp
            or envelope.m != target.method
            or envelope.t != target.name
            or envelope.a != arguments
            or envelope.aud != self._audience
            or (envelope.p is not user and not _is_of(envelope.p, user))
            or not envelope.s.startswith(token_claims.OURS)
        ):
            return None
        claims = token_claims.read_once(envelope.s)
        return claims if claims is not None and claims.call == call else None


def signed_in() -> str | None:
    """The user of the request that this task serves, as the boundary binds tokens to it; None: nobody is signed in."""
    shown = get_access_token()
    return None if shown is None else compact_json(principal_components(shown))


def _is_of(claim: Any, user: str | None) -> bool:
    return user is not None and isinstance(claim, str) and _principal_matches(claim, user)


def tokens_of(boundary: Boundary) -> Tokens | None:
    """Seals and opens the tokens of a boundary; None where the author's code has a part in it: a codec, or a binding to
    the user."""
    security = boundary._security
    codec = security.codec
    if type(boundary) is not Boundary or not isinstance(codec, PrefixCodec):
        return None
    # What a binding adds to the user, no ordinary round has in its `_meta`.
    binding = security.bind_principal
    user_of = binding.user_of if isinstance(binding, Binding) else binding
    if type(codec.inner) is not AESGCMRequestStateCodec or user_of is not authenticated_principal:
        return None
    return Tokens(security, codec.inner, codec.clock, boundary._audience)


def arguments_digest(arguments: dict[str, Any] | None) -> str:
    """The digest of a request's arguments, as the boundary makes it."""
    digest = hashlib.sha256(journal.canonical(journal.in_one_way(arguments or {}))).digest()
    return b2a_base64(digest[:16], newline=False).translate(_URL_SAFE)[:22].decode()


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
