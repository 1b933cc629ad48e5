"""What a router has of each key of the fleet: keys that are derived from it for a router's purposes.

So who reads the memory or the environment of a router, which clients reach, opens and makes no token and no stored
value. As text, each is `r1.` and base64url; `framehold keys router` prints them, and routers read them from
FRAMEHOLD_ROUTER_KEYS.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import NamedTuple

from framehold_store.seal import derive

_BYTES = 32
_TEXT = re.compile(r"r1\.([0-9A-Za-z_-]{128})")


class RouterKey(NamedTuple):
    """The keys derived from one key of the fleet. `wire` proves processes to each other, `lease` seals the leases of
    nodes, and `naming` gives users and admin tokens the names by which operators see them."""

    wire: bytes
    lease: bytes
    naming: bytes

    @classmethod
    def of(cls, key: bytes) -> RouterKey:
        """Those of a key of the fleet."""
        return cls(*(derive(key, f"framehold {purpose} 1", _BYTES) for purpose in cls._fields))

    @classmethod
    def parse(cls, text: str) -> RouterKey:
        """Those that `text` has made of a key.

        Raises:
            ValueError: it is no such text. The message does not show it: it is a secret.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError("each must be what `framehold keys router` prints of a key: r1. and 128 characters")
        joined = urlsafe_b64decode(found[1])
        return cls(*(joined[start : start + _BYTES] for start in range(0, len(joined), _BYTES)))

    def text(self) -> str:
        """What `parse` reads."""
        return "r1." + urlsafe_b64encode(b"".join(self)).decode()


def text_of(keys: Iterable[bytes]) -> str:
    """What FRAMEHOLD_ROUTER_KEYS is for these keys of the fleet, in their order."""
    return ",".join(RouterKey.of(key).text() for key in keys)
