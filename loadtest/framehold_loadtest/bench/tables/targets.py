"""Every target of speed in one table: its title, its bounds, its unit, and where a run's JSON has the figure.

Law: no target is left out. One that a run has no figure for says so, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from framehold_loadtest.bench.tables.table import NONE, Row, Table
from framehold_loadtest.stats import Spread

_HEADS = ("what", "must", "stretch", "measured", "spread", "verdict", "section")
_ELSEWHERE = "this command leaves it to `framehold bench tradeoff`"
_Measured = tuple[float, str]
"""A figure in its target's unit, and how it scattered within the run."""


class Verdict(StrEnum):
    """How a value stands to its target."""

    STRETCH = "stretch met"
    MUST = "must met"
    BELOW = "NOT met"


@dataclass(frozen=True, slots=True)
class Target:
    """What a value must reach, and what it is hoped to reach; both the same where nothing beyond is asked.

    `form` writes a figure with its unit. `look` finds the figure in the JSON of `section`, and raises LookupError,
    StopIteration or ValueError if the section has none; or it is the reason why nothing measures the target.
    """

    what: str
    must: float
    stretch: float
    form: str
    section: str
    look: Callable[[Mapping[str, Any]], _Measured] | str
    higher_is_better: bool = False

    def judge(self, value: float) -> Verdict:
        """The verdict of a value in the target's unit."""
        if self.stretch != self.must and self._reaches(value, self.stretch):
            return Verdict.STRETCH
        return Verdict.MUST if self._reaches(value, self.must) else Verdict.BELOW

    def verdict(self, value: float | None, unit: str = "", *, percent: bool = False, beyond: float = 0.0) -> str:
        """What was asked, with its bounds raised by `beyond`, and how the value stands to it."""
        if value is None:
            return NONE
        bounds = (self.must + beyond, self.stretch + beyond)
        must, stretch = (f"{bound:+.0%}" if percent else f"{bound:g}{unit}" for bound in bounds)
        asked = f"must {must}" if self.must == self.stretch else f"must {must}, stretch {stretch}"
        return f"{asked}: {self.judge(value - beyond)}"

    def asked(self) -> list[str]:
        """What it is, and its bounds."""
        must, stretch = self.form.format(self.must), self.form.format(self.stretch)
        return [self.what, must, NONE if self.must == self.stretch else stretch]

    def cells(self, measured: Mapping[str, Any]) -> list[str]:
        """Its line of the table of all targets."""
        asked = self.asked()
        found = self._found(measured)
        if isinstance(found, str):
            return [*asked, f"not measured: {found}", NONE, NONE, self.section]
        value, spread = found
        return [*asked, self.form.format(value), spread, self.judge(value), self.section]

    def _found(self, measured: Mapping[str, Any]) -> _Measured | str:
        if isinstance(self.look, str):
            return self.look
        if self.section not in measured:
            return f"this run left it out; `--only {self.section}` runs it"
        section = measured[self.section]
        try:
            return self.look(section)
        except (LookupError, StopIteration, ValueError):
            reasons = [f"{name}: {reason}" for name, reason in section["not_available"].items()]
            return "; ".join(reasons) or "this run has no such figure"

    def _reaches(self, value: float, bound: float) -> bool:
        return value >= bound if self.higher_is_better else value <= bound


def standing(measured: Mapping[str, Any]) -> Table:
    """All targets, each beside what a run measured of it."""
    return Table("", [_HEADS, *(target.cells(measured) for target in TARGETS)])


def _row(section: Mapping[str, Any], **wanted: Any) -> Row:
    return next(row for row in section["rows"] if all(row[key] == value for key, value in wanted.items()))


def _quartiles(values: Sequence[float]) -> str:
    found = Spread.of(values)
    return f"{found.low:.2f} to {found.high:.2f}"


def _calls(server: str) -> Callable[[Mapping[str, Any]], _Measured]:
    def look(section: Mapping[str, Any]) -> _Measured:
        row = _row(section, server=server)
        if row["cpu_ratio"] is None:
            raise LookupError("nothing to compare with")
        return row["cpu_ratio"], _quartiles(row["cpu_ratios"])

    return look


def _kind(kind: str) -> Callable[[Mapping[str, Any]], _Measured]:
    def look(section: Mapping[str, Any]) -> _Measured:
        ratios = _row(section, kind=kind)["ratios"]
        return median(ratios), _quartiles(ratios)

    return look


def _weight(section: Mapping[str, Any]) -> _Measured:
    each = [(row["rss_bytes"] / row["frames"] / 1024, row["frames"]) for row in section["rows"]]
    return each[-1][0], ", ".join(f"{kib:.1f} at {frames:,}" for kib, frames in each)


def _growth(name: str) -> Callable[[Mapping[str, Any]], _Measured]:
    def look(section: Mapping[str, Any]) -> _Measured:
        first, *others = section["rows"]
        found = [(row["frames"], row[name] / first[name] - 1) for row in others]
        return found[-1][1], ", ".join(f"{growth:+.0%} at {frames:,}" for frames, growth in found)

    return look


def _pause(section: Mapping[str, Any]) -> _Measured:
    names = ("young_pause", "parking_young_pause")
    resuming, parking = (max(row[name] * 1e3 for row in section["rows"]) for name in names)
    return max(resuming, parking), f"{resuming:.1f} while resuming, {parking:.1f} while parking"


def _cyclic(section: Mapping[str, Any]) -> _Measured:
    return max(row["cyclic_per_call"] for row in section["rows"]), NONE


def _write(section: Mapping[str, Any]) -> _Measured:
    (row,) = section["rows"]
    return median(row["ratios"]), _quartiles(row["ratios"])


def _writes(section: Mapping[str, Any]) -> _Measured:
    return max(section["rounds"]), f"each of {len(section['rounds'])} rounds"


def _relay(section: Mapping[str, Any]) -> _Measured:
    ratio = _row(section["relays"], relay="framehold router")["ratios"]["haproxy"]
    return ratio["middle"], f"{ratio['low']:.2f} to {ratio['high']:.2f}"


def _added(section: Mapping[str, Any]) -> _Measured:
    worst = max((hop["added"] for hop in section["routed"]["hops"]), key=median)
    return median(worst) * 1e3, _quartiles([seconds * 1e3 for seconds in worst])


def _storm(section: Mapping[str, Any]) -> _Measured:
    row = next(row for row in section["rows"] if row["calls"] > 1)
    return resumed(row), f"{row['calls']:,} at once"


def resumed(row: Row) -> float:
    """Calls a second from the first answer to the last one."""
    return float(row["calls"] / max(1e-9, row["last"] - row["first"]))


def _steps(section: Mapping[str, Any]) -> _Measured:
    rows = [row for row in section["rows"] if row["round"] > 1]
    if not rows:
        raise LookupError("nothing was counted")
    return sum(row["entries"] for row in rows), ", ".join("{entries} {stretch}".format(**row) for row in rows)


def _single(section: Mapping[str, Any]) -> _Measured:
    row = _row(section, server=SINGLE_JUDGED)
    if not row["ratios"]:
        raise LookupError("nothing to compare with")
    return median(row["ratios"]), _quartiles(row["ratios"])


def _onces(section: Mapping[str, Any]) -> _Measured:
    return max(row["writes"] for row in section["once"]["rows"]), NONE


def _survived(way: str, scale: float) -> Callable[[Mapping[str, Any]], _Measured]:
    def look(section: Mapping[str, Any]) -> _Measured:
        row = _row(section, way=way, calls=1)
        beyond = section["ttl"] if way == "SIGKILL" else 0.0
        middle, slowest = ((row[name] - beyond) * scale for name in ("first", "slowest"))
        return slowest, f"median {middle:.3g} of {row['turns']}"

    return look


SINGLE_JUDGED = "framehold redis, everysec"
"""The row of section `single` that is judged."""
CALLS = {
    server: Target(f"{what}, to the SDK", must, stretch, "{:.3g} x", "calls", _calls(server), higher_is_better=True)
    for server, what, must, stretch in (
        ("framehold memory", "`uvicorn server:app` without a store, CPU", 2.0, 2.4),
        ("framehold redis", "`uvicorn server:app` with Redis, CPU of both", 1.8, 2.1),
        ("framehold node, memory", "`framehold node` without a store, CPU", 2.5, 3.0),
        ("framehold node, redis", "`framehold node` with Redis, CPU of both", 2.2, 2.6),
    )
}
"""Two-round calls per CPU second, as a ratio to the SDK's hand-written handler that responds with JSON alone."""
KINDS = {
    kind: Target(f"{what}, CPU, to the SDK", 1.8, 2.3, "{:.3g} x", "kinds", _kind(kind), higher_is_better=True)
    for kind, what in (
        ("sync tool, no question", "a sync tool"),
        ("tool behind a guard", "a tool behind a guard"),
        ("tool behind an ASGI middleware", "a tool behind an ASGI middleware"),
        ("prompt", "a prompt with a question"),
        ("low-level tool of a server that lists", "a tool of a low-level server"),
        ("FastMCP tool", "a tool of FastMCP, to FastMCP"),
    )
}
"""By the names of `subjects.kinds`."""
TRADEOFF = {
    "calls_per_second": Target("the trade-off's tool, steady: H-hold's calls per second to E's", 0.9, 1.05, "{:.3g} x",
                               "trade-off", _ELSEWHERE, True),
    "p50_ms": Target("the same, median of the slowest round, to E's", 1.5, 1.2, "{:.3g} x", "trade-off", _ELSEWHERE),
    "store_ops": Target("store operations of that tool, H-hold", 5.0, 4.0, "{:.3g}", "trade-off", _ELSEWHERE),
}  # fmt: skip
"""By the respect of the trade-off's report that each is judged by."""
SINGLE = Target("a round at one call at a time, with Redis, p50, to the SDK without a store", 1.5, 1.2, "{:.3g} x",
                "single", _single)  # fmt: skip
STEPS = Target("functions that round 2 enters, memory store", 100.0, 80.0, "{:.3g}", "steps", _steps)
FRAME = Target("a parked frame, RSS, reply copy included", 6.5, 6.0, "{:.3g} KiB", "frames", _weight)
RESUME_P50 = Target("resume p50, few to most frames", 0.15, 0.05, "{:+.0%}", "frames", _growth("resume_p50"))
RESUME_P99 = Target("resume p99, few to most frames", 0.15, 0.05, "{:+.0%}", "frames", _growth("resume_p99"))
YOUNG_PAUSE = Target("longest young pause of the collector", 25.0, 10.0, "{:.3g} ms", "frames", _pause)
CYCLIC = Target("cyclic objects per call", 0.0, 0.0, "{:.3g}", "frames", _cyclic)
STORE_WRITE = Target(
    "a store write, loaded, client CPU, to redis-py's pipeline", 0.5, 0.25, "{:.3g} x", "store", _write
)
WRITES = Target("store writes of a round", 1.0, 1.0, "{:.3g}", "store", _writes)
ROUTER_CPU = Target("router to HAProxy, CPU, same hash", 1.5, 1.2, "{:.3g} x", "router", _relay)
ROUTER_ADDED = Target("what the router adds to a round's median", 1.0, 1.0, "{:.2f} ms", "router", _added)
ONCE_WRITES = Target("store writes of one `once`", 2.0, 2.0, "{:.3g}", "replay", _onces)
AFTER_DEATH = Target("a call goes on after SIGKILL, beyond the lease's TTL", 1.0, 1.0, "{:.2f} s", "survival",
                     _survived("SIGKILL", 1.0))  # fmt: skip
AFTER_DRAIN = Target("a call goes on after SIGTERM", 200.0, 200.0, "{:.0f} ms", "survival", _survived("SIGTERM", 1e3))
STORM = Target("10,000 calls of a killed node, answered per second", 1100.0, 1400.0, "{:,.0f}", "survival", _storm,
               True)  # fmt: skip
TARGETS = (
    *CALLS.values(), *KINDS.values(),
    *TRADEOFF.values(), STEPS, SINGLE, ROUTER_CPU, ROUTER_ADDED, STORM, FRAME, RESUME_P50, RESUME_P99,
    YOUNG_PAUSE, CYCLIC, STORE_WRITE, WRITES, ONCE_WRITES, AFTER_DEATH, AFTER_DRAIN,
)  # fmt: skip
"""In the order of the table."""
