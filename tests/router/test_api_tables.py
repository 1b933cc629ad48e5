"""Lists as CSV, and hostile texts in every field."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from framehold_core.ids import NodeId
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.models.calls import LeasesView, LeaseView
from framehold_fleet.models.events import EventsView, EventView, FailoversView, FailoverView
from framehold_fleet.models.nodes import NodesView, NodeView, OverviewView, RingView
from framehold_router.api.tables import table
from tests.router.cast import Cast, cast_of, member, saying
from tests.router.test_api_paging import lease

pytestmark = pytest.mark.anyio


def rows(text: str | None) -> list[list[str]]:
    assert text is not None
    return list(csv.reader(io.StringIO(text)))


def test_a_header_and_a_row_an_item() -> None:
    """Every field of the model has a column; what is null is empty."""
    found = rows(table(LeasesView(items=[lease("c1", began=1.5, replayed=True), lease("c2")], total=9)))
    assert found[0] == list(LeaseView.model_fields)
    first, second = (dict(zip(found[0], row, strict=True)) for row in found[1:])
    assert (first["call_id"], first["state"], first["began"], first["replayed"]) == ("c1", "parked", "1.5", "true")
    assert (second["began"], second["replayed"], second["round"]) == ("", "false", "1")


def test_lists_within_a_row() -> None:
    """Names of tools beside each other; a failover's durations each in a column, its calls as their number."""
    node = NodeView(node_id="n", incarnation="i", boot="b", state="live", address="", tools=("a", "b"))
    found = rows(table(NodesView(nodes=[node])))
    assert dict(zip(*found, strict=True))["tools"] == "a b"
    item = FailoverView(node_id="n", boot="b", reason="died", durations={"claim": 2.5}, recovered=3, calls=[])
    found = rows(table(FailoversView(failovers=[item], fenced=0)))
    row = dict(zip(*found, strict=True))
    assert (row["claim_seconds"], row["detect_seconds"], row["recovered"], row["calls"]) == ("2.5", "", "3", "0")


def test_an_empty_list_has_its_header() -> None:
    assert rows(table(RingView(nodes=[], points=0))) == [["node_id", "state", "ideal_share", "share", "points"]]
    assert rows(table(FailoversView(failovers=[], fenced=0)))[0][0] == "node_id"


def test_what_is_no_list_is_no_table() -> None:
    view = OverviewView(
        at=0, version="1", nodes={}, parked=0, in_flight=0, orphaned=0, stuck=0, failovers_last_hour=0, events=[]
    )
    assert table(view) is None


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum(a1)", "\t=1", "\r=1", '=cmd|"/c calc"!A1'])
def test_no_text_is_a_formula(text: str) -> None:
    """A spreadsheet shows it; a number stays one."""
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


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    async with cast_of() as made:
        yield made


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_texts_break_nothing(cast: Cast, text: str) -> None:
    """In names of nodes, states, versions, tools, calls and events: each answer in each form is whole, and its texts
    are what was said, fit to print."""
    output = text.encode("utf-8", "replace").decode()
    shown = output[:200]
    answer = {
        "node_id": output,
        "incarnation": output,
        "boot": output,
        "state": output,
        "version": output,
        "tools": [output],
    }
    item = lease("0" * 32).model_dump(mode="json") | {
        "call_id": output,
        "tool": output,
        "node_id": output,
        "phase": output,
    }
    event = {"id": output, "at": 1.0, "kind": output, "node_id": output, "call": output, "tool": output, "text": output}
    takeover = {
        "call": output,
        "tool": output,
        "reason": output,
        "from_node": output,
        "to_node": output,
        "epoch": 1,
        "asked": 1,
    }
    await cast.logs(event=event, takeover=takeover)
    # Nobody but this fleet's own nodes gets on the ring, and their names are names.
    await cast.node(
        output,
        saying(answer),
        {"GET /admin/leases": saying({"items": [item], "total": 1})},
    )
    cast.members.append(member(f"{text}2", text, text, Stats(version=text)))
    client = await cast.client()

    async def both(path: str, name: str) -> list[dict[str, Any]]:
        """The items as JSON, once CSV has shown as many."""
        async with client.get(f"/api/v1/{path}") as response:
            body = json.loads(await response.text())
            assert response.status == 200
        async with client.get(f"/api/v1/{path}?format=csv") as response:
            found = list(csv.reader(io.StringIO((await response.read()).decode(), newline="")))
        assert len(found) == 1 + len(body[name])
        assert {len(row) for row in found} == {len(found[0])}
        items: list[dict[str, Any]] = body[name]
        return items

    assert shown in {node["node_id"] for node in await both("nodes", "nodes")}
    assert shown in {node["node_id"] for node in await both("ring", "nodes")}
    assert [item["tool"] for item in await both("leases", "items")] == [shown]
    assert [item["text"] for item in await both("events", "events")] == [shown]
    assert [item["node_id"] for item in await both("failovers", "failovers")] == [shown]
    async with client.get("/api/v1/overview") as response:
        assert response.status == 200
    assert NodeId(text + "2") in cast.fleet.members
