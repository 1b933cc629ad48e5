"""What a load costs, from constants that a run measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold_loadtest.report import data
from framehold_loadtest.tradeoff import calculator
from framehold_loadtest.tradeoff.calculator import Case, OfOption

pytestmark = pytest.mark.load

RECORDED = Path(__file__).parents[1] / "recorded" / "tradeoff.json"
OPTION = OfOption(
    by_rounds={
        "cpu_us": {1: 1000.0, 3: 5000.0, 6: 8000.0},
        "wire_bytes": {1: 1000.0, 3: 3000.0, 6: 6000.0},
        "store_ops": {1: 1.0, 3: 5.0, 6: 11.0},
        "wait_ms": {1: 5.0, 3: 0.0, 6: 0.0},
    },
    by_load={0.0: 0.03, 20.0: 0.13, 200.0: 1.0},
    of_state={
        "cpu_us": {0: 0.0, 1024: 150.0, 4096: 300.0},
        "wire_bytes": {0: 0.0, 4096: 8192.0},
        "store_ops": {0: 0.0, 1024: 0.5, 4096: 0.5},
        "wait_ms": {0: 0.0, 4096: 0.0},
        "parked_bytes": {0: 0.0, 4096: 4096.0},
    },
    parked_bytes=8192.0,
    idle={"store_ops": 6.0, "cpu_s": 0.03},
    lost={"node killed": 0.3, "reply lost": 0.5},
    repeated={"reply lost": 1.0},
    turns=(0.9, 1.2),
)


def test_a_load_costs_what_its_calls_and_its_waiting_calls_cost() -> None:
    """600 users who think 30 s at two questions end 10 calls a second, and nearly all of their calls wait."""
    found = calculator.cost(Case(users=600, rounds=3, think=30, state=2048, nodes=6), OPTION)
    assert (found.calls, found.parked) == (10, 600)
    # Each half of the fleet serves 5 of these calls. Their states take 2 x 200 us of a call, however busy the fleet is.
    cores = 2 * (0.03 + 5 / 20 * 0.1) + 10 * 400e-6
    assert found.cores == pytest.approx((0.9 * cores, 1.2 * cores)), "by the cheapest and by the dearest turn"
    assert found.memory == 600 * (8192 + 2048)
    assert found.operations == 10 * (5 + 0.5) + 12, "a state is written once, however large it is"
    assert found.sent == 10 * (3000 + 2 * 2 * 2048)
    assert found.lost == pytest.approx(600 * 0.15), "one of six nodes holds half of what one of three does"
    assert (found.repeated, found.unanswered, found.always) == (1.0, 0.5, 0.0)


@pytest.mark.parametrize(("rate", "cores"), [(0, 0.03), (10, 0.08), (20, 0.13), (110, 0.565), (200, 1.0), (400, 2.0)])
def test_cores_are_by_the_load_and_beyond_the_limit_by_the_call(rate: int, cores: float) -> None:
    """`rate` calls per second: of twice as many users, who think 1 s at each of two questions."""
    found = calculator.cost(Case(users=2 * rate, rounds=3, think=1), OPTION)
    assert found.calls == rate and found.cores == pytest.approx((0.9 * cores, 1.2 * cores))


def test_more_rounds_are_more_requests_and_their_other_work_does_not_depend_on_the_load() -> None:
    """12 calls of 5 rounds have the requests of 20 calls of 3. Each takes 7000 us, and not 5000 x 5 / 3."""
    found = calculator.cost(Case(users=48, rounds=5, think=1), OPTION)
    assert found.calls == 12
    assert found.cores[0] == pytest.approx(0.9 * (0.13 + 12 * (7000 - 5000 * 5 / 3) * 1e-6))


def test_calls_of_one_round_wait_for_nobody() -> None:
    found = calculator.cost(Case(users=10, rounds=1, think=30), OPTION)
    assert (found.calls, found.parked, found.memory, found.lost) == (2000, 0, 0, 0)


@pytest.mark.parametrize(("rounds", "cost"), [(1, 1000), (2, 3000), (3, 5000), (4, 6000), (6, 8000), (8, 10000)])
def test_between_measured_rounds_a_cost_is_on_the_line_and_beyond_on_its_continuation(rounds: int, cost: int) -> None:
    assert calculator.along(OPTION.by_rounds["cpu_us"], rounds) == cost


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["users=many"], "'users=many' is no number of something"),
        (["weight=3"], "'weight=3' can't be used; there are: users, rounds, think, state, nodes"),
        (["think=-1"], "none below 0"),
        (["rounds=0"], "one user, one round and one node at least"),
    ],
)
def test_a_load_that_is_none_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("'", ".")):
        Case.read(words)


def test_the_constants_that_are_kept_can_be_read() -> None:
    """The calculator takes them where none are named."""
    known = calculator.read(calculator.KEPT)
    assert {"H-hold", "H-replay", "E"} <= set(known.options)


def test_the_constants_of_a_run_are_read_back_and_each_option_has_a_line_or_a_reason(tmp_path: Path) -> None:
    run = data.Tradeoff.model_validate_json(RECORDED.read_bytes())
    known = calculator.read(calculator.write(calculator.constants(run), tmp_path))
    assert set(known.options) | set(known.missing) == set(run.options)
    held = known.options["H-hold"]
    assert held.by_rounds["store_ops"].keys() == {1, 3, 6}
    assert held.idle == {"store_ops": 6.0, "cpu_s": 0.01}
    assert held.turns[0] < 1 < held.turns[1]
    full = max(held.by_load)
    assert held.by_load == pytest.approx({0.0: 0.01, full * 0.1: held.by_load[full] * 0.19,
                                          full * 0.3: held.by_load[full] * 0.51, full: held.by_load[full]})  # fmt: skip
    table = calculator.table(Case(), known)
    assert [line[0] for line in table.lines[1:]] == list(known.options)
    bare = calculator.constants(run.model_copy(update={"series": []}))
    assert bare.options == {} and set(bare.missing.values()) == {"the run has no series of it"}
