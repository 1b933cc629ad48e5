"""Who wins, who harms, and how the parts of a value add up: on a trade-off of two or three options."""

from statistics import median

import pytest

from framehold_loadtest.report.data import Cell, Measured, Missing, Tradeoff
from framehold_loadtest.report.respects import BY_NAME, Value, value
from framehold_loadtest.report.tradeoff_tables import best, harm, harms, told_apart

pytestmark = pytest.mark.load

Told = float | str


def tradeoff(**options: dict[str, Told]) -> Tradeoff:
    """Options under one condition; a text in place of a number is the reason why there is none."""
    cells = [Cell(option=option, condition="steady", metrics={n: metric(v) for n, v in metrics.items()})
             for option, metrics in options.items()]  # fmt: skip
    return Tradeoff(machine={}, commit="c", started="s", command="x", options=list(options), conditions=["steady"],
                    cells=cells)  # fmt: skip


def metric(told: Told) -> Measured | Missing:
    """Measured in three turns that differ by half a percent."""
    if isinstance(told, str):
        return Missing(missing=told)
    return Measured(value=told, unit="", turns=[told * 0.995, told, told * 1.005])


def test_more_calls_win_and_less_latency_wins() -> None:
    """Each respect has its own better way."""
    run = tradeoff(E={"calls_per_second": 300, "p50_ms": 4}, G={"calls_per_second": 200, "p50_ms": 3})
    assert best(run, BY_NAME["calls_per_second"], "steady") == ("E",)
    assert best(run, BY_NAME["p50_ms"], "steady") == ("G",)


def test_measured_values_within_the_noise_share_the_win() -> None:
    """4 % is no lead, 6 % is."""
    run = tradeoff(A={"cpu_us": 100}, E={"cpu_us": 104}, F={"cpu_us": 106})
    assert best(run, BY_NAME["cpu_us"], "steady") == ("A", "E")


def test_a_difference_is_named_only_where_no_turn_lies_among_those_of_the_other() -> None:
    """Medians far apart tell nothing if one turn of the worse is better than one of the better; nor do two turns."""
    one, other = [100.0, 110, 120, 130, 140], [135.0, 150, 160, 170, 180]
    assert apart(one, other) is False
    assert apart(one, [141, *other[1:]]) is True
    assert apart(one[:2], other[1:3]) is False


def apart(one: list[float], other: list[float]) -> bool:
    values = [Value({"": median(turns)}, median(turns), tuple(turns)) for turns in (one, other)]
    found = {told_apart(BY_NAME["cpu_us"], *pair) for pair in (values, values[::-1])}
    assert len(found) == 1, "whichever comes first"
    return found.pop()


def test_what_was_measured_once_is_not_told_apart() -> None:
    cells = [Cell(option=option, condition="steady", metrics={"cpu_us": Measured(value=cost, unit="us")})
             for option, cost in (("A", 1.0), ("E", 9.0))]  # fmt: skip
    run = tradeoff(A={}, E={}).model_copy(update={"cells": cells})
    assert best(run, BY_NAME["cpu_us"], "steady") == ()


def test_parts_are_added_turn_by_turn() -> None:
    """The median of sums is not the sum of medians."""
    parts = {f"cpu_us_{place}": Measured(value=median(turns), unit="us", turns=turns)
             for place, turns in (("node", [1.0, 5.0, 6.0]), ("store", [9.0, 1.0, 2.0]))}  # fmt: skip
    found = value(parts, BY_NAME["cpu_us"])
    assert isinstance(found, Value) and (found.turns, found.number) == ((10.0, 6.0, 8.0), 8.0)


def test_counts_share_a_win_only_if_equal() -> None:
    """One call lost of a thousand is one too many."""
    run = tradeoff(A={"lost_share": 100}, E={"lost_share": 100.1})
    assert best(run, BY_NAME["lost_share"], "steady") == ("A",)


def test_options_that_are_alike_have_no_winner() -> None:
    """A win of all tells nothing apart."""
    run = tradeoff(A={"lost_share": 0}, E={"lost_share": 0})
    assert best(run, BY_NAME["lost_share"], "steady") == ()


def test_an_option_that_was_not_measured_does_not_win() -> None:
    """0 in its place would win most respects."""
    run = tradeoff(A={"cpu_us": "no such client"}, E={"cpu_us": 4}, F={"cpu_us": 5})
    assert best(run, BY_NAME["cpu_us"], "steady") == ("E",)


def test_a_sum_with_a_missing_part_is_missing() -> None:
    """A call's CPU without the store's share would flatter whoever writes most."""
    run = tradeoff(A={"cpu_us_node": 5, "cpu_us_store": "no process of its own"})
    found = value(run.metrics("A", "steady"), BY_NAME["cpu_us"])
    assert found == Missing(missing="store: no process of its own")


def test_rounds_fold_in_their_order() -> None:
    """Latency counts by its slowest round, bytes by their sum; round 10 comes after round 9."""
    metrics: dict[str, Told] = {
        f"{name}_round_{n}": float(n) for n in range(10, 0, -1) for name in ("p50_ms", "wire_bytes")
    }
    run = tradeoff(A=metrics)
    latency = value(run.metrics("A", "steady"), BY_NAME["p50_ms"])
    wire = value(run.metrics("A", "steady"), BY_NAME["wire_bytes"])
    assert isinstance(latency, Value) and isinstance(wire, Value)
    assert list(latency.parts.values()) == [float(n) for n in range(1, 11)]
    assert (latency.number, wire.number) == (10, 55)


def test_a_pair_that_the_run_left_out_is_missing() -> None:
    """A table has no empty cell."""
    assert value(tradeoff(A={}).metrics("A", "steady"), BY_NAME["cpu_us"]) == Missing(
        missing="the run did not report it"
    )


def test_an_option_is_harmless_only_if_it_was_looked_at() -> None:
    """A lost call or a repeated effect is harm; one that was not counted clears nobody."""
    clean: dict[str, Told] = {"lost_share": 0, "repeated_share": 0}
    run = tradeoff(A=clean, E=clean | {"repeated_share": 2}, F={"lost_share": 0}, G=clean | {"lost_share": "cut off"})
    assert harm(run, "A") == ([], [])
    assert harm(run, "E") == (["calls with a repeated effect: 2% under steady"], [])
    assert harm(run, "G") == ([], ["calls lost under steady: cut off"])
    assert [row[3].text for row in harms(run).entries[1:]] == ["harmless", "harm", "not known", "not known"]
