"""What the processes of a fleet state to each other, and how they prove it. No key and no secret is ever sent.

The law: a statement proves one thing, to one process, for a minute. What stands in it is under an HMAC-SHA256 whose key
is derived from the fleet's keys, and no part of it is inferred.

    1  a sender opens a connection, and asks who listens there: HELLO, with a fresh nonce and the boot that the lease
       names
    2  the receiver answers with its boot, and with the peer: the address and port from which it sees the connection
       come. Who has no key of the fleet can't: it gets no other byte
    3  the sender states on each request of this connection its role, under the receiver's boot, the peer and the time:
       PROOF. The bytes are the same until they are renewed, so that heads repeat
    4  the receiver believes a statement for itself and for the connection that it came on, WINDOW seconds long. Shown
       on another connection or to another process, it is worth nothing

The statements of a load balancer are in `plane.py`.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from framehold_core.ids import Boot

from .plane import PROOF, WINDOW, is_now

HELLO = b"framehold-hello"
"""On the first request of a connection: the question who listens there. It is answered under `plane.PROOF`."""
RENEWED = 30.0
"""Seconds after which a sender states anew."""
MAX_KNOWN = 1024
"""Statements that are believed without being computed again."""

_VERSION = b"v1"
_TIME = re.compile(rb"[0-9]{1,12}")


class Role(StrEnum):
    """For whom a sender asks."""

    ROUTER = "router"
    """A router asks for a client, and has made the id of the call that the request may begin."""
    NODE = "node"
    """A node asks for a client. The request is not relayed again (docs/protocol.md, rule 19)."""
    ADMIN = "admin"
    """A part of the fleet asks in its own name."""
    CLIENT = "client"
    """A load balancer asks for a client, and has made the id of the call that the request may begin."""


_STATED = {role.encode(): role for role in (Role.ROUTER, Role.NODE, Role.ADMIN)}


class Introduced(NamedTuple):
    """What a receiver has proved: its boot, and the peer that it sees."""

    boot: Boot
    peer: str


class Statements:
    """Makes and judges the statements of one fleet. `keys` are derived for this purpose: the first one makes, each one
    is believed, so that keys can be rotated. Without keys nothing is believed. Times are in seconds since 1970."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)
        self._known: dict[tuple[bytes, str, str], tuple[Role, float]] = {}

    def answer(self, hello: bytes, boots: Sequence[str], peer: str) -> bytes | None:
        """A receiver's answer to HELLO. `boots` are those of this process; None: there is no key."""
        if not self._keys:
            return None
        nonce, _, wanted = hello.decode("latin-1").partition(".")
        boot = wanted if wanted in boots else boots[0]
        mac = _mac(self._keys[0], "framehold receiver 1", nonce, boot, peer)
        return f"v1.{mac}.{boot}.{peer}".encode("latin-1", "replace")

    def introduced(self, shown: bytes, nonce: str, boots: Collection[Boot]) -> Introduced | None:
        """What an answer to HELLO proves to who sent `nonce`; None unless it is one of the processes `boots`, or any of
        the fleet if these are none."""
        version, *parts = shown.decode("latin-1").split(".", 3)
        if version != "v1" or len(parts) != 3:
            return None
        mac, said, peer = parts
        if not self._made(mac.encode("latin-1"), "framehold receiver 1", nonce, said, peer) or said not in (
            boots or (said,)
        ):
            return None
        return Introduced(Boot(said), peer)

    def stating(self, role: Role, to: Introduced, now: Callable[[], float]) -> Callable[[], bytes]:
        """A function that makes the header line of a sender's statement, as of when it is called."""

        def line() -> bytes:
            at = str(int(now()))
            mac = _mac(self._keys[0], "framehold sender 1", role, to.boot, to.peer, at)
            return b"%b: v1.%b.%b.%b\r\n" % (PROOF, role.encode(), at.encode(), mac.encode())

        return line

    def role(self, shown: bytes, boots: Sequence[str], peer: str, now: float) -> Role | None:
        """The role that a statement proves on the connection from `peer` to a process with these `boots`."""
        known = self._known.get((shown, boots[0], peer))
        if known is not None and now <= known[1]:
            return known[0]
        version, *parts = shown.split(b".")
        role = _STATED.get(parts[0]) if version == _VERSION and len(parts) == 3 else None
        if role is None or not (_TIME.fullmatch(at := parts[1]) and is_now(at, now)):
            return None
        about = [("framehold sender 1", role, boot, peer, at.decode()) for boot in boots]
        if not any(self._made(parts[2], *texts) for texts in about):
            return None
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[shown, boots[0], peer] = role, int(at) + WINDOW
        return role

    def not_taken(self, boot: str, call: str) -> bytes:
        """The statement of the process `boot` that it started nothing of a call. Empty without keys."""
        return _mac(self._keys[0], "framehold not taken 1", boot, call).encode() if self._keys else b""

    def is_not_taken(self, shown: bytes, boot: str, call: str) -> bool:
        """Whether a statement is that of the process `boot` about this call."""
        return self._made(shown, "framehold not taken 1", boot, call)

    def _made(self, mac: bytes, *texts: str) -> bool:
        return any(hmac.compare_digest(mac, _mac(key, *texts).encode()) for key in self._keys)


def _mac(key: bytes, *texts: str) -> str:
    return hmac.digest(key, json.dumps(texts).encode(), "sha256").hex()
