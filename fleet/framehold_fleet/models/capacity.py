"""The models of a fleet's capacity. Their JSON is a contract."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from .fields import Text


class ResourceView(BaseModel):
    """How much of one resource is used, over the nodes that report it. Shares are 0 for nothing and 1 for the limit."""

    name: Literal["frames", "processor", "memory", "descriptors", "store"]
    """`frames`: of FRAMEHOLD_MAX_PARKED. `processor`: cores, of one for each event loop. `memory`: resident bytes, of
    the limits on memory. `descriptors`: that are open, of the soft limits RLIMIT_NOFILE. `store`: bytes of the store's
    memory."""
    used: float
    limit: float
    share: float
    fullest: Text
    """The node with the highest share; empty for the store, which belongs to no node."""
    fullest_share: float
    without_fullest: float | None = None
    """The share if that node were gone and the others had taken over all that it used; null if no other node reports
    it. For memory this is an upper bound: it counts what an empty process takes, too."""
    full_in: float | None = None
    """Seconds until the first node reaches its limit, if the use of the last hour goes on to grow as it did; null if no
    node's use grows, if that is more than a week away, or if less than ten minutes are known. Only for `frames` and
    `memory`."""


class CapacityView(BaseModel):
    """The capacity of the nodes that take calls."""

    nodes: int
    resources: list[ResourceView]
    """Resources without a limit, or that no node reports, are left out."""
    fills_first: Text | None = None
    """The resource with the highest share on any node."""
    survives: bool | None = None
    """Whether the others could take over all that the fullest node uses, for each resource; null if there is no other
    node."""
