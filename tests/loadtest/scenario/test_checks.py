"""Each pass rule, on a run that keeps it, on one that breaks it, and on one that had nothing to show."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from framehold_loadtest.ledger import Effects
from framehold_loadtest.notes import ENDED, LOST, UNBORN, Call, Duplicate, Notes, Round
from framehold_loadtest.report.series import Fault, Sample
from framehold_loadtest.scenario import checks, scenarios
from framehold_loadtest.scenario.checks import Bounds, Check, Evidence

pytestmark = pytest.mark.load

KILL = Fault(10.0, scenarios.KILL, "n1", 14.0)
ADDED = Fault(10.0, scenarios.ADD, "n4", 14.0, {"moved": 0.26, "nodes": 4.0})
PAUSED = Fault(10.0, scenarios.NODE_PAUSE, "n1", 14.0, {"taken": 3.0})
AWAY = Fault(10.0, scenarios.STORE_PAUSE, "store", 14.0)


def resume(at: float = 11.0, seconds: float = 0.1, node: str = "n1", **more: Any) -> Round:
    return Round("a", 2, at, seconds, node, more.pop("before", "n1"), **more)


def ended(outcome: str = ENDED, why: str = "") -> Call:
    return Call("a", 0.0, 5.0, 3, outcome, why)


def sample(at: float, rss: int = 100, slow: float = 0.0) -> Sample:
    """`slow` of a hundred turns of the loop a second took longer than 0.25 s."""
    lag = {0.25: (100 - slow) * at, 1.0: 100 * at, math.inf: 100 * at}
    return Sample(at, {"n1": 3}, {"n1": rss * 2**20}, {"n1": 0.0}, {"n1": lag})


def seen(*rounds: Round, **more: Any) -> Evidence:
    notes = Notes(list(rounds), more.pop("calls", [ended()]), more.pop("duplicates", []), 0.0, 60.0)
    usual: dict[str, Any] = {"effects": Effects(2, 2, 0, 0), "bounds": Bounds(lease_ttl=5.0)}
    return Evidence(notes, **(usual | more))


FEW = [resume() for _ in range(2000)]
CASES: list[tuple[Check, Evidence, Evidence]] = [
    (checks.affine, seen(*FEW), seen(*FEW[:500], resume(node="n2"))),
    (checks.few_errors, seen(*FEW, resume(why="500")), seen(*FEW[:500], resume(refused=("503",)))),
    (checks.none_visible, seen(*FEW), seen(*FEW, resume(refused=("503",)))),
    (checks.none_lost, seen(), seen(calls=[ended(), ended(LOST)])),
    (checks.all_begin, seen(), seen(calls=[*([ended()] * 999), ended(UNBORN)])),
    (checks.effects_once, seen(), seen(effects=Effects(2, 2, 1, 0))),
    (checks.effects_once, seen(), seen(effects=Effects(2, 1, 0, 1))),
    (checks.resumed_in_time, seen(resume(seconds=6.9, node="n2")), seen(resume(seconds=7.1, node="n2"))),
    (checks.resumed_in_time, seen(resume(refused=("503",))), seen(resume(seconds=8.0, refused=("503",)))),
    (
        checks.resumed_in_time,
        seen(resume(at=9.0, seconds=6.9), resume(at=30.0, seconds=8.0), faults=[KILL]),
        seen(resume(seconds=1.0, node="n2"), resume(at=9.0, seconds=8.0), faults=[KILL]),
    ),
    (checks.faults_made(scenarios.KILL), seen(faults=[KILL]), seen(faults=[ADDED])),
    (checks.taken_over, seen(faults=[PAUSED]), seen(faults=[PAUSED, replace(PAUSED, seen={"taken": 0.0})])),
    (checks.few_keys_moved, seen(faults=[ADDED]), seen(faults=[replace(ADDED, seen={"moved": 0.7, "nodes": 4.0})])),
    (checks.parked_stay_put, seen(*FEW, faults=[ADDED]), seen(*FEW, resume(node="n4"), faults=[ADDED])),
    (
        checks.duplicates_alike,
        seen(duplicates=[Duplicate("a", 1.0, 0.1, True)]),
        seen(duplicates=[Duplicate("a", 1.0, 0.1, True), Duplicate("a", 1.0, 0.1, False)]),
    ),
    (checks.resumes_bounded, seen(resume(seconds=4.9)), seen(resume(seconds=5.1))),
    (checks.loop_free, seen(samples=[sample(1, slow=0.5), sample(9, slow=0.5)]), seen(samples=[sample(1, slow=5.0)])),
    (checks.fails_closed, seen(resume(why="503 x"), faults=[AWAY]), seen(resume(why="500 x"), faults=[AWAY])),
    (
        checks.nothing_unwritten,
        seen(resume(at=9.9, seconds=0.2, asked=True), resume(at=11.0, seconds=3.5, asked=True), faults=[AWAY]),
        seen(resume(at=11.0, asked=True), faults=[AWAY]),
    ),
    (
        checks.recovers,
        seen(resume(at=30.0), resume(refused=("503",)), faults=[AWAY]),
        seen(resume(at=30.0, refused=("503",)), faults=[AWAY]),
    ),
    (
        checks.memory_flat,
        seen(samples=[sample(at, 100 + at % 2) for at in range(90)]),
        seen(samples=[sample(at, 100 + at) for at in range(90)]),
    ),
]


@pytest.mark.parametrize(("check", "kept", "broken"), CASES)
def test_a_rule_tells_what_keeps_it_from_what_breaks_it(check: Check, kept: Evidence, broken: Evidence) -> None:
    assert check(kept).passed, check(kept)
    assert not check(broken).passed, check(broken)


def test_calls_that_never_began_say_why() -> None:
    """A name that the fleet does not answer to would else be a mere number."""
    assert checks.all_begin(seen(calls=[ended(), ended(UNBORN, "421: Host")])).seen == "1 of 2, the first: 421: Host"


def test_a_limit_on_time_is_stretched_by_the_wait_for_cores_and_no_further() -> None:
    """The fleet waited for cores as long as it worked: twice the time is its own, more is not."""
    looks = [replace(sample(at, slow=5.0), cpu={"n1": at}, waited={"n1": at}) for at in (1.0, 2.0)]
    assert checks.resumes_bounded(seen(resume(seconds=9.9), samples=looks)).passed
    assert not checks.resumes_bounded(seen(resume(seconds=10.1), samples=looks)).passed
    assert checks.resumed_in_time(seen(resume(seconds=8.9, node="n2"), samples=looks)).passed
    assert not checks.resumed_in_time(seen(resume(seconds=9.1, node="n2"), samples=looks)).passed
    starved = [replace(look, waited={"n1": 99 * look.at}) for look in looks]
    assert not checks.resumes_bounded(seen(resume(seconds=20.1), samples=starved)).passed
    lagging = checks.loop_free(seen(samples=looks))
    assert (lagging.passed, lagging.wanted) == (False, "<= 0.25 s x 2.0, for cores were waited for")


def test_a_store_that_has_forgotten_nothing_yet_is_not_judged_by_its_size() -> None:
    """It keeps what came of each call for a while, so it grows with each call until then."""
    looks = [replace(sample(at), rss={"n1": 1, "store": at * 2**20}) for at in range(900)]
    young, old = checks.memory_flat(seen(samples=looks[:600])), checks.memory_flat(seen(samples=looks))
    assert young.passed and "is not judged" in young.seen
    assert not old.passed and old.seen == "store: +61440 KiB a minute"


@pytest.mark.parametrize("scenario", scenarios.SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_a_run_that_saw_nothing_passes_no_rule(scenario: scenarios.Scenario) -> None:
    """Else a scenario whose users never came would be as green as one that was kept."""
    nothing = Evidence(Notes(), Effects(0, 0, 0, 0))
    assert [check(nothing).name for check in scenario.checks if check(nothing).passed] == []


def test_every_rule_is_tried() -> None:
    """A rule of a scenario that no case above breaks would not be known to see anything."""
    tried = {check.__qualname__ for check, _, _ in CASES}
    assert {check.__qualname__ for found in scenarios.SCENARIOS.values() for check in found.checks} == tried


def test_resumes_are_sorted_by_when_they_began() -> None:
    rounds = [resume(at=5.0, seconds=1.0), resume(at=12.0, seconds=2.0), resume(at=20.0, seconds=3.0)]
    rounds += [Round("a", 1, 5.0, 9.0, "n1"), resume(at=5.0, seconds=9.0, why="503")]
    assert checks.split(rounds, [KILL]) == {"before": [1.0], "during": [2.0], "after": [3.0]}
