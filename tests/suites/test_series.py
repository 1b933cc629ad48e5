"""Which runs are made for a comparison, and what counts when tests are run again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.suites.outcomes import FAILED, PASSED, Outcome
from tests.suites.play import PLUGINS, Run
from tests.suites.series import Series
from tests.suites.suites import FASTMCP, SDK, SUITES, Suite

GOOD, BAD = Outcome(PASSED), Outcome(FAILED, "no")


class Stage:
    """Plays runs that are made up: `verdicts` has for each mode what its tests end with, run after run."""

    def __init__(self, **verdicts: list[dict[str, Outcome]]) -> None:
        self._verdicts = verdicts
        self.played: list[tuple[str, tuple[str, ...]]] = []

    def __call__(self, mode: str, only: Sequence[str], label: str) -> Run:
        self.played.append((f"{mode}{label}", tuple(only)))
        return Run(self._verdicts[mode].pop(0), {"attached": 1})


def test_the_run_without_framehold_is_made_once() -> None:
    stage = Stage(plain=[{"a::one": GOOD}], attached=[{"a::one": GOOD}], app=[{"a::one": GOOD}])
    series = Series(SDK, stage, [], (), 2)
    assert [series.compared(mode).is_good for mode in ("attached", "app")] == [True, True]
    assert stage.played == [("plain", ()), ("attached", ()), ("app", ())]


def test_only_tests_that_differ_are_run_again_on_both_sides() -> None:
    first, again = {"a::one": GOOD, "a::two": BAD, "a::three": BAD}, {"a::two": BAD, "a::three": GOOD}
    plain = [dict.fromkeys(first, GOOD), dict.fromkeys(again, GOOD)]
    stage = Stage(plain=plain, attached=[first, again])
    found = Series(SDK, stage, [], (), 1).compared("attached")
    assert [difference.test for difference in found.new] == ["a::two"]
    assert list(found.retried) == ["a::three"]
    differing = ("a::three", "a::two")
    assert stage.played[2:] == [("plain-retry-1", differing), ("attached-retry-1", differing)]


def test_a_run_that_could_not_be_made_is_a_problem() -> None:
    series = Series(SDK, lambda mode, only, label: Run(problem="pytest ended with code 4"), [], (), 2)
    assert series.compared("app").problem == "plain: pytest ended with code 4"


def test_a_fleet_is_compared_with_one_process_over_http() -> None:
    stage = Stage(served=[{"a::one": GOOD}], fleet=[{"a::one": GOOD}])
    assert Series(SDK, stage, [], (), 2).compared("fleet").is_good
    assert [mode for mode, _ in stage.played] == ["served", "fleet"]
    assert "fleet" in SDK.modes and "fleet" not in FASTMCP.modes


@pytest.mark.parametrize("suite", SUITES.values(), ids=lambda suite: suite.name)
def test_the_run_without_framehold_has_no_plugin_that_imports_it(suite: Suite) -> None:
    plugins = suite.plugins("plain")
    assert plugins == ["ordinary_failures", *suite.needed]
    for plugin in plugins:
        assert "framehold" not in (PLUGINS / f"{plugin}.py").read_text(encoding="utf-8")
