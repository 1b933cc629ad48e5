"""What a load balancer that computes no more than a keyed hash (HAProxy) proves to nodes, and they to it.

Its key is derived from the fleet's wire key, and is never sent. All hashes are HMAC-SHA256, as hex digits, over parts
that a line feed joins: no part of a request line or of a header contains one.

    a request   framehold-proof: v1p.client.<time>.<hash of "framehold plane 1", method, path, call id, time>
    a check     GET /readyz?nonce=<nonce>
    its answer  framehold-proof: <hash of "framehold node 1", nonce, node>

The path is as the load balancer sends it: without the query, and with its escapes. The call id is the value of
`framehold-call-id`, and empty without one. A load balancer chooses a node after its rules have run, so a request's
proof names no receiver. It says no more than that a client asks, through a load balancer of this fleet.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Sequence

from framehold_store.seal import derive

PROOF = b"framehold-proof"
"""On requests: who asks, with the proof of it. On the response to a check: that this node has the fleet's keys."""
WINDOW = 60
"""Seconds that the time of a proof may differ from the clock of who reads it."""

_PROOF = re.compile(rb"v1p\.client\.([0-9]{1,12})\.([0-9A-Fa-f]{64})")
_NONCE = re.compile(r"[0-9A-Za-z-]{16,128}")


def key_of(wire: bytes) -> bytes:
    """The key of load balancers, derived from a wire key of the fleet."""
    return derive(wire, "framehold plane 1", 32)


def shown(key: bytes) -> str:
    """`key` as the environment of a load balancer has it, and as HAProxy's `hmac` takes it."""
    return b64encode(key).decode()


def proof(key: bytes, method: bytes, path: bytes, call: bytes, now: float) -> bytes:
    """The value of `framehold-proof` for one request at the time `now`, in seconds since 1970."""
    at = b"%d" % now
    return b".".join((b"v1p.client", at, _hash(key, b"framehold plane 1", method, path, call, at)))


def is_proved(keys: Sequence[bytes], value: bytes, method: bytes, path: bytes, call: bytes, now: float) -> bool:
    """Whether `value` was made with one of `keys` for this request, within WINDOW of `now`."""
    found = _PROOF.fullmatch(value)
    if found is None or not is_now(found[1], now):
        return False
    wanted = found[2].upper()
    parts = (b"framehold plane 1", method, path, call, found[1])
    return any(hmac.compare_digest(wanted, _hash(key, *parts)) for key in keys)


def is_now(at: bytes, now: float) -> bool:
    """Whether the time of a proof, in digits, is within WINDOW of `now`."""
    return abs(now - int(at)) <= WINDOW


def answer(keys: Sequence[bytes], nonce: str, node: str) -> bytes | None:
    """What a node answers to the nonce of a check: a hash for each key, since the load balancer may have any. None if
    `nonce` is no nonce."""
    if _NONCE.fullmatch(nonce) is None:
        return None
    return b", ".join(_hash(key, b"framehold node 1", nonce.encode(), node.encode()) for key in keys)


def _hash(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"\n".join(parts), "sha256").hex().upper().encode()
