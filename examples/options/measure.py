"""Call each option with the official client of either era, and print what was seen as the table of docs/options.md:
`python examples/options/measure.py`."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from mcp import Client
from mcp_types import ElicitResult, InputRequiredResult, InputResponses

import weather
from framehold.http.app import Application

ERAS = {"2026": "auto", "2025": "legacy"}
"""What the official client is told, to speak the one revision or the other."""

WAYS = {
    **{letter.upper(): (f"option_{letter}", "hold") for letter in "abcdefg"},
    "G, replay": ("option_g", "replay"),
    "H": ("option_h", "hold"),
    "H, replay": ("option_h", "replay"),
}
"""Module and FRAMEHOLD_STRATEGY of each."""


@dataclass
class Seen:
    """One call as its client and its server saw it. `held` frames and `open` requests are those while the user
    thought; `twice` is how many audits there are where the last retry comes twice, `state` how long the requestState
    was (bytes)."""

    text: str = ""
    asked: int = 0
    audits: int = 0
    twice: int = 0
    requests: int = 0
    held: int = 0
    open: int = 0
    state: int = 0


class Counting:
    """An app that counts its POST requests, and those of them that are open."""

    def __init__(self, app: Application) -> None:
        self.app, self.requests, self.open = app, 0, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        posted = scope["type"] == "http" and scope["method"] == "POST"
        self.requests += posted
        self.open += posted
        try:
            await self.app(scope, receive, send)
        finally:
            self.open -= posted


def made(way: str) -> Counting:
    """The option's app, as if its process had just started."""
    name, strategy = WAYS[way]
    os.environ["FRAMEHOLD_STRATEGY"] = strategy
    try:
        return Counting(importlib.reload(importlib.import_module(name)).app)
    finally:
        del os.environ["FRAMEHOLD_STRATEGY"]


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve on a free port, in a thread; the address of its `/mcp`."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join()


async def call(app: Counting, url: str, era: str) -> Seen:
    """One call whose user answers at once."""
    seen, audits = Seen(), len(weather.AUDIT)

    async def answer(context: Any, params: Any) -> ElicitResult:
        seen.asked += 1
        seen.held, seen.open = len(app.app.attached.runtime.table), app.open
        return ElicitResult(action="accept", content={"units": "fahrenheit"})

    async with Client(url, mode=ERAS[era], elicitation_callback=answer) as client:
        await client.list_tools()
        before, arguments = app.requests, {"location": "Bath"}
        result = await client.call_tool("weather", arguments)
        seen.requests, seen.audits = app.requests - before, len(weather.AUDIT) - audits
        seen.text = " ".join(getattr(block, "text", "") for block in result.content)
        if era == "2026":
            await doubled(client, seen)
    return seen


async def doubled(client: Client, seen: Seen) -> None:
    """One more call, whose last retry a proxy or an impatient client sends twice."""
    arguments, before = {"location": "Bath"}, len(weather.AUDIT)
    first = await client.session.call_tool("weather", arguments, allow_input_required=True)
    assert isinstance(first, InputRequiredResult), "each option asks"
    seen.state = len(first.request_state or "")
    answers: InputResponses = dict.fromkeys(
        first.input_requests or {}, ElicitResult(action="accept", content={"units": "fahrenheit"})
    )
    for _ in range(2):
        await client.session.call_tool("weather", arguments, input_responses=answers, request_state=first.request_state)
    seen.twice = len(weather.AUDIT) - before


def measured() -> dict[str, dict[str, Seen]]:
    """Each option, and what was seen of it in each era."""
    found: dict[str, dict[str, Seen]] = {}
    for way in WAYS:
        app = made(way)
        with served(app) as url:
            found[way] = {era: asyncio.run(call(app, url, era)) for era in ERAS}
    return found


def table(found: dict[str, dict[str, Seen]]) -> str:
    """As Markdown."""
    modern = ["2026: asked", "audits", "last retry twice", "requests", "`requestState`", "held meanwhile"]
    heads = ["Option", *modern, "2025: asked", "audits", "requests", "open meanwhile"]
    rows = [heads, ["---"] * len(heads)]
    for way, eras in found.items():
        new, old = eras["2026"], eras["2025"]
        size = f"{new.state} B" if new.state else "none"
        held = f"{new.held} frame" if new.held else "nothing"
        still = f"{old.open} request" if old.open else "nothing"
        known = [new.asked, new.audits, new.twice, new.requests, size, held]
        figures = [*known, old.asked, old.audits, old.requests, still]
        rows.append([way, *map(str, figures)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Print the table."""
    logging.disable(logging.CRITICAL)
    print(table(measured()))


if __name__ == "__main__":
    main()
