"""Signed requests: a client and a router show each other that they have the admin token, and neither sends it.

    client: Authorization: Framehold TIME.NONCE.DIGEST.SIGNATURE
    router: Authentication-Info: PROOF

The client makes the nonce. `DIGEST` is that of the body. `SIGNATURE` is an HMAC with the token over method, target,
time, nonce and digest. `PROOF` is an HMAC with the token over the signature, so nobody else can make it, and it is good
for this request alone.

The law: a signature opens what the token opens as Bearer, once, and within `WINDOW` seconds of its time. The router
proves nothing to a client that has not signed with its token. So nobody gets from it what a token could be guessed by.
Whoever listens in the place of a router, or relays to one, gets a signature for what the client asked, and no token.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import NamedTuple

SCHEME = "Framehold"
PROOF = "Authentication-Info"
"""The header of a response that has the proof (RFC 7615)."""
WINDOW = 60
"""Seconds by which the clocks of client and router may differ."""


class Signed(NamedTuple):
    """What a client sends as Authorization, and the proof that it wants back."""

    authorization: str
    proof: str


class Verified(NamedTuple):
    """A signature that was made with `token`. `digest`: of the body that it is for. `fault`: why it is not taken, in
    words; empty if it is."""

    token: str
    digest: str
    proof: str
    fault: str


def sign(token: str, method: str, target: str, body: bytes) -> Signed:
    """Sign a request. `target`: path and query, as they are sent."""
    parts = (str(int(time.time())), secrets.token_hex(16), sha256(body).hexdigest())
    signature = _mac(token, "request", method, target, *parts)
    return Signed(f"{SCHEME} {'.'.join((*parts, signature))}", _mac(token, "response", signature))


class Signatures:
    """The check of signatures by one router. `tokens`: those that may sign. `now`: the clock, in seconds since 1970."""

    def __init__(self, tokens: Iterable[str], now: Callable[[], float] = time.time) -> None:
        self._tokens, self._now = tuple(tokens), now
        self._taken: dict[str, float] = {}
        """The signatures that were taken, the oldest first, each with the time after which it is too old anyway."""

    def read(self, method: str, target: str, authorization: str) -> Verified | None:
        """The signature of a request; None if it has none, or none that was made with a token of this router."""
        scheme, _, rest = authorization.partition(" ")
        *said, signature = rest.split(".")
        if scheme != SCHEME or len(said) != 3 or not rest.isascii() or not said[0].isdecimal():
            return None
        for token in self._tokens:
            if hmac.compare_digest(signature, _mac(token, "request", method, target, *said)):
                return Verified(token, said[2], _mac(token, "response", signature), self._fault(said[0], signature))
        return None

    def _fault(self, at: str, signature: str) -> str:
        now = self._now()
        if abs(now - int(at)) > WINDOW:
            return f"the clocks of client and router differ by more than {WINDOW} s, and one must be set"
        while self._taken and (oldest := next(iter(self._taken.items())))[1] < now:
            del self._taken[oldest[0]]
        if signature in self._taken:
            return "this request was taken before"
        self._taken[signature] = now + 2 * WINDOW
        return ""


def _mac(token: str, *parts: str) -> str:
    return hmac.new(token.encode(), json.dumps(parts).encode(), "sha256").hexdigest()
