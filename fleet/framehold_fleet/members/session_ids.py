"""Session ids of the 2025 era as clients see them: `l1.<node>.<boot>.<id>`.

A session of that era lives in one process. Its id names the node and the boot of that process. So a router can find the
node, and a node can distinguish its own sessions from those of an earlier process. The id is not authenticated; it is a
hint.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from framehold_core.errors import ProtocolError
from framehold_core.ids import Boot, NodeId, is_node_id

PREFIX = "l1."

_BOOT = re.compile(r"[0-9A-Za-z_-]{1,64}")
_SESSION = re.compile(r"[!-~]{1,200}")


class Session(NamedTuple):
    """The node and the boot that have a session, and the id that the SDK gave it there."""

    node: NodeId
    boot: Boot
    session: str


def wrap(node: NodeId, boot: Boot, session: str) -> str:
    """The session id for the client.

    Raises:
        ProtocolError: `parse` could not read the parts back.
    """
    text = f"{PREFIX}{node}.{boot}.{session}"
    if parse(text) != (node, boot, session):
        raise ProtocolError(f"{text[:300]!r} can't be a session id: `parse` would not find its parts again")
    return text


def parse(text: str) -> Session | None:
    """The parts of a session id; None if `text` is no session id of a fleet."""
    if not text.startswith(PREFIX):
        return None
    # The SDK's id may have dots of its own.
    parts = text[len(PREFIX) :].split(".", 2)
    if len(parts) != 3:
        return None
    node, boot, session = parts
    if is_node_id(node) and _BOOT.fullmatch(boot) and _SESSION.fullmatch(session):
        return Session(NodeId(node), Boot(boot), session)
    return None
