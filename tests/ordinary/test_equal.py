"""The short path replies what the long one replies, byte for byte, and counts what it counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from types import CoroutineType
from typing import Any

import pytest
from starlette.middleware.base import BaseHTTPMiddleware

from tests.kit.redis_server import RedisServer
from tests.ordinary.conversations import FORM, METHODS, Conversation, drawn, each_answer, each_eviction, each_twist
from tests.ordinary.equality import both, compared, drained, played
from tests.ordinary.fastmcp_server import server as fastmcp_server
from tests.ordinary.tools import low_level, server

pytestmark = pytest.mark.anyio


def of_fastmcp(conversations: Iterable[Conversation], copies: int = 1) -> Iterator[Conversation]:
    """Those of tools: prompts and resources of FastMCP have no plans. Each retry is sent `copies` times at once."""
    return (
        replace(talk, copies=copies) for talk in conversations if talk.tool not in METHODS and "://" not in talk.tool
    )


EACH: dict[str, tuple[Callable[[], Any], Iterable[Conversation]]] = {
    "twists": (server, each_twist()),
    "answers": (server, each_answer()),
    "evictions": (server, each_eviction()),
    "twists, FastMCP": (fastmcp_server, of_fastmcp(each_twist())),
    "answers, FastMCP": (fastmcp_server, of_fastmcp(each_answer())),
    "evictions, FastMCP": (fastmcp_server, of_fastmcp(islice(each_eviction(), 0, None, 7))),
}


@pytest.mark.parametrize(("make", "conversations"), EACH.values(), ids=EACH.keys())
async def test_each_request_is_replied_as_on_the_long_path(
    make: Callable[[], Any], conversations: Iterable[Conversation]
) -> None:
    """Each thing that may be unusual, in a first request and in a retry; each tool, with each answer; also where the
    frame is gone."""
    async with both(make=make) as pair:
        tally = await played(pair, conversations)
        assert not tally.differences and tally.taken, tally.told()


async def test_generated_requests_are_replied_as_on_the_long_path() -> None:
    tally = await compared(900, 1)
    assert tally.is_good(), tally.told()
    async with both(make=fastmcp_server) as pair:
        tally = await played(pair, of_fastmcp(drawn(11)), 600)
        assert tally.is_good(), tally.told()


async def test_copies_of_a_request_are_replied_as_fastmcp_replies() -> None:
    """Whether they join a round or find its end depends on which of them is served first, and on no path alike."""
    async with both(make=fastmcp_server) as pair:
        for talk in islice(of_fastmcp(drawn(12), copies=4), 60):
            assert await talk.hold(pair[0]) == await talk.hold(pair[1]), talk


async def test_the_same_with_a_store_of_a_fleet(redis: RedisServer) -> None:
    tally = await compared(450, 2, redis.url)
    assert tally.is_good(), tally.told()


async def test_the_same_at_a_node_that_drains() -> None:
    tally = await drained(450, 3)
    assert not tally.differences, tally.told()


class Passing:
    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def adding(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"x-passed", b"yes")]}
            await send(message)

        await self._app(scope, receive, adding if scope["type"] == "http" else send)


class Dispatching(BaseHTTPMiddleware):
    async def dispatch(self, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-dispatched"] = "yes"
        return response


@pytest.mark.parametrize("middlewares", [(Passing,), (Dispatching, Passing)], ids=["plain", "both kinds"])
async def test_the_same_behind_middlewares_of_the_author(middlewares: tuple[Any, ...]) -> None:
    async with both(middlewares=middlewares) as pair:
        tally = await played(pair, drawn(4), 450)
        assert tally.is_good(), tally.told()
        seen = await Conversation("weather", {"location": "Oslo"}, [FORM]).hold(pair[0])
    assert all((b"x-passed", b"yes") in item.headers for item in seen)


LIMITS = {"": {}, "calls": {"max_parked_per_principal": 9}, "journals": {"max_journal_per_principal": 3_000}}


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS.keys())
async def test_the_same_behind_a_guard(limits: dict[str, Any]) -> None:
    """Users are signed in. A request of another user, and one beyond a limit of one user, is refused on both paths."""
    ann = (replace(talk, user="ann") for talk in chain(each_twist(), drawn(5)))
    async with both(make=partial(server, is_guarded=True), **limits) as pair:
        tally = await played(pair, ann, 900)
        assert not tally.differences and tally.taken > 50, tally.told()
        assert bool(limits) is bool(pair[0].app.attached.runtime.table.met)


@pytest.mark.parametrize("is_listing", [False, True], ids=["schemas", "a list"])
async def test_the_same_of_a_low_level_server(is_listing: bool) -> None:
    """One that lists its tools is asked for the list in each request, since headers may have to repeat arguments."""
    calls = (talk for talk in each_twist() if talk.tool == "weather")
    async with both(make=partial(low_level, is_listing)) as pair:
        tally = await played(pair, calls)
        assert not tally.differences and bool(tally.taken) is not is_listing, tally.told()


async def test_a_round_that_waits_holds_four_coroutines() -> None:
    """From the task of its request to the future of its reply. Each of them is entered and left in each round."""
    found: list[list[str]] = []

    def waiting(task: asyncio.Task[Any]) -> list[str]:
        names, coroutine = [], task.get_coro()
        while isinstance(coroutine, CoroutineType):
            names.append(coroutine.__qualname__)
            coroutine = coroutine.cr_await  # type: ignore[assignment]
        return names

    async def look() -> str:
        found.extend(waiting(task) for task in asyncio.all_tasks() if "_submit" in str(waiting(task)))
        return "seen"

    async with both() as (short, _):
        short.app.server.tool(name="look", description="A tool of this test.")(look)
        for _ in range(2):
            found.clear()
            await Conversation("look", {}, []).hold(short)
    own = ["Application.__call__", "OrdinaryRounds.serve", "OrdinaryRounds._served", "Runtime._submit"]
    assert found == [own]
