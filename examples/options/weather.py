"""What all options have in common: a look-up that is written to an audit log, and the question before it."""

from __future__ import annotations

import logging
from typing import Literal

from mcp.server.elicitation import render_elicitation_schema
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel

logger = logging.getLogger("weather")

AUDIT: list[str] = []
"""The audit log, as far as this process has written it."""

QUESTION = "Which units?"
KEY = "units"
DEFAULT: Literal["celsius"] = "celsius"
"""What an author may fall back on where nobody can be asked."""


class Units(BaseModel):
    """The answer."""

    units: Literal["celsius", "fahrenheit"]


def audit(location: str) -> str:
    """The effect that must happen once per call."""
    AUDIT.append(location)
    logger.warning("audit: the weather of %s", location)
    return location


def look_up(location: str, units: str) -> str:
    """The weather, which is always the same."""
    return f"{location}: 64 degrees fahrenheit" if units == "fahrenheit" else f"{location}: 18 degrees celsius"


def declined(location: str) -> str:
    """What is said where the user gives no units."""
    return f"{location}: not looked up, since no units were given"


def question() -> InputRequiredResult:
    """The question as a result, for handlers that return it."""
    form = ElicitRequestFormParams(message=QUESTION, requested_schema=render_elicitation_schema(Units))
    return InputRequiredResult(input_requests={KEY: ElicitRequest(params=form)})
