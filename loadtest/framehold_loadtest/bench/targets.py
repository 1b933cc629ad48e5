"""Every target of speed in one table: its title, its bounds, its unit, and where a run's JSON has the figure.

Law: no target is left out. One that a run has no figure for says so, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from framehold_loadtest.bench.servers import BASELINE
from framehold_loadtest.stats import Spread
from framehold_loadtest.table import NONE, Row, Table

_HEADS = ("what", "must", "stretch", "measured", "spread", "verdict", "section")
_ELSEWHERE = "this command leaves it to `framehold bench tradeoff`"
_Section = Mapping[str, Any]
_Measured = tuple[float, str]
"""A figure in its target's unit, and how it scattered within the run."""
_Look = Callable[[_Section], _Measured]


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
    look: _Look | str
    higher_is_better: bool = False

    def judge(self, value: float) -> Verdict:
        """The verdict of a value in the target's unit."""
        if self.stretch != self.must and self._reaches(value, self.stretch):
            return Verdict.STRETCH
        return Verdict.MUST if self._reaches(value, self.must) else Verdict.BELOW

    def asked(self) -> list[str]:
        """What it is, and its bounds."""
        must, stretch = self.form.format(self.must), self.form.format(self.stretch)
        return [self.what, must, NONE if self.must == self.stretch else stretch]

    def cells(self, measured: Mapping[str, Any]) -> list[str]:
        """Its line of the table of all targets."""
        found = self._found(measured)
        if isinstance(found, str):
            return [*self.asked(), f"not measured: {found}", NONE, NONE, self.section]
        value, spread = found
        return [*self.asked(), self.form.format(value), spread, self.judge(value), self.section]

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


def standing(measured: Mapping[str, Any], *, only: bool = False) -> Table:
    """All targets, each beside what a run measured of it; or only those of the sections that it ran."""
    shown = [target for target in TARGETS if not only or target.section in measured]
    return Table("Targets" if only else "", [_HEADS, *(target.cells(measured) for target in shown)])


def _row(section: _Section, **wanted: Any) -> Row:
    return next(row for row in section["rows"] if all(row[key] == value for key, value in wanted.items()))


def _ratios(found: Sequence[float]) -> _Measured:
    """The median of some ratios, and their quartiles."""
    return median(found), _quartiles(found)


def _quartiles(values: Sequence[float]) -> str:
    found = Spread.of(values)
    return f"{found.low:.2f} to {found.high:.2f}"


def _to_sdk(server: str, what: str) -> _Look:
    return lambda section: _ratios(_row(section, server=server)["to"][BASELINE][what])


def _kind(kind: str) -> _Look:
    return lambda section: _ratios(_row(section, kind=kind)["ratios"])


def _added(section: _Section) -> _Measured:
    """What the router adds to a round, turn by turn."""
    alone, routed = (_row(section, server=SINGLE_JUDGED + way)["p50s"] for way in ("", ", router"))
    return _ratios([(long - short) * 1e3 for short, long in zip(alone, routed, strict=True)])


def _weight(section: _Section) -> _Measured:
    each = [(row["rss_bytes"] / row["frames"] / 1024, row["frames"]) for row in section["rows"]]
    return each[-1][0], ", ".join(f"{kib:.1f} at {frames:,}" for kib, frames in each)


def _growth(name: str) -> _Look:
    def look(section: _Section) -> _Measured:
        first, *others = section["rows"]
        found = [(row["frames"], row[name] / first[name] - 1) for row in others]
        return found[-1][1], ", ".join(f"{growth:+.0%} at {frames:,}" for frames, growth in found)

    return look


def _pause(section: _Section) -> _Measured:
    names = ("young_pause", "parking_young_pause")
    resuming, parking = (max(row[name] * 1e3 for row in section["rows"]) for name in names)
    return max(resuming, parking), f"{resuming:.1f} while resuming, {parking:.1f} while parking"


def _most(name: str) -> _Look:
    return lambda section: (max(row[name] for row in section["rows"]), NONE)


def _write(section: _Section) -> _Measured:
    (row,) = section["rows"]
    return _ratios(row["ratios"])


def _writes(section: _Section) -> _Measured:
    return max(section["rounds"]), f"each of {len(section['rounds'])} rounds"


def _relay(section: _Section) -> _Measured:
    return _ratios(_row(section, server="framehold router")["to_haproxy"])


def _storm(section: _Section) -> _Measured:
    row = next(row for row in section["rows"] if row["calls"] > 1)
    return resumed(row), f"{row['calls']:,} at once"


def resumed(row: Row) -> float:
    """Calls a second that came to their right end, after the first one until the last one."""
    return float(max(0, row["finished"] - 1) / max(1e-9, row["last"] - row["first"]))


def _steps(section: _Section) -> _Measured:
    rows = [row for row in section["rows"] if row["round"] > 1]
    if not rows:
        raise LookupError("nothing was counted")
    return sum(row["entries"] for row in rows), ", ".join("{entries} {stretch}".format(**row) for row in rows)


def _survived(way: str, scale: float) -> _Look:
    def look(section: _Section) -> _Measured:
        row = _row(section, way=way, calls=1)
        beyond = section["ttl"] if way == "SIGKILL" else 0.0
        middle, slowest = ((row[name] - beyond) * scale for name in ("first", "slowest"))
        return slowest, f"median {middle:.3g} of {row['turns']}"

    return look


SINGLE_JUDGED = "framehold redis, everysec"
"""The row of section `single` that is judged."""
CALLS = [
    Target(f"{what}, to the SDK", must, stretch, "{:.3g} x", "calls", _to_sdk(server, "cpu"), higher_is_better=True)
    for server, what, must, stretch in (
        ("framehold memory", "`uvicorn server:app` without a store, CPU", 2.0, 2.4),
        ("framehold redis", "`uvicorn server:app` with Redis, CPU of both", 1.8, 2.1),
        ("framehold node, memory", "`framehold node` without a store, CPU", 2.5, 3.0),
        ("framehold node, redis", "`framehold node` with Redis, CPU of both", 2.2, 2.6),
    )
]
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
"""By the names of `served.kinds`."""
TRADEOFF = {
    "calls_per_second": Target("the trade-off's tool, steady: H-hold's calls per second to E's", 0.9, 1.05, "{:.3g} x",
                               "trade-off", _ELSEWHERE, True),
    "p50_ms": Target("the same, median of the slowest round, to E's", 1.5, 1.2, "{:.3g} x", "trade-off", _ELSEWHERE),
    "store_ops": Target("store operations of that tool, H-hold", 5.0, 4.0, "{:.3g}", "trade-off", _ELSEWHERE),
}  # fmt: skip
"""By the respect of the trade-off's report that each is judged by."""
TARGETS = (
    *CALLS, *KINDS.values(), *TRADEOFF.values(),
    Target("functions that round 2 enters, memory store", 100.0, 80.0, "{:.3g}", "steps", _steps),
    Target("a round at one call at a time, with Redis, p50, to the SDK without a store", 1.5, 1.2, "{:.3g} x",
           "single", _to_sdk(SINGLE_JUDGED, "p50")),
    Target("router to HAProxy, CPU, same hash", 1.5, 1.2, "{:.3g} x", "router", _relay),
    Target("what the router adds to a round's median", 1.0, 1.0, "{:.2f} ms", "single", _added),
    Target("10,000 calls of a killed node, answered per second", 1100.0, 1400.0, "{:,.0f}", "survival", _storm, True),
    Target("a parked frame, RSS, reply copy included", 6.5, 6.0, "{:.3g} KiB", "frames", _weight),
    Target("resume p50, few to most frames", 0.15, 0.05, "{:+.0%}", "frames", _growth("resume_p50")),
    Target("resume p99, few to most frames", 0.15, 0.05, "{:+.0%}", "frames", _growth("resume_p99")),
    Target("longest young pause of the collector", 25.0, 10.0, "{:.3g} ms", "frames", _pause),
    Target("cyclic objects per call", 0.0, 0.0, "{:.3g}", "frames", _most("cyclic_per_call")),
    Target("a store write, loaded, client CPU, to redis-py's pipeline", 0.5, 0.25, "{:.3g} x", "store", _write),
    Target("store writes of a round", 1.0, 1.0, "{:.3g}", "store", _writes),
    Target("store writes of one `once`", 2.0, 2.0, "{:.3g}", "replay", _most("writes")),
    Target("a call goes on after SIGKILL, beyond the lease's TTL", 1.0, 1.0, "{:.2f} s", "survival",
           _survived("SIGKILL", 1.0)),
    Target("a call goes on after SIGTERM", 200.0, 200.0, "{:.0f} ms", "survival", _survived("SIGTERM", 1e3)),
)  # fmt: skip
"""In the order of the table."""
