"""The differences that are accepted, as `accepted.toml` lists them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tests.suites.suites import MODES, SUITES

FILE = Path(__file__).with_name("accepted.toml")


class ListFailed(Exception):
    """The list can't be used; the message names the entry."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Tests that may end in another way with Framehold in between, and why.

    `tests` are node ids, in which `*` stands for any text. A test that is `flaky` may differ or not: it depends on the
    machine, or on what ran before it.
    """

    suite: str
    modes: tuple[str, ...]
    tests: tuple[str, ...]
    reason: str
    flaky: bool = False

    def names(self, test: str) -> str | None:
        """The first of the patterns that names this test."""
        return next((pattern for pattern in self.tests if matches(pattern, test)), None)

    def unused(self, differing: Collection[str]) -> list[str]:
        """The patterns that name none of the tests that differ."""
        if self.flaky:
            return []
        return [pattern for pattern in self.tests if not any(matches(pattern, test) for test in differing)]


def matches(pattern: str, test: str) -> bool:
    """Whether a pattern names a test. Brackets stand for themselves: they are part of many node ids."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), test, re.DOTALL) is not None


def load(file: Path = FILE) -> list[Acceptance]:
    """All entries of the list.

    Raises:
        ListFailed: an entry names an unknown suite or mode, or lacks tests or a reason.
    """
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("accepted", [])
    return [_entry(number, fields) for number, fields in enumerate(entries, 1)]


def _entry(number: int, fields: dict[str, object]) -> Acceptance:
    where = f"{FILE.name}, entry {number}"
    unknown = fields.keys() - {"suite", "modes", "tests", "reason", "flaky"}
    if unknown:
        raise ListFailed(f"{where}: unknown fields: {', '.join(sorted(unknown))}")
    if fields.get("suite") not in SUITES:
        raise ListFailed(f"{where}: no such suite: {fields.get('suite')}; there are {', '.join(SUITES)}")
    modes, tests = _texts(fields.get("modes")), _texts(fields.get("tests"))
    if not modes or not set(modes) <= set(MODES):
        raise ListFailed(f"{where}: `modes` has to name some of {', '.join(MODES)}")
    reason = fields.get("reason")
    if not tests or not isinstance(reason, str) or not reason.strip():
        raise ListFailed(f"{where}: `tests` and `reason` must not be empty")
    return Acceptance(str(fields["suite"]), modes, tests, reason, fields.get("flaky") is True)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()
