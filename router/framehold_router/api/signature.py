"""Signed requests: a client and a router show each other that they have the admin token, and neither sends it.

    client: Authorization: Framehold TIME.NONCE.DIGEST.SIGNATURE
    router: Authentication-Info: PROOF

The client makes the nonce. `DIGEST` is that of the body. `SIGNATURE` is an HMAC with the token over method, target,
time, nonce and digest. `PROOF` is an HMAC with the token over the signature, so nobody else can make it, and it is good
for this request alone.

The law: a signature opens what the token opens as Bearer, once, and within `WINDOW` seconds of its time, on the clock
of the router's machine or on the store's: either may be wrong, and commands must work then. Once holds whatever the
clocks do, since the router remembers what it took by number, not by time. The router proves nothing to a client that
has not signed with its token. So nobody gets from it what a token could be guessed by.
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
"""Seconds by which the client's clock may differ from the router's or the store's."""
KEPT = 16_384
"""Signatures that a router remembers. One that is not newer than a forgotten one is refused."""


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
    """The check of signatures by one router. `tokens`: those that may sign. `store`, `own`: the clock of the store and
    that of this machine, in seconds since 1970."""

    def __init__(
        self, tokens: Iterable[str], store: Callable[[], float] = time.time, own: Callable[[], float] = time.time
    ) -> None:
        self._tokens, self._store, self._own = tuple(tokens), store, own
        self._taken: dict[str, int] = {}
        """The signatures that were taken, in that order, each with its time."""
        self._forgotten = 0
        """The newest time of a signature that was taken and is forgotten."""

    def read(self, method: str, target: str, authorization: str) -> Verified | None:
        """The signature of a request; None if it has none, or none that was made with a token of this router."""
        scheme, _, rest = authorization.partition(" ")
        *said, signature = rest.split(".")
        if scheme != SCHEME or len(said) != 3 or not rest.isascii() or not said[0].isdecimal():
            return None
        for token in self._tokens:
            if hmac.compare_digest(signature, _mac(token, "request", method, target, *said)):
                return Verified(
                    token, said[2], _mac(token, "response", signature), self._fault(int(said[0]), signature)
                )
        return None

    def _fault(self, at: int, signature: str) -> str:
        to_own, to_store = at - self._own(), at - self._store()
        if min(abs(to_own), abs(to_store)) > WINDOW:
            return (
                f"the clock of the client's machine is {_off(to_own)} that of the router's, and {_off(to_store)} the "
                f"store's; it must agree within {WINDOW} s with one of them: run a time service (NTP) on that which is "
                "wrong"
            )
        if signature in self._taken:
            return "this request was taken before"
        if at <= self._forgotten:
            return "whether this request was taken before is not known any more"
        self._taken[signature] = at
        if len(self._taken) > KEPT:
            self._forgotten = max(self._forgotten, self._taken.pop(next(iter(self._taken))))
        return ""


def _off(ahead: float) -> str:
    return f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'}"


def _mac(token: str, *parts: str) -> str:
    return hmac.new(token.encode(), json.dumps(parts).encode(), "sha256").hexdigest()
