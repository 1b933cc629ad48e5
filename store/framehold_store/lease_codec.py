"""The stored form of a node lease: one JSON array (scripts/lease.lua).

The node writes all of it, so that its seal can cover all of it. A reader takes exactly this form: what stood beside it
would be sealed by nobody. A later format says more in `stats`, which is sealed as well.
"""

from __future__ import annotations

import json
from typing import Any

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import FORM, NodeRecord

from .codec import seconds


def parts(node: NodeRecord) -> tuple[str, str, str]:
    """The end of a lease in milliseconds, the part by which a change is noticed, and the rest: as the scripts take
    them."""
    noticed = "".join(f"{json.dumps(text)}," for text in (node.node, node.address, node.state, node.code))
    return f"{node.expires * 1000:.0f}", noticed, f"{json.dumps(node.stats)},{json.dumps(node.seal)}]"


def dump(node: NodeRecord) -> bytes:
    """A lease as the scripts store it."""
    ends, noticed, rest = parts(node)
    return f"[{FORM},{node.beat},{json.dumps(node.inc)},{json.dumps(node.boot)},{ends},{noticed}{rest}".encode()


def read(name: str, value: Any) -> NodeRecord | None:
    """The lease that is stored under the name of a node; None if `value` is no lease of that node."""
    try:
        version, beat, inc, boot, expires, node, address, state, code, stats, seal = json.loads(value)
        until = seconds(expires) if type(expires) is int else None
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (inc, boot, node, address, state, code, stats, seal)
    if not all(isinstance(text, str) for text in texts) or type(beat) is not int or until is None or version != FORM:
        return None
    if node != name or not boot:
        return None
    return NodeRecord(NodeId(node), Incarnation(inc), Boot(boot), beat, address, state, code, stats, until, seal)
