"""The tables of section `replay`: a record's bytes, a replay's CPU, and the cost of `once`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framehold_loadtest.bench.generators.replays import QUESTIONS
from framehold_loadtest.bench.tables import targets
from framehold_loadtest.bench.tables.table import (
    NONE,
    Table,
    computed,
    lines,
    quartiles,
    spread,
    text,
    unless_zero,
    value,
)

_WAYS = {
    "live": "hold, frame in memory (no replay)",
    "dropped": "hold, frame dropped: from the store in memory",
    "token": "replay: from the token",
    "token, on": "replay: from the token, into the next",
}
_RECORDED = {"asks": "questions and answers", "effects": "effects under once"}
_SIZES = {
    "hold: journal in the store": "journal_bytes",
    "hold: token": "hold_token",
    "replay: token, all there is": "replay_token",
}
_ONCES = (
    text("store", "store"),
    text("calls at once", "calls"),
    spread("us", "wall", 0),
    spread("us CPU", "cpu", 0),
    unless_zero("us CPU Redis", "store_cpu"),
    value("store writes", "writes", "{:.2f}"),
    computed("target", lambda row: targets.ONCE_WRITES.verdict(row["writes"])),
)


def replay(section: Mapping[str, Any]) -> list[Table]:
    """All tables of the section, and what was not available."""
    tables, record = [], section.get("record")
    if record is not None:
        tables += [_bytes(record["found"]), _replays(record, section["plan"])]
    if "once" in section:
        tables.append(_onces(section["once"], record, section["plan"]))
    if section["not_available"]:
        tables.append(Table("Replay", [], missing=section["not_available"]))
    return tables


def _bytes(found: Mapping[str, Any]) -> Table:
    title = f"Replay: bytes after each of {QUESTIONS} questions in a row, texts of about 20 characters, one field each"
    shown = [["question", *(str(number) for number in range(1, QUESTIONS + 1)), "one more adds"]]
    for label, name in _SIZES.items():
        sizes = found[name]
        shown.append([label, *(f"{size:,}" for size in sizes), f"{(sizes[-1] - sizes[0]) / (len(sizes) - 1):.0f}"])
    notes = [
        "a token goes both ways: out with the questions, back with the answers; the few bytes by which that of hold"
        " varies are digits of its times",
    ]
    return Table(title, shown, notes)


def _replays(record: Mapping[str, Any], plan: Mapping[str, Any]) -> Table:
    title = (
        f"Replay: us CPU of a call's last request by what it has recorded, no HTTP, {plan['replays']} repetitions in"
        " turn, medians (quartiles)"
    )
    numbers = [f"{number} entries" for number in record["found"]["entries"]]
    shown = [["recorded", "rebuilt from", *numbers, "us per entry", "fixed, us"]]
    for row in record["replays"]:
        cells = [f"{seconds * 1e6:,.0f}" for seconds in row["requests"]]
        spreads = (quartiles(row["per_entry"], 1), quartiles(row["fixed"], 0))
        shown.append([_RECORDED[row["what"]], _WAYS[row["way"]], *cells, *spreads])
    for part in record["parts"]:
        head = [_RECORDED[part["what"]], f"part, once: {part['part']}"]
        shown.append([*head, *(NONE for _ in numbers), quartiles(part["per_entry"], 1), NONE])
    notes = [
        "the whole request at the ASGI app: token opened or store read, entries decoded, hash chain, values opened,"
        " the SDK's work for each question, the handler's turns, the reply; a part may be done more than once in it",
    ]
    return Table(title, shown, notes)


def _onces(once: Mapping[str, Any], record: Mapping[str, Any] | None, plan: Mapping[str, Any]) -> Table:
    title = (
        f"Replay: one once of an effect that does nothing, beyond running it directly, {once['effects']} in a row in"
        f" each call, {plan['onces']} repetitions in turn, medians (quartiles)"
    )
    shown = lines(_ONCES, once["rows"])
    if record is not None:
        for way, label in (("dropped", "recorded, replayed from the store"), ("token", "recorded, from the token")):
            shown.append([label, "1", NONE, quartiles(_recorded(record, way), 0), NONE, NONE, NONE])
    return Table(title, shown)


def _recorded(record: Mapping[str, Any], way: str) -> Mapping[str, float]:
    """Seconds for a recorded `once` on replay, which is two entries of the journal."""
    row = next(row for row in record["replays"] if row["what"] == "effects" and row["way"] == way)
    return {name: 2 * seconds for name, seconds in row["per_entry"].items()}
