"""`framehold leases` and `framehold lease`: the list of calls, and one call from its first round on."""

from __future__ import annotations

import csv
import json
from types import SimpleNamespace
from typing import Any

import pytest

from framehold_cli.operate import lease, leases
from tests.cli.fake_router import CALL, LEASE, OPEN, OVERVIEW, WAIT, FakeRouter, Operator

OTHER = "fedcba9876543210fedcba9876543210"
NOW = 1_795_000_000.0


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the clock of the commands. On a busy machine an age would be a second more when it is printed."""
    for command in (lease, leases):
        monkeypatch.setattr(command, "time", SimpleNamespace(time=lambda: NOW))


def page(*items: Any, total: int | None = None, following: str | None = None, missing: tuple[str, ...] = ()) -> Any:
    return {"items": items, "total": len(items) if total is None else total, "next": following, "missing": missing}


def detail(**changed: Any) -> dict[str, Any]:
    view = {
        "call_id": CALL,
        "record": "open",
        "tool": "book",
        "method": "tools/call",
        "reentrant": True,
        "node_id": "n2",
        "epoch": 2,
        "round": 2,
        "attempts": 0,
        "created": NOW - 192,
        "expires": NOW + 300.5,
        "fate": "It continues when its client answers.",
    }
    return {**view, **changed}


def step(name: str, node: str, epoch: int, round: int = 1) -> dict[str, Any]:
    return {"step": name, "round": round, "epoch": epoch, "node_id": node, "at": NOW - 9, "ran": 0.25}


def test_a_page_of_calls(operator: Operator, router: FakeRouter) -> None:
    """The table has readable ages and sizes, and only prefixes of ids. A note says how to list the other calls."""
    item = {**LEASE, "began": NOW - 192.5, "resumed": NOW - 5.5, "expires": NOW + 90.5, "journal_bytes": 13_517}
    router.say("leases", page(item, {**LEASE, "call_id": OTHER, "tool": "[x]\x1b[2J"}, total=412, following="abc"))
    result = operator("leases")
    heads, first, second, _, note, *_ = result.out.splitlines()
    assert heads.startswith("CALL      TOOL ")
    row = "01234567 book n1 parked 2 1 3m 12s 5s 1m 30s 13.2 KiB yes no"
    assert first.split() == row.split()
    assert second.split()[:2] == ["fedcba98", "[x]\\x1b[2J"] and CALL not in result.out
    assert note.startswith("2 of 412; --all lists the others too")


def test_a_filter_that_fits_nothing_is_told_from_a_fleet_without_calls(operator: Operator, router: FakeRouter) -> None:
    """Otherwise a typing mistake would look like a fleet without calls."""
    router.say("leases", page(), {"items": [LEASE], "total": 8})
    result = operator("leases", "--tool", "wether", "--state", "parked").out
    assert result.startswith("No call passes the filter (state parked, tool wether); without it there are 8.\n")
    router.say("leases", page(), {"items": [LEASE], "total": 8})
    assert "(replayed false)" in operator("leases", "--no-replayed").out


def test_filters_are_the_routers(operator: Operator, router: FakeRouter) -> None:
    """Each option becomes a field of the query. An option that is not given is not sent."""
    router.say("leases", page())
    assert operator("leases").out.startswith("No call is listed.\n")
    assert router.asked[0].query == {"sort": "call_id", "limit": "100"}
    words = "--state orphaned --expiring 60 --replayed --tool book --node n1 --call 01 --sort expires --desc --limit 7"
    router.say("leases", page(LEASE))
    operator("leases", *words.split())
    assert router.asked[-2].query == {
        "state": "orphaned",
        "expiring": "60.0",
        "replayed": "true",
        "tool": "book",
        "node": "n1",
        "call": "01",
        "sort": "expires",
        "descending": "true",
        "limit": "7",
    }
    operator("leases", "--no-replayed")
    assert router.asked[-2].query["replayed"] == "false"
    router.refuse("leases", 400, "limit: must be 1 to 1000")
    assert operator("leases") == (2, "", "framehold: 400: limit: must be 1 to 1000\n")


def test_the_account_of_open_calls_is_below_in_the_words_of_status(operator: Operator, router: FakeRouter) -> None:
    """Orphaned calls may be in no list yet: so short after the death of their node."""
    router.say("leases", page())
    router.say("overview", {**OVERVIEW, "open": {**OPEN, "lost_last_hour": 7}})
    listed, told = operator("leases").out, operator("status").out
    account = listed.partition("\n\n")[2].splitlines()
    assert [line.split()[0] for line in account] == ["open", "orphaned", "lost"]
    assert all(line.split() in [one.split() for one in told.splitlines()] for line in account)
    assert WAIT in listed


def test_all_pages_are_one(operator: Operator, router: FakeRouter) -> None:
    """The cursor is followed to the last page, with each output format."""
    items = [{**LEASE, "call_id": f"{number:032}", "news": number} for number in range(3)]
    for form in ("json", "csv", "table"):
        router.asked.clear()
        router.say(
            "leases",
            page(items[0], total=3, following="p1", missing=("n7",)),
            page(items[1], total=3, following="p2"),
            page(items[2], total=3),
        )
        out = operator("leases", "--all", "-o", form).out
        assert [one.query.get("after") for one in router.asked[:-1]] == [None, "p1", "p2"]
        assert {one.query["limit"] for one in router.asked[:-1]} == {"1000"}
        if form == "json":
            assert json.loads(out) == {"items": items, "total": 3, "next": None, "missing": ["n7"]}
        elif form == "csv":
            assert [row["call_id"] for row in csv.DictReader(out.splitlines())] == [one["call_id"] for one in items]
        else:
            assert out.count("00000000") == 3 and "not among these are calls on n7: no answer came" in out


def test_a_call_across_its_nodes(operator: Operator, router: FakeRouter) -> None:
    """A prefix of the id suffices. The sheet has the facts, the steps with takeovers, the journal and the fate."""
    trail = [step("parked", "n1", 1), step("claimed", "n2", 2), step("parked", "n2", 2, 2), step("claimed", "n2", 3, 2)]
    journal = [{"n": 0, "kind": "answer", "key": "seat\x1b[2J", "round": 1, "lane": "", "bytes": 512}]
    live = {**LEASE, "node_id": "n2", "phase": "waits for answers", "expires": NOW + 90.5}
    router.say("leases", page(LEASE))
    router.say(f"leases/{CALL}", detail(trail=trail, journal=journal, live=live))
    result = operator("lease", "0123")
    assert result.code == 0 and CALL not in result.out and "\x1b" not in result.out
    facts, steps, entries = result.out.split("\n\n")
    assert facts.splitlines()[0] == "call     01234567: book (tools/call)"
    assert "record   open, round 2, epoch 2 of n2\n" in facts and ", for 5m" in facts
    assert "\nframe    parked on n2: waits for answers; its token expires in 1m 30s\n" in facts
    assert facts.endswith("\nfate     It continues when its client answers.")
    assert [line.partition("250 ms")[2].strip() for line in steps.splitlines()[1:]] == [
        "",
        "<- taken over from n1",
        "",
        "<- entered again",
    ]
    assert entries.splitlines()[1].split() == ["0", "answer", "seat\\x1b[2J", "1", "-", "0.5", "KiB"]


def test_a_call_is_shown_with_the_lines_at_which_it_stands(operator: Operator, router: FakeRouter) -> None:
    live = {**LEASE, "stands_at": ["asyncio.tasks:sleep:605", "shop:book:12"]}
    router.say("leases", page(LEASE))
    router.say(f"leases/{CALL}", detail(live=live))
    out = operator("lease", "0123").out
    assert "\nstands at  asyncio.tasks:sleep:605\n           shop:book:12\n" in out


def test_no_tool_and_no_node_makes_a_line(operator: Operator, router: FakeRouter) -> None:
    """Names of tools and nodes come from others, so line ends in them are escaped."""
    router.say("leases", {**page(LEASE), "missing": ["n7\nall is well"]})
    assert "calls on n7\\nall is well: no answer" in operator("leases").out
    router.say("leases", page(LEASE))
    router.say(f"leases/{CALL}", detail(tool="book\nfate     It has ended."))
    assert "book\\nfate     It has ended. (tools/call)" in operator("lease", "0123").out


def test_a_call_that_is_over(operator: Operator, router: FakeRouter) -> None:
    """A finished call is found only by its whole id, because no node lists it."""
    router.say(f"leases/{CALL}", detail(record="done", cause="cancelled", expires=1.0, attempts=3))
    out = operator("lease", CALL).out
    assert "done (cancelled)" in out and "; 3 nodes died of this round" in out and ", which is over\n" in out
    assert "no node holds one" in out and "Its steps are not kept." in out and "No journal of it is kept." in out
    assert [one.path for one in router.asked] == [f"/api/v1/leases/{CALL}"]
    assert json.loads(operator("lease", CALL, "-o", "json").out)["call_id"] == CALL


def test_a_call_that_ended_lately_is_found_by_its_beginning(operator: Operator, router: FakeRouter) -> None:
    """And says how it ended: what `framehold calls` lists can be asked for."""
    ended = {"outcome": "tool_error", "error": "shop.NoStock", "place": "shop:refund:41", "rounds": 1, "seconds": 2.0}
    item = {"call_id": CALL, "tool": "book", "node_id": "n2", "reentrant": True, "began": NOW, "ended": NOW, **ended}
    router.say("leases", page())
    router.say("calls", page(item))
    how = {name: ended[name] for name in ("outcome", "error", "place")}
    router.say(f"leases/{CALL}", detail(record="done", cause="tool_error", **how))
    out = operator("lease", "0123").out
    assert "tool error: shop.NoStock at shop:refund:41" in out
    assert "record   done, round 2" in out, "the cause is not said twice"


@pytest.mark.parametrize(
    ("open_calls", "ended", "says"),
    [
        (
            page(LEASE, {**LEASE, "call_id": OTHER}, total=12),
            page(),
            "12 calls begin with 0123; give more of the id (framehold leases",
        ),
        (page(), page(total=12), "12 ended calls begin with 0123; give more of the id (framehold calls"),
        (page(), page(), "no call begins with 0123; framehold leases lists"),
        (
            page(missing=("n7",)),
            {**page(), "stale": True},
            "0123 (no answer came from n7, the store); framehold leases",
        ),
    ],
)
def test_a_name_that_is_not_one_calls(
    open_calls: Any, ended: Any, says: str, operator: Operator, router: FakeRouter
) -> None:
    router.say("leases", open_calls)
    router.say("calls", ended)
    result = operator("lease", "0123")
    assert result.code == 2 and says in result.err


@pytest.mark.parametrize("name", ["../nodes", "a b", "x" * 37, ""])
def test_what_names_no_call_is_not_asked_for(name: str, operator: Operator, router: FakeRouter) -> None:
    result = operator("lease", name)
    assert result.code == 2 and "this is no call's id" in result.err and router.asked == []
