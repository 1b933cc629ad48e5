"""A table of texts, ready to be set; nothing of HTML is in it.

Law: every text comes from the report or is computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from framehold_loadtest.report.data import Report


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in a table: its text, a softer second line, and its kind: "", "best", "bad", "good", "missing"."""

    text: str
    small: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table, with its head."""

    head: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its heads of columns, the first of them over the heads of rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Line, ...]
    note: str = ""


def absent(why: str) -> Entry:
    """The place of what has no value, and why."""
    return Entry("not available", why, "missing")


def facts(report: Report) -> list[tuple[str, str]]:
    """What the figures were measured on and with, by label."""
    head = {"command": report.command, "commit": report.commit, "started": report.started}
    return list((head | {name: fact for name, fact in report.machine.items() if name not in head}).items())
