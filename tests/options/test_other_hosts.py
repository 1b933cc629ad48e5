"""The options where their host is another: on FastMCP, and on transports without a stream to the client."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import fastmcp
import pytest
from mcp.server import MCPServer
from mcp_types import InputRequiredResult

import framehold
import measure
import weather
from tests.options.calling import Option, Told
from tests.tutorials.over_http import over_http

pytestmark = pytest.mark.anyio
each_era = pytest.mark.parametrize("era", measure.ERAS)


async def by_request(location: str, ctx: fastmcp.Context) -> str:
    assert framehold.era(ctx) == "legacy"
    answer: Any = await ctx.elicit(weather.QUESTION, weather.Units)
    weather.audit(location)
    return weather.look_up(location, answer.data.units)


async def by_result(location: str, ctx: fastmcp.Context) -> str | InputRequiredResult:
    assert framehold.era(ctx) == "modern"
    answer = framehold.accepted_content(ctx, weather.KEY, weather.Units)
    if answer is None:
        return weather.question()
    weather.audit(location)
    return weather.look_up(location, answer.units)


def steps() -> Callable[..., Any]:
    built = framehold.ToolBuilder("weather")

    @built.step
    async def units(ctx: fastmcp.Context) -> str | InputRequiredResult:
        answer = framehold.accepted_content(ctx, weather.KEY, weather.Units)
        return weather.question() if answer is None else answer.units

    @built.end
    async def tell(location: str, units: str) -> str:
        weather.audit(location)
        return weather.look_up(location, units)

    return built.build()


MADE = {
    "by_era and the readers": lambda: framehold.by_era(legacy=by_request, modern=by_result),
    "ToolBuilder": steps,
}


@each_era
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
async def test_on_fastmcp_they_do_the_same(make: Callable[[], Any], era: str) -> None:
    """FastMCP's own context is read as well as the SDK's."""
    server = fastmcp.FastMCP("weather")
    server.add_tool(fastmcp.tools.Tool.from_function(make(), name="weather"))
    app = framehold.asgi(server)
    with over_http(app) as url:
        result = await Option(url, app).call(era)
    assert (result.text, [message for message, _ in result.asked]) == (
        "PLACE: 64 degrees fahrenheit",
        [weather.QUESTION],
    )
    assert result.audits == 1


NO_STREAM = {"stateless": {"stateless_http": True}, "one JSON": {"json_response": True}}
ASKING = ("a", "c", "d", "g", "h")


@pytest.fixture(scope="module", params=[*NO_STREAM.values()], ids=[*NO_STREAM])
def streamless(request: pytest.FixtureRequest) -> Iterator[dict[str, Option]]:
    """Some of them on transports that can't carry a request to a client of 2025."""
    with ExitStack() as stack:
        found = {}
        for letter in (*ASKING, "e"):
            server: MCPServer[Any] = importlib.reload(importlib.import_module(f"option_{letter}")).mcp
            app = server.streamable_http_app(**request.param)
            found[letter] = Option(stack.enter_context(over_http(app)), app)
        yield found


async def test_without_a_stream_a_client_of_2025_is_told_that_it_cannot_be_asked(
    streamless: dict[str, Option],
) -> None:
    """At once, by each that would ask it; E decides for it. A client of 2026 needs no stream."""
    for letter in ASKING:
        result = await streamless[letter].call("2025")
        assert "elicitation/create" in result.text and result.asked == [], letter
        assert "capability" not in result.text, "this client has declared it"
    assert "the client can't be asked" in (await streamless["a"].call("2025")).text
    assert await streamless["e"].call("2025") == Told("PLACE: 18 degrees celsius", [], 1)
    for letter, option in streamless.items():
        assert (await option.call("2026")).text == "PLACE: 64 degrees fahrenheit", letter
