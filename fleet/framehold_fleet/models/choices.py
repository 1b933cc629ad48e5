"""The choices that a request for calls can name. Without pydantic: the command line shows them in its help."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The state of a call, as the API lists and filters it."""

    PARKED = "parked"
    """Its frame waits for answers."""
    RUNNING = "running"
    """A round of it runs, or waits for the store."""
    ORPHANED = "orphaned"
    """Its node is gone, and no client has come back yet."""
    STUCK = "stuck"
    """Its handler killed its nodes too often: no node enters it again."""


class Sort(StrEnum):
    """The field by which calls are ordered, the least first. Calls with equal values are ordered by their ids."""

    CALL = "call_id"
    BEGAN = "began"
    EXPIRES = "expires"
    JOURNAL = "journal_bytes"


class CallSort(StrEnum):
    """The field by which ended calls are ordered. Calls with equal values are ordered by their ids."""

    ENDED = "ended"
    SECONDS = "seconds"
    ROUNDS = "rounds"
