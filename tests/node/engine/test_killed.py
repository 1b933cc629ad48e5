"""A parked call outlives its process: SIGKILL, and a second process with the same store goes on, each effect once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.nodes import NodeProcess, Start, entries, heirs
from tests.store.server import RedisServer
from tests.wire import Caller, Reply

pytestmark = pytest.mark.anyio

TARGET = "tests/node/reentrant_server.py"


@pytest.fixture(autouse=True)
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which effects leave their lines."""
    path = tmp_path / "entries"
    monkeypatch.setenv("ENTRIES", str(path))
    return path


class Mortal:
    """A server of which each process is killed as soon as its call is parked, and replaced."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._node: NodeProcess | None = None

    async def send(self, method: str, params: dict[str, Any]) -> Reply:
        """One request, to a process that lives for it alone."""
        if self._node is not None:
            self._node.kill()
        self._node = await self._start()
        async with Caller(self._node.url) as caller:
            return await caller.send(method, params)

    async def told(self, method: str, **params: Any) -> Reply:
        """A whole call, each question answered with itself."""
        reply = await self.send(method, params)
        while reply.message.get("result", {}).get("resultType") == "input_required":
            answers = {
                key: {"action": "accept", "content": {"word": f"<{asked['params']['message']}>".replace(" ", "-")}}
                for key, asked in reply.asked.items()
            }
            again = {**params, "inputResponses": answers}
            if "requestState" in reply.result:
                again["requestState"] = reply.token
            reply = await self.send(method, again)
        return reply


@pytest.fixture
async def mortal(redis: RedisServer, tmp_path: Path) -> AsyncIterator[Mortal]:
    """Node after node over one store, each under a name of its own."""
    async with heirs(TARGET, tmp_path, redis.url) as start:
        yield Mortal(start)


async def test_questions_in_a_row(mortal: Mortal, noted: Path) -> None:
    """Four processes, three of them killed."""
    reply = await mortal.told("tools/call", name="sequence", arguments={"name": "Ada"})
    one = "<Ada-one?>"
    words = reply.text.split()
    assert words[:3] == [one, f"<{one}-two?>", f"<<{one}-two?>-three?>"], reply.text
    assert words[3:6] == ["first-Ada#1", "second-Ada#1", "third-Ada#1"]
    assert entries(noted) == ["first-Ada", "second-Ada", "third-Ada"]


async def test_keyed_questions_together(mortal: Mortal, noted: Path) -> None:
    """Two branches of a gather, each with an effect on either side of its question."""
    reply = await mortal.told("tools/call", name="together", arguments={"name": "Bo"})
    assert reply.text == "book-left-Bo-<Which-seat?>#1 book-right-Bo-<Which-seat?>#1 <Sure?>"
    left = sorted(f"{verb}-{place}-Bo" for verb in ("hold", "book") for place in ("left", "right"))
    assert sorted(line.removesuffix("-<Which-seat?>") for line in entries(noted)) == left


async def test_a_parameter_that_asks_and_a_body_that_asks(mortal: Mortal, noted: Path) -> None:
    """The frame begins on the second round, and is given again what that round brought."""
    reply = await mortal.told("tools/call", name="resolved", arguments={"name": "Cy"})
    assert reply.text == "<May-Cy?> <And-now?> done-Cy-<May-Cy?>#1"
    assert entries(noted) == ["done-Cy-<May-Cy?>"]


async def test_a_prompt(mortal: Mortal, noted: Path) -> None:
    """Prompts are handlers like any other."""
    reply = await mortal.told("prompts/get", name="poem", arguments={"name": "Di"})
    (message,) = reply.result["messages"]
    assert message["content"]["text"] == "A poem for Di about <About-what?>, poem-Di#1"
    assert entries(noted) == ["poem-Di"]


async def test_a_handler_that_parks_by_hand(mortal: Mortal, noted: Path) -> None:
    """What it has learned rides in its state: each effect once, one idempotency key in all processes."""
    reply = await mortal.told("tools/call", name="by_hand", arguments={"name": "Ed"})
    assert reply.text.split()[:4] == ["<one?>", "<two?>", "one-by-hand-Ed#1", "two-by-hand-Ed#1"]
    assert entries(noted) == ["one-by-hand-Ed", "two-by-hand-Ed"]
