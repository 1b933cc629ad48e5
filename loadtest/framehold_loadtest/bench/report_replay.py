"""The tables of section `replay`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framehold_loadtest.bench import targets
from framehold_loadtest.bench.replay_bench import recorded
from framehold_loadtest.bench.replaygen import QUESTIONS
from framehold_loadtest.bench.report import NONE, Table, quartiles, verdict

_WORDS = {
    "live": "hold, frame in memory (no replay)",
    "dropped": "hold, frame dropped: from the store in memory",
    "token": "replay: from the token",
    "token, on": "replay: from the token, into the next",
}
_SHAPES = {"asks": "questions and answers", "effects": "effects under once"}


def replay(section: Mapping[str, Any]) -> list[Table]:
    """A record's bytes, a replay's CPU, the cost of `once`, and whole calls held and replayed."""
    tables, record = [], section.get("record")
    if record is not None:
        tables += [_bytes(record["found"]), _replays(record, section["plan"])]
    if "once" in section:
        tables.append(_onces(section["once"], record, section["plan"]))
    tables.append(_strategies(section.get("strategies"), section["not_available"]))
    return tables


def _bytes(found: Mapping[str, Any]) -> Table:
    title = f"Replay: bytes after each of {QUESTIONS} questions in a row, texts of about 20 characters, one field each"
    lines = [["question", *map(str, range(1, QUESTIONS + 1)), "one more adds"]]
    rows = {
        "hold: journal in the store": "journal_bytes",
        "hold: token": "hold_token",
        "replay: token, all there is": "replay_token",
    }
    for label, name in rows.items():
        sizes = found[name]
        lines.append([label, *(f"{size:,}" for size in sizes), f"{(sizes[-1] - sizes[0]) / (len(sizes) - 1):.0f}"])
    notes = [
        "a token goes both ways: out with the questions, back with the answers; the few bytes by which that of hold"
        " varies are digits of its times",
    ]
    return Table(title, lines, notes)


def _replays(record: Mapping[str, Any], plan: Mapping[str, Any]) -> Table:
    title = (
        f"Replay: us CPU of a call's last request by what it has recorded, no HTTP, {plan['replays']} repetitions in"
        " turn, medians (quartiles)"
    )
    numbers = [f"{number} entries" for number in record["found"]["entries"]]
    lines = [["recorded", "rebuilt from", *numbers, "us per entry", "fixed, us"]]
    for row in record["replays"]:
        cells = [f"{seconds * 1e6:,.0f}" for seconds in row["requests"]]
        spreads = (quartiles(row["per_entry"], 1), quartiles(row["fixed"], 0))
        lines.append([_SHAPES[row["what"]], _WORDS[row["way"]], *cells, *spreads])
    for part in record["parts"]:
        blank = [NONE] * len(numbers)
        lines.append(
            [_SHAPES[part["what"]], f"part, once: {part['part']}", *blank, quartiles(part["per_entry"], 1), NONE]
        )
    notes = [
        "the whole request at the ASGI app: token opened or store read, entries decoded, hash chain, values opened,"
        " the SDK's work for each question, the handler's turns, the reply; a part may be done more than once in it",
    ]
    return Table(title, lines, notes)


def _onces(once: Mapping[str, Any], record: Mapping[str, Any] | None, plan: Mapping[str, Any]) -> Table:
    title = (
        f"Replay: one once of an effect that does nothing, beyond running it directly, {once['effects']} in a row in"
        f" each call, {plan['onces']} repetitions in turn, medians (quartiles)"
    )
    lines = [["store", "calls at once", "us", "us CPU", "us CPU Redis", "store writes", "target"]]
    for row in once["rows"]:
        redis = f"{row['store_cpu'] * 1e6:.0f}" if row["store_cpu"] else NONE
        judged = verdict(row["writes"], targets.ONCE_WRITES, "")
        spreads = (quartiles(row["wall"], 0), quartiles(row["cpu"], 0))
        lines.append([row["store"], str(row["calls"]), *spreads, redis, f"{row['writes']:.2f}", judged])
    if record is not None:
        for way, label in (("dropped", "recorded, replayed from the store"), ("token", "recorded, from the token")):
            lines.append([label, "1", NONE, quartiles(recorded(record, way), 0), NONE, NONE, NONE])
    return Table(title, lines)


def _strategies(traded: Mapping[str, Any] | None, missing: Mapping[str, str]) -> Table:
    title, lines = "Replay: two-round calls, held and replayed", []
    if traded is not None:
        title += (
            f", {traded['connections']} connections, {traded['turns']} x {traded['calls']} calls each in short turns;"
            " medians (quartiles), ratios of calls per CPU second turn by turn"
        )
        lines.append(["server", "kept between rounds", "calls per CPU second", "to hold", "to sdk", "us CPU/call",
                      "us store CPU/call", "calls/s", "busy server/load"])  # fmt: skip
        lines += map(_strategy_cells, traded["rows"])
    return Table(title, lines, missing=missing)


_KEPT = {
    "sdk": "token",
    "framehold, hold, memory": "frame, record",
    "framehold, hold, Redis": "frame, record in Redis",
    "framehold, replay": "token",
    "framehold, rehearse": "record",
}


def _strategy_cells(row: Mapping[str, Any]) -> list[str]:
    return [
        row["server"],
        _KEPT[row["server"]],
        f"{row['calls_per_cpu_second']:.0f}",
        quartiles(row["to_hold"], 2, 1),
        quartiles(row["to_sdk"], 2, 1),
        quartiles(row["server_cpu"], 0),
        f"{row['store_cpu'] * 1e6:.0f}" if row["store_cpu"] else NONE,
        f"{row['calls_per_second']:.0f}",
        f"{row['busy']:.0%} / {row['load_busy']:.0%}",
    ]
