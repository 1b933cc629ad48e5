"""`/admin/profile` of a node: where its memory goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import pytest

import framehold
from framehold.admin import profile
from framehold.admin.profile import TOOLS, ProfileReader
from framehold.config import Settings
from framehold.engine import memory
from framehold.engine.memory import Footprint
from framehold_fleet.models import profile as about
from tests.kit.client import Caller
from tests.kit.nodes import KEY, served
from tests.kit.operators import TOKEN, Operator, marked, unmarked
from tests.kit.processes import DEADLINE
from tests.kit.serving import server_of

pytestmark = [pytest.mark.anyio, pytest.mark.alone]

MIB = 1 << 20
LIMIT = 4096 * MIB


class Watched(NamedTuple):
    """A node, a client of it, and its operator."""

    caller: Caller
    operator: Operator
    profile: ProfileReader

    async def ask(self) -> Any:
        answer = await self.operator.ask("GET", "profile")
        assert answer.status == 200, answer
        about.Profile.model_validate(answer.json)
        return answer.json


@asynccontextmanager
async def node(**settings: Any) -> AsyncIterator[Watched]:
    common = {"node_id": "stage", "admin_token": TOKEN, "keys": (KEY,), **settings}
    app = framehold.asgi(server_of("stage", marked, unmarked), Settings(**common))
    async with served(app) as url, Caller(url) as caller, Operator(url) as operator:
        yield Watched(caller, operator, app._admin.profile)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The node lives longer than a test, so its loop does."""
    return "asyncio"


@pytest.fixture(scope="module")
async def here() -> AsyncIterator[Watched]:
    async with node(memory_limit=LIMIT) as it:
        yield it


async def test_frames_are_told_by_tool(here: Watched) -> None:
    """Most first, with the size of their journals, and about what they weigh once that was measured."""
    eviction = here.profile._runtime.eviction
    assert eviction.footprint is not None
    # A process that has run other tests may fill memory that it has already.
    eviction.start, eviction.footprint.measured = 0, 7000.0
    for tool in ("unmarked", "marked", "marked"):
        assert (await here.caller.call(tool)).token
    result = await here.ask()
    assert [(item["tool"], item["frames"], item["parked"], item["running"]) for item in result["tools"]] == [
        ("marked", 2, 2, 0),
        ("unmarked", 1, 1, 0),
    ]
    held = result["memory"]
    assert (held["limit"], held["high"]) == (LIMIT, int(LIMIT * memory.HIGH))
    assert sum(part["bytes"] for part in held["parts"]) == held["resident"]
    frames = next(part for part in held["parts"] if part["name"] == "frames")
    assert (frames["count"], frames["estimated"]) == (3, True)
    assert sum(item["bytes"] for item in result["tools"]) == pytest.approx(frames["bytes"], abs=2)
    assert frames["bytes"] == 21_000
    marked, unmarked = (item["journal_bytes"] for item in result["tools"])
    assert marked > unmarked > 100


async def test_sessions_of_earlier_clients_are_counted(here: Watched) -> None:
    assert (await here.ask())["sessions"] == 0
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info}
    accept = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=DEADLINE) as http:
        began = await http.post(here.caller.url, json=body, headers=accept)
        assert began.status_code == 200, began.text
        assert (await here.ask())["sessions"] == 1
        await http.delete(here.caller.url, headers={"mcp-session-id": began.headers["mcp-session-id"]})
    assert (await here.ask())["sessions"] == 0


# ---- what memory is told to be


def held(monkeypatch: pytest.MonkeyPatch, resident: int | None, **more: Any) -> Any:
    monkeypatch.setattr(memory, "resident", lambda: None if resident is None else resident * MIB)
    start, footprint, frames = more.get("start", 40), more.get("footprint"), more.get("frames", 0)
    return profile._memory(None if start is None else start * MIB, footprint, frames)


def of(view: about.MemoryView) -> list[tuple[str, int, int | None, bool]]:
    return [(part.name, part.bytes // MIB, part.count, part.estimated) for part in view.parts]


def test_what_frames_weigh_is_as_was_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    footprint = Footprint(100 * MIB, 40 * MIB)
    footprint.look(60 * MIB, 400)
    view = held(monkeypatch, 60, footprint=footprint, frames=200)
    assert of(view) == [("at start", 40, None, False), ("frames", 10, 200, True), ("other", 10, None, True)]
    assert (view.limit, view.high, view.start) == (100 * MIB, 90 * MIB, 40 * MIB)


@pytest.mark.parametrize("footprint", [None, Footprint(100 * MIB, 40 * MIB)])
def test_what_a_process_grew_by_is_not_divided_among_few_frames(
    monkeypatch: pytest.MonkeyPatch, footprint: Footprint | None
) -> None:
    """Twenty frames of some KiB were shown as a MiB each."""
    if footprint is not None:
        footprint.look(60 * MIB, 20)
    view = held(monkeypatch, 60, footprint=footprint, frames=20)
    assert of(view) == [("at start", 40, None, False), ("other", 20, None, False)]
    [tool] = profile._tools(profile._Frames(Counter(book=20), Counter(), Counter(book=2820)), view)
    assert (tool.bytes, tool.journal_bytes) == (None, 2820)


def test_a_process_that_gave_memory_back_holds_no_more_than_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    view = held(monkeypatch, 30, frames=5)
    assert of(view) == [("at start", 30, None, False)] and view.start == 40 * MIB


def test_where_the_system_does_not_say_it_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert held(monkeypatch, None) is None and held(monkeypatch, 60, start=None) is None


def test_tools_beyond_the_most_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a name that UTF-8 can't carry does not take the others down."""
    parked = Counter({f"t{number:03}": 100 - number for number in range(TOOLS + 5)} | {"\ud800": 200})
    running = Counter({f"t{TOOLS + 4:03}": 1})
    footprint = Footprint(100 * MIB, 40 * MIB)
    footprint.look(60 * MIB, parked.total() + 1)
    view = held(monkeypatch, 60, footprint=footprint, frames=parked.total() + 1)
    result = profile._tools(profile._Frames(parked, running, Counter()), view)
    assert len(result) == TOOLS + 1 and result[0].frames == 200 and result[0].tool.isprintable()
    assert (result[-1].tool, result[-1].frames, result[-1].running) == ("other", sum(range(46, 52)) + 1, 1)
    assert sum(item.frames for item in result) == parked.total() + 1
    assert sum(item.bytes or 0 for item in result) == pytest.approx(20 * MIB, rel=0.001)
