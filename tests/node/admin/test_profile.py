"""`/admin/profile` of a node: where its memory and its loop's time go."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import pytest

import framehold
from framehold.admin import profile
from framehold.admin.profile import TOOLS, Profile
from framehold.config import Settings
from framehold.engine import memory
from framehold.engine.memory import Footprint
from framehold.telemetry.stacks import PARTS
from framehold_router.models import profile as about
from tests.node.nodes import KEY, served
from tests.node.operating import TOKEN, Operator, marked, unmarked
from tests.node.stage import server_of
from tests.processes import DEADLINE
from tests.proofs import INSIDE
from tests.wire import Caller

pytestmark = [pytest.mark.anyio, pytest.mark.alone]

MIB = 1 << 20
LIMIT = 4096 * MIB


async def burn(seconds: float) -> str:
    """Keep the loop busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return "burnt"


async def encode(seconds: float) -> str:
    """Keep it busy with JSON, and little else."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        json.dumps([{"a": list(range(200))}] * 20, indent=1)
    return "encoded"


class Watched(NamedTuple):
    """A node, a client of it, and its operator."""

    caller: Caller
    operator: Operator
    profile: Profile

    async def ask(self) -> Any:
        answer = await self.operator.ask("GET", "profile")
        assert answer.status == 200, answer
        about.Profile.model_validate(answer.json)
        return answer.json

    async def seen(self, tool: str) -> Any:
        """What is told of the loop when this tool has run for a second since somebody looks."""
        await self.ask()
        for _ in range(5):
            assert "result" in (await self.caller.call(tool, arguments={"seconds": 0.2})).message
        return (await self.ask())["loop"]


@asynccontextmanager
async def node(**settings: Any) -> AsyncIterator[Watched]:
    common = {"node_id": "stage", "admin_token": TOKEN, "keys": (KEY,), **settings}
    app = framehold.asgi(server_of("stage", marked, unmarked, burn, encode), Settings(**common))
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


@pytest.fixture
async def at(here: Watched) -> Watched:
    """The node, as if nobody had looked yet."""
    here.profile.sampler.close()
    return here


def parts(loop: Any) -> dict[str, float]:
    return {part["name"]: part["share"] for part in loop["parts"]}


async def test_a_handler_that_burns_the_processor_is_the_hottest(at: Watched) -> None:
    loop = await at.seen("burn")
    assert parts(loop)["handlers"] > 0.5 and loop["busy"] > 0.5
    line = burn.__code__.co_firstlineno
    assert loop["hot"][0]["where"] == f"{__name__}.burn:{line}" and loop["hot"][0]["share"] > 0.5


async def test_json_in_a_handler_is_the_handlers(at: Watched) -> None:
    loop = await at.seen("encode")
    found = parts(loop)
    assert found["handlers"] > 0.5 and found["JSON and pydantic"] < 0.1, found
    assert f".{encode.__name__}:" in loop["hot"][0]["where"]


async def test_a_quiet_node_is_idle(at: Watched) -> None:
    await at.ask()
    async with asyncio.timeout(DEADLINE):
        # To ask over HTTP is work; and where others have the processor, the little that it does takes longer.
        while (seen := at.profile.sampler.ask()).samples < 30 or seen.parts["idle"] <= 0.9:
            await asyncio.sleep(0.2)
    loop = (await at.ask())["loop"]
    found = parts(loop)
    assert loop["busy"] == pytest.approx(1 - found["idle"])
    assert list(found) == list(PARTS) and sum(found.values()) == pytest.approx(1)
    assert loop["samples"] >= 30 and loop["seconds"] > 1


async def test_the_first_look_tells_that_nothing_was_seen_yet(at: Watched) -> None:
    loop = (await at.ask())["loop"]
    assert (loop["seconds"], loop["samples"], loop["busy"], loop["parts"], loop["hot"]) == (0, 0, 0, [], [])
    assert 0 <= loop["lag_p50"] <= loop["lag_p99"] <= loop["lag_max"]


async def test_frames_are_told_by_tool(at: Watched) -> None:
    """Most first, with the size of their journals, and about what they weigh once that was measured."""
    eviction = at.profile._runtime.eviction
    assert eviction.footprint is not None
    # A process that has run other tests may fill memory that it has already.
    eviction.start, eviction.footprint.measured = 0, 7000.0
    for tool in ("unmarked", "marked", "marked"):
        assert (await at.caller.call(tool)).token
    result = await at.ask()
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


async def test_sessions_of_earlier_clients_are_counted(at: Watched) -> None:
    assert (await at.ask())["sessions"] == 0
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info}
    accept = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=DEADLINE) as http:
        began = await http.post(at.caller.url, json=body, headers=accept)
        assert began.status_code == 200, began.text
        assert (await at.ask())["sessions"] == 1
        await http.delete(at.caller.url, headers={"mcp-session-id": began.headers["mcp-session-id"]})
    assert (await at.ask())["sessions"] == 0


async def test_only_whoever_may_is_told(at: Watched) -> None:
    for shown, status in (({}, 403), ({"authorization": "Bearer another"}, 403), (INSIDE, 200)):
        assert (await at.operator.ask("GET", "profile", shown)).status == status
    assert (await at.operator.ask("POST", "profile")).status == 405


async def test_nobody_looks_who_was_not_asked_to_and_none_when_the_node_has_ended() -> None:
    def looking() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "framehold-sampler"]

    before = looking()
    async with node() as it:
        assert looking() == before
        await it.ask()
        assert len(looking()) == len(before) + 1
    assert it.profile.sampler.thread is None and looking() == before


async def test_without_metrics_nothing_is_told_of_lag() -> None:
    async with node(metrics=False) as it:
        loop = (await it.ask())["loop"]
        assert (loop["lag_p50"], loop["lag_p99"], loop["lag_max"]) == (None, None, None)


# ---- what memory is told to be


def held(monkeypatch: pytest.MonkeyPatch, resident: int | None, **more: Any) -> Any:
    monkeypatch.setattr(memory, "resident", lambda: None if resident is None else resident * MIB)
    start, footprint, frames = more.get("start", 40), more.get("footprint"), more.get("frames", 0)
    return profile._memory(None if start is None else start * MIB, footprint, frames)


def of(view: about.MemoryView) -> list[tuple[str, int, int | None, bool]]:
    return [(part.name, part.bytes // MIB, part.count, part.estimated) for part in view.parts]


def test_what_frames_weigh_is_as_was_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of what was added is no frame's doing."""
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
