"""Parts of the benchmark that can be held to a result: what is counted, not timed, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from framehold_loadtest.bench import calls, child, kinds, relays, replay, servers, steps, store, survival, targets
from framehold_loadtest.bench.calls import Plan
from framehold_loadtest.bench.store import Turn, written
from framehold_loadtest.local.listeners import pick_cores
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.served.kinds import KINDS

pytestmark = pytest.mark.load

STEPS = {1: 191, 2: 158}
"""How many functions of Framehold each round of a call enters. Lower a number when a round gets shorter; who has to
raise one has made a round longer."""


def test_no_round_enters_more_functions_than_before() -> None:
    found = steps.measure(pick_cores())
    whole: Counter[int] = Counter()
    for row in found["rows"]:
        whole[row["round"]] += row["entries"]
    assert all(whole[number] <= bound for number, bound in STEPS.items()), whole
    assert all(row["entries"] and row["files"] for row in found["rows"])


def test_each_kind_of_handler_is_measured_beside_the_same_by_hand() -> None:
    found = kinds.measure(2, 2, pick_cores())
    assert [row["kind"] for row in found["rows"]] == [*KINDS] and targets.KINDS.keys() <= KINDS.keys()
    assert all(len(row["ratios"]) == 2 and min(row["ours"], row["theirs"]) > 0 for row in found["rows"])


def test_writes_are_made_together_and_by_redis_py_in_turn_and_each_round_of_a_call_writes_once() -> None:
    """Its first, its last, and those between."""
    found = store.measure(0.2, pick_cores())
    (row,) = found["rows"]
    assert row["errors"] == {} and row["writes"] > store.LANES
    assert len(row["ratios"]) == 10 and min(row["ratios"]) > 0
    assert found["rounds"] == [1] * (store.QUESTIONS + 1)


def turn(writes: int, cpu: float) -> Turn:
    return Turn(writes, 1.0, cpu, 0.5, Counter())


def test_a_write_is_compared_with_redis_pys_pipeline_of_the_same_turn() -> None:
    """The second turn is twice as slow for both: the ratios do not see it."""
    found = written([turn(100, 0.2), turn(50, 0.2)], [turn(200, 0.8), turn(100, 0.8)])
    assert found["ratios"] == pytest.approx([0.5, 0.5]) and found["cpu_per_write"] == pytest.approx(0.4 / 150)


def test_one_call_at_a_time_is_measured_at_every_server_and_through_the_router() -> None:
    """With each process that takes part, and no other."""
    plan = Plan(turns=2, warm=0.1, seconds=0.3, connections=1)
    found = calls.measure(servers.SINGLE, servers.BASES, plan, pick_cores())
    assert found["not_available"] == {}
    rows = {row["server"]: row for row in found["rows"]}
    routed = {name for name, row in rows.items() if row["router_cpu"] > 0}
    stored = {name for name, row in rows.items() if row["store_cpu"] > 0}
    assert routed == {"framehold redis, everysec, router", "framehold redis, always, router"}
    assert stored == routed | {targets.SINGLE_JUDGED, "framehold redis, always"}
    assert rows.keys() == stored | {"sdk", "sdk, default", "framehold memory"}
    assert all(row["server_cpu"] > 0 and len(row["p50s"]) == 2 and not row["errors"] for row in rows.values())


def test_a_once_costs_two_writes_at_most() -> None:
    found = replay.measure(2, pick_cores())
    assert found["not_available"] == {}
    assert {row["store"] for row in found["rows"]} == {"memory", "Redis"}
    assert all(0.9 < row["writes"] < 2.1 for row in found["rows"])


def test_calls_whose_node_is_gone_go_on_and_their_effects_are_counted() -> None:
    found = survival.measure(1, 40, pick_cores())
    assert found["not_available"] == {}
    assert [(row["way"], row["calls"]) for row in found["rows"]] == [("SIGKILL", 1), ("SIGTERM", 1), ("SIGKILL", 40)]
    assert [row["errors"] for row in found["rows"]] == [{}, {}, {}]
    assert [row["finished"] for row in found["rows"]] == [1, 1, 40]


@pytest.mark.parametrize("right", [0, 1])
def test_a_call_with_a_wrong_end_is_no_answer(right: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def parked(port: int, names: Sequence[str]) -> list[tuple[str, Any]]:
        return [(name, None) for name in names]

    async def finished(port: int, name: str, *_: Any) -> bool:
        return name == "call-3" and bool(right)

    monkeypatch.setattr(survival, "_park", parked)
    monkeypatch.setattr(survival, "_finish", finished)
    monkeypatch.setattr(gc, "disable", lambda: None)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as node:
        found = asyncio.run(survival.storm(1, node.pid, "SIGKILL", 1, 4))
    assert (found.calls, found.finished) == (4, right)
    assert found.first == found.last and (found.first == survival.GIVES_UP) == (not right)


def test_haproxy_is_not_available_where_its_example_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A wheel has no examples beside it."""
    monkeypatch.setattr(relays, "_EXAMPLE", tmp_path / "haproxy.cfg")
    with pytest.raises(NotAvailable, match="run it from a checkout of the project"):
        relays.haproxy(pick_cores().server, {"FRAMEHOLD_KEYS": "0" * 64}, [1]).__enter__()


def test_a_function_that_fails_in_its_process_gives_the_reason() -> None:
    with pytest.raises(NotAvailable, match=r"no figure: .*refused"):
        child.run(survival.storm, pick_cores().load, 60.0, first=1, node=0, way="SIGKILL", port=1, calls=1)
