"""Two runs of one suite side by side: the run without Framehold, and the run of one mode."""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, Field, StringConstraints, TypeAdapter

FILE = Path(__file__).with_name("accepted.toml")
PASSED, FAILED, SKIPPED, MISSING = "passed", "failed", "skipped", "missing"
"""What may have become of a test. A missing one was run by the other run alone."""
TITLES = ("suite", "mode", "passed", "failed in both", "accepted", "new", "stale", "same on retry")


class Acceptance(BaseModel, frozen=True, extra="forbid"):
    """Tests that may end in another way with Framehold in between, and why.

    `tests` are node ids, in which `*` stands for any text. A test that is `flaky` may differ or not: it depends on the
    machine, or on what ran before it.
    """

    suite: Literal["sdk", "fastmcp"]
    modes: tuple[Literal["attached", "app", "fleet"], ...] = Field(min_length=1)
    tests: tuple[str, ...] = Field(min_length=1)
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    flaky: bool = False

    def unused(self, differing: Iterable[str]) -> list[str]:
        """The patterns that name none of the tests that differ."""
        return [] if self.flaky else [one for one in self.tests if not any(matches(one, test) for test in differing)]


def matches(pattern: str, test: str) -> bool:
    """Whether a pattern names a test. Brackets stand for themselves: they are part of many node ids."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), test, re.DOTALL) is not None


def accepted(file: Path = FILE) -> list[Acceptance]:
    """The differences that are accepted.

    Raises:
        pydantic.ValidationError: an entry names an unknown suite or mode, or lacks tests or a reason.
    """
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("accepted", [])
    return TypeAdapter(list[Acceptance]).validate_python(entries)


class Outcome(NamedTuple):
    """How one test ended; `message` is the first line of its error, if it failed."""

    verdict: str
    message: str = ""


NOT_RUN = Outcome(MISSING, "this run did not have the test")
Outcomes = Mapping[str, Outcome]


def read(file: Path) -> dict[str, Outcome]:
    """The outcome of each test, by its node id, from pytest's JUnit file. A test that passed and failed in its teardown
    has failed. A file that could not be collected has no name of its own: its id is its path."""
    found: dict[str, Outcome] = {}
    for case in ET.parse(file).iter("testcase"):
        path, name = case.get("file", ""), case.get("name", "")
        classes = case.get("classname", "").removeprefix(path.removesuffix(".py").replace("/", ".")).split(".")
        name = "::".join([path, *filter(None, classes), name]) if path else name
        bad = next((part for part in case if part.tag in ("failure", "error")), None)
        if bad is not None:
            lines = (bad.get("message") or bad.text or "").strip().splitlines()
            found[name] = Outcome(FAILED, lines[0] if lines else "")
        else:
            found.setdefault(name, Outcome(PASSED if case.find("skipped") is None else SKIPPED))
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one mode changes in the outcomes of one suite.

    `accepted` counts the accepted differences by their reasons, `new` has the others. `stale` are patterns of the list
    without a difference. `retried` differed at first, and no longer when both runs ran them again. `problem` says why
    nothing was compared.
    """

    suite: str
    mode: str
    passed: int = 0
    failed_in_both: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    new: Mapping[str, str] = field(default_factory=dict)
    stale: Sequence[str] = ()
    retried: Sequence[str] = ()
    problem: str = ""

    @property
    def is_good(self) -> bool:
        """Whether each difference is accepted, and each acceptance is needed."""
        return not (self.new or self.stale or self.problem)


def compare(
    suite: str,
    mode: str,
    plain: Outcomes,
    other: Outcomes,
    listed: Sequence[Acceptance],
    is_whole: bool = True,
    retried: Sequence[str] = (),
) -> Comparison:
    """Compare the outcomes of two runs. `is_whole`: both ran the whole suite, so an acceptance may be stale."""
    if not plain or not other:
        which = "without Framehold" if not plain else f"in mode {mode}"
        return Comparison(suite, mode, problem=f"the run {which} had no test; nothing was compared")
    entries = [entry for entry in listed if entry.suite == suite and mode in entry.modes]
    reasons, new = Counter[str](), dict[str, str]()
    differing = [
        name
        for name in sorted({*plain, *other})
        if plain.get(name, NOT_RUN).verdict != other.get(name, NOT_RUN).verdict
    ]
    for name in differing:
        one, two = plain.get(name, NOT_RUN), other.get(name, NOT_RUN)
        reason = next((item.reason for item in entries if any(matches(part, name) for part in item.tests)), None)
        if reason is not None:
            reasons[reason] += 1
        else:
            new[name] = f"{one.verdict} without Framehold, {two.verdict} with it: {two.message or one.message}"
    return Comparison(
        suite,
        mode,
        passed=sum(outcome.verdict == PASSED for outcome in other.values()),
        failed_in_both=sum(outcome.verdict == FAILED and name not in differing for name, outcome in other.items()),
        accepted=reasons,
        new=new,
        stale=[pattern for entry in entries for pattern in entry.unused(differing)] if is_whole else [],
        retried=retried,
    )


def with_retries(first: Outcomes, again: Iterable[Outcomes]) -> dict[str, Outcome]:
    """The outcomes of `first`; but a test that passed when it was run again has passed."""
    passed = {name: outcome for run in again for name, outcome in run.items() if outcome.verdict == PASSED}
    return {**first, **passed}


def report(comparisons: Sequence[Comparison]) -> list[str]:
    """A line for each comparison, and below them what a reader must look at."""
    rows = [TITLES, *map(_row, comparisons)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    for one in comparisons:
        lines += ["", f"{one.suite}, {one.mode}:", *(f"  {line}" for line in _details(one))]
    return lines


def _row(one: Comparison) -> tuple[str, ...]:
    counts = one.passed, one.failed_in_both, one.accepted.total(), len(one.new), len(one.stale), len(one.retried)
    return (one.suite, one.mode, *map(str, counts))


def _details(one: Comparison) -> Iterator[str]:
    if one.problem:
        yield f"problem: {one.problem}"
        return
    yield from (f"accepted: {count}: {reason}" for reason, count in one.accepted.most_common())
    yield from (f"new: {test}: {text}" for test, text in one.new.items())
    yield from (f"stale: accepted.toml names {pattern}, and no such test differs" for pattern in one.stale)
    yield from (f"same on retry: {test}" for test in one.retried)
