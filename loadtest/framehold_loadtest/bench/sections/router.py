"""Section `router`: the latency and the CPU of `framehold router`, beside a plain aiohttp relay and HAProxy.

Two stages follow each other: a real node behind the router (`routed`), then relays in front of stub nodes (`relays`).
Stub nodes are so cheap that the relay is what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from framehold_loadtest.bench.sections import relays, routed
from framehold_loadtest.local.listeners import Cores
from framehold_loadtest.local.process import NotAvailable


@dataclass(frozen=True, slots=True)
class RouterPlan:
    """What each stage does: `requests` to each relay in each of its `turns`."""

    routed: routed.RoutedPlan
    turns: int
    requests: int


def measure(plan: RouterPlan, cores: Cores) -> dict[str, Any]:
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
