"""Every speed target beside what a run measured of it: met, missed, or not measured and why.

The law: no target is left out. One that this run has no figure for says so, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from framehold_loadtest.bench import targets
from framehold_loadtest.bench.report import NONE, Table
from framehold_loadtest.bench.targets import Target

_COLUMNS = ("what", "must", "stretch", "measured", "spread", "verdict", "section")
_NO_SERVER = "there is no server of our own; section server says what one could save at most"


@dataclass(frozen=True, slots=True)
class Seen:
    """A figure in its target's unit, and how it scattered within the run."""

    value: float
    spread: str = NONE


Look = Callable[[Mapping[str, Any]], Seen]
"""From a section to the figure; raises LookupError, StopIteration or ValueError where the section has none."""


@dataclass(frozen=True, slots=True)
class Line:
    """One target, the section that measures it, and how; or why nothing measures it. `form` writes a figure."""

    what: str
    target: Target
    form: str
    section: str
    look: Look | str

    def cells(self, measured: Mapping[str, Any]) -> list[str]:
        """Its cells of the table."""
        must, stretch = (self.form.format(bound) for bound in (self.target.must, self.target.stretch))
        found = self._seen(measured)
        asked = [self.what, must, NONE if self.target.must == self.target.stretch else stretch]
        if isinstance(found, str):
            return [*asked, f"not measured: {found}", NONE, NONE, self.section]
        return [*asked, self.form.format(found.value), found.spread, self.target.judge(found.value), self.section]

    def _seen(self, measured: Mapping[str, Any]) -> Seen | str:
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


def standing(measured: Mapping[str, Any]) -> Table:
    """All targets and what the run says of each."""
    return Table("", [_COLUMNS, *(line.cells(measured) for line in LINES)])


def _row(section: Mapping[str, Any], **wanted: Any) -> Mapping[str, Any]:
    return next(row for row in section["rows"] if all(row[key] == value for key, value in wanted.items()))


def _range(values: Sequence[float], form: str = "{:.2f}") -> str:
    return f"{form.format(min(values))} to {form.format(max(values))}"


def _calls(server: str) -> Look:
    def look(section: Mapping[str, Any]) -> Seen:
        row = _row(section, server=server)
        if row["cpu_ratio"] is None:
            raise LookupError("nothing to compare with")
        return Seen(row["cpu_ratio"], _range(row["cpu_ratios"]))

    return look


def _weight(section: Mapping[str, Any]) -> Seen:
    each = [row["rss_bytes"] / row["frames"] / 1024 for row in section["rows"]]
    return Seen(
        each[-1], ", ".join(f"{kib:.1f} at {row['frames']:,}" for kib, row in zip(each, section["rows"], strict=True))
    )


def _growth(name: str) -> Look:
    def look(section: Mapping[str, Any]) -> Seen:
        first, *others = section["rows"]
        found = [(row["frames"], row[name] / first[name] - 1) for row in others]
        return Seen(found[-1][1], ", ".join(f"{growth:+.0%} at {frames:,}" for frames, growth in found))

    return look


def _pause(section: Mapping[str, Any]) -> Seen:
    resuming, parking = (
        max(row[name] * 1e3 for row in section["rows"]) for name in ("young_pause", "parking_young_pause")
    )
    return Seen(max(resuming, parking), f"{resuming:.1f} while resuming, {parking:.1f} while parking")


def _cyclic(section: Mapping[str, Any]) -> Seen:
    return Seen(max(row["cyclic_per_call"] for row in section["rows"]))


def _write(section: Mapping[str, Any]) -> Seen:
    (row,) = section["rows"]
    return Seen(row["cpu_per_write"] * 1e6, _range([cpu * 1e6 for cpu in row["slices"]], "{:.1f}"))


def _writes(section: Mapping[str, Any]) -> Seen:
    return Seen(max(section["rounds"]), f"each of {len(section['rounds'])} rounds")


def _relay(section: Mapping[str, Any]) -> Seen:
    ratio = _row(section["relays"], relay="framehold router")["ratios"]["haproxy"]
    return Seen(ratio["middle"], f"{ratio['low']:.2f} to {ratio['high']:.2f}")


def _added(section: Mapping[str, Any]) -> Seen:
    worst = max((hop["added"] for hop in section["routed"]["hops"]), key=median)
    return Seen(median(worst) * 1e3, _range([seconds * 1e3 for seconds in worst]))


def _onces(section: Mapping[str, Any]) -> Seen:
    return Seen(max(row["writes"] for row in section["once"]["rows"]))


def _survived(way: str, scale: float) -> Look:
    def look(section: Mapping[str, Any]) -> Seen:
        row = _row(section, way=way, calls=1)
        beyond = section["ttl"] if way == "SIGKILL" else 0.0
        middle, slowest = ((row[name] - beyond) * scale for name in ("first", "slowest"))
        return Seen(slowest, f"median {middle:.3g} of {row['turns']}")

    return look


def _metrics(section: Mapping[str, Any]) -> Seen:
    row = _row(section, figure="calls per second")
    return Seen(row["median"], _range([row["lower"], row["upper"]], "{:+.1%}"))


def _listing(section: Mapping[str, Any]) -> Seen:
    row = _row(section, what="first page")
    return Seen(row["seconds_p50"] * 1e3, f"slowest {row['seconds_max'] * 1e3:.0f}")


_MEMORY, _REDIS = "framehold memory", "framehold redis"
LINES = (
    Line("node without a store, uvicorn, to the SDK", targets.CALLS[_MEMORY], "{:.3g} x", "calls", _calls(_MEMORY)),
    Line("node without a store, own server, likewise", targets.OWN_SERVER[_MEMORY], "{:.3g} x", "calls", _NO_SERVER),
    Line("node with Redis, uvicorn, likewise", targets.CALLS[_REDIS], "{:.3g} x", "calls", _calls(_REDIS)),
    Line("node with Redis, own server, likewise", targets.OWN_SERVER[_REDIS], "{:.3g} x", "calls", _NO_SERVER),
    Line("a parked frame, RSS, reply copy included", targets.FRAME_KIB, "{:.3g} KiB", "frames", _weight),
    Line("resume p50, few to most frames", targets.RESUME_GROWTH, "{:+.0%}", "frames", _growth("resume_p50")),
    Line("resume p99, few to most frames", targets.RESUME_GROWTH, "{:+.0%}", "frames", _growth("resume_p99")),
    Line("longest young pause of the collector", targets.YOUNG_PAUSE_MS, "{:.3g} ms", "frames", _pause),
    Line("cyclic objects per call", targets.CYCLIC_PER_CALL, "{:.3g}", "frames", _cyclic),
    Line("a store write, loaded, client CPU", targets.STORE_WRITE_US, "{:.3g} us", "store", _write),
    Line("store writes of a round", targets.WRITES_PER_ROUND, "{:.3g}", "store", _writes),
    Line("router to HAProxy, CPU, same hash", targets.ROUTER_CPU, "{:.3g} x", "router", _relay),
    Line("what the router adds to a round's median", targets.ROUTER_ADDED_MS, "{:.2f} ms", "router", _added),
    Line("store writes of one `once`", targets.ONCE_WRITES, "{:.3g}", "replay", _onces),
    Line("a call goes on after SIGKILL, beyond the lease's TTL", targets.RESUME_AFTER_DEATH, "{:.2f} s", "survival",
         _survived("SIGKILL", 1.0)),
    Line("a call goes on after SIGTERM", targets.RESUME_AFTER_DRAIN_MS, "{:.0f} ms", "survival",
         _survived("SIGTERM", 1e3)),
    Line("what metrics take of calls per second", targets.METRICS_SLOWDOWN, "{:+.1%}", "metrics", _metrics),
    Line("first page of a fleet's calls", targets.LEASES_FIRST_PAGE_MS, "{:.0f} ms", "leases", _listing),
)  # fmt: skip
"""In the order of the table."""
