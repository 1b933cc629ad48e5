"""A connection that is accepted in the moment in which its server ends is closed as all others are."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from framehold_fleet.members.address import Address
from tests.node.nodes import served
from tests.router.wires import DEADLINE, both_loops, node, router, silent

anyio_backend = both_loops

TURNS = range(6)
"""Turns of the event loop between a connection and the end of the server: one of them hits the moment."""


@asynccontextmanager
async def front() -> AsyncIterator[Address]:
    """A router, which ends with its front."""
    async with router() as it:
        yield "127.0.0.1", it.port


@asynccontextmanager
async def raw() -> AsyncIterator[Address]:
    """The node of other tests."""
    async with node(silent) as it:
        yield it.address


@asynccontextmanager
async def app() -> AsyncIterator[Address]:
    """An app as other tests serve it."""

    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        while scope["type"] == "lifespan":
            await send({"type": f"{(await receive())['type']}.complete"})

    async with served(nothing) as url:
        host, _, port = url.split("/")[2].partition(":")
        yield host, int(port)


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("server", [front, raw, app])
async def test_the_connection_that_comes_last_is_closed(
    server: Callable[[], AbstractAsyncContextManager[Address]], turns: int
) -> None:
    with socket.socket() as late:
        late.setblocking(False)
        async with server() as address:
            late.connect_ex(address)
            for _ in range(turns):
                await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE):
            try:
                assert await asyncio.get_running_loop().sock_recv(late, 1) == b""
            except ConnectionError:
                pass
