"""The metrics of a cell, from what was recorded of one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framehold_loadtest.notes import ENDED, LOST, UNBORN, Call
from framehold_loadtest.report.data import Measured, Missing
from framehold_loadtest.report.respects import RESPECTS, Value, value
from framehold_loadtest.tradeoff import meter
from framehold_loadtest.tradeoff.metrics import NO_CALL, NOT_HERE, metrics, missing
from framehold_loadtest.tradeoff.record import Noted, Seen, Turn

STATS = """# Commandstats
cmdstat_evalsha:calls=70,usec=1,usec_per_call=1.00,rejected_calls=0,failed_calls=0
cmdstat_hset:calls=500,usec=1,usec_per_call=1.00,rejected_calls=0,failed_calls=0
cmdstat_ping:calls=2,usec=1,usec_per_call=1.00,rejected_calls=0,failed_calls=0
cmdstat_client|setinfo:calls=4,usec=1,usec_per_call=1.00,rejected_calls=0,failed_calls=0
cmdstat_info:calls=1,usec=1,usec_per_call=1.00,rejected_calls=0,failed_calls=0
"""
LINES = """a entered trip
a reserve -
a entered trip
a book -
b entered trip
b reserve k
b reserve k
c reserve -
c reserve -
elder reserve -
elder reserve -"""


def turn(number: int, milliseconds: float, token: int = 0, answered: bool = True) -> Turn:
    return Turn(number, 101.0, milliseconds / 1e3, 600, 400, token, answered)


SEEN = Seen(
    began=100.0,
    ended=110.0,
    faults=(),
    quick=Noted(
        [turn(1, 2, 80), turn(1, 4, 80), turn(1, 9, 90), turn(2, 5), turn(2, 7), turn(2, 900, answered=False)],
        [Call("a", 100.0, 101.0, 2, ENDED), Call("b", 100.0, 111.0, 2, ENDED)],
    ),
    slow=Noted([], [Call("c", 100.0, 105.0, 2, LOST, "503"), Call("d", 100.0, 105.0, 1, UNBORN, "503")]),
    lines=LINES.splitlines(),
    cpu={"node": 0.01, "router": 0.002, "store": 0.0},
    store_ops=14,
)


def told(seen: Seen = SEEN) -> dict[str, float | str]:
    found = metrics(seen, rounds=2, window=1.0)
    return {name: one.value if isinstance(one, Measured) else one.missing for name, one in found.items()}


def test_each_metric_is_what_it_says() -> None:
    """Calls that ended too late are no part of the rate; costs are those of all that ended."""
    found = told()
    assert found["calls_per_second"] == 0.1
    assert (found["p50_ms_round_1"], found["p99_ms_round_2"]) == (4, 7)
    assert (found["wire_bytes_round_1"], found["token_bytes_round_1"]) == (1000, 80)
    assert "token_bytes_round_2" not in found
    assert (found["cpu_us_node"], found["cpu_us_router"], found["cpu_us_store"]) == pytest.approx((5000, 1000, 0))
    assert (found["store_ops"], found["calls_lost"], found["calls_ended"]) == (7, 1, 2)
    assert found["calls_refused_at_their_beginning"] == 1


def test_the_rate_is_that_of_who_answers_at_once() -> None:
    """The others come in a wave when all is over, which is no sign of recovery."""
    wave = replace(SEEN, slow=Noted([turn(2, 5)] * 500, [Call("e", 100.0, 109.0, 2, ENDED)]), faults=(105.0,))
    assert told(wave)["calls_per_second"] == 0.1
    assert "5 rounds were answered before the fault" in str(told(wave)["seconds_to_recover"])


def test_duplicates_and_entries_are_those_of_this_cell() -> None:
    """An effect under the same key is one; what another cell's calls did is left out; entries are no effects."""
    found = told()
    assert (found["duplicate_effects"], found["reexecutions"]) == (1, pytest.approx(1 / 3, abs=1e-3))


def test_what_waits_is_weighed_once() -> None:
    assert told()["bytes_per_parked_call"] == NOT_HERE
    weighed = told(replace(SEEN, parked={"node": 9000.0, "router": 0.0, "store": 1400.0}))
    assert told(replace(SEEN, parked={}))["bytes_per_parked_call"] == "no call came to its first question"
    assert (weighed["bytes_per_parked_call_node"], weighed["bytes_per_parked_call_store"]) == (9000, 1400)


def test_without_a_call_nothing_is_spent_per_call() -> None:
    found = told(replace(SEEN, quick=Noted(), slow=Noted([], SEEN.slow.calls[1:])))
    assert (found["cpu_us_node"], found["store_ops"], found["reexecutions"]) == (NO_CALL, NO_CALL, NO_CALL)
    assert found["p50_ms_round_1"] == "none was answered"
    assert found["calls_per_second"] == 0


def test_where_no_call_began_nobody_is_cleared_of_harm() -> None:
    """An option that refused everybody would otherwise look harmless."""
    found = told(replace(SEEN, quick=Noted([], []), slow=Noted([], [Call("d", 100.0, 105.0, 1, UNBORN, "503")])))
    assert found["calls_lost"] == found["duplicate_effects"] == "no call was begun"


def test_the_times_of_the_few_who_came_through_are_no_latency() -> None:
    """What the others waited for never came, so a quick one is no sign of speed."""
    found = told(replace(SEEN, slow=Noted([], [*SEEN.slow.calls, *SEEN.slow.calls])))
    assert "2 of 6 calls came to their end" in str(found["p50_ms_round_1"])
    assert found["wire_bytes_round_1"] == 1000


def test_the_report_finds_each_respect_in_it() -> None:
    found = metrics(replace(SEEN, parked={"node": 1.0, "router": 0.0, "store": 0.0}), rounds=2, window=1.0)
    absent = [respect.name for respect in RESPECTS if not isinstance(value(found, respect), Value)]
    assert absent == ["seconds_to_recover"]
    assert set(missing("why").values()) == {Missing(missing="why")}


def test_a_script_is_one_operation() -> None:
    """Whatever it calls within the store."""
    assert meter.asked(STATS) == 76
