"""`framehold calls`: the calls that ended, and how."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from framehold_cli.operate import calls
from tests.cli.fake_router import CALL, FakeRouter, Operator

NOW = 1_795_000_000.0
ENDED: dict[str, Any] = {
    "call_id": CALL,
    "tool": "refund",
    "node_id": "n2",
    "outcome": "tool_error",
    "error": "shop.NoStock",
    "place": "shop:refund:41",
    "rounds": 1,
    "reentrant": True,
    "began": NOW - 75.0,
    "ended": NOW - 72.5,
    "seconds": 2.5,
}


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the clock of the command."""
    monkeypatch.setattr(calls, "time", SimpleNamespace(time=lambda: NOW))


def page(*items: Any, total: int | None = None, **more: Any) -> dict[str, Any]:
    return {"items": items, "total": len(items) if total is None else total, "next": None, **more}


def test_a_list_of_ended_calls(operator: Operator, router: FakeRouter) -> None:
    good = {**ENDED, "call_id": "f" * 32, "outcome": "completed", "error": "", "place": ""}
    router.say("calls", page(ENDED, good, total=7, next="abc", stale=True))
    heads, first, second, *notes = operator("calls").out.splitlines()
    assert heads.split() == ["CALL", "TOOL", "NODE", "ENDED", "TOOK", "ROUNDS", "HOW"]
    assert first.split() == [
        "01234567",
        "refund",
        "n2",
        "1m",
        "12s",
        "ago",
        "2.50",
        "s",
        "1",
        "tool",
        "error:",
        "shop.NoStock",
        "at",
        "shop:refund:41",
    ]
    assert second.split()[-2:] == ["1", "completed"]
    assert "2 of 7" in notes[-2] and notes[-1].startswith("the store can't be read")


def test_filters_are_the_routers(operator: Operator, router: FakeRouter) -> None:
    router.say("calls", page())
    assert operator("calls").out == "No call ended in the last hour.\n"
    assert router.asked[-1].query == {"sort": "ended", "limit": "100"}
    words = "--failed --outcome lost --tool refund --node n2 --sort seconds --limit 7"
    router.say("calls", page())
    result = operator("calls", *words.split()).out
    assert result.endswith("passes the filter (failed true, outcome lost, tool refund, node n2).\n")
    wanted = {"failed": "true", "outcome": "lost", "tool": "refund", "node": "n2", "sort": "seconds", "limit": "7"}
    assert router.asked[-1].query == wanted


def test_an_empty_list_names_its_filters_as_they_were_typed(operator: Operator, router: FakeRouter) -> None:
    """A tool's name keeps its capitals: in other letters it is another tool."""
    router.say("calls", page())
    assert operator("calls", "--tool", "Refund").out.endswith("passes the filter (tool Refund).\n")


def test_as_json_it_is_the_routers(operator: Operator, router: FakeRouter) -> None:
    router.say("calls", page(ENDED))
    assert json.loads(operator("calls", "-o", "json").out)["items"][0]["place"] == "shop:refund:41"
