"""What the router's API answers, and what it believes of a node's answer. Their JSON is a contract.

The law: every text is made fit to print. A node lease may hold anything that JSON can spell, half of a surrogate pair
too, and one odd lease must not take a page down.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_LONGEST = 200


def printable(value: Any) -> Any:
    """A text without what UTF-8 can't carry, and not too long; anything else as it is."""
    return value.encode("utf-8", "replace").decode()[:_LONGEST] if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(printable)]
Count = Annotated[int, Field(ge=0, le=2**53, strict=True)]


class Said(BaseModel):
    """A node's answer to `GET /admin/node`; more fields than these are passed over."""

    model_config = ConfigDict(frozen=True)

    node_id: Text
    incarnation: Text
    boot: Text
    state: Text
    pid: Count | None = None
    parked: Count | None = None
    in_flight: Count | None = None
    version: Text | None = None


class NodeView(Said):
    """One node. Where it does not answer `state` is `unreachable`, and the counts are its last heartbeat's."""

    address: Text
    started: float | None = None
    """Seconds since 1970."""


class NodesView(BaseModel):
    """All nodes in order of their names."""

    nodes: list[NodeView]


class RingNodeView(BaseModel):
    """One node's part of the ring; a node that takes no new calls has none."""

    node_id: Text
    state: Text
    ideal_share: float
    share: float
    points: int


class RingView(BaseModel):
    """The ring, nodes in order of their names; `points` is the sum of theirs."""

    nodes: list[RingNodeView]
    points: int


class ErrorView(BaseModel):
    """Why there is no other answer."""

    error: str
