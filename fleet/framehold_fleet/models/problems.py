"""The model of a problem: what an operator must know now. Its JSON is a contract."""

from __future__ import annotations

from enum import StrEnum

from .fields import Lenient, Text


class Severity(StrEnum):
    """How bad a problem is."""

    HARM = "harm"
    """Users are harmed now."""
    RISK = "risk"
    """Something will harm users if nobody acts."""


class ProblemView(Lenient):
    """A problem that needs an operator. It stays until its cause is gone."""

    severity: Severity
    kind: Text
    """The kind of problem, as `node_lost`; docs/operating.md lists all kinds."""
    node: Text = ""
    """The node that the problem is about; empty for a problem of the whole fleet."""
    tool: Text = ""
    """The tool or prompt that causes the problem, if one does."""
    text: str
    """What is wrong, and what follows from it."""
    next: str
    """What to do."""
    link: str
    """Where there is more: a page of the dashboard (`/dashboard/...`), or a section of the documentation."""
