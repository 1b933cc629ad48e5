"""Short HTTP questions to the processes of a fleet, asked outside of any event loop."""

from __future__ import annotations

import http.client
import json
import re
from typing import Any, NamedTuple

_LINE = re.compile(r"^(framehold_[a-z_]+)(\{.*?\})? ([-+0-9.eEinfNa]+)$", re.MULTILINE)
_BOUND = re.compile(r'le="([^"]+)"')


class NodeMetrics(NamedTuple):
    """The part of `/metrics` that a sample keeps: parked calls, and the cumulative buckets of loop lag."""

    parked: int
    lag: dict[float, float]


def get(port: int, path: str, timeout: float = 1.0) -> tuple[int, str]:
    """Status and text of a GET to 127.0.0.1; status 0 where nobody answers."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        link.request("GET", path)
        response = link.getresponse()
        return response.status, response.read().decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        link.close()


def ring(port: int) -> dict[str, Any]:
    """What a router says of its ring; without nodes where it does not answer."""
    status, text = get(port, "/api/v1/ring", timeout=3.0)
    found: dict[str, Any] = json.loads(text) if status == 200 else {"nodes": []}
    return found


def on_ring(port: int) -> set[str]:
    """The names of the nodes that a router sends new calls to."""
    return {node["node_id"] for node in ring(port)["nodes"] if node["points"]}


def failovers(port: int) -> float:
    """How many calls of other processes a node has carried on so far."""
    found = _LINE.findall(get(port, "/metrics")[1])
    return sum(float(value) for name, _, value in found if name == "framehold_failovers_total")


def metrics(text: str) -> NodeMetrics:
    """Read the text of `/metrics`."""
    parked, lag = 0, {}
    for name, labels, value in _LINE.findall(text):
        if name == "framehold_parked_frames":
            parked = int(float(value))
        elif name == "framehold_event_loop_lag_seconds_bucket":
            bound = _BOUND.search(labels or "")
            if bound:
                lag[float(bound[1].replace("+Inf", "inf"))] = float(value)
    return NodeMetrics(parked, lag)
