"""How the tests of one run ended, read from the JUnit file that pytest wrote."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PASSED, FAILED, SKIPPED, MISSING = "passed", "failed", "skipped", "missing"
"""What may have become of a test. A missing one was run by the other run alone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended; `message` is the first line of its error, if it failed."""

    verdict: str
    message: str = ""


NOT_RUN = Outcome(MISSING, "this run did not have the test")


def read(file: Path) -> dict[str, Outcome]:
    """The outcome of each test, by its node id. A test that passed and failed in its teardown has failed."""
    found: dict[str, Outcome] = {}
    for case in ET.parse(file).iter("testcase"):
        name, outcome = node_id(case), _outcome(case)
        if name not in found or outcome.verdict == FAILED:
            found[name] = outcome
    return found


def node_id(case: ET.Element) -> str:
    """The node id by which pytest runs this test again: file, classes, and name with its parameters.

    A file that could not be collected has no name of its own: its id is its path.
    """
    file, name = case.get("file", ""), case.get("name", "")
    module = re.sub(r"\.py$", "", file).replace("/", ".")
    classname = case.get("classname", "")
    if not file:
        return name
    classes = classname.removeprefix(module).strip(".")
    return "::".join([file, *(part for part in classes.split(".") if part), name])


def _outcome(case: ET.Element) -> Outcome:
    bad = [found for kind in ("failure", "error") if (found := case.find(kind)) is not None]
    if bad:
        lines = (bad[0].get("message") or bad[0].text or "").strip().splitlines()
        return Outcome(FAILED, lines[0] if lines else "")
    return Outcome(PASSED if case.find("skipped") is None else SKIPPED)


def differing(plain: Mapping[str, Outcome], other: Mapping[str, Outcome]) -> list[str]:
    """The tests that ended in another way in `other` than in `plain`."""
    names = sorted({*plain, *other})
    return [name for name in names if plain.get(name, NOT_RUN).verdict != other.get(name, NOT_RUN).verdict]


def with_retries(first: Mapping[str, Outcome], again: Iterable[Mapping[str, Outcome]]) -> dict[str, Outcome]:
    """The outcomes of `first`; but a test that passed when it was run again has passed."""
    passed = {name: outcome for run in again for name, outcome in run.items() if outcome.verdict == PASSED}
    return {**first, **passed}
