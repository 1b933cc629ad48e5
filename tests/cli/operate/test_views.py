"""`framehold nodes`, `framehold ring`, `framehold capacity`: the router's reply as JSON, and columns for people."""

from __future__ import annotations

import json
import sys
import time
from typing import get_type_hints

import pytest

from framehold_cli.commands import app
from framehold_cli.show.sheet import show
from tests.cli.fake_router import NODE, OVERVIEW, FakeRouter, Operator, problem

NODES = {
    "nodes": [
        {**NODE, "rss": 112 * 1024**2, "memory_limit": 512 * 1024**2, "resume_p99": 0.0034, "heartbeat_age": 0.4},
        {"node_id": "[n2]", "incarnation": "j", "boot": "", "state": "dead", "address": "", "pid": None, "news": 1},
    ]
}
RING = {
    "nodes": [{"node_id": "n1", "state": "live", "ideal_share": 0.5, "share": 0.4912, "points": 160}],
    "points": 320,
}


def test_json_is_what_the_router_says(operator: Operator, router: FakeRouter) -> None:
    """The JSON is the list of nodes, or the ring, with fields that this release doesn't know."""
    router.say("nodes", NODES)
    router.say("ring", RING)
    assert json.loads(operator("nodes", "-o", "json").out) == NODES["nodes"]
    assert json.loads(operator("ring", "-o", "json").out) == RING


def test_columns_where_there_is_no_terminal(operator: Operator, router: FakeRouter) -> None:
    """The columns are aligned, without colours and frames. An unknown value is a dash."""
    router.say("nodes", NODES)
    router.say("ring", RING)
    lines = operator("nodes").out.splitlines()
    assert lines[0].startswith("NODE  STATE  PARKED  IN FLIGHT  RESUME P99")
    assert " ".join(lines[1].split()) == "n1 live 2 0 3.4 ms - 112.0 MiB (22%) 400 ms - 7 0.1.0 http://127.0.0.1:1"
    assert lines[2].split() == ["[n2]", "dead", *"-" * 10]
    assert lines[1].index("live") == lines[2].index("dead") == lines[0].index("STATE")
    assert operator("ring").out.splitlines()[1].split() == ["n1", "live", "49.1%", "50.0%", "160"]


def test_the_last_change_of_the_ring_is_told(operator: Operator, router: FakeRouter) -> None:
    router.say("ring", {**RING, "moved": 0.331, "changed": 1.0})
    assert "gave another node to 33.1% of new calls" in operator("ring").out


def test_a_table_in_a_terminal(operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that look like Rich markup are printed as they are."""
    router.say("nodes", NODES)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    out = operator("nodes").out
    assert "[n2]" in out and "─" in out


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("watch", [(), ("--watch",)])
def test_a_narrow_terminal_breaks_no_value(
    operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch, columns: int, watch: tuple[str, ...]
) -> None:
    """What is copied from it is whole. Where nothing is redrawn, a row is one line for the terminal to break."""
    router.say("nodes", {"nodes": [{**NODE, "node_id": "shop-7c9d8-x2x4q", "pid": 1234567}]})
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(time, "sleep", interrupt)
    monkeypatch.setenv("COLUMNS", str(columns))
    out = operator("nodes", *watch).out
    values = ("shop-7c9d8-x2x4q", "live", "1234567", "0.1.0", "http://127.0.0.1:1")
    assert all(value in out for value in values), out
    assert watch or any(all(value in line for value in values) for line in out.splitlines()), out


def interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


def test_sentences_in_a_last_column_stay_in_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "dumb")
    show(("CHECK", "WHAT IT SAYS"), [("advertise url", "not set: a node says where it listens")], "")
    lines = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in lines if line.strip()][-2:] == [
        " advertise url   not set: a node says",
        "                 where it listens",
    ]


def test_csv_is_what_the_router_would_serve(operator: Operator, router: FakeRouter) -> None:
    """Each node is a row. Formulas and control characters in cells have no effect."""
    router.say("nodes", {"nodes": [{**NODE, "node_id": "=1+1", "version": "a,b\x1b[2J"}]})
    heads, row = operator("nodes", "-o", "csv").out.splitlines()
    assert heads.startswith("node_id,incarnation,boot,state,")
    assert row.startswith("'=1+1,i,b1,live,") and '"a,b\\x1b[2J"' in row


def test_csv_is_offered_by_the_commands_that_print_a_list() -> None:
    hints = {one.name or fn.__name__: get_type_hints(fn) for one in app.registered_commands if (fn := one.callback)}
    offered = {name: "csv" in list(hint["output"]) for name, hint in hints.items() if "output" in hint}
    lists = dict.fromkeys(("nodes", "ring", "capacity", "leases", "calls"), True)
    assert offered == lists | dict.fromkeys(("status", "lease", "journal", "list", "doctor"), False)


@pytest.mark.parametrize("form", ["{}/mcp", "{}/mcp/", "{}/dashboard", "{}/"])
@pytest.mark.parametrize("bare", [True, False])
def test_an_address_as_up_prints_it(form: str, bare: bool, operator: Operator, router: FakeRouter) -> None:
    """The addresses of the router's pages work too, with and without http://."""
    router.url = form.format(router.url.removeprefix("http://") if bare else router.url)
    assert json.loads(operator("nodes", "-o", "json").out) == [NODE]


def test_names_can_not_steer_the_terminal(operator: Operator, router: FakeRouter) -> None:
    """The text of a node may contain any character, so control characters are escaped."""
    router.say("nodes", {"nodes": [{**NODE, "node_id": "n\x1b[2J", "state": "live\x9b", "address": "\u202ex"}]})
    out = operator("nodes").out
    assert "n\\x1b[2J" in out and "live\\x9b" in out and "\\u202ex" in out
    assert "\x1b" not in out and "\x9b" not in out and "\u202e" not in out


def test_a_fleet_without_nodes(operator: Operator, router: FakeRouter) -> None:
    router.say("nodes", {"nodes": []})
    assert operator("nodes").out == "There is no node.\n"


@pytest.mark.parametrize(("store", "shown"), [("full", "unheard"), ("silent", "unheard"), ("answers", "lapsed")])
def test_a_node_that_the_store_does_not_hear_of(operator: Operator, router: FakeRouter, store: str, shown: str) -> None:
    """It answers, though its lease is not valid: the store takes no heartbeat."""
    router.say("nodes", {"nodes": [{**NODE, "state": "lapsed", "store": store}]})
    assert operator("nodes").out.splitlines()[1].split()[:2] == ["n1", shown]


def test_what_is_wrong_with_a_node_is_said(operator: Operator, router: FakeRouter) -> None:
    """A line below the table says it, because the table looks the same in an outage. What is no node's is not said."""
    router.say("nodes", {"nodes": [NODE, {**NODE, "node_id": "n2"}]})
    router.say("overview", {**OVERVIEW, "problems": [problem(), problem(node="", text="the store is full")]})
    _, _, wrong = operator("nodes").out.rpartition("\n\n")
    assert wrong == "!! n1 doesn't answer at http://127.0.0.1:1\n   -> look at its log\n"


def resource(name: str, used: float, limit: float, **more: object) -> dict[str, object]:
    share = used / limit
    return {"name": name, "used": used, "limit": limit, "share": share, "fullest": "n2", "fullest_share": share, **more}


def test_capacity_says_what_fills_first_and_whether_a_node_may_be_lost(operator: Operator, router: FakeRouter) -> None:
    resources = [
        resource("frames", 1200, 60_000, without_fullest=0.03),
        resource("processor", 1.86, 3.0, without_fullest=0.93),
        resource("memory", 300 * 1024**2, 1536 * 1024**2, without_fullest=0.293),
    ]
    router.say("capacity", {"nodes": 3, "resources": resources, "fills_first": "processor", "survives": True})
    done = operator("capacity")
    assert done.code == 0
    row = " ".join(done.out.splitlines()[2].split())
    assert row == "processor 1.86 loops 3.00 loops 62.0% n2 62.0% 93.0%"
    assert (
        "300.0 MiB" in done.out and "The processor of n2 fills first. The fleet can lose its fullest node" in done.out
    )


def test_a_fleet_that_can_not_lose_a_node_is_exit_code_1(operator: Operator, router: FakeRouter) -> None:
    resources = [resource("frames", 120, 200, without_fullest=1.2)]
    router.say("capacity", {"nodes": 2, "resources": resources, "fills_first": "frames", "survives": False})
    done = operator("capacity")
    assert done.code == 1 and "can't lose a node: the others lack frames (of n2). Add a node" in done.out


def test_a_store_that_fills_first_belongs_to_no_node(operator: Operator, router: FakeRouter) -> None:
    resources = [resource("store", 900 * 1024**2, 1000 * 1024**2, fullest="")]
    router.say("capacity", {"nodes": 1, "resources": resources, "fills_first": "store", "survives": None})
    done = operator("capacity")
    assert " ".join(done.out.splitlines()[1].split()) == "store 900.0 MiB 1,000.0 MiB 90.0% - 90.0% -"
    assert "The memory of the store fills first." in done.out


def test_capacity_of_one_node_and_of_none(operator: Operator, router: FakeRouter) -> None:
    resources = [resource("frames", 1, 100)]
    router.say("capacity", {"nodes": 1, "resources": resources, "fills_first": "frames", "survives": None})
    assert "The frames of n2 fill first. There is no other node" in operator("capacity").out
    router.say("capacity", {"nodes": 0, "resources": [], "fills_first": None, "survives": None})
    done = operator("capacity")
    assert (done.out, done.code) == ("No live node reports how full it is.\n", 1)


def test_what_grows_is_said_with_its_time(operator: Operator, router: FakeRouter) -> None:
    resources = [resource("frames", 1, 100, full_in=7200.0), resource("memory", 1, 2, full_in=600.0)]
    router.say("capacity", {"nodes": 1, "resources": resources, "fills_first": "memory", "survives": None})
    assert "as in the last hour, a node is out of memory in 10m." in operator("capacity").out
