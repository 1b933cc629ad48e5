"""What costs a router's loop more than its bytes: bodies and heads that clients send to the pages, answers of nodes."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from framehold_fleet.http_server.request_reader import MAX_LINE
from framehold_fleet.models.calls import LeasesView
from framehold_router.collect.node_client import QUICK_BYTES, NodeClient
from framehold_router.config import RouterSettings
from framehold_router.pages import serve_pages
from tests.router.cast import TRUST, cast_of, guarded, member

pytestmark = pytest.mark.anyio

MAX_HEAD = RouterSettings().max_head
LOOKUP = json.dumps({"token": "t"}).encode()


@pytest.fixture
async def http(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the pages as a front serves them. Nobody's request is a fault of the router's: none is logged."""
    path = str(tmp_path / "pages.sock")
    async with cast_of() as cast:
        app = guarded(await cast.sources())
        connector = aiohttp.UnixConnector(path)
        async with (
            serve_pages(app, path, MAX_HEAD),
            aiohttp.ClientSession("http://localhost", connector=connector) as made,
        ):
            yield made
    assert not caplog.get_records("call")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
async def test_a_packed_body_is_not_unpacked(http: aiohttp.ClientSession, coding: str) -> None:
    """Two megabytes of it are gigabytes, which held the loop for seconds, whoever sent them."""
    for body in (gzip.compress(LOOKUP), b"no such thing"):
        headers = {"Content-Encoding": coding, "Content-Type": "application/json"}
        async with http.post("/api/v1/lookup", data=body, headers=headers) as response:
            assert (response.status, "the body is wrong" in await response.text()) == (400, True)


async def test_long_lines_are_read_as_the_front_reads_them(http: aiohttp.ClientSession) -> None:
    """One that was refused here was logged with how it began: a client's cookie or token."""
    target = "/api/v1/ring?" + "x" * (MAX_LINE - 13)
    async with http.get(target) as response:
        assert (response.status, "is wrong" in await response.text()) == (400, True)
    async with http.get("/api/v1/ring", headers={"Cookie": "s" * (MAX_HEAD - 300)}) as response:
        assert response.status == 200


async def test_nodes_long_answers_are_read_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two of them the loop turns: what all nodes remember would hold every request for a tenth of a second."""
    turns, read_in = 0, list[int]()

    def turn() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(turn)

    class Noted(LeasesView):
        @classmethod
        def model_validate_json(cls, *given: Any, **more: Any) -> Any:
            read_in.append(turns)
            return super().model_validate_json(*given, **more)

    async def at_once(*_: Any, **more: Any) -> tuple[int, bytes]:
        return 200, b'{"items": [], "total": 0}'.ljust(QUICK_BYTES + 1)

    asker, loop = NodeClient(TRUST), asyncio.get_running_loop()
    monkeypatch.setattr(asker, "_exchange", at_once)
    loop.call_soon(turn)
    nodes = [member(f"n{number}", f"http://127.0.0.1:{number}") for number in range(1, 21)]
    await asyncio.gather(*(asker.ask(node, "/admin/leases", Noted) for node in nodes))
    await asker.close()
    assert len(set(read_in)) == len(read_in) == 20
