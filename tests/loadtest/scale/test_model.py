"""The sums of the scale, and what a run of the benchmark takes the place of."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framehold.config import Settings
from framehold.engine import orphan_scan, peers
from framehold_loadtest.scale import __main__ as program
from framehold_loadtest.scale import model
from framehold_loadtest.scale.costs import Costs
from framehold_loadtest.scale.model import Load, Membership, Sizes
from framehold_store.base import POLL

pytestmark = pytest.mark.load

COSTS, SIZES = Costs(), Sizes()


def test_rounds_follow_from_parked_calls_and_thinking_time() -> None:
    """6,000 calls whose users take a minute are 100 answers a second; three rounds share two questions."""
    load = Load(6_000, think=60, rounds=3, effects=2)
    assert (load.calls, load.requests, load.scripts) == (50, 150, 350)


def test_what_is_needed_is_worked_out_by_hand() -> None:
    """At 600,000 parked calls: 10,000 calls a second of two rounds and one effect, 40,000 scripts."""
    needed = model.need(Load(600_000), COSTS, SIZES)
    assert needed.nodes_by_cpu == pytest.approx((20_000 * 400e-6 + 10_000 * 145e-6) / 0.6 * 1.5)
    assert needed.nodes_by_frames == pytest.approx(600_000 * 1.25 / 20_000 * 1.5)
    assert needed.routers == pytest.approx(20_000 * 45e-6 / 0.6)
    assert needed.shards_by_cpu == pytest.approx(40_000 * 15e-6 / 0.6)
    assert needed.shards_by_memory == pytest.approx((600_000 * 1410 + 10_000 * 660 * 1125) / 2**34)


def test_a_limit_is_met_where_it_says_that_it_is() -> None:
    for name in model.LIMITS:
        parked = model.full_at(name, COSTS, SIZES, 60)
        assert getattr(model.need(Load(parked), COSTS, SIZES), name) == pytest.approx(1)


@pytest.mark.parametrize(
    ("parked", "limit"),
    [(1e3, None), (1e5, "nodes_by_frames"), (1e6, "shards_by_cpu"), (1e8, "fleets")],
)
def test_the_limit_is_the_hardest_to_relieve_of_those_that_are_met(parked: float, limit: str | None) -> None:
    assert model.bottleneck(Load(parked), COSTS, SIZES) == limit


def test_the_limit_moves_when_a_cost_does() -> None:
    """With a Redis that takes nothing, the memory of its outcomes is what is left of it."""
    free = replace(COSTS, store_script=1e-9)
    assert model.bottleneck(Load(2e6), free, SIZES) == "shards_by_memory"
    assert model.bottleneck(Load(2e6), replace(free, record=1.0, tombstone=1.0), SIZES) == "routers"


def test_knowing_each_other_grows_with_the_square() -> None:
    few, many = (Membership.of(nodes, COSTS) for nodes in (100, 1_000))
    assert many.looks == pytest.approx(100 * few.looks)
    assert 70 * few.change < many.change < 100 * few.change
    assert (many.share, many.stall, many.scripts) == pytest.approx((10 * few.share, 10 * few.stall, 10 * few.scripts))


def test_what_a_fleet_of_a_thousand_reads_is_worked_out_by_hand() -> None:
    """Nodes look every 10 s, and every 300 s for another reason, 25 routers every 2 s. Of a change nodes read one."""
    one = Membership.of(1_000, COSTS)
    assert one.looks == pytest.approx(1_000 * (1_000 / 10 + 1_000 / 300 + 25 / 2))
    assert one.scripts == pytest.approx(1_000 * (2 * 3 / 5 + 0.8 / 2))
    assert one.store == pytest.approx(one.looks * 1e-6 + 400 * 3.5e-6 + 1_200 * 15e-6)
    assert one.change == pytest.approx((1_000 + 25 * 1_000) * 1e-6)
    assert (one.stall, one.router_stall) == pytest.approx((0.014, 0.039))


def test_defaults_that_the_sums_rest_on_are_those_of_the_code() -> None:
    fields = Settings.model_fields
    assert fields["lease_ttl"].default == model.LEASE_TTL
    assert fields["max_parked"].default == SIZES.node_parked
    assert fields["token_ttl"].default + 60 == model.OUTCOME_KEPT
    assert POLL == model.POLL
    assert peers.POLLS_PER_READ == model.POLLS_PER_READ
    assert orphan_scan.PAUSE * orphan_scan.MAX_RANK == model.TURNS


BENCH: dict[str, Any] = json.loads((Path(__file__).parents[1] / "bench" / "recorded" / "bench.json").read_text())


def test_a_run_of_the_benchmark_takes_the_place_of_what_it_measured() -> None:
    """What the sections write is found there."""
    costs = Costs.of_bench(BENCH)
    names = {"node_round", "node_once", "node_takeover", "frame", "router_request", "store_script"}
    assert costs.measured == names and all(0 < getattr(costs, name) != getattr(COSTS, name) for name in names)
    assert costs.frame == pytest.approx(
        BENCH["frames"]["rows"][-1]["rss_bytes"] / BENCH["frames"]["rows"][-1]["frames"]
    )
    assert costs.record == COSTS.record
    sources = {what: source for what, _, source in costs.rows()}
    assert sources["a parked frame"] == "this run of the benchmark"
    assert sources["a parked call in Redis, one question"] == "`used_memory`, 10,000 calls"


def test_a_section_that_was_left_out_or_failed_changes_nothing() -> None:
    """A call or two that went on after a death say nothing of a pace, and an empty section nothing at all."""
    one, *_, storm = BENCH["survival"]["rows"]
    for row in (one, storm | {"finished": 2}):
        found = {"calls": {"rows": []}, "survival": {"rows": [row]}, "frames": {"rows": []}}
        assert Costs.of_bench(found) == COSTS


@pytest.mark.parametrize("text", [None, "no json"])
def test_a_file_that_is_no_run_is_refused(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bench.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr("sys.argv", ["scale", "--bench", str(path)])
    assert program.main() == 2
    assert capsys.readouterr().err.startswith("scale: ")
