"""The options of examples/options as servers, and the official client of either era that calls them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp import Client, MCPError
from mcp_types import CallToolResult, ElicitRequestURLParams, ElicitResult, InputRequiredResult

import measure
import weather
from tests.tutorials.over_http import over_http
from tests.tutorials.person import refused, said

ACCEPT = ElicitResult(action="accept", content={"units": "fahrenheit"})
DECLINE = ElicitResult(action="decline")
CANCEL = ElicitResult(action="cancel")
_numbers = itertools.count(1)


@dataclass
class Told:
    """One call as its user and its audit log saw it: questions with the fields of their forms (the present revision
    drops a form's title); the place that it was about reads PLACE."""

    text: str = ""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    audits: int = 0


@dataclass
class Option:
    """An option that is served."""

    url: str
    app: Any

    async def call(self, era: str, answer: ElicitResult = ACCEPT) -> Told:
        """One call of a client of `era`, whose user says `answer` to each question."""
        result, place = Told(), f"place {next(_numbers)}"

        async def elicit(context: Any, params: Any) -> ElicitResult:
            assert not isinstance(params, ElicitRequestURLParams)
            form = params.requested_schema
            result.asked.append((params.message, {name: form[name] for name in ("properties", "required")}))
            return answer

        async with Client(self.url, mode=measure.ERAS[era], elicitation_callback=elicit) as client:
            try:
                result.text = said(await client.call_tool("weather", {"location": place})).replace(place, "PLACE")
            except MCPError as error:
                result.text = refused(error)
        result.audits = weather.AUDIT.count(place)
        return result

    @property
    def held(self) -> int:
        """Frames in its memory."""
        return len(self.app.attached.runtime.table)


@contextmanager
def option(way: str) -> Iterator[Option]:
    """Serve one, in the way that the measurements name."""
    app = measure.made(way).app
    with over_http(app) as url:
        yield Option(url, app)


async def first_round(at: Option, place: str, tool: str = "weather") -> InputRequiredResult:
    """What a client of 2026 gets to begin with."""
    async with Client(at.url, elicitation_callback=_never) as client:
        found = await client.session.call_tool(tool, {"location": place}, allow_input_required=True)
    assert isinstance(found, InputRequiredResult)
    return found


async def retried(at: Option, place: str, asked: InputRequiredResult, tool: str = "weather") -> str:
    """What it gets for its answers, or the error instead."""
    answers: dict[str, Any] = dict.fromkeys(asked.input_requests or {}, ACCEPT)
    async with Client(at.url, elicitation_callback=_never) as client:
        try:
            found = await client.session.call_tool(
                tool,
                {"location": place},
                input_responses=answers,
                request_state=asked.request_state,
                allow_input_required=True,
            )
        except MCPError as error:
            return refused(error)
    return said(found) if isinstance(found, CallToolResult) else "asked again"


async def _never(context: Any, params: Any) -> ElicitResult:
    raise AssertionError("this client answers by hand")
