"""The output formats of commands."""

from __future__ import annotations

from enum import StrEnum


class Output(StrEnum):
    """A table for people, or data for programs."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class PlainOutput(StrEnum):
    """The same for a command whose result is no list: it has no CSV."""

    TABLE = "table"
    JSON = "json"
