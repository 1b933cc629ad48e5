"""How a command prints what it found."""

from __future__ import annotations

from enum import StrEnum


class Output(StrEnum):
    """As a table for people, or as data for programs."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
