"""Session ids of the 2025 era as clients see them: `l1.<node>.<boot>.<id>`.

Such a session lives in one process. Its id names that process, so that a router can find it, and so that a node can
tell a session of its former life from one of its own. Nothing in it is authenticated: it is a hint where to ask.
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
    """Which life of which node has a session, and the id that the SDK gave it there."""

    node: NodeId
    boot: Boot
    session: str


def wrap(node: NodeId, boot: Boot, session: str) -> str:
    """The id that a client is given.

    Raises:
        ProtocolError: a part has a shape that could not be read back.
    """
    text = f"{PREFIX}{node}.{boot}.{session}"
    if parse(text) != (node, boot, session):
        raise ProtocolError(f"{text[:300]!r} can't be a session id: `parse` would not find its parts again")
    return text


def parse(text: str) -> Session | None:
    """The parts of a session id; None for what is none of ours."""
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
