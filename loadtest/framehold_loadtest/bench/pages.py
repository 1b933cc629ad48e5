"""The tables of the benchmark, as a run prints them and as pages show them: which rows and columns each section has.

Law: only a whole run fills a page, so that no two of its figures on a page are of different runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framehold_loadtest.bench import targets
from framehold_loadtest.bench.replay import EFFECTS
from framehold_loadtest.bench.servers import BASELINE, DEFAULT
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
_MIB = 2**20
_US = 1e6
LATENCIES = (
    value("round 1 p50/p99 ms", "first_p50 first_p99", "{:.1f} / {:.1f}", 1e3),
    value("round 2 p50/p99 ms", "second_p50 second_p99", "{:.1f} / {:.1f}", 1e3),
)
ERRORS = computed("errors", lambda row: str(sum(row["errors"].values())))
Section = Mapping[str, Any]


def errors_of(rows: Sequence[Row], name: str) -> list[str]:
    """A note for each kind of error of each row, which is known by its value of `name`."""
    return [f"{row[name]}: {count} x {kind}" for row in rows for kind, count in row["errors"].items()]


def described(section: Section) -> list[str]:
    """A note on what each server is that was called, and on each error."""
    notes = [f"{name}: {what}" for name, what in section["what"].items()
             if what and name not in section["not_available"]]  # fmt: skip
    return [*notes, *errors_of(section["rows"], "server")]


_CALLS = (
    text("server", "server"),
    places("us CPU/call router / own / Redis", "router_cpu", "server_cpu", "store_cpu"),
    ratios("CPU ratio", f"to.{BASELINE}.cpu"),
    middle("to default", f"to.{DEFAULT}.cpu"),
    value("calls/s", "rate"),
    ratios("ratio", f"to.{BASELINE}.rate"),
    *LATENCIES,
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
    value("RSS difference, MiB", "rss_bytes", "{:.1f}", 1 / _MIB),
    computed("RSS per frame, KiB", lambda row: f"{row['rss_bytes'] / row['frames'] / 1024:.1f}"),
    value("resume p50, us", "resume_p50", "{:.1f}", _US),
    value("resume p99, us", "resume_p99", "{:.1f}", _US),
    value("resume longest, us", "resume_max", "{:.1f}", _US),
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
    spread("us", "wall", 0),
    spread("us CPU", "cpu", 0),
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


def calls(section: Section) -> Table:
    """Whole calls under load."""
    title = (
        "Two-round calls, {connections} connections, {turns} x {seconds:g} s in turn, medians (quartiles); ratios to"
        " sdk in the same turn; judged is that of CPU, the store's included"
    ).format(**section["plan"])
    return Table(title, lines(_CALLS, section["rows"]), described(section), section["not_available"])


def kinds(section: Section) -> Table:
    """Calls by kind of handler."""
    title = (
        "Calls by kind of handler, in one process without HTTP, {plan[turns]} x {plan[calls]} calls at each server in"
        " turn, medians (quartiles); ratios to the same handler written by hand for the SDK with JSON alone"
    ).format_map(_known(section))
    return Table(title, lines(_KINDS, section["rows"]), missing=section["not_available"])


def single(section: Section) -> Table:
    """Rounds at one call at a time."""
    title = (
        "Rounds at one call at a time, one connection, {turns} x {seconds:g} s at each server in turn, medians; ratios"
        " of p50 to sdk in the same turn"
    ).format(**section["plan"])
    return Table(title, lines(_SINGLE, section["rows"]), described(section), section["not_available"])


def steps(section: Section) -> Table:
    """A line for each round, a column for each stretch."""
    title, rows = "Functions of Framehold that a round enters, memory store (in so many files)", section["rows"]
    numbers = sorted({row["round"] for row in rows})
    found = [["round", *(row["stretch"] for row in rows if row["round"] == 1), "whole"]] if rows else []
    for of_round in ([row for row in rows if row["round"] == number] for number in numbers):
        whole = sum(row["entries"] for row in of_round)
        cells = ("{entries} ({files})".format(**row) for row in of_round)
        found.append([str(of_round[0]["round"]), *cells, str(whole)])
    return Table(title, found, missing=section["not_available"])


def frames(section: Section) -> Table:
    """A column for each number of frames."""
    title = (
        "Parked frames, memory store, a fresh server each; {plan[resumes]} random resumes at each number, in turn"
    ).format_map(_known(section))
    rows = section["rows"]
    return Table(title, turned(_FRAMES, rows, [f"{row['frames']:,} frames" for row in rows]),
                 missing=section["not_available"])  # fmt: skip


def store(section: Section) -> list[Table]:
    """What a write costs, and how many writes a round makes."""
    title, rows, rounds = "Store writes", section["rows"], section.get("rounds", [])
    for row in rows:
        title += ", {writers} concurrent writers against a Redis on the other core, {writes:,} writes".format(**row)
    tables = [Table(title, turned(_STORE, rows, ["us"]), missing=section["not_available"])]
    if rounds:
        heads = ["round", *(str(number) for number in range(1, len(rounds) + 1))]
        tables.append(Table("Store writes of each round of a call", [heads, ["writes", *map(str, rounds)]]))
    return tables


def router(section: Section) -> Table:
    """The router beside HAProxy."""
    title = (
        "Router: CPU beside HAProxy, {connections} connections, {turns} x {seconds:g} s in turn, medians (quartiles);"
        " ratios turn by turn"
    ).format(**section["plan"])
    return Table(title, lines(_RELAYS, section["rows"]), described(section), section["not_available"])


def replay(section: Section) -> Table:
    """The cost of `once`."""
    title = (
        f"One once of an effect that does nothing, beyond running it directly, {EFFECTS} in a row in each call,"
        " {plan[repetitions]} repetitions in turn, medians (quartiles)"
    ).format_map(_known(section))
    return Table(title, lines(_ONCES, section["rows"]), missing=section["not_available"])


def survival(section: Section) -> Table:
    """A line for each way to end a node."""
    title = (
        "Calls whose node is gone, answered through a router, lease TTL {ttl:g} s: 2 rounds and 2 effects"
        " under once each; medians"
    ).format(**section)
    notes = [
        "refused for a while: answered with 503, and sent again half a second later, as any client does",
        "SIGTERM counts from the end of the process, SIGKILL from the signal",
    ]
    return Table(title, lines(_SURVIVAL, section["rows"]), notes, section["not_available"])


def _known(section: Section) -> dict[str, Any]:
    """The section; a plan that it never came to has dashes."""
    return {"plan": dict.fromkeys(("turns", "calls", "resumes", "repetitions"), NONE), **section}


_TABLES: dict[str, Callable[[Section], Table | list[Table]]] = {
    "calls": calls,
    "kinds": kinds,
    "steps": steps,
    "single": single,
    "frames": frames,
    "store": store,
    "router": router,
    "replay": replay,
    "survival": survival,
}
SECTIONS = tuple(_TABLES)


def tables(name: str, section: Section) -> list[Table]:
    """What a section shows."""
    found = _TABLES[name](section)
    return found if isinstance(found, list) else [found]


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
