"""The tables of a run: figures with their units, each beside its target where it has one. For a terminal, or a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from framehold_loadtest import page
from framehold_loadtest.bench import targets
from framehold_loadtest.bench.targets import Target

NONE = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """What a section shows: lines of cells, the first one its columns; none where nothing could be measured.

    `notes` explain or add to it; `missing` says by name what was not available, and why.
    """

    title: str
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """For a terminal."""
        below = [f"  {line}" for line in self._below()]
        return "\n".join(["", self.title, *_aligned(self.lines), *below])

    def markdown(self) -> str:
        """For a page: the title in bold, what belongs to it as a list."""
        parts = [f"**{self.title}**"] if self.title else []
        if self.lines:
            columns, *rows = self.lines
            parts.append(page.table(columns, rows))
        below = "\n".join(f"- {line}" for line in self._below())
        return "\n\n".join([*parts, below] if below else parts)

    def _below(self) -> list[str]:
        return [*self.notes, *(f"{name}: not available: {reason}" for name, reason in self.missing.items())]


def head(facts: Mapping[str, str]) -> str:
    """The lines that say what the figures were measured on."""
    width = max(map(len, facts))
    return "\n".join(f"{label:<{width}}  {fact}" for label, fact in facts.items())


def calls(section: Mapping[str, Any]) -> list[Table]:
    """The table of section `calls`."""
    plan = section["plan"]
    title = (
        f"Two-round calls, {section['connections']} connections, {plan['repetitions']} x {plan['seconds']:g} s"
        " interleaved, medians; ratios to sdk in the same repetition; judged is that of CPU"
    )
    columns = ["server", "us CPU/call", "CPU ratio", "(range)", "calls/s", "ratio", "(range)", "us store CPU/call",
               "round 1 p50/p99 ms", "round 2 p50/p99 ms", "busy server/load", "errors", "target"]  # fmt: skip
    lines = [_call_cells(row) for row in section["rows"]]
    notes = [f"{row['server']}: {count} x {kind}" for row in section["rows"] for kind, count in row["errors"].items()]
    return [Table(title, [columns, *lines], notes, section["not_available"])]


def frames(section: Mapping[str, Any]) -> list[Table]:
    """The table of section `frames`, one column for each number of frames."""
    plan, rows = section["plan"], section["rows"]
    resumes = plan["batches"] * plan["batch_size"]
    title = f"Parked frames, memory store, a fresh server each; {resumes} random resumes at each number, in turn"
    lines: list[list[str]] = []
    if rows:
        first, most = rows[0], rows[-1]
        lines.append(["", *(f"{row['frames']:,} frames" for row in rows), "target"])
        lines.append(_line("RSS difference, MiB", (row["rss_bytes"] / 2**20 for row in rows)))
        lines.append(_line("RSS per frame, KiB", map(_kib_per_frame, rows), _kib_per_frame(most), targets.FRAME_KIB))
        for name in ("resume_p50", "resume_p99"):
            lines.append(_growth_line(name, rows, most[name] / first[name] - 1))
        lines.append(_line("resume longest, us", (row["resume_max"] * 1e6 for row in rows)))
        for name in ("round_p50", "round_p99"):
            lines.append(_line(f"{name[:5]} over HTTP {name[6:]}, us", (row[name] * 1e6 for row in rows)))
        pause = max(row["young_pause"] for row in rows) * 1e3
        young = (row["young_pause"] * 1e3 for row in rows)
        lines.append(_line("longest young pause, ms", young, pause, targets.YOUNG_PAUSE_MS))
        lines.append(_line("longest full pause, ms", (row["full_pause"] * 1e3 for row in rows)))
        parking = [row["parking_young_pause"] * 1e3 for row in rows]
        lines.append(_line("young pause while parking, ms", parking, max(parking), targets.YOUNG_PAUSE_MS))
        lines.append(_line("full pause while parking, ms", (row["parking_full_pause"] * 1e3 for row in rows)))
        cyclic = max(row["cyclic_per_call"] for row in rows)
        cells = (row["cyclic_per_call"] for row in rows)
        lines.append(_line("cyclic objects per call", cells, cyclic, targets.CYCLIC_PER_CALL))
        lines.append(["collector thresholds", *(str(tuple(row["thresholds"])) for row in rows), NONE])
        lines.append(["objects frozen", *(f"{row['frozen']:,}" for row in rows), NONE])
    return [Table(title, lines, missing=section["not_available"])]


def store(section: Mapping[str, Any]) -> list[Table]:
    """The table of section `store`."""
    lines: list[list[str]] = []
    title = "Store writes"
    for row in section["rows"]:
        title += f", {row['writers']} concurrent writers against a Redis on the other core, {row['writes']:,} writes"
        wall, cpu, redis = (row[name] * 1e6 for name in ("wall_per_write", "cpu_per_write", "store_cpu_per_write"))
        lines.append(["", "us", "target"])
        lines.append(_line("time per write", [wall]))
        lines.append(_line("client CPU per write", [cpu], cpu, targets.STORE_WRITE_US))
        lines.append(_line("client CPU per write, least of ten parts", [min(row["slices"]) * 1e6]))
        lines.append(_line("client CPU per write, most of ten parts", [max(row["slices"]) * 1e6]))
        lines.append(_line("Redis CPU per write", [redis]))
        lines.append(_line("one write, p50", [row["p50"] * 1e6]))
        lines.append(_line("one write, p99", [row["p99"] * 1e6]))
        lines.append(["errors", str(sum(row["errors"].values())), NONE])
    return [Table(title, lines, missing=section["not_available"]), *_rounds(section.get("rounds", []))]


def quartiles(spread: Mapping[str, float] | None, digits: int, scale: float = 1e6) -> str:
    """A middle and its quartiles; of seconds as microseconds."""
    if spread is None:
        return NONE
    middle, low, high = (f"{spread[name] * scale:,.{digits}f}" for name in ("middle", "low", "high"))
    return f"{middle} ({low}-{high})"


def _rounds(rounds: Sequence[int]) -> list[Table]:
    if not rounds:
        return []
    judged = verdict(max(rounds), targets.WRITES_PER_ROUND, "")
    lines = [["round", *map(str, range(1, len(rounds) + 1)), "target"], ["writes", *map(str, rounds), judged]]
    return [Table("Store writes of each round of a call", lines)]


def _call_cells(row: Mapping[str, Any]) -> list[str]:
    return [
        row["server"],
        f"{row['cpu_per_call'] * 1e6:.0f}",
        *ratios(row["cpu_ratios"]),
        f"{row['calls_per_second']:.0f}",
        *ratios(row["ratios"]),
        f"{row['store_cpu_per_call'] * 1e6:.0f}" if row["store_cpu_per_call"] else NONE,
        f"{row['first_p50'] * 1e3:.1f} / {row['first_p99'] * 1e3:.1f}",
        f"{row['second_p50'] * 1e3:.1f} / {row['second_p99'] * 1e3:.1f}",
        f"{row['server_busy']:.0%} / {row['load_busy']:.0%}",
        str(sum(row["errors"].values())),
        verdict(row["cpu_ratio"], targets.CALLS.get(row["server"]), " x"),
    ]


def ratios(found: Sequence[float]) -> list[str]:
    """The median of some ratios, and how far they lie apart."""
    return [f"{median(found):.2f}", f"{min(found):.2f}-{max(found):.2f}"] if found else [NONE, NONE]


def _growth_line(name: str, rows: Sequence[Mapping[str, Any]], growth: float) -> list[str]:
    judged = f"{growth:+.0%}: {verdict(growth, targets.RESUME_GROWTH, '', percent=True)}"
    return [f"{name.replace('_', ' ')}, us", *(f"{row[name] * 1e6:.1f}" for row in rows), judged]


def _kib_per_frame(row: Mapping[str, Any]) -> float:
    return float(row["rss_bytes"] / row["frames"] / 1024)


def _line(label: str, values: Any, value: float | None = None, target: Target | None = None) -> list[str]:
    return [label, *(f"{cell:.1f}" for cell in values), verdict(value, target, "")]


def verdict(value: float | None, target: Target | None, unit: str, *, percent: bool = False) -> str:
    """What was asked, and how the value stands to it."""
    if value is None or target is None:
        return NONE
    must, stretch = (f"{bound:+.0%}" if percent else f"{bound:g}{unit}" for bound in (target.must, target.stretch))
    asked = f"must {must}" if target.must == target.stretch else f"must {must}, stretch {stretch}"
    return f"{asked}: {target.judge(value)}"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))] if lines else []
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
