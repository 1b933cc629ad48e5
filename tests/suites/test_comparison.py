"""What the comparison of two runs finds, and what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.accepted import Acceptance, ListFailed, load, matches
from tests.suites.comparison import Comparison, compare
from tests.suites.outcomes import FAILED, PASSED, SKIPPED, Outcome, read, with_retries
from tests.suites.report import report

GOOD, BAD = Outcome(PASSED), Outcome(FAILED, "ValueError: 7")
TRIO = Acceptance("sdk", ("attached",), ("tests/test_a.py::*[trio]",), "Framehold runs on asyncio only")

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest">
<testcase classname="tests.a.test_b" file="tests/a/test_b.py" name="test_one[x-y.z]"/>
<testcase classname="tests.a.test_b.TestC.TestD" file="tests/a/test_b.py" name="test_two">
  <failure message="ValueError: 7&#10;and more">a traceback</failure></testcase>
<testcase classname="tests.a.test_b" file="tests/a/test_b.py" name="test_three"><skipped message="later"/></testcase>
<testcase classname="tests.a.test_b" file="tests/a/test_b.py" name="test_four"/>
<testcase classname="tests.a.test_b" file="tests/a/test_b.py" name="test_four"><error message="at its end"/></testcase>
</testsuite></testsuites>"""


def test_equal_outcomes_are_good() -> None:
    both = {"tests/test_a.py::test_one": GOOD, "tests/test_a.py::test_two": BAD}
    found = compare("sdk", "attached", both, both, [])
    assert found.is_good
    assert (found.passed, found.failed_in_both) == (1, 1)


@pytest.mark.parametrize(("plain", "other"), [(GOOD, BAD), (BAD, GOOD), (GOOD, Outcome(SKIPPED))])
def test_a_difference_that_is_not_accepted_is_new(plain: Outcome, other: Outcome) -> None:
    found = compare("sdk", "attached", {"tests/test_a.py::test_one": plain}, {"tests/test_a.py::test_one": other}, [])
    assert [difference.test for difference in found.new] == ["tests/test_a.py::test_one"]
    assert not found.is_good


def test_a_test_that_only_one_run_had_is_new() -> None:
    one, two = {"a::one": GOOD}, {"a::one": GOOD, "a::two": GOOD}
    lost, gained = compare("sdk", "app", two, one, []), compare("sdk", "app", one, two, [])
    assert [str(difference).split(": ", 1)[0] for difference in (*lost.new, *gained.new)] == ["a::two", "a::two"]


def test_an_accepted_difference_is_counted_with_its_reason() -> None:
    name = "tests/test_a.py::test_one[trio]"
    found = compare("sdk", "attached", {name: GOOD}, {name: BAD}, [TRIO])
    assert found.is_good
    assert found.accepted == {TRIO.reason: 1}


@pytest.mark.parametrize(("suite", "mode"), [("fastmcp", "attached"), ("sdk", "app")])
def test_an_acceptance_is_for_its_suite_and_modes(suite: str, mode: str) -> None:
    name = "tests/test_a.py::test_one[trio]"
    assert compare(suite, mode, {name: GOOD}, {name: BAD}, [TRIO]).new


def test_an_acceptance_without_a_difference_is_stale() -> None:
    both = {"tests/test_a.py::test_one[trio]": GOOD}
    found = compare("sdk", "attached", both, both, [TRIO])
    assert list(found.stale) == list(TRIO.tests)
    assert not found.is_good
    assert compare("sdk", "attached", both, both, [TRIO], is_whole=False).is_good


def test_a_flaky_test_may_differ_or_not() -> None:
    flaky = Acceptance("sdk", ("attached",), ("a::one",), "flaky without Framehold: seen 1 of 3", flaky=True)
    assert compare("sdk", "attached", {"a::one": GOOD}, {"a::one": BAD}, [flaky]).is_good
    assert compare("sdk", "attached", {"a::one": GOOD}, {"a::one": GOOD}, [flaky]).is_good


@pytest.mark.parametrize(("plain", "other"), [({}, {"a::one": GOOD}), ({"a::one": GOOD}, {}), ({}, {})])
def test_a_run_without_tests_is_a_problem(plain: dict[str, Outcome], other: dict[str, Outcome]) -> None:
    found = compare("sdk", "attached", plain, other, [])
    assert "had no test" in found.problem
    assert not found.is_good


def test_a_test_that_passes_on_retry_has_passed() -> None:
    first = {"a::one": BAD, "a::two": BAD, "a::three": GOOD}
    again = [{"a::one": BAD, "a::two": BAD}, {"a::one": GOOD, "a::two": BAD}]
    assert with_retries(first, again) == {"a::one": GOOD, "a::two": BAD, "a::three": GOOD}


def test_outcomes_are_read_by_node_id(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    file.write_text(JUNIT)
    assert read(file) == {
        "tests/a/test_b.py::test_one[x-y.z]": GOOD,
        "tests/a/test_b.py::TestC::TestD::test_two": BAD,
        "tests/a/test_b.py::test_three": Outcome(SKIPPED),
        "tests/a/test_b.py::test_four": Outcome(FAILED, "at its end"),
    }


def test_only_the_star_of_a_pattern_is_special() -> None:
    assert matches("a.py::test[*]", "a.py::test[x-1]")
    assert matches("a.py::*[trio]", "a.py::Test::test[trio]")
    assert not matches("a.py::test[ab]", "a.py::testa")
    assert not matches("a.py::test", "a.py::test[x]")


def test_the_report_has_a_line_for_each_comparison_and_names_what_differs() -> None:
    new = compare("sdk", "attached", {"a::one": GOOD}, {"a::one": BAD}, [])
    text = "\n".join(report([new, Comparison("sdk", "app", problem="pytest ended with code 3")]))
    assert "a::one: passed without Framehold, failed with it: ValueError: 7" in text
    assert "problem: pytest ended with code 3" in text
    assert [line.split()[:2] for line in text.splitlines()[1:3]] == [["sdk", "attached"], ["sdk", "app"]]


def test_the_list_can_be_read_and_has_a_reason_for_each_entry() -> None:
    assert all(entry.reason for entry in load())


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ('suite = "other"\nmodes = ["app"]\ntests = ["a"]\nreason = "r"', "no such suite"),
        ('suite = "sdk"\nmodes = ["ap"]\ntests = ["a"]\nreason = "r"', "`modes`"),
        ('suite = "sdk"\nmodes = ["app"]\ntests = ["a"]\nreason = " "', "`reason`"),
        ('suite = "sdk"\nmodes = ["app"]\ntests = []\nreason = "r"', "`tests`"),
        ('suite = "sdk"\nmodes = ["app"]\ntest = ["a"]\nreason = "r"', "unknown fields: test"),
    ],
)
def test_an_entry_that_is_not_whole_is_refused(tmp_path: Path, fields: str, missing: str) -> None:
    file = tmp_path / "accepted.toml"
    file.write_text(f"[[accepted]]\n{fields}\n")
    with pytest.raises(ListFailed, match=missing):
        load(file)
