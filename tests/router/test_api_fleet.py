"""The API of a real router before two real nodes and a Redis, through the public port."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import aiohttp

from framehold_router.app import running
from framehold_router.config import RouterSettings
from tests.kit.client import Caller
from tests.kit.nodes import KEY
from tests.kit.operators import TOKEN, marked, pair, unmarked
from tests.kit.redis_server import RedisServer
from tests.kit.redis_server import running as running_server
from tests.router.cast import SOON


def kinds(overview: Any) -> list[str]:
    """The problems, but for a loop that stood: the nodes run in the process of the tests, whose loop may have stood for
    a reason of its own."""
    return [kind for problem in overview["problems"] if (kind := problem["kind"]) != "loop_stood"]


def well(overview: Any) -> bool:
    return overview["nodes"] == {"live": 2} and not kinds(overview)


async def seen(http: aiohttp.ClientSession, true: Callable[[Any], Any]) -> Any:
    """The overview, once it is as wanted."""
    async with asyncio.timeout(SOON):
        while True:
            async with http.get("/api/v1/overview") as response:
                if true(overview := await response.json()):
                    return overview
            await asyncio.sleep(0.05)


async def test_a_full_store_is_the_one_problem_and_nobody_is_told_to_start_nodes() -> None:
    """From the first refused write on, and after all leases have run out; and it is over when there is room. An open
    stream keeps no router from ending."""
    namespace, listening = secrets.token_hex(4), socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(running_server(RedisServer(options=("--maxmemory-policy", "noeviction"))))
        await stack.enter_async_context(pair(redis, namespace, marked, unmarked, lease_ttl=1.5))
        settings = RouterSettings(store_url=redis.url, namespace=namespace, keys=(KEY,), admin_token=TOKEN)
        async with AsyncExitStack() as life:
            await life.enter_async_context(running(settings, listening))
            session = aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {TOKEN}"})
            http = await stack.enter_async_context(session)
            caller = await stack.enter_async_context(Caller(f"{url}/mcp"))
            await seen(http, well)
            held = await caller.call("marked")
            with redis.client() as client:
                client.config_set("maxmemory", "1")
                first = await seen(http, kinds)
                assert kinds(first) == ["store_full"] and first["store"] == "full"
                gone = await seen(http, lambda overview: overview["nodes"] == {"unheard": 2})
                assert kinds(gone) == ["store_full"]
                assert "serving what needs no store: a, b" in gone["problems"][0]["text"]
                assert "do not restart nodes" in gone["problems"][0]["next"] and "start one" not in json.dumps(gone)
                client.config_set("maxmemory", "0")
            await seen(http, well)
            assert (await caller.retry("marked", held.token, held.accept(word="x"))).token
            await stack.enter_async_context(http.get("/api/v1/stream"))
            began = time.monotonic()
        assert time.monotonic() - began < 8.0, "the streams would keep it for 10 s"
