"""The tables of section `router`."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from framehold_loadtest.bench import targets
from framehold_loadtest.bench.report import NONE, Table, quartiles, ratios, verdict

_ROUTER, _HAPROXY = "framehold router", "haproxy"


def router(section: Mapping[str, Any]) -> list[Table]:
    """What the router adds to a round, what it takes of a core beside a node, and beside other relays."""
    tables = []
    if section["routed"]:
        tables += [_hops(section["routed"]), _calls(section["routed"])]
    tables.append(_relays(section["relays"], section["not_available"]))
    return tables


def _hops(routed: Mapping[str, Any]) -> Table:
    plan = routed["plan"]
    title = (
        f"Router: latency of a real node with Redis, one connection and one request at a time, {plan['batches']} x"
        f" {plan['batch_size']} calls each way in turn, medians"
    )
    columns = ["", "straight, us", "through the router, us", "added, ms", "(range)", "target"]
    lines = [columns]
    for hop in routed["hops"]:
        added = [seconds * 1e3 for seconds in hop["added"]]
        lines.append(
            [
                f"round {hop['round']}",
                f"{hop['straight'] * 1e6:.0f}",
                f"{hop['routed'] * 1e6:.0f}",
                f"{median(added):.2f}",
                f"{min(added):.2f} to {max(added):.2f}",
                verdict(median(added), targets.ROUTER_ADDED_MS, " ms"),
            ]
        )
    return Table(title, lines)


def _calls(routed: Mapping[str, Any]) -> Table:
    plan = routed["plan"]
    title = (
        f"Router: two-round calls of a real node with Redis, router and node on one core, {routed['connections']}"
        f" connections, {plan['repetitions']} x {plan['seconds']:g} s interleaved, medians"
    )
    columns = ["", "calls/s", "calls per CPU second", "ratio", "(range)", "us CPU/call router / node / Redis",
               "round 1 p50/p99 ms", "round 2 p50/p99 ms", "errors"]  # fmt: skip
    lines = [columns]
    for row in routed["rows"]:
        parts = (row["router_cpu"], row["node_cpu"], row["store_cpu"])
        lines.append(
            [
                row["way"],
                f"{row['calls_per_second']:.0f}",
                f"{row['calls_per_cpu_second']:.0f}",
                *ratios(row["ratios"]),
                " / ".join(f"{part * 1e6:.0f}" if part else NONE for part in parts),
                f"{row['first_p50'] * 1e3:.1f} / {row['first_p99'] * 1e3:.1f}",
                f"{row['second_p50'] * 1e3:.1f} / {row['second_p99'] * 1e3:.1f}",
                str(sum(row["errors"].values())),
            ]
        )
    notes = [f"{row['way']}: {count} x {kind}" for row in routed["rows"] for kind, count in row["errors"].items()]
    return Table(title, lines, notes)


def _relays(relays: Mapping[str, Any], missing: Mapping[str, str]) -> Table:
    rows = relays.get("rows", [])
    title = "Router: CPU beside other relays"
    lines: list[list[str]] = []
    if rows:
        title += (
            f", {relays['connections']} connections, {relays['turns']} x {relays['requests']:,} requests each in short"
            " turns, all answered with 200; medians (quartiles), ratios turn by turn"
        )
        lines.append(["relay", "us CPU/request", "to haproxy", "to the router", "requests/s", "busy relay/nodes/load",
                      "target"])  # fmt: skip
        lines += map(_relay_cells, rows)
    return Table(title, lines, missing=missing)


def _relay_cells(row: Mapping[str, Any]) -> list[str]:
    shares = (row["busy"], row["upstream_busy"], row["load_busy"])
    cost, to_haproxy = row["cpu_per_request"], row["ratios"].get(_HAPROXY)
    judged = row["relay"] == _ROUTER and to_haproxy
    return [
        row["relay"],
        quartiles(cost, 1) if cost["middle"] else NONE,
        quartiles(to_haproxy, 2, 1),
        quartiles(row["ratios"].get(_ROUTER), 2, 1),
        f"{row['requests_per_second']:,.0f}",
        " / ".join(f"{share:.0%}" for share in shares),
        verdict(to_haproxy["middle"], targets.ROUTER_CPU, " x") if judged else NONE,
    ]
