"""`framehold status`: is anything stuck, where, why, and what will happen to it; and does it need an operator."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.fake_router import LEASE, NOW, OPEN, OVERVIEW, FakeRouter, Operator, problem

STUCK = {**LEASE, "state": "stuck", "tool": "poison", "began": NOW - 192}
ORPHANED = {**LEASE, "state": "orphaned", "node_id": "gone"}


def event(kind: str, node: str = "n1", at: float = NOW - 1, text: str = "so") -> dict[str, Any]:
    return {"id": "1", "at": at, "node_id": node, "kind": kind, "text": text}


def page(*items: Any) -> dict[str, Any]:
    return {"items": list(items), "total": len(items)}


def test_a_fleet_in_health(operator: Operator, router: FakeRouter) -> None:
    """A healthy fleet gives a few lines and exit code 0. The list of calls is not requested."""
    figures = {"rounds_per_second": 118.24, "resume_p50": 0.003, "resume_p99": 0.0214, "affinity": 0.9994}
    router.say("overview", {**OVERVIEW, **figures, "store_seconds": 0.0004})
    result = operator("status")
    assert result == (
        0,
        "nodes      1 live (router 0.1.0)\n"
        "calls      2 parked, 0 in flight, 118.2 rounds/s\n"
        "resume     p50 3 ms, p99 21.4 ms (the slowest node's)\n"
        "affinity   99.9% of retries met the frame of their call\n"
        "store      0.4 ms a write\n"
        "stuck      none\n"
        "open       0: held not looked up yet; asleep not looked up yet; handed off: not looked up yet\n"
        "orphaned   not looked up yet\n"
        "failovers  none in the last hour\n"
        "\n"
        "Nothing has happened that this router knows of.\n",
        "",
    )
    assert [one.path for one in router.asked] == ["/api/v1/overview"]


def test_routers_are_listed_where_they_are_known(operator: Operator, router: FakeRouter) -> None:
    one = {"name": "r1:8080", "boot": "b", "version": "0.1.0", "state": "live", "heard": NOW}
    router.say("overview", {**OVERVIEW, "routers": [one, {**one, "name": "r2:8080", "state": "lost"}]})
    assert "routers    r1:8080, r2:8080 (lost)\n" in operator("status").out


def test_the_last_failover_is_told_with_what_came_of_it(operator: Operator, router: FakeRouter) -> None:
    """The counts grow: a call counts when its client has retried."""
    router.say("overview", {**OVERVIEW, "failovers_last_hour": 2})
    one = {"node_id": "n9", "boot": "b", "reason": "died", "durations": {}, "calls": []}
    router.say("failovers", {"failovers": [{**one, "recovered": 3, "lost": 1}, one], "fenced": 0})
    wanted = "failovers  2 in the last hour; of the last one (n9), of those whose clients came back: "
    assert wanted + "3 recovered, 1 lost\n" in operator("status").out
    router.say("failovers", {"failovers": [one], "fenced": 0})
    assert wanted + "none yet\n" in operator("status").out


def test_what_was_lost_is_not_pushed_out_by_what_went_well(operator: Operator, router: FakeRouter) -> None:
    """Five events are shown, the newest first. Grave events are chosen before all others."""
    events = [event("recovered", at=NOW - 1, text=f"well {n}") for n in range(6)] + [event("lost", at=NOW - 9)]
    router.say("overview", {**OVERVIEW, "events": events})
    shown = [line.split()[1] for line in operator("status").out.splitlines() if "n1" in line]
    assert shown == ["recovered"] * 4 + ["lost"]


def test_stuck_calls_are_named_with_what_becomes_of_them(operator: Operator, router: FakeRouter) -> None:
    """The line has the node, the cause and the consequence."""
    router.say("overview", {**OVERVIEW, "stuck": 1})
    router.say("leases", page(STUCK))
    result = operator("status")
    [row] = [line for line in result.out.splitlines() if line.startswith("01234567 ")]
    assert row.split()[:6] == ["01234567", "poison", "stuck", "n1", "3m", "12s"] and row.endswith(
        "its client is told so"
    )
    assert router.asked[-1].query == {"state": "stuck", "limit": "5"} and LEASE["call_id"] not in result.out


def test_orphaned_calls_heal_by_themselves(operator: Operator, router: FakeRouter) -> None:
    """Each orphaned call is shown with what will happen to it. No operator is needed, so the exit code is 0."""
    router.say("overview", {**OVERVIEW, "open": OPEN})
    router.say("leases", page(ORPHANED, {**ORPHANED, "reentrant": False}))
    result = operator("status")
    assert (
        result.code == 0
        and "orphaned   2 (looked up 3s ago): their nodes are gone; each goes on elsewhere when" in result.out
    )
    assert "its client's next retry replays it on another node\n" in result.out
    assert "not re-entrant: its client's next retry is told that it is lost\n" in result.out


@pytest.mark.parametrize(
    ("severities", "code", "marks"),
    [([], 0, []), (["risk"], 2, ["!"]), (["harm"], 1, ["!!"]), (["harm", "risk"], 1, ["!!", "!"])],
)
def test_the_exit_code_is_the_routers_verdict(
    severities: list[str], code: int, marks: list[str], operator: Operator, router: FakeRouter
) -> None:
    """1: users are harmed now. 2: something will harm them. The command judges nothing by itself."""
    problems = [problem(severity) for severity in severities]
    router.say("overview", {**OVERVIEW, "nodes": {"unreachable": 1}, "stuck": 0, "problems": problems})
    result = operator("status")
    assert result.code == code
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("!")] == marks
    assert sum(line == "   -> look at its log" for line in lines) == len(problems)


def test_what_to_do_names_the_runbook(operator: Operator, router: FakeRouter) -> None:
    """A page of the dashboard is no help in a terminal."""
    store = problem(kind="store_full", node="", text="the store is full", link="docs/runbook.md#a-full-store")
    router.say("overview", {**OVERVIEW, "problems": [store]})
    assert "!! the store is full\n   -> look at its log (docs/runbook.md#a-full-store)\n" in operator("status").out


def test_a_router_that_does_not_tell_is_no_risk(operator: Operator, router: FakeRouter) -> None:
    """Nothing is known of the fleet: neither 0, nor 2."""
    router.refuse("overview", 401, "no")
    assert operator("status").code == 3
    router.say("overview", b"<html>")
    result = operator("status")
    assert result.code == 3 and "no router's of this release" in result.err
    assert operator("status", "--url", "http://127.0.0.1:1").code == 3


def test_the_store_is_shown_as_it_is(operator: Operator, router: FakeRouter) -> None:
    """Not with the last good figure while it is silent; and with its memory, if it has a limit."""
    router.say("overview", {**OVERVIEW, "store": "silent", "store_seconds": 0.0005})
    assert "store      silent\n" in operator("status").out
    router.say("overview", {**OVERVIEW, "store_seconds": 0.0005, "store_used": 5 << 20, "store_limit": 10 << 20})
    assert "store      0.5 ms a write, 5.0 MiB of 10.0 MiB in use\n" in operator("status").out


def test_the_last_five_events(operator: Operator, router: FakeRouter) -> None:
    """The newest event is first. Control characters in events are escaped."""
    events = [event("node_lost", at=NOW - number, text=f"number {number}\x1b[2J") for number in range(7)]
    router.say("overview", {**OVERVIEW, "events": events})
    out = operator("status").out
    lines = [line for line in out.splitlines() if " node lost " in line]
    assert [line.rpartition("number ")[2] for line in lines] == [f"{number}\\x1b[2J" for number in range(5)]


def test_nobodys_name_makes_a_line(operator: Operator, router: FakeRouter) -> None:
    """Anyone who can write to the store can choose a node's name, so line ends in names are escaped."""
    text = "n2\n!! n1 is dead: kill it has other keys"
    nodes = {"live": 1, "a\nstuck      none": 1}
    router.say("overview", {**OVERVIEW, "nodes": nodes, "problems": [problem(text=text)]})
    for command in ("status", "nodes"):
        out = operator(command).out
        assert "n2\\n!! n1 is dead: kill it has other keys" in out
        assert not any(line.startswith("!! n1") for line in out.splitlines())
    assert "1 a\\nstuck      none" in operator("status").out


def test_json_is_the_overview(operator: Operator, router: FakeRouter) -> None:
    router.say("overview", {**OVERVIEW, "news": 1, "problems": [problem()]})
    result = operator("status", "-o", "json")
    assert json.loads(result.out) == {**OVERVIEW, "news": 1, "problems": [problem()]}


@pytest.mark.parametrize(
    ("words", "url", "settings", "why"),
    [
        (("-o", "csv"), "", {}, "csv"),
        ((), "ftp://x", {}, "ftp://x is no address"),
        (("--port", "1"), "", {}, "--url and --port name two addresses; nothing was done"),
        (("--port", "0"), "", {}, "--port must be 1 to 65535, not 0"),
        (("--odd",), "", {}, "--odd"),
        ((), "", {"FRAMEHOLD_ADMIN_PORT": "abc"}, "FRAMEHOLD_ADMIN_PORT is wrong"),
        ((), "", {"FRAMEHOLD_ADMIN_TOKEN": "\xfc" * 16}, "--token needs a value of printable ASCII characters"),
    ],
)
def test_a_mistake_is_no_verdict(
    operator: Operator,
    router: FakeRouter,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    url: str,
    settings: dict[str, str],
    why: str,
) -> None:
    """Its exit code is none of those that tell of users."""
    router.url = url or router.url
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    code, out, err = operator("status", *words)
    assert (code, out) == (3, "") and why in err and err.count("\n") == 1
