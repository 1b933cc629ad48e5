"""`GET nodes/{node_id}`: the profile of a node, and the answer if the node gives none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.router.cast import Cast, Client, cast_of, get, member, said, saying
from tests.router.test_api_fleet import fleet_of
from tests.store.server import RedisServer

pytestmark = pytest.mark.anyio

MEMORY = {
    "resident": 100,
    "limit": 1000,
    "start": 60,
    "high": 900,
    "parts": [
        {"name": "at start", "bytes": 60, "count": None, "estimated": False},
        {"name": "frames", "bytes": 40, "count": 2, "estimated": True},
    ],
}
TOOLS = [{"tool": "book", "frames": 2, "bytes": 40, "journal_bytes": 7, "parked": 1, "running": 1}]
PROFILE = {"node_id": "a", "memory": MEMORY, "tools": TOOLS, "sessions": 3}
NOTHING: dict[str, Any] = {"memory": None, "tools": [], "sessions": None}
PATH = "GET /admin/profile"


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    async with cast_of() as it:
        yield it


async def asked(cast: Cast, status: int = 200, **client: Any) -> Any:
    pages: Client = await cast.client(**client)
    return await get(pages, "/api/v1/nodes/a", status)


async def test_a_node_is_shown_as_it_says_it_is(cast: Cast) -> None:
    """What `nodes` has of it, and its profile, which its own node is asked for."""
    await cast.node("a", saying(said("a", rss=100)), {PATH: saying({**PROFILE, "more": "of a newer release"})})
    await cast.node("b", saying(said("b")))
    result = await asked(cast)
    assert (result["node"]["node_id"], result["node"]["rss"], result["node"]["state"]) == ("a", 100, "live")
    assert result == {"node": result["node"], "memory": MEMORY, "tools": TOOLS, "sessions": 3}
    assert [request.path for request in cast.asked].count("/admin/profile") == 1


async def test_a_node_of_an_older_release_is_shown_without_a_profile(cast: Cast) -> None:
    await cast.node("a", saying(said("a")))
    result = await asked(cast)
    assert result == {"node": result["node"], **NOTHING} and result["node"]["state"] == "live"


async def test_a_node_that_is_not_there_is_not_found(cast: Cast) -> None:
    await cast.node("b", saying(said("b")))
    result = await asked(cast, 404)
    assert result["error"].startswith("no node of this name has a lease; see `nodes`")


@pytest.mark.parametrize("name", ["%3Cscript%3E", "%00", "..%2F..", "x" * 500, "%ED%A0%80"])
async def test_no_name_is_repeated_that_nobody_has(cast: Cast, name: str) -> None:
    pages = await cast.client()
    assert "script" not in (await get(pages, f"/api/v1/nodes/{name}", 404))["error"]


WRONG = {
    "it refuses": (saying({"error": "not you"}, 403), "did not say where its memory goes (it answered HTTP 403)"),
    "it failed": (saying("broken", 500), "did not say where its memory goes (it answered HTTP 500)"),
    "no JSON": (saying("<html>"), "did not say where its memory goes (its answer can't be read)"),
    "another kind of answer": (saying({"node_id": 5}), "did not say where its memory goes (its answer can't be read)"),
    "a size below none": (
        saying({**PROFILE, "memory": {**MEMORY, "resident": -1}}),
        "did not say where its memory goes (its answer can't be read)",
    ),
    "a number that is none": (
        saying('{"node_id": "a", "memory": {"resident": NaN, "start": 1}}'),
        "did not say where its memory goes (its answer can't be read)",
    ),
    "too long": (
        saying({**PROFILE, "more": "x" * 200_000}),
        "did not say where its memory goes (its answer can't be read)",
    ),
    "another node at its address": (saying({**PROFILE, "node_id": "z"}), "has another node at its address"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_can_not_be_read_is_no_answer(cast: Cast, name: str) -> None:
    answer, why = WRONG[name]
    await cast.node("a", saying(said("a")), {PATH: answer})
    result = await asked(cast, 502)
    assert result["error"].startswith(f"node a {why}: `nodes` has its last heartbeat")


async def test_a_node_that_does_not_answer_is_said_not_to(cast: Cast) -> None:
    """Whether it is gone, or only hangs."""
    cast.members.append(member("a", "http://127.0.0.1:9"))
    assert "node a did not say where its memory goes (" in (await asked(cast, 502))["error"]
    cast.members.clear()
    silent = asyncio.Event()

    async def hang(_: Any) -> Any:
        await silent.wait()

    await cast.node("a", saying(said("a")), {PATH: hang})
    try:
        assert "node a did not say where its memory goes (" in (await asked(cast, 502, limit=0.2))["error"]
    finally:
        silent.set()


async def test_names_are_cut(cast: Cast) -> None:
    tools = [{**TOOLS[0], "tool": "\u202e" * 201}]
    await cast.node("a", saying(said("a")), {PATH: saying({**PROFILE, "tools": tools})})
    result = await asked(cast)
    assert len(result["tools"][0]["tool"]) == 200


async def test_a_real_node_says_where_its_memory_goes(redis: RedisServer) -> None:
    async with fleet_of(redis) as fleet:
        await fleet.parked()
        result = [await fleet.get(f"nodes/{name}") for name in fleet.nodes]
        assert [tool["tool"] for item in result for tool in item["tools"]] == ["marked"]
        for item in result:
            assert sum(part["bytes"] for part in item["memory"]["parts"]) == item["memory"]["resident"]
            assert item["sessions"] == 0
