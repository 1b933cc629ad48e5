"""The law's table of stored fields is whole: each field of each stored form is sealed or a hint, and says so.

`docs/protocol-store.md` has the table, `docs/protocol-tables.md` what a change of each takes away; rule 29 of
docs/protocol.md names both. The forms are read off the code, so that a field which is added without a row is noticed.
"""

from __future__ import annotations

import re
from pathlib import Path

from framehold_core.journal import Entry
from framehold_core.lease import NodeRecord
from framehold_core.requests import Head, Record
from framehold_fleet.models.routers import RouterEntry
from framehold_store import pauses
from framehold_store.keys import Keys
from tests.sim.adversary import HINTS, OF_CALLS, TAKES

DOCS = Path(__file__).parents[2] / "docs"
STORE, TABLES = DOCS / "protocol-store.md", DOCS / "protocol-tables.md"
STORED = {
    "incarnation": ("inc",),
    "position": ("n",),
    "history": ("jh",),
    "answers": ("a:<round>",),
    "intents": ("k:<digest>",),
    "trail": ("s:<slot>",),
    "head": Head.__struct_fields__,
}
"""The stored names of those fields of a record that have others than in the code."""
_ROW = re.compile(r"^\| (?P<where>[^|]+) \| (?P<field>[^|]+) \| (?P<what>(?:sealed|hints?)\b[^|]*) \| [^|]+ \|$", re.M)
_CHANGE = re.compile(r"^\| ([a-z ]+) \| ([^|]+) \|$", re.M)


def section(page: Path, anchor: str) -> str:
    """The text of a page from an anchor to the next one."""
    return page.read_text(encoding="utf-8").partition(f'<a id="{anchor}"></a>')[2].partition('<a id="')[0]


def named() -> dict[str, list[str]]:
    """The fields that the table names, by where they are. A field may be there twice only where a row says so in
    words."""
    found: dict[str, list[str]] = {}
    for row in _ROW.finditer(section(STORE, "fields")):
        found.setdefault(row["where"], []).extend(re.findall(r"`([^`]+)`", row["field"]) or [row["field"]])
    return found


def in_the_block(name: str) -> str:
    """What the page's list of keys says of one of them."""
    block = section(STORE, "stored").partition("```\n")[2].partition("```")[0]
    return re.split(r"\n(?=\S)", block.partition(f"{name} ")[2])[0]


def test_each_stored_field_is_sealed_or_a_hint() -> None:
    """Each field of records, entries, leases and tools has one row, and no row is about a field that is gone."""
    record = [stored for name in Record.__struct_fields__ for stored in STORED.get(name, (name,))]
    assert sorted(named()["record"]) == sorted([*record, "v"])
    lease = [{"expires": "end"}.get(name, name) for name in NodeRecord.__struct_fields__]
    assert sorted(named()["lease"]) == sorted([*lease, "version"])
    assert sorted(named()["journal"]) == sorted([*Entry.__struct_fields__, "version"])
    assert sorted(named()["routers"]) == sorted(RouterEntry.model_fields)
    prefixes = (pauses._PAUSE, pauses._DEATHS)
    assert sorted(named()["tools"]) == sorted(["m", *(f"{prefix}<tool>" for prefix in prefixes)])


def test_each_key_has_a_row() -> None:
    """A kind of key without a row would be one of which nobody has said who may write it."""
    streams = {"log", "ended calls", "routers"}
    assert set(named()) == {"record", "journal", "lease", "list of nodes", "tools", "code", "history", *streams}
    keys = Keys("ns")
    stored = {
        keys.nodes,
        keys.tools,
        keys.log,
        keys.ended,
        keys.failed,
        keys.routers,
        keys.code("0" * 32),
        keys.node("a"),
        keys.sample(1, 2),
        *keys.call("0" * 32),
    }
    channels = {keys.changes, keys.events}
    texts = {text for text in vars(keys).values() if isinstance(text, str)}
    assert {text for text in texts if not any(key.startswith(text) for key in stored)} == {*channels, keys.records}


def test_the_list_of_keys_names_the_same_fields() -> None:
    """The page says twice what a record and a lease have."""
    for where in ("record", "lease"):
        words = set(re.findall(r"[a-z_]+(?::<[a-z]+)?", in_the_block(where)))
        assert {name for name in named()[where] if name.rstrip(">") not in words} == set(), where


def test_what_a_change_takes_away_is_what_the_simulation_checks() -> None:
    """The simulation holds a call to all that the page promises of it."""
    said = {row[1]: frozenset(row[2].split(", ")) - {"nothing"} for row in _CHANGE.finditer(section(TABLES, "written"))}
    assert said == TAKES
    assert set(TAKES) == {*HINTS, *OF_CALLS, "answers of a call that is over"} - {"hint"}
