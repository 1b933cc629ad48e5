"""Parts of the benchmark that can be held to a result: what is counted, not timed, and what is refused."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from framehold_loadtest.bench.generators import writers
from framehold_loadtest.bench.generators.calls import Measured
from framehold_loadtest.bench.generators.rounds import QUESTIONS
from framehold_loadtest.bench.generators.writers import Turn, Written, written
from framehold_loadtest.bench.lab import proxies
from framehold_loadtest.bench.lab.servers import Target, run_json
from framehold_loadtest.bench.sections import calls, kinds, single, steps
from framehold_loadtest.bench.subjects.kinds import KINDS
from framehold_loadtest.bench.tables import targets
from framehold_loadtest.bench.tables.targets import SINGLE_JUDGED
from framehold_loadtest.local.listeners import Listener, pick_cores, redis_server
from framehold_loadtest.local.process import NotAvailable

pytestmark = pytest.mark.load


def test_each_round_of_a_call_writes_to_the_store_once() -> None:
    """Its first, its last, and those between."""
    cores = pick_cores()
    with redis_server(cores.load) as store:
        assert run_json("rounds", ["--port", str(store.port)], cores.server, 60) == [1] * (QUESTIONS + 1)


STEPS = {1: 191, 2: 158}
"""How many functions of Framehold each round of a call enters. Lower a number when a round gets shorter; who has to
raise one has made a round longer."""


def test_no_round_enters_more_functions_than_before() -> None:
    found = steps.measure(pick_cores())
    assert found["not_available"] == {}
    whole: Counter[int] = Counter()
    for row in found["rows"]:
        whole[row["round"]] += row["entries"]
    assert all(whole[number] <= bound for number, bound in STEPS.items()), whole
    assert all(row["entries"] and row["files"] for row in found["rows"])


def test_each_kind_of_handler_is_measured_beside_the_same_by_hand() -> None:
    found = kinds.measure(kinds.KindsPlan(turns=2, calls=2), pick_cores())
    assert found["not_available"] == {}
    assert [row["kind"] for row in found["rows"]] == [*KINDS] and targets.KINDS.keys() <= KINDS.keys()
    assert all(len(row["ratios"]) == 2 and min(row["ours"], row["theirs"]) > 0 for row in found["rows"])


def test_writes_are_made_together_by_redis_py_and_alone_in_turn() -> None:
    cores = pick_cores()
    with redis_server(cores.load) as store:
        words = ["--port", str(store.port), "--store", str(store.pid), "--seconds", "0.2"]
        found = Written(**run_json("writers", words, cores.server, 60))
    assert found.errors == {} and found.writes > writers.LANES
    assert len(found.ratios) == len(found.slices) == 10 and min(found.ratios) > 0
    # A batch shares its round trip, which one write pays alone.
    assert found.lone_cpu_per_write > found.cpu_per_write and found.pipeline_cpu_per_write > 0


def turn(writes: int, cpu: float) -> Turn:
    return Turn([0.001] * writes, 1.0, cpu, 0.5, Counter())


def test_a_write_is_compared_with_redis_pys_pipeline_of_the_same_turn() -> None:
    """The second turn is twice as slow for both: the ratios do not see it."""
    together, pipeline = [turn(100, 0.2), turn(50, 0.2)], [turn(200, 0.8), turn(100, 0.8)]
    found = written({"together": together, "pipeline": pipeline, "alone": [turn(10, 0.1), turn(10, 0.3)]})
    assert found.ratios == pytest.approx([0.5, 0.5])
    assert (found.cpu_per_write, found.lone_cpu_per_write) == pytest.approx((0.4 / 150, 0.02))


def test_one_call_at_a_time_is_measured_at_every_server_and_through_the_router() -> None:
    """With each process that takes part, and no other."""
    found = single.measure(single.SinglePlan(turns=2, calls=3), pick_cores())
    assert found["not_available"] == {}
    rows = {row["server"]: row for row in found["rows"]}
    routed = {name for name, row in rows.items() if row["router_cpu"] > 0}
    stored = {name for name, row in rows.items() if row["store_cpu"] > 0}
    assert routed == {"framehold redis, everysec, router", "framehold redis, always, router"}
    assert stored == routed | {SINGLE_JUDGED, "framehold redis, always"}
    assert rows.keys() == stored | {"sdk", "sdk, default", "framehold memory"}
    assert rows["sdk"]["ratios"] == rows["sdk, default"]["default_ratios"] == [1.0, 1.0]
    assert all(row["server_cpu"] > 0 and len(row["ratios"]) == 2 for row in rows.values())


@pytest.mark.parametrize(("sync", "appends"), [("", "no"), ("everysec", "yes"), ("always", "yes")])
def test_a_redis_syncs_its_file_as_it_was_asked(sync: str, appends: str) -> None:
    with redis_server(pick_cores().load, sync) as store, redis.Redis(port=store.port, protocol=2) as client:
        found: Any = client.config_get("append*")
    assert found["appendonly"] == appends
    assert not sync or found["appendfsync"] == sync


def test_haproxy_is_not_available_where_its_example_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A wheel has no examples beside it."""
    monkeypatch.setattr(proxies, "_EXAMPLE", tmp_path / "haproxy.cfg")
    with (
        pytest.raises(NotAvailable, match="run it from a checkout of the project"),
        proxies.haproxy(pick_cores().server, {"FRAMEHOLD_KEYS": "0" * 64}, [1]),
    ):
        pass


def _in_turn(monkeypatch: pytest.MonkeyPatch, load: Callable[..., list[list[Measured]]]) -> dict[str, Any]:
    """What section `calls` makes of turns that `load` gives, where each server starts."""
    target = Target(Listener(1, 1, Path("log")), None)
    monkeypatch.setattr(calls, "running", lambda server, cores: contextlib.nullcontext(target))
    monkeypatch.setattr(calls, "load_in_turn", load)
    return calls.measure(calls.CallsPlan(turns=1, warm=0.0, seconds=1.0), pick_cores())


def test_a_server_that_completes_no_call_is_named_and_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Measured(10, 1.0, 0.5, 0.0, 0.1, 0.01, 0.02, 0.01, 0.02, {})
    idle = replace(busy, calls=0, errors={"refused": 1})
    found = _in_turn(monkeypatch, lambda sites, *_: [[idle, idle], *([busy, busy] for _ in sites[1:])])
    assert found["not_available"] == {calls.SERVERS[0]: "in some turn no call completed"}
    assert [row["server"] for row in found["rows"]] == list(calls.SERVERS[1:])
    assert {tuple(row["cpu_ratios"]) for row in found["rows"]} == {()}


def test_a_generator_that_fails_is_the_reason_of_each_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object) -> list[list[Measured]]:
        raise NotAvailable("no figure")

    found = _in_turn(monkeypatch, load)
    assert found["rows"] == [] and set(found["not_available"].values()) == {"no figure"}
