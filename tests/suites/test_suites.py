"""What the comparison of two runs of a suite finds, which runs are made for it, and what is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.suites.__main__ import Series
from tests.suites.comparison import (
    FAILED,
    PASSED,
    SKIPPED,
    Acceptance,
    Comparison,
    Outcome,
    accepted,
    compare,
    matches,
    read,
    report,
    with_retries,
)
from tests.suites.play import PLUGINS, Run
from tests.suites.suites import FASTMCP, MODES, SDK, SUITES, Suite

GOOD, BAD, SKIP = Outcome(PASSED), Outcome(FAILED, "ValueError: 7"), Outcome(SKIPPED)
TRIO = Acceptance(suite="sdk", modes=("attached",), tests=("a.py::*[trio]",), reason="Framehold runs on asyncio only")
FLAKY = Acceptance(suite="sdk", modes=("attached",), tests=("a.py::one",), reason="seen 1 of 3", flaky=True)
ONE, ON_TRIO = "a.py::one", "a.py::one[trio]"
Runs = Mapping[str, Outcome]

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest">
<testcase classname="tests.a.test_b" file="tests/a/test_b.py" name="test_one[x-y.z]"/>
<testcase classname="tests.a.test_b.TestC.TestD" file="tests/a/test_b.py" name="test_two">
  <failure message="ValueError: 7&#10;and more">a traceback</failure></testcase>
<testcase classname="tests.a.test_b" file="tests/a/test_b.py" name="test_three"><skipped message="later"/></testcase>
<testcase classname="tests.a.test_b" file="tests/a/test_b.py" name="test_four"/>
<testcase classname="tests.a.test_b" file="tests/a/test_b.py" name="test_four"><error message="at its end"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("plain", "other", "new", "stale"),
    [
        pytest.param({ONE: GOOD, "b": BAD}, {ONE: GOOD, "b": BAD}, (), TRIO.tests, id="equal, and an entry too much"),
        pytest.param({ONE: GOOD, ON_TRIO: GOOD}, {ONE: GOOD, ON_TRIO: BAD}, (), (), id="accepted"),
        pytest.param({ON_TRIO: GOOD, "b": GOOD}, {ON_TRIO: BAD, "b": BAD}, ("b",), (), id="it failed"),
        pytest.param({ON_TRIO: GOOD, "b": BAD}, {ON_TRIO: BAD, "b": GOOD}, ("b",), (), id="it passed"),
        pytest.param({ON_TRIO: GOOD, "b": GOOD}, {ON_TRIO: BAD, "b": SKIP}, ("b",), (), id="it was skipped"),
        pytest.param({ON_TRIO: GOOD, "b": GOOD}, {ON_TRIO: BAD}, ("b",), (), id="it was lost"),
        pytest.param({ON_TRIO: GOOD}, {ON_TRIO: BAD, "b": GOOD}, ("b",), (), id="it was gained"),
        pytest.param({ONE: GOOD, ON_TRIO: GOOD}, {ONE: BAD, ON_TRIO: BAD}, (), (), id="flaky"),
    ],
)
def test_a_difference_is_accepted_or_new_and_an_acceptance_is_needed(
    plain: Runs, other: Runs, new: tuple[str, ...], stale: tuple[str, ...]
) -> None:
    found = compare("sdk", "attached", plain, other, [TRIO, FLAKY])
    assert (tuple(found.new), tuple(found.stale), found.is_good) == (new, stale, not (new or stale))
    assert found.passed == sum(one == GOOD for one in other.values())
    assert found.failed_in_both == sum(one == BAD == plain.get(name) for name, one in other.items())
    assert compare("sdk", "attached", plain, other, [TRIO, FLAKY], is_whole=False).stale == []


@pytest.mark.parametrize(("suite", "mode"), [("fastmcp", "attached"), ("sdk", "app")])
def test_an_acceptance_is_for_its_suite_and_modes(suite: str, mode: str) -> None:
    assert compare(suite, mode, {ON_TRIO: GOOD}, {ON_TRIO: BAD}, [TRIO]).new


@pytest.mark.parametrize(("plain", "other"), [({}, {ONE: GOOD}), ({ONE: GOOD}, {})])
def test_a_run_without_tests_is_a_problem(plain: Runs, other: Runs) -> None:
    found = compare("sdk", "attached", plain, other, [])
    assert "had no test" in found.problem and not found.is_good


def test_a_test_that_passes_on_retry_has_passed() -> None:
    first = {"a": BAD, "b": BAD, "c": GOOD}
    assert with_retries(first, [{"a": BAD, "b": BAD}, {"a": GOOD, "b": BAD}]) == {"a": GOOD, "b": BAD, "c": GOOD}


def test_outcomes_are_read_by_node_id(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    file.write_text(JUNIT)
    assert read(file) == {
        "tests/a/test_b.py::test_one[x-y.z]": GOOD,
        "tests/a/test_b.py::TestC::TestD::test_two": BAD,
        "tests/a/test_b.py::test_three": SKIP,
        "tests/a/test_b.py::test_four": Outcome(FAILED, "at its end"),
    }


def test_only_the_star_of_a_pattern_is_special() -> None:
    assert matches("a.py::test[*]", "a.py::test[x-1]") and matches("a.py::*[trio]", "a.py::Test::test[trio]")
    assert not (matches("a.py::test[ab]", "a.py::testa") or matches("a.py::test", "a.py::test[x]"))


def test_the_report_has_a_line_for_each_comparison_and_names_what_differs() -> None:
    new = compare("sdk", "attached", {ONE: GOOD}, {ONE: BAD}, [])
    text = "\n".join(report([new, Comparison("sdk", "app", problem="pytest ended with code 3")]))
    assert f"{ONE}: passed without Framehold, failed with it: ValueError: 7" in text
    assert "problem: pytest ended with code 3" in text
    assert [line.split()[:2] for line in text.splitlines()[1:3]] == [["sdk", "attached"], ["sdk", "app"]]


def test_the_list_knows_all_suites_and_modes() -> None:
    assert {entry.suite for entry in accepted()} == set(SUITES)
    assert {mode for entry in accepted() for mode in entry.modes} == set(MODES)


@pytest.mark.parametrize("name", ["suite", "modes", "tests", "reason", "more"])
def test_an_entry_that_is_not_whole_is_refused(tmp_path: Path, name: str) -> None:
    fields = {"suite": '"sdk"', "modes": '["app"]', "tests": '["a"]', "reason": '"r"'}
    fields[name] = "[]" if name in ("modes", "tests") else '" "'
    file = tmp_path / "accepted.toml"
    file.write_text("\n".join(["[[accepted]]", *(f"{key} = {value}" for key, value in fields.items())]))
    with pytest.raises(ValidationError, match=name):
        accepted(file)


class Stage:
    """Plays runs that are made up: `verdicts` has for each mode what its tests end with, run after run."""

    def __init__(self, **verdicts: list[dict[str, Outcome]]) -> None:
        self._verdicts = verdicts
        self.played: list[tuple[str, tuple[str, ...]]] = []

    def __call__(self, mode: str, only: Sequence[str], label: str) -> Run:
        self.played.append((f"{mode}{label}", tuple(only)))
        return Run(self._verdicts[mode].pop(0), {"attached": 1})


def test_the_run_without_framehold_is_made_once() -> None:
    stage = Stage(plain=[{ONE: GOOD}], attached=[{ONE: GOOD}], app=[{ONE: GOOD}])
    series = Series(SDK, stage, [], (), 2)
    assert [series.compared(mode).is_good for mode in ("attached", "app")] == [True, True]
    assert stage.played == [("plain", ()), ("attached", ()), ("app", ())]


def test_only_tests_that_differ_are_run_again_on_both_sides() -> None:
    first, again = {"a": GOOD, "b": BAD, "c": BAD}, {"b": BAD, "c": GOOD}
    stage = Stage(plain=[dict.fromkeys(first, GOOD), dict.fromkeys(again, GOOD)], attached=[first, again])
    found = Series(SDK, stage, [], (), 1).compared("attached")
    assert ([*found.new], found.retried) == (["b"], ["c"])
    assert stage.played[2:] == [("plain-retry-1", ("b", "c")), ("attached-retry-1", ("b", "c"))]


def test_a_run_that_could_not_be_made_is_a_problem() -> None:
    series = Series(SDK, lambda mode, only, label: Run(problem="pytest ended with code 4"), [], (), 2)
    assert series.compared("app").problem == "plain: pytest ended with code 4"


def test_a_fleet_is_compared_with_one_process_over_http() -> None:
    stage = Stage(served=[{ONE: GOOD}], fleet=[{ONE: GOOD}])
    assert Series(SDK, stage, [], (), 2).compared("fleet").is_good
    assert "fleet" in SDK.modes and "fleet" not in FASTMCP.modes


@pytest.mark.parametrize("suite", SUITES.values(), ids=lambda suite: suite.name)
def test_the_run_without_framehold_has_no_plugin_that_imports_it(suite: Suite) -> None:
    plugins = suite.plugins("plain")
    assert plugins == ["ordinary_failures", *suite.needed]
    for plugin in plugins:
        assert "framehold" not in (PLUGINS / f"{plugin}.py").read_text(encoding="utf-8")
