"""Lists as CSV, and hostile texts in every field."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from framehold_fleet.members.node_stats import Stats
from framehold_fleet.models.calls import LeasesView, LeaseView
from framehold_fleet.models.events import EventsView, EventView, FailoversView, FailoverView
from framehold_fleet.models.nodes import NodesView, NodeView, RingView
from framehold_fleet.models.open_calls import OpenView
from framehold_router.api.tables import table
from tests.router.cast import Cast, get, member, saying
from tests.router.test_api_leases import lease


def rows(text: str | None) -> list[list[str]]:
    assert text is not None
    return list(csv.reader(io.StringIO(text)))


def test_a_header_and_a_row_an_item() -> None:
    found = rows(table(LeasesView(items=[lease("c1", began=1.5, replayed=True), lease("c2")], total=9)))
    assert found[0] == list(LeaseView.model_fields)
    first, second = (dict(zip(found[0], row, strict=True)) for row in found[1:])
    assert (first["call_id"], first["state"], first["began"], first["replayed"]) == ("c1", "parked", "1.5", "true")
    assert (second["began"], second["replayed"], second["round"]) == ("", "false", "1")
    assert rows(table(RingView(nodes=[], points=0))) == [["node_id", "state", "ideal_share", "share", "points"]]
    assert table(OpenView()) is None, "what is no list is no table"


def test_lists_within_a_row() -> None:
    node = NodeView(node_id="n", incarnation="i", boot="b", state="live", address="", tools=("a", "b"))
    found = rows(table(NodesView(nodes=[node])))
    assert dict(zip(*found, strict=True))["tools"] == "a b"
    item = FailoverView(node_id="n", boot="b", reason="died", durations={"claim": 2.5}, recovered=3, calls=[])
    found = rows(table(FailoversView(failovers=[item], fenced=0)))
    row = dict(zip(*found, strict=True))
    assert (row["claim_seconds"], row["detect_seconds"], row["recovered"], row["calls"]) == ("2.5", "", "3", "0")


def test_what_no_cell_can_hold_has_no_column() -> None:
    """Parts of an item that are items themselves: a cell would have Python's words for them."""
    nested: dict[str, Any] = {
        "refused": [{"limit": "FRAMEHOLD_MAX_PARKED", "count": 3, "at": 1.0}],
        "failing": [{"tool": "book", "ended": 3, "failed": 2}],
        "store_loss": {"at": 2, "since": 1, "emptied": True},
        "kept_code": [{"handler": "book", "digest": "d", "bytes": 1}],
        "not_kept": [{"handler": "book", "why": "w"}],
        "scan": {"began": 1, "at": 2, "looked": 3, "orphaned": 0, "handed_off": 0},
        "last_stall": {"at": 1, "seconds": 2},
        "paused": [{"tool": "book", "by": "framehold", "at": 1}],
        "handlers": [{"handler": "book", "asks": True, "reentrant": True, "strategy": "hold"}],
    }
    plain = {"node_id": "n", "incarnation": "i", "boot": "b", "state": "live", "address": "", "tools": ["a"]}
    text = table(NodesView(nodes=[NodeView.model_validate(plain | nested)]))
    names, _ = rows(text)
    assert not nested.keys() & names and "tools" in names and "{" not in str(text)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum(a1)", "\t=1", "\r=1", '=cmd|"/c calc"!A1'])
def test_no_text_is_a_formula(text: str) -> None:
    event = EventView(id=text, at=1.0, kind=text, text=text, round=3)
    [_, row] = rows(table(EventsView(events=[event])))
    assert [cell for cell in row if cell.startswith("'")] == ["'" + text] * 3
    assert "3" in row


HOSTILE = {
    "a lone surrogate": "\ud800",
    "NUL": "a\x00b",
    "quotes": "\"'`",
    "lines": "a\r\nb\n\rc\x0b\x0c\x85",
    "separators": "\u2028\u2029,;\t",
    "markup": "</script><script>alert(1)</script><!--",
    "a formula": "=HYPERLINK(\"http://x\")",
    "right to left": "\u202egnp",
    "a novel": "x" * 10_240,
    "braces": "{}{0}%s%(a)s${a}",
    "nothing": "",
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_texts_break_nothing(cast: Cast, text: str) -> None:
    """In names of nodes, states, versions, tools, calls and events: each answer in each form is whole, and its texts
    are what was said, fit to print."""
    output = text.encode("utf-8", "replace").decode()
    shown = output[:200]

    def all_so(*names: str) -> dict[str, Any]:
        return dict.fromkeys(names, output)

    answer = {**all_so("node_id", "incarnation", "boot", "state", "version"), "tools": [output]}
    item = lease("0" * 32).model_dump(mode="json") | all_so("call_id", "tool", "node_id", "phase")
    event = {"at": 1.0, **all_so("id", "kind", "node_id", "call", "tool", "text")}
    takeover = {"epoch": 1, "asked": 1, **all_so("call", "tool", "reason", "from_node", "to_node")}
    await cast.logs(event=event, takeover=takeover)
    # Nobody but this fleet's own nodes gets on the ring, and their names are names.
    await cast.node(output, saying(answer), {"GET /admin/leases": saying({"items": [item], "total": 1})})
    cast.members.append(member(f"{text}2", text, text, Stats(version=text)))
    client = await cast.client()

    async def both(path: str, name: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await get(client, f"/api/v1/{path}"))[name]
        found = list(csv.reader(io.StringIO(await get(client, f"/api/v1/{path}?format=csv"), newline="")))
        assert len(found) == 1 + len(items) and {len(row) for row in found} == {len(found[0])}
        return items

    assert shown in {node["node_id"] for node in await both("nodes", "nodes")}
    assert shown in {node["node_id"] for node in await both("ring", "nodes")}
    assert [item["tool"] for item in await both("leases", "items")] == [shown]
    assert [item["text"] for item in await both("events", "events")] == [shown]
    assert [item["node_id"] for item in await both("failovers", "failovers")] == [shown]
    await get(client, "/api/v1/overview")
