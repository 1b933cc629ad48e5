"""Names that several packages use, and the one rule that decides what may become a key.

A call id reaches Redis keys, log lines and tokens; a node id reaches session ids that are split at dots. Whatever does
not match these expressions is refused before it is used for anything.
"""

from __future__ import annotations

import re
from typing import NewType

CallId = NewType("CallId", str)
"""128 random bits as text: 32 hex digits when minted here, a UUID when a load balancer minted it."""
NodeId = NewType("NodeId", str)
"""The stable name of a server, equal over restarts (a pod's name)."""
Boot = NewType("Boot", str)
"""One life of a process."""
Incarnation = NewType("Incarnation", str)
"""One unbroken life of a node lease."""
Waiter = NewType("Waiter", int)
"""One open request that waits for a round's reply; unique within a process."""

_CALL_ID = re.compile(r"[0-9A-Za-z-]{22,36}")
_NODE_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,62}")


def is_call_id(text: str) -> bool:
    """Whether `text` may name a call (22 to 36 letters, digits or hyphens)."""
    return _CALL_ID.fullmatch(text) is not None


def is_node_id(text: str) -> bool:
    """Whether `text` may name a node (1 to 63 letters, digits, `_` or `-`, the first a letter or digit)."""
    return _NODE_ID.fullmatch(text) is not None


def prefix(call: str) -> str:
    """The part of a call id that logs and pages may show."""
    return call[:8]
