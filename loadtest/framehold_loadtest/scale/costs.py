"""The cost of each operation, with the source of the figure. Figures of a benchmark run can replace them.

Law: each figure has a source. All are of one core of one machine (AMD EPYC, 2 cores shared with other work), so they
are rather too high; their ratios hold better than the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from statistics import median
from typing import Any

KIB = 1024


def _cost(value: float, what: str, unit: str, source: str) -> Any:
    return field(default=value, metadata={"what": what, "unit": unit, "source": source})


@dataclass(frozen=True)
class Costs:
    """CPU in seconds, memory in bytes; `measured` names those that a run of the benchmark gave."""

    node_round: float = _cost(400e-6, "CPU of a node for a round", "us", "decision 022")
    node_once: float = _cost(145e-6, "CPU of a node for an effect under `once`", "us", "`bench --only replay`, Redis")
    node_takeover: float = _cost(1 / 418, "CPU of a node for a takeover", "us", "`bench --only survival`, 10,000 calls")
    frame: float = _cost(8 * KIB, "a parked frame", "KiB", "README")
    router_request: float = _cost(45e-6, "CPU of a router for a request", "us", "`bench --only router`, stub nodes")
    store_script: float = _cost(15e-6, "CPU of Redis for a script", "us", "decision 020: 12 to 15")
    record: float = _cost(1410, "a parked call in Redis, one question", "bytes", "`used_memory`, 10,000 calls")
    tombstone: float = _cost(
        1125,
        "a finished call in Redis, 250 bytes of outcome, with `hash-max-listpack-value 4096`",
        "bytes",
        "`used_memory`, 10,000 calls",
    )
    tombstone_loose: float = _cost(2450, "the same without", "bytes", "`used_memory`, 10,000 calls")
    look_store: float = _cost(
        1.0e-6, "CPU of Redis for one lease in a look at all", "us", "a look at 1,000 leases, 15 times"
    )
    look_node: float = _cost(25e-6, "CPU of a process for one lease in it", "us", "the same looks: 22 to 30")
    count_store: float = _cost(3.5e-6, "CPU of Redis to count them", "us", "1,000 leases, 32 counts at a time")
    ring_node: float = _cost(
        14e-6, "a change of the ring, for each node on it", "us", "`Ring`, one of 1,000 joins or leaves: 9 to 15"
    )
    measured: frozenset[str] = frozenset()

    def rows(self) -> list[tuple[str, str, str]]:
        """Each cost as words: what, how much, and from where."""
        scales = {"us": 1e6, "KiB": 1 / KIB, "bytes": 1.0}
        return [
            (
                one.metadata["what"],
                f"{getattr(self, one.name) * scales[one.metadata['unit']]:,.4g} {one.metadata['unit']}",
                "this run of the benchmark" if one.name in self.measured else one.metadata["source"],
            )
            for one in fields(self)
            if one.metadata
        ]

    @classmethod
    def of_bench(cls, found: Mapping[str, Any]) -> Costs:
        """These costs with what a run of `python -m framehold_loadtest.bench --json` has measured of them."""
        taken: dict[str, float] = {}
        for name, look in _LOOKS.items():
            try:
                taken[name] = float(look(found))
            except (LookupError, StopIteration, TypeError, ZeroDivisionError):
                # The run left that section out, or could not measure it.
                continue
        return replace(cls(), measured=frozenset(taken), **taken)


def _row(rows: list[Mapping[str, Any]], **wanted: Any) -> Mapping[str, Any]:
    return next(row for row in rows if all(row[key] == value for key, value in wanted.items()))


def _takeover(found: Mapping[str, Any]) -> float:
    storm = max(found["survival"]["rows"], key=lambda row: row["calls"])
    if storm["finished"] < _STORM:
        raise LookupError("no storm")
    return float((storm["last"] - storm["first"]) / storm["finished"])


_STORM = 100
"""Fewer calls that go on say nothing of a node's pace."""
_LOOKS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "node_round": lambda found: _row(found["calls"]["rows"], server="framehold redis")["server_cpu"] / 2,
    "node_once": lambda found: median(_row(found["replay"]["rows"], store="Redis", calls=32)["cpu"]),
    "node_takeover": _takeover,
    "frame": lambda found: found["frames"]["rows"][-1]["rss_bytes"] / found["frames"]["rows"][-1]["frames"],
    "router_request": lambda found: _row(found["router"]["rows"], server="framehold router")["server_cpu"] / 2,
    "store_script": lambda found: found["store"]["rows"][0]["store_cpu_per_write"],
}
"""Where each figure stands in a run's JSON."""
