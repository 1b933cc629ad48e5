"""The tables of the benchmark, as a run prints them and as pages show them: which rows and columns each section has.

Law: only a whole run fills a page, so that no two of its figures on a page are of different runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from framehold_loadtest import marked_page
from framehold_loadtest.bench.lab.servers import MODES
from framehold_loadtest.bench.tables import replay, targets
from framehold_loadtest.bench.tables.table import (
    ERRORS,
    LATENCIES,
    NONE,
    Column,
    Row,
    Table,
    computed,
    errors_of,
    lines,
    middle,
    ratios,
    spread,
    text,
    unless_zero,
    value,
)
from framehold_loadtest.bench.tables.targets import Target

PROGRAM = "python -m framehold_loadtest.bench"
"""The program in the marks that the parts go between."""
_MIB = 2**20
_ROUTER = "framehold router"


def _call_verdict(row: Row) -> str:
    target = targets.CALLS.get(row["server"])
    return target.verdict(row["cpu_ratio"], " x") if target else NONE


def _kind_verdict(row: Row) -> str:
    target = targets.KINDS.get(row["kind"])
    return target.verdict(median(row["ratios"]), " x") if target else NONE


def _frame_kib(row: Row) -> float:
    return float(row["rss_bytes"] / row["frames"] / 1024)


def _growth(rows: Sequence[Row], name: str, target: Target) -> str:
    growth = rows[-1][name] / rows[0][name] - 1
    return f"{growth:+.0%}: {target.verdict(growth, percent=True)}"


def _pause(rows: Sequence[Row], name: str) -> str:
    return targets.YOUNG_PAUSE.verdict(max(row[name] for row in rows) * 1e3)


def _single_verdict(row: Row) -> str:
    judged = row["server"] == targets.SINGLE_JUDGED
    return targets.SINGLE.verdict(median(row["ratios"]), " x") if judged else NONE


def _places(*names: str) -> Callable[[Row], str]:
    """What each of several processes took, in microseconds; a dash for one that took no part."""
    return lambda row: " / ".join(f"{row[name] * 1e6:.0f}" if row[name] else NONE for name in names)


def _relay_verdict(row: Row) -> str:
    to_haproxy = row["ratios"].get("haproxy")
    judged = row["relay"] == _ROUTER and to_haproxy
    return targets.ROUTER_CPU.verdict(to_haproxy["middle"], " x") if judged else NONE


def _survival_verdict(row: Row, ttl: float) -> str:
    if row["way"] == "SIGTERM":
        return targets.AFTER_DRAIN.verdict(row["slowest"] * 1e3, " ms")
    if row["calls"] > 1:
        return targets.STORM.verdict(targets.resumed(row), " calls/s")
    return targets.AFTER_DEATH.verdict(row["slowest"], " s", beyond=ttl)


_CALLS = (
    text("server", "server"),
    value("us CPU/call", "cpu_per_call", scale=1e6),
    ratios("CPU ratio", "cpu_ratios"),
    middle("to default", "default_cpu_ratios"),
    value("calls/s", "calls_per_second"),
    ratios("ratio", "ratios"),
    unless_zero("us store CPU/call", "store_cpu_per_call"),
    *LATENCIES,
    value("busy server/load", "server_busy load_busy", "{:.0%} / {:.0%}"),
    ERRORS,
    computed("target", _call_verdict),
)
_KINDS = (
    text("handler", "kind"),
    value("us CPU/call", "ours", scale=1e6),
    value("by hand, us", "theirs", scale=1e6),
    ratios("ratio", "ratios"),
    computed("target", _kind_verdict),
)
_SINGLE = (
    text("server", "server"),
    value("round p50, us", "p50", scale=1e6),
    ratios("to sdk", "ratios"),
    middle("to default", "default_ratios"),
    computed("us CPU/round router / own / Redis", _places("router_cpu", "server_cpu", "store_cpu")),
    computed("target", _single_verdict),
)
_FRAMES: tuple[tuple[Column, Callable[[Sequence[Row]], str] | None], ...] = (
    (value("RSS difference, MiB", "rss_bytes", "{:.1f}", 1 / _MIB), None),
    (computed("RSS per frame, KiB", lambda row: f"{_frame_kib(row):.1f}"),
     lambda rows: targets.FRAME.verdict(_frame_kib(rows[-1]))),
    (value("resume p50, us", "resume_p50", "{:.1f}", 1e6),
     lambda rows: _growth(rows, "resume_p50", targets.RESUME_P50)),
    (value("resume p99, us", "resume_p99", "{:.1f}", 1e6),
     lambda rows: _growth(rows, "resume_p99", targets.RESUME_P99)),
    (value("resume longest, us", "resume_max", "{:.1f}", 1e6), None),
    (value("round over HTTP p50, us", "round_p50", "{:.1f}", 1e6), None),
    (value("round over HTTP p99, us", "round_p99", "{:.1f}", 1e6), None),
    (value("longest young pause, ms", "young_pause", "{:.1f}", 1e3), lambda rows: _pause(rows, "young_pause")),
    (value("longest full pause, ms", "full_pause", "{:.1f}", 1e3), None),
    (value("young pause while parking, ms", "parking_young_pause", "{:.1f}", 1e3),
     lambda rows: _pause(rows, "parking_young_pause")),
    (value("full pause while parking, ms", "parking_full_pause", "{:.1f}", 1e3), None),
    (value("cyclic objects per call", "cyclic_per_call", "{:.1f}"),
     lambda rows: targets.CYCLIC.verdict(max(row["cyclic_per_call"] for row in rows))),
    (computed("collector thresholds", lambda row: str(tuple(row["thresholds"]))), None),
    (value("objects frozen", "frozen", "{:,}"), None),
)  # fmt: skip
"""The lines of the table, each with its verdict if it has a target."""
_STORE = (
    value("time per write", "wall_per_write", "{:.1f}", 1e6),
    value("client CPU per write", "cpu_per_write", "{:.1f}", 1e6),
    computed("client CPU per write, least of ten parts", lambda row: f"{min(row['slices']) * 1e6:.1f}"),
    computed("client CPU per write, most of ten parts", lambda row: f"{max(row['slices']) * 1e6:.1f}"),
    value("client CPU per write, redis-py's pipeline", "pipeline_cpu_per_write", "{:.1f}", 1e6),
    value("client CPU per write, one at a time", "lone_cpu_per_write", "{:.1f}", 1e6),
    value("Redis CPU per write", "store_cpu_per_write", "{:.1f}", 1e6),
    value("Redis CPU per write, redis-py's pipeline", "pipeline_store_cpu_per_write", "{:.1f}", 1e6),
    value("Redis CPU per write, one at a time", "lone_store_cpu_per_write", "{:.1f}", 1e6),
    value("one write, p50", "p50", "{:.1f}", 1e6),
    value("one write, p99", "p99", "{:.1f}", 1e6),
    value("one write, p50, one at a time", "lone_p50", "{:.1f}", 1e6),
    ERRORS,
)
_HOPS = (
    value("", "round", "round {}"),
    value("straight, us", "straight", scale=1e6),
    value("through the router, us", "routed", scale=1e6),
    computed("added, ms", lambda row: f"{median(row['added']) * 1e3:.2f}"),
    computed("(range)", lambda row: f"{min(row['added']) * 1e3:.2f} to {max(row['added']) * 1e3:.2f}"),
    computed("target", lambda row: targets.ROUTER_ADDED.verdict(median(row["added"]) * 1e3, " ms")),
)
_ROUTED = (
    text("", "way"),
    value("calls/s", "calls_per_second"),
    value("calls per CPU second", "calls_per_cpu_second"),
    ratios("ratio", "ratios"),
    computed("us CPU/call router / node / Redis", _places("router_cpu", "node_cpu", "store_cpu")),
    *LATENCIES,
    ERRORS,
)
_RELAYS = (
    text("relay", "relay"),
    spread("us CPU/request", "cpu_per_request", 1),
    spread("to haproxy", "ratios.haproxy", 2, 1),
    spread("to the router", f"ratios.{_ROUTER}", 2, 1),
    value("requests/s", "requests_per_second", "{:,.0f}"),
    value("busy relay/nodes/load", "busy upstream_busy load_busy", "{:.0%} / {:.0%} / {:.0%}"),
    computed("target", _relay_verdict),
)
_SURVIVAL = (
    computed("node ended by", lambda row: row["way"] + (f", {row['turns']} times" if row["turns"] > 1 else "")),
    value("calls at once", "calls", "{:,}"),
    value("first ms", "first", "{:,.0f}", 1e3),
    value("(slowest)", "slowest", "{:,.0f}", 1e3),
    computed("last ms", lambda row: f"{row['last'] * 1e3:,.0f}" if row["calls"] > 1 else NONE),
    computed("calls/s", lambda row: f"{targets.resumed(row):,.0f}" if row["calls"] > 1 else NONE),
    value("refused for a while", "refused", "{:,}"),
    value("lost", "lost", "{:,}"),
    value("effects twice", "twice", "{:,}"),
    computed("store scripts/call", lambda row: f"{row['scripts']:.1f}" if row["calls"] > 1 else NONE),
    value("RSS MiB before/peak", "rss_before rss_peak", "{:,.0f}/{:,.0f}", 1 / _MIB),
)


def calls(section: Mapping[str, Any]) -> list[Table]:
    """The table of section `calls`."""
    title = (
        "Two-round calls, {connections} connections, {plan[turns]} x {plan[seconds]:g} s in"
        " turn, medians (quartiles); ratios to sdk in the same turn; judged is that of CPU, the store's included"
    ).format(**section)
    rows = section["rows"]
    return [Table(title, lines(_CALLS, rows), [*MODES, *errors_of(rows, "server")], section["not_available"])]


def kinds(section: Mapping[str, Any]) -> list[Table]:
    """The table of section `kinds`."""
    title = (
        "Calls by kind of handler, in one process without HTTP, {plan[turns]} x {plan[calls]} calls at each server in"
        " turn, medians (quartiles); ratios to the same handler written by hand for the SDK with JSON alone"
    ).format(**section)
    rows = section["rows"]
    return [Table(title, lines(_KINDS, rows) if rows else [], missing=section["not_available"])]


def single(section: Mapping[str, Any]) -> list[Table]:
    """The table of section `single`."""
    title = (
        "Rounds at one call at a time, one connection, {plan[turns]} x {plan[calls]} calls at each server in turn,"
        " medians; ratios of p50 to sdk in the same turn"
    ).format(**section)
    notes = [
        *MODES,
        "everysec, always: appendfsync of the Redis, on the same machine; its file is in the system's temporary folder",
    ]
    rows = section["rows"]
    return [Table(title, lines(_SINGLE, rows) if rows else [], notes, section["not_available"])]


def steps(section: Mapping[str, Any]) -> list[Table]:
    """The table of section `steps`: a line for each round, a column for each stretch."""
    title, rows = "Functions of Framehold that a round enters, memory store (in so many files)", section["rows"]
    found: list[list[str]] = []
    if rows:
        stretches = [row["stretch"] for row in rows if row["round"] == 1]
        found.append(["round", *stretches, "whole", "target"])
        for number in sorted({row["round"] for row in rows}):
            of_round = [row for row in rows if row["round"] == number]
            whole = sum(row["entries"] for row in of_round)
            judged = targets.STEPS.verdict(whole) if number > 1 else NONE
            found.append([str(number), *("{entries} ({files})".format(**row) for row in of_round), str(whole), judged])
    return [Table(title, found, missing=section["not_available"])]


def frames(section: Mapping[str, Any]) -> list[Table]:
    """The table of section `frames`: a column for each number of frames."""
    plan, rows = section["plan"], section["rows"]
    resumes = plan["batches"] * plan["batch_size"]
    title = f"Parked frames, memory store, a fresh server each; {resumes} random resumes at each number, in turn"
    found: list[list[str]] = []
    if rows:
        found.append(["", *(f"{row['frames']:,} frames" for row in rows), "target"])
        found += [
            [column.heads[0], *(column.cells(row)[0] for row in rows), judge(rows) if judge else NONE]
            for column, judge in _FRAMES
        ]
    return [Table(title, found, missing=section["not_available"])]


def store(section: Mapping[str, Any]) -> list[Table]:
    """The tables of section `store`: what a write costs, and how many writes a round makes."""
    title, found = "Store writes", []
    for row in section["rows"]:
        title += ", {writers} concurrent writers against a Redis on the other core, {writes:,} writes".format(**row)
        ratio = median(row["ratios"])
        judged = f"{ratio:.2f} x to redis-py's pipeline: {targets.STORE_WRITE.verdict(ratio, ' x')}"
        found.append(["", "us", "target"])
        found += [[column.heads[0], column.cells(row)[0], judged if column is _STORE[1] else NONE] for column in _STORE]
    tables = [Table(title, found, missing=section["not_available"])]
    if rounds := section.get("rounds", []):
        counts = ["writes", *map(str, rounds), targets.WRITES.verdict(max(rounds))]
        heads = ["round", *(str(number) for number in range(1, len(rounds) + 1)), "target"]
        tables.append(Table("Store writes of each round of a call", [heads, counts]))
    return tables


def router(section: Mapping[str, Any]) -> list[Table]:
    """The tables of section `router`: what it adds to a round, what it takes of a core, and other relays."""
    tables = []
    if found := section["routed"]:
        hops = (
            "Router: latency of a real node with Redis, one connection and one request at a time, {plan[batches]} x"
            " {plan[batch_size]} calls each way in turn, medians"
        ).format(**found)
        calls = (
            "Router: two-round calls of a real node with Redis, router and node on one core, {connections}"
            " connections, {plan[repetitions]} x {plan[seconds]:g} s interleaved, medians"
        ).format(**found)
        tables.append(Table(hops, lines(_HOPS, found["hops"])))
        tables.append(Table(calls, lines(_ROUTED, found["rows"]), errors_of(found["rows"], "way")))
    return [*tables, relays(section["relays"], section["not_available"])]


def relays(section: Mapping[str, Any], missing: Mapping[str, str]) -> Table:
    """The table of the router beside other relays."""
    title, rows = "Router: CPU beside other relays", section.get("rows", [])
    if rows:
        title += (
            ", {connections} connections, {turns} x {requests:,} requests each in short"
            " turns, all answered with 200; medians (quartiles), ratios turn by turn"
        ).format(**section)
    return Table(title, lines(_RELAYS, rows) if rows else [], missing=missing)


def survival(section: Mapping[str, Any]) -> list[Table]:
    """The table of section `survival`: a line for each way to end a node."""
    title = (
        "Calls whose node is gone, answered through a router, lease TTL {ttl:g} s: 2 rounds and 2 effects"
        " under once each; medians"
    ).format(**section)
    notes = [
        "refused for a while: answered with 503, and sent again half a second later, as any client does",
        "SIGTERM counts from the end of the process, SIGKILL from the signal",
    ]
    target = computed("target", lambda row: _survival_verdict(row, section["ttl"]))
    rows = section["rows"]
    return [Table(title, lines((*_SURVIVAL, target), rows) if rows else [], notes, section["not_available"])]


TABLES: dict[str, Callable[[Mapping[str, Any]], Sequence[Table]]] = {
    "calls": calls,
    "kinds": kinds,
    "steps": steps,
    "single": single,
    "frames": frames,
    "store": store,
    "router": router,
    "replay": replay.replay,
    "survival": survival,
}
"""What each section shows."""


def parts(measured: Mapping[str, Any]) -> dict[str, str]:
    """The parts of pages: where and how it was measured, the targets, and all sections.

    Raises:
        ValueError: the run left one of them out.
    """
    left_out = [name for name in TABLES if name not in measured]
    if left_out:
        raise ValueError(f"the run left out {', '.join(left_out)}; nothing was written; run all sections for a page")
    took = {name: f"{seconds:.0f} s" for name, seconds in measured["seconds"].items()}
    return {
        "machine": marked_page.table(("", ""), measured["machine"].items()),
        "seconds": marked_page.table(("section", "took"), took.items()),
        "targets": targets.standing(measured).markdown(),
        **{name: "\n\n".join(table.markdown() for table in show(measured[name])) for name, show in TABLES.items()},
    }
