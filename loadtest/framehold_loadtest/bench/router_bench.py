"""Section `router`: what a fleet's front costs, in latency and in CPU, beside a plain aiohttp relay and HAProxy.

Two stages, one after the other: a real node behind the router (`routed`), then relays in front of stub nodes
(`relays`), which are so cheap that the relay is what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from framehold_loadtest.bench import relays, routed
from framehold_loadtest.bench.children import Cores, NotAvailable


@dataclass(frozen=True, slots=True)
class Plan:
    """What each stage does: `requests` to each relay in each of its `turns`."""

    routed: routed.Plan
    turns: int
    requests: int


def measure(plan: Plan, cores: Cores) -> dict[str, Any]:
    """Run both stages; returns what they found, the rows of real calls, and what was not available."""
    behind: dict[str, Any] = {}
    relayed: dict[str, Any] = {}
    missing: dict[str, str] = {}
    try:
        behind = routed.measure(plan.routed, cores)
    except NotAvailable as reason:
        missing["node behind the router"] = str(reason)
    try:
        relayed = relays.measure(plan.turns, plan.requests, cores)
        missing |= relayed["not_available"]
    except NotAvailable as reason:
        missing["relays"] = str(reason)
    return {"routed": behind, "relays": relayed, "rows": behind.get("rows", []), "not_available": missing}
