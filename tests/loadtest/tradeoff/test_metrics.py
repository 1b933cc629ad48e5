"""The metrics of a cell, from what was recorded of one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import framehold_store
from framehold_loadtest.notes import ENDED, LOST, UNBORN, Call
from framehold_loadtest.report.data import Measured, Missing
from framehold_loadtest.report.respects import RESPECTS, Value, value
from framehold_loadtest.tradeoff import meter
from framehold_loadtest.tradeoff.metrics import NO_CALL, NOT_HERE, Turned, merged, metrics, missing
from framehold_loadtest.tradeoff.record import Cores, Noted, Seen, Turn

pytestmark = pytest.mark.load

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
    spans=(),
    quick=Noted(
        [turn(1, 2, 80), turn(1, 4, 80), turn(1, 9, 90), turn(2, 5), turn(2, 7), turn(2, 900, answered=False)],
        [Call("a", 100.0, 101.0, 2, ENDED), Call("b", 100.0, 111.0, 2, ENDED)],
        [0.02, 4.9],
    ),
    slow=Noted([], [Call("c", 100.0, 105.0, 2, LOST, "503"), Call("d", 100.0, 105.0, 1, UNBORN, "503")]),
    lines=LINES.splitlines(),
    cpu={"node": 0.01, "router": 0.002, "store": 0.0},
    store_ops=14,
)


def told(seen: Seen = SEEN) -> dict[str, float | str]:
    found = metrics(seen, rounds=2)
    return {name: one.value if isinstance(one, Measured) else one.missing for name, one in found.items()}


def test_each_metric_is_what_it_says() -> None:
    """Calls that ended too late are no part of the rate; costs are those of all that ended."""
    found = told()
    assert found["calls_per_second"] == 0.1
    assert (found["p50_ms_round_1"], found["p99_ms_round_2"]) == (4, 7)
    assert (found["wire_bytes_round_1"], found["token_bytes_round_1"]) == (1000, 80)
    assert "token_bytes_round_2" not in found
    assert (found["cpu_us_node"], found["cpu_us_router"], found["cpu_us_store"]) == pytest.approx((5000, 1000, 0))
    assert found["store_ops"] == 7


def test_the_rate_is_that_of_who_answers_at_once() -> None:
    """The others come in waves, which are no rate."""
    wave = replace(SEEN, slow=Noted([turn(2, 5)] * 500, [Call("e", 100.0, 109.0, 2, ENDED)]))
    assert told(wave)["calls_per_second"] == 0.1


def test_the_wait_of_a_call_is_that_of_its_user() -> None:
    """The longest counts, and calls that were lost have none; where most were lost nobody's wait says anything."""
    found = told()
    assert (found["wait_p50_ms"], found["wait_p99_ms"], found["wait_longest_ms"]) == (20, 4900, 4900)
    few = told(replace(SEEN, slow=Noted([], [*SEEN.slow.calls, *SEEN.slow.calls])))
    for name in ("wait_longest_ms", "p50_ms_round_1", "cpu_us_node", "store_ops"):
        assert few[name] == "2 of 6 calls came to their end", "what the others cost would fall on the few that ended"
    assert few["wire_bytes_round_1"] == 1000


def hits(seen: Seen) -> tuple[float | str, ...]:
    found = told(seen)
    return tuple(found[f"calls_hit_{name}"] for name in ("lost", "lost_of", "repeated", "repeated_of"))


def test_a_harm_is_told_by_the_calls_that_the_fault_could_reach() -> None:
    """Without a fault all that began; after one those that were open before its repair."""
    lost, repeated = (1, 3), (1, 3)
    assert hits(SEEN) == (*lost, *repeated)
    late = replace(SEEN, spans=((102.0, 102.0), (103.0, 104.0)))
    assert hits(late) == (1, 2, 1, 2), "a had ended when the fault began, d never began"


def test_a_harm_that_came_to_others_too_needs_no_fault() -> None:
    """Its share is of all calls: an effect above the guard is repeated whatever happens."""
    after = replace(SEEN, spans=((106.0, 107.0),))
    assert hits(after) == (1, 3, 1, 3), "the call that was lost and the one with two effects had ended before"


def test_where_replies_are_lost_those_who_lost_one_could_be_hit() -> None:
    seen = replace(SEEN, loses=True, slow=Noted([], [*SEEN.slow.calls, Call("f", 100.0, 105.0, 2, ENDED)]))
    assert hits(seen) == (1, 2, 1, 2)


def test_duplicates_and_entries_are_those_of_this_cell() -> None:
    """An effect under the same key is one; what another cell's calls did is left out; entries are no effects."""
    found = told()
    assert found["calls_hit_repeated"] == 1 and found["reexecutions"] == pytest.approx(1 / 3, abs=1e-3)


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
    nobody = replace(SEEN, quick=Noted([], []), slow=Noted([], [Call("d", 100.0, 105.0, 1, UNBORN, "503")]))
    cell = merged([Turned(metrics(nobody, rounds=2))])
    assert cell["lost_share"] == cell["repeated_share"] == Missing(missing="no call was open that could be hit")


def test_the_report_finds_each_respect_in_it() -> None:
    found = metrics(replace(SEEN, parked={"node": 1.0, "router": 0.0, "store": 0.0}), rounds=2)
    whole = merged([Turned(found)])
    absent = [respect.name for respect in RESPECTS if not isinstance(value(whole, respect), Value)]
    assert absent == ["seconds_to_recover"]
    assert set(missing("why").values()) == {Missing(missing="why")}


def test_a_machine_is_busy_where_others_had_the_cores_that_were_waited_for() -> None:
    """The measured processes wait for each other, too; and others do no harm where nobody waits."""
    assert meter.busy(Cores(stretch=3.0, others=0.1)) == ""
    assert meter.busy(Cores(stretch=1.05, others=30.0)) == ""
    assert meter.busy(Cores(3.0, 1.5)) == "other programs had 1.5 cores, and work took 3.0 times as long for it"


def test_a_script_is_one_operation() -> None:
    """Whatever it calls within the store."""
    assert meter.asked(STATS) == 76


def test_whatever_a_script_calls_is_none_of_its_clients_operations() -> None:
    """Of each script that ships, each command."""
    scripts = Path(framehold_store.__file__).with_name("scripts").glob("*.lua")
    called = {name.lower() for path in scripts for name in re.findall(r"redis\.p?call\('([A-Z]+)'", path.read_text())}
    assert called == {name.partition("|")[0] for name in meter.INNER}
