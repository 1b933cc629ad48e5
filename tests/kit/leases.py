"""Node leases as tests write them."""

from __future__ import annotations

import time
from typing import Any

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import NodeRecord, end_of
from framehold_core.value import asdict


def lease(
    name: str = "node-1", inc: str = "inc-1", boot: str = "boot-1", ttl: float = 60.0, **other: Any
) -> NodeRecord:
    """A lease that ends in `ttl` seconds by the clock of this machine. Nothing seals it."""
    fields: dict[str, Any] = {"beat": 0, "address": "http://10.0.0.1:80", "state": "live", "code": "c", "stats": "{}"}
    fields["expires"] = end_of(time.time(), ttl)
    return NodeRecord(NodeId(name), Incarnation(inc), Boot(boot), **(fields | other))


def changed(lease: NodeRecord, field: str, value: Any = None) -> NodeRecord:
    """The lease with another value in one field, as somebody without a key may write it."""
    held: Any = getattr(lease, field)
    other = held + (0.001 if field == "expires" else type(held)(1)) if value is None else value
    return NodeRecord(**{**asdict(lease), field: other})
