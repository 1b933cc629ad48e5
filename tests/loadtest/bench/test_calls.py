"""Calls at several servers in turn: ratios turn by turn, and what becomes of a server that cannot be had."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from framehold_loadtest.bench import child
from framehold_loadtest.bench.calls import Group, Plan, Site, Turn, measure, rows
from framehold_loadtest.bench.pages import tables
from framehold_loadtest.bench.servers import BASELINE, BASES, DEFAULT
from framehold_loadtest.local.listeners import Cores
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.peers import servers

pytestmark = pytest.mark.load

CORES = Cores(server=0, load=0)
PLAN = Plan(turns=2, warm=0.0, seconds=1.0)


def turn(calls: int, *, server: float = 0.5, store: float = 0.0, p50: float = 0.001, **errors: int) -> Turn:
    """One second with so many calls, and the CPU seconds of both processes."""
    return Turn(calls, 1.0, server, store, p50=p50, errors=errors)


def test_a_ratio_compares_two_windows_of_one_turn_and_counts_the_store_in() -> None:
    """The second turn is twice as slow for all: the ratios do not see it."""
    sdk = [turn(100, server=1.0, p50=0.01), turn(50, server=1.0, p50=0.02)]
    other = [turn(300, server=0.6, store=0.3, p50=0.015), turn(150, server=0.6, store=0.3, p50=0.03)]
    base, row = rows({BASELINE: sdk, "other": other}, [BASELINE])
    found = row["to"][BASELINE]
    assert found["rate"] == pytest.approx([3.0, 3.0]) and found["p50"] == pytest.approx([1.5, 1.5])
    assert found["cpu"] == pytest.approx([1 / 0.3, 1 / 0.3])  # 1 s for 100 calls beside 0.9 s for 300
    assert base["to"][BASELINE] == {"rate": [1.0, 1.0], "cpu": [1.0, 1.0], "p50": [1.0, 1.0]}
    assert (row["rate"], row["server_cpu"]) == pytest.approx((225, 0.003))


def test_both_modes_of_the_sdk_are_compared_with() -> None:
    turns = {name: [turn(calls, server=1.0)] for name, calls in ((BASELINE, 100), (DEFAULT, 50), ("other", 200))}
    *_, row = rows(turns, BASES)
    assert row["to"][BASELINE]["rate"] == pytest.approx([2.0]) and row["to"][DEFAULT]["cpu"] == pytest.approx([4.0])


def test_errors_of_all_turns_are_counted_and_without_a_baseline_there_are_no_ratios() -> None:
    (row,) = rows({"other": [turn(1, a=1), turn(1, a=2, b=1)]}, BASES)
    assert (row["errors"], row["to"]) == ({"a": 3, "b": 1}, {})


def group(name: str, what: str = "") -> Group:
    return Group(lambda stack, cores: {name: Site(1, 1)}, {name: what})


def absent(stack: ExitStack, cores: Cores) -> Mapping[str, Site]:
    raise NotAvailable("npm is missing")


def played(monkeypatch: pytest.MonkeyPatch, *turns: list[Turn]) -> None:
    """The turns of each server that starts, after one that is not counted."""
    found: list[list[dict[str, Any]]] = [
        [{name: getattr(one, name) for name in Turn.__dataclass_fields__} for one in (turn(1, warm=1), *of)]
        for of in turns
    ]
    monkeypatch.setattr(child, "run", lambda *_, **__: found)


def test_what_cannot_be_had_or_fails_in_a_turn_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that fails keeps no figure of the turns before."""
    played(monkeypatch, [turn(10)] * 2, [turn(20)] * 2, [turn(30), turn(0, refused=7)])
    groups = [group(BASELINE), Group(absent, {"absent": "never there"}), group("other"), group("broken")]
    found = measure(groups, BASES, PLAN, CORES)
    reasons = {"absent": "npm is missing", "broken": "in some turn no call completed; refused"}
    assert found["not_available"] == reasons
    assert [(row["server"], row["to"][BASELINE]["rate"]) for row in found["rows"]] == [
        (BASELINE, [1.0, 1.0]),
        ("other", [2.0, 2.0]),
    ]
    (table,) = tables("calls", found)
    shown = table.text()
    assert all(f"{name}: not available: {why}" in shown for name, why in reasons.items())
    assert "never there" not in shown and " warm" not in shown


def test_a_load_that_fails_is_the_reason_of_each_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise NotAvailable("no figure")

    monkeypatch.setattr(child, "run", fail)
    found = measure([group("one"), group("other")], BASES, PLAN, CORES)
    assert (found["rows"], found["not_available"]) == ([], {"one": "no figure", "other": "no figure"})


def test_two_ways_to_call_one_server_share_it() -> None:
    """Restate is started once for both."""
    (durable,) = [one for one in servers.peers(Path("/nonexistent")) if "restate, known" in one.what]
    assert durable.what.keys() == durable.call.keys() == {"restate, known", "restate, asked"}
