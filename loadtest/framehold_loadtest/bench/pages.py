"""The tables of the benchmark, as a run prints them and as pages show them: which rows and columns each section has.

Law: only a whole run fills a page, so that no two of its figures on a page are of different runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framehold_loadtest.bench import targets
from framehold_loadtest.bench.replay import EFFECTS
from framehold_loadtest.bench.servers import BASELINE, DEFAULT
from framehold_loadtest.bench.store import LANES
from framehold_loadtest.bench.survival import TTL
from framehold_loadtest.table import (
    NONE,
    Column,
    Row,
    Table,
    computed,
    lines,
    markdown,
    middle,
    places,
    ratios,
    spread,
    text,
    turned,
    value,
)

PROGRAM = "python -m framehold_loadtest.bench"
"""The program in the marks that the parts go between."""
_US = 1e6
ERRORS = computed("errors", lambda row: str(sum(row["errors"].values())))
Section = Mapping[str, Any]


def described(section: Section) -> list[str]:
    """A note on what each server is that was called, and on each error."""
    notes = [f"{name}: {what}" for name, what in section.get("what", {}).items()
             if what and name not in section["not_available"]]  # fmt: skip
    errors = [f"{row['server']}: {count} x {kind}" for row in section["rows"] if "server" in row
              for kind, count in row["errors"].items()]  # fmt: skip
    return [*notes, *errors]


_CALLS = (
    text("server", "server"),
    places("us CPU/call router / own / Redis", "router_cpu", "server_cpu", "store_cpu"),
    ratios("CPU ratio", f"to.{BASELINE}.cpu"),
    middle("to default", f"to.{DEFAULT}.cpu"),
    value("calls/s", "rate"),
    ratios("ratio", f"to.{BASELINE}.rate"),
    value("busy server/load", "busy load_busy", "{:.0%} / {:.0%}"),
    ERRORS,
)
_KINDS = (
    text("handler", "kind"),
    value("us CPU/call", "ours", scale=_US),
    value("by hand, us", "theirs", scale=_US),
    ratios("ratio", "ratios"),
)
_SINGLE = (
    text("server", "server"),
    value("round p50, us", "p50", scale=_US),
    ratios("to sdk", f"to.{BASELINE}.p50"),
    middle("to default", f"to.{DEFAULT}.p50"),
    places("us CPU/call router / own / Redis", "router_cpu", "server_cpu", "store_cpu"),
    ERRORS,
)
_FRAMES = (
    computed("RSS per frame, KiB", lambda row: f"{row['rss_bytes'] / row['frames'] / 1024:.1f}"),
    value("resume p50, us", "resume_p50", "{:.1f}", _US),
    value("resume p99, us", "resume_p99", "{:.1f}", _US),
    value("longest young pause, ms", "young_pause", "{:.1f}", 1e3),
    value("young pause while parking, ms", "parking_young_pause", "{:.1f}", 1e3),
    value("full pause while parking, ms", "parking_full_pause", "{:.1f}", 1e3),
    value("cyclic objects per call", "cyclic_per_call", "{:.1f}"),
)
_STORE = (
    value("time per write", "wall_per_write", "{:.1f}", _US),
    value("client CPU per write", "cpu_per_write", "{:.1f}", _US),
    value("client CPU per write, redis-py's pipeline", "pipeline_cpu_per_write", "{:.1f}", _US),
    value("Redis CPU per write", "store_cpu_per_write", "{:.1f}", _US),
    value("Redis CPU per write, redis-py's pipeline", "pipeline_store_cpu_per_write", "{:.1f}", _US),
    ERRORS,
)
_RELAYS = (
    text("relay", "server"),
    value("us CPU/request", "server_cpu", "{:.1f}", _US / 2),
    ratios("to haproxy", "to_haproxy"),
    value("requests/s", "rate", "{:,.0f}", 2),
    value("busy relay/load", "busy load_busy", "{:.0%} / {:.0%}"),
    ERRORS,
)
_ONCES = (
    text("store", "store"),
    text("calls at once", "calls"),
    spread("us", "wall"),
    spread("us CPU", "cpu"),
    places("us CPU Redis", "store_cpu"),
    value("store writes", "writes", "{:.2f}"),
)


def _of_storm(head: str, cell: Callable[[Row], str]) -> Column:
    return computed(head, lambda row: cell(row) if row["calls"] > 1 else NONE)


_SURVIVAL = (
    computed("node ended by", lambda row: row["way"] + (f", {row['turns']} times" if row["turns"] > 1 else "")),
    value("calls at once", "calls", "{:,}"),
    value("first ms", "first", "{:,.0f}", 1e3),
    value("(slowest)", "slowest", "{:,.0f}", 1e3),
    _of_storm("last ms", lambda row: f"{row['last'] * 1e3:,.0f}"),
    _of_storm("calls/s", lambda row: f"{targets.resumed(row):,.0f}"),
    value("refused for a while", "refused", "{:,}"),
    value("lost", "lost", "{:,}"),
    value("effects twice", "twice", "{:,}"),
)


_TITLES = {
    "calls": "Two-round calls, {plan[connections]} connections, {plan[turns]} x {plan[seconds]} s in turn, medians"
    " (quartiles); ratios to sdk in the same turn; judged is that of CPU, the store's included",
    "kinds": "Calls by kind of handler, in one process without HTTP, {plan[turns]} x {plan[calls]} calls at each server"
    " in turn, medians (quartiles); ratios to the same handler written by hand for the SDK with JSON alone",
    "steps": "Functions of Framehold that a round enters, memory store (in so many files)",
    "single": "Rounds at one call at a time, one connection, {plan[turns]} x {plan[seconds]} s at each server in turn,"
    " medians; ratios of p50 to sdk in the same turn",
    "frames": "Parked frames, memory store, a fresh server each; {plan[resumes]} random resumes at each number, in"
    " turn",
    "store": f"Store writes, {LANES} concurrent writers against a Redis on the other core",
    "router": "Router: CPU beside HAProxy, {plan[connections]} connections, {plan[turns]} x {plan[seconds]} s in turn,"
    " medians (quartiles); ratios turn by turn",
    "replay": f"One once of an effect that does nothing, beyond running it directly, {EFFECTS} in a row in each call,"
    " {plan[repetitions]} repetitions in turn, medians (quartiles)",
    "survival": f"Calls whose node is gone, answered through a router, lease TTL {TTL:g} s: 2 rounds and 2 effects"
    " under once each; medians",
}
SECTIONS = tuple(_TITLES)
_COLUMNS = {
    "calls": _CALLS,
    "kinds": _KINDS,
    "single": _SINGLE,
    "router": _RELAYS,
    "replay": _ONCES,
    "survival": _SURVIVAL,
}
_NOTES = {
    "survival": (
        "refused for a while: answered with 503, and sent again half a second later, as any client does",
        "SIGTERM counts from the end of the process, SIGKILL from the signal",
    )
}


def tables(name: str, section: Section) -> list[Table]:
    """What a section shows."""
    rows, missing = section["rows"], section["not_available"]
    # A plan that it never came to has dashes.
    title = _TITLES[name].format(plan=defaultdict(lambda: NONE, section.get("plan", {})))
    if name in _COLUMNS:
        notes = [*described(section), *_NOTES.get(name, ())]
        return [Table(title, lines(_COLUMNS[name], rows), notes, missing)]
    if name == "steps":
        return [Table(title, _steps(rows), missing=missing)]
    if name == "frames":
        heads = [f"{row['frames']:,} frames" for row in rows]
        return [Table(title, turned(_FRAMES, rows, heads), missing=missing)]
    written = [Table(title, turned(_STORE, rows, ["us"]), missing=missing)]
    if rounds := section.get("rounds"):
        heads = ["round", *(str(number) for number in range(1, len(rounds) + 1))]
        written.append(Table("Store writes of each round of a call", [heads, ["writes", *map(str, rounds)]]))
    return written


def _steps(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each round, a column for each stretch."""
    found = [["round", *(row["stretch"] for row in rows if row["round"] == 1), "whole"]] if rows else []
    for number in sorted({row["round"] for row in rows}):
        of_round = [row for row in rows if row["round"] == number]
        whole = sum(row["entries"] for row in of_round)
        found.append([str(number), *("{entries} ({files})".format(**row) for row in of_round), str(whole)])
    return found


def parts(measured: Mapping[str, Any]) -> dict[str, str]:
    """The parts of pages: where and how it was measured, the targets, and all sections.

    Raises:
        ValueError: the run left one of them out.
    """
    left_out = [name for name in SECTIONS if name not in measured]
    if left_out:
        raise ValueError(f"the run left out {', '.join(left_out)}; nothing was written; run all sections for a page")
    took = {name: f"{seconds:.0f} s" for name, seconds in measured["seconds"].items()}
    return {
        "machine": markdown(("", ""), measured["machine"].items()),
        "seconds": markdown(("section", "took"), took.items()),
        "targets": targets.standing(measured).markdown(),
        **{name: "\n\n".join(table.markdown() for table in tables(name, measured[name])) for name in SECTIONS},
    }
