"""Server-sent events: the messages that readers get, and that nobody waits for a slow reader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from framehold_fleet.models.events import EventView
from framehold_fleet.models.nodes import NodesView, NodeView, OverviewView
from framehold_router.api import stream
from framehold_router.api.stream import Full, Stream
from framehold_router.config import RouterSettings
from framehold_router.pages import serve_pages
from tests.router.cast import NOW, SOON, Cast, Client, said, saying


def overview(parked: int, at: float = 0.0) -> OverviewView:
    return OverviewView(
        at=at, version="1", nodes={}, parked=parked, in_flight=0, orphaned=0, stuck=0, failovers_last_hour=0, events=[]
    )


def event(number: int, text: str = "x", node: str = "a") -> EventView:
    return EventView(id=str(number), at=float(number), node_id=node, kind="stuck", text=text)


class Stage:
    """A stream whose looks are prescribed: each is what stands here, and happens when it is let."""

    def __init__(self, stack: AsyncExitStack, **times: float) -> None:
        self._stack = stack
        self.now: tuple[OverviewView, NodesView, list[EventView]] = overview(0), NodesView(nodes=[]), []
        self.looks = 0
        self.broken = False
        self.stream = Stream(self.look, **({"look_pause": 0.01} | times))

    async def look(self) -> tuple[OverviewView, NodesView, list[EventView]]:
        self.looks += 1
        if self.broken:
            raise RuntimeError("a bug")
        return self.now

    def app(self) -> web.Application:
        async def serve(request: web.Request) -> web.StreamResponse:
            try:
                return await self.stream.serve(request)
            except Full:
                return web.Response(status=503)

        app = web.Application()
        app.router.add_get("/", serve)
        return app

    async def client(self) -> Client:
        return await self._stack.enter_async_context(TestClient(TestServer(self.app())))

    async def looked(self) -> None:
        looks = self.looks
        await until(lambda: self.looks > looks + 1)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as made, asyncio.timeout(SOON):
        yield made


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.005)


class Reader:
    """One that reads messages, each as its kind and its data."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def raw(self) -> bytes:
        return await self._response.content.readuntil(b"\n\n")

    async def next(self) -> tuple[str, Any]:
        lines = (await self.raw()).decode().strip("\n").split("\n")
        assert [line.split(": ")[0] for line in lines] == ["event", "data"]
        return lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))


async def reading(stack: AsyncExitStack, client: Client | aiohttp.ClientSession, path: str = "/") -> Reader:
    response = await stack.enter_async_context(client.get(path))
    assert (response.status, response.content_type) == (200, "text/event-stream")
    reader = Reader(response)
    assert await reader.raw() == b"retry: 2000\n\n"
    return reader


async def test_at_once_and_then_what_changed(stack: AsyncExitStack) -> None:
    """An overview whose time alone moved on has not changed; who comes later is told it all the same: a page tells ages
    by it. A bug in a look ends nothing."""
    stage = Stage(stack)
    client = await stage.client()
    stage.broken = True
    reader = await reading(stack, client)
    await stage.looked()
    stage.broken = False
    assert [(await reader.next())[0] for _ in range(2)] == ["overview", "nodes"]
    stage.now = overview(0, at=99.0), *stage.now[1:]
    await stage.looked()
    kind, data = await (await reading(stack, client)).next()
    assert (kind, data["at"]) == ("overview", 99.0)
    stage.now = overview(5, at=100.0), *stage.now[1:]
    kind, data = await reader.next()
    assert (kind, data["parked"], data["at"]) == ("overview", 5, 100.0)
    node = NodeView(node_id="n", incarnation="i", boot="b", state="live", address="")
    stage.now = stage.now[0], NodesView(nodes=[node]), []
    kind, data = await reader.next()
    assert (kind, data["nodes"][0]["node_id"]) == ("nodes", "n")


async def test_each_new_event_once(stack: AsyncExitStack) -> None:
    """In the order in which they happened; those before the first look are in the overview. A node that is not heard
    of for a while has none told again. Line breaks of every kind stay within a message."""
    stage = Stage(stack)
    stage.now = *stage.now[:2], [event(1)]
    reader = await reading(stack, await stage.client())
    await reader.next(), await reader.next()
    stage.now = *stage.now[:2], [event(3), event(2), event(1)]
    assert [(await reader.next())[1]["id"] for _ in range(2)] == ["2", "3"]
    stage.now = *stage.now[:2], []
    await stage.looked()
    text = "a\n\nevent: forged\ndata: {}\n\n\r\r\u2028\u2029\x00\"'\ud800"
    stage.now = *stage.now[:2], [event(3), event(2), event(1), event(3, text, "n\n\n")]
    kind, data = await reader.next()
    assert (kind, data["id"], data["text"], data["node_id"]) == ("event", "3", text.replace("\ud800", "?"), "n\n\n")


async def test_all_readers_share_one_look_and_none_is_taken_without(stack: AsyncExitStack) -> None:
    stage = Stage(stack, look_pause=3600.0)
    client = await stage.client()
    assert stage.looks == 0
    async with AsyncExitStack() as leaving:
        first = await reading(leaving, client)
        assert [(await first.next())[0] for _ in range(2)] == ["overview", "nodes"]
        second = await reading(leaving, client)
        assert [(await second.next())[0] for _ in range(2)] == ["overview", "nodes"]
        assert stage.looks == 1
    await until(lambda: stage.stream._task is None)
    third = await reading(stack, client)
    assert (await third.next())[0] == "overview"
    assert stage.looks == 2


async def test_a_reader_who_lags_is_ended(stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_QUEUED_MESSAGES", 8)
    stage = Stage(stack, look_pause=3600.0)
    client = await stage.client()
    slow, quick = await reading(stack, client), await reading(stack, client)
    await quick.next(), await quick.next()
    while len(stage.stream._readers) == 2:
        # What the sockets hold for the slow one is soon full.
        stage.stream._send_to_all(b": " + b"x" * 500_000 + b"\n\n")
        assert all(reader.messages.qsize() <= 8 for reader in stage.stream._readers)
        await quick.raw()
    with pytest.raises((aiohttp.ClientError, asyncio.IncompleteReadError, ConnectionError)):
        while True:
            await slow.raw()
    stage.stream._send_to_all(b"event: last\ndata: 1\n\n")
    assert await quick.next() == ("last", 1)


async def test_a_quiet_stream_says_that_it_lives_until_it_is_closed(stack: AsyncExitStack) -> None:
    """By a comment, which no reader shows. Closing ends all readers, and no new one is served."""
    stage = Stage(stack, keep_alive_pause=0.05)
    client = await stage.client()
    reader = await reading(stack, client)
    await reader.next(), await reader.next()
    for _ in range(2):
        assert (await reader.raw()).startswith(b": ")
    stage.stream.close()
    with pytest.raises((aiohttp.ClientError, asyncio.IncompleteReadError, ConnectionError)):
        while True:
            await reader.raw()
    assert (await client.get("/")).status == 503
    await until(lambda: not stage.stream._readers)


async def test_who_has_left_takes_nobodys_place(
    stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not even where nothing changes, so that nothing is sent by which it would be noticed."""
    monkeypatch.setattr(stream, "MAX_READERS", 2)
    stage, path = Stage(stack), str(tmp_path / "stream.sock")
    # As routers serve it: aiohttp's own server of tests cancels what serves a reader who leaves.
    await stack.enter_async_context(serve_pages(stage.app(), path, RouterSettings().limits))
    http = aiohttp.ClientSession("http://router", connector=aiohttp.UnixConnector(path))
    client = await stack.enter_async_context(http)
    async with AsyncExitStack() as leaving:
        for _ in range(2):
            reader = await reading(leaving, client)
            await reader.next(), await reader.next()
        assert (await client.get("/")).status == 503
    await until(lambda: all(reader.gone for reader in stage.stream._readers))
    reader = await reading(stack, client)
    assert (await reader.next())[0] == "overview"
    await until(lambda: len(stage.stream._readers) == 1)


async def test_the_fleet_is_streamed(stack: AsyncExitStack) -> None:
    cast = Cast(stack)
    await cast.node("a", saying(said("a")))
    await cast.logs(event=event(1).model_dump())
    client = await cast.client()
    reader = await reading(stack, client, "/api/v1/stream")
    async with client.get("/api/v1/stream") as response:
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cache-Control"] == "no-store"
    kind, data = await reader.next()
    assert (kind, data["parked"], data["at"], data["events"][0]["id"]) == ("overview", 12, NOW, "1")
    kind, data = await reader.next()
    assert (kind, data["nodes"][0]["node_id"]) == ("nodes", "a")
