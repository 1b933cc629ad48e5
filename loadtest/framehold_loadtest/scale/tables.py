"""The tables of fleets that nobody has, each by its name, as Markdown.

Law: this module only shows results. The same costs and seed give the same bytes, so a test can compare the pages
with the program.
"""

from __future__ import annotations

from math import ceil

from framehold_loadtest.scale import model, ring_sim
from framehold_loadtest.scale.costs import Costs
from framehold_loadtest.scale.model import LIMITS, Load, Membership, Sizes
from framehold_loadtest.scale.storm import TRIP, storm
from framehold_loadtest.table import markdown as table

PROGRAM = "python -m framehold_loadtest.scale"
"""Whose marks the tables go between."""
NODES = 1_000
THINKS = (10.0, 60.0, 300.0)
ORDERS = tuple(10**power for power in range(3, 9))


def tables(costs: Costs, seed: int) -> dict[str, str]:
    """All of them."""
    sizes = Sizes()
    return {
        "costs": table(("What", "Cost", "From"), costs.rows()),
        "limits": _limits(costs, sizes),
        "orders": _orders(costs, sizes),
        "membership": _membership(costs),
        "balance": _balance(seed),
        "rolling": _rolling(costs, seed),
        "storms": _storms(costs, seed),
    }


def _about(value: float) -> str:
    """Three figures are more than these are good for."""
    if value == 0:
        return "0"
    if value < 100:
        return f"{value:.2g}"
    return f"{float(f'{value:.2g}'):,.0f}"


def _limits(costs: Costs, sizes: Sizes) -> str:
    columns = ["Full at so many parked calls", *(f"answers after {think:g} s" for think in THINKS)]
    rows = [
        [what, *(_about(model.full_at(name, costs, sizes, think)) for think in THINKS)]
        for name, (what, _) in LIMITS.items()
    ]
    return table(columns, rows)


def _orders(costs: Costs, sizes: Sizes) -> str:
    rows = []
    for parked in ORDERS:
        load = Load(float(parked))
        needed = model.need(load, costs, sizes)
        limit, relief = LIMITS.get(model.bottleneck(load, costs, sizes) or "", ("none: one node would do", ""))
        counts = needed.nodes, max(2, ceil(needed.routers)), needed.shards, ceil(needed.fleets)
        rows.append([f"{parked:,}", _about(load.requests), *(f"{count:,}" for count in counts), limit, relief])
    columns = ("Parked", "requests/s", "nodes", "routers", "shards", "fleets", "The limit", "Relieved by")
    return table(columns, rows)


def _membership(costs: Costs) -> str:
    rows = [
        [
            f"{one.nodes:,}",
            _about(one.scripts),
            _about(one.looks),
            _about(one.store),
            f"{one.share:.2%}",
            f"{one.router:.2%}",
            f"{_about(one.change)} s",
            f"{one.stall * 1e3:,.0f} / {one.router_stall * 1e3:,.0f} ms",
        ]
        for one in (Membership.of(nodes, costs) for nodes in (10, 100, 300, 1_000, 3_000, 10_000))
    ]
    columns = ("Nodes", "scripts of leases/s", "leases read/s", "cores of Redis for it", "of each node",
               "of each router", "Redis at a change", "a node's, a router's pause then")  # fmt: skip
    return table(columns, rows)


def _balance(seed: int) -> str:
    seen = [ring_sim.balance(count, routers, seed) for count, routers in ((10, 1), (100, 1), (100, 10), (NODES, 10))]
    rows = [
        [
            f"{one.nodes:,}",
            f"{one.routers}",
            f"{one.ring_least:.2f} to {one.ring_most:.2f}",
            f"{one.placed_least:.2f} to {one.placed_most:.2f}",
            f"{one.draws:.2f}",
        ]
        for one in seen
    ]
    return table(("Nodes", "routers", "by the ring alone", "as placed", "ids drawn for a call"), rows)


def _rolling(costs: Costs, seed: int) -> str:
    prices = costs.ring_node, costs.look_node, costs.look_store
    seen = [ring_sim.rolling(NODES, at_once, seed, prices, ring_sim.Roll()) for at_once in (1, 10, 100)]
    rows = [
        [
            f"{one.at_once}",
            f"{one.seconds / 3600:.1f} h" if one.seconds > 3600 else f"{one.seconds / 60:.0f} min",
            f"{one.replayed:.1%}",
            f"{one.relayed:.1%}",
            f"{one.node:.1%}",
            f"{one.router:.1%}",
            f"{one.store:.2f}",
        ]
        for one in seen
    ]
    columns = ("At a time", "takes", "rounds replayed", "rounds relayed", "of each node for it", "of each router",
               "cores of Redis for leases")  # fmt: skip
    return table(columns, rows)


def _storms(costs: Costs, seed: int) -> str:
    whole, large = ring_sim.names(NODES), 3 * NODES
    zone = ring_sim.zone(NODES)
    fast, slow = ("at once", True, TRIP), ("at once, the store takes 50 ms", True, 0.05)
    dying = [(NODES, whole[:1]), (NODES, whole[:10]), (NODES, zone), (large, ring_sim.zone(large))]
    cases = [(*who, *how) for who in dying for how in (fast, ("as users answer", False, TRIP))]
    rows = []
    for fleet, dead, how, at_once, trip in [*cases, (NODES, zone, *slow)]:
        one = storm(fleet, dead, at_once, trip, costs, seed)
        rows.append(
            [
                f"{one.dead:,} of {one.fleet:,}",
                how,
                f"{one.calls:,}",
                f"{_about(one.mean)} / {one.most:,}",
                f"{one.last:,.0f} s" if at_once else "with the last user",
                f"{one.p50:.1f} / {one.p99:.1f} s",
                _about(one.pace),
                one.limit,
                f"{one.store:.0%}",
            ]
        )
    columns = ("Die", "their calls come", "calls", "of a survivor, mean / most", "last answer", "wait p50 / p99",
               "takeovers/s", "limit", "of the shards")  # fmt: skip
    return table(columns, rows)
