"""A request that is forwarded while the node it goes to vanishes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from framehold.engine.peers import Peers
from framehold.http.forward import Forward, ForwardResult
from framehold.sdk.hop import Hop
from framehold_fleet.http_server.server import close_server
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import Receiver
from framehold_store.system_clock import system_clock
from tests.node.nodes import KEY
from tests.processes import until
from tests.proofs import introduced

pytestmark = pytest.mark.anyio
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 10\r\n\r\n"
PARTS = (b"first", b"other")


class Node:
    """A node that answers in parts, as it is told, and whose lease is gone when it is told."""

    def __init__(self) -> None:
        self.asked, self.begins, self.ends, self.gone = (asyncio.Event() for _ in range(4))
        self.heard: list[bytes] = []
        self.trust, self.clock = Trust([KEY.encode()]), system_clock()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await introduced(reader, writer)
        await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        for event, part in zip((self.begins, self.ends), (HEAD + PARTS[0], PARTS[1]), strict=True):
            await event.wait()
            writer.write(part)
        writer.close()

    async def receiver(self, address: str) -> Receiver:
        return Receiver(("127.0.0.1", int(address.rpartition(":")[2])), ())

    async def vanished(self, address: str) -> None:
        await self.gone.wait()

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(self, message: Any) -> None:
        self.heard.append(message.get("body", b""))


@asynccontextmanager
async def forwarded() -> AsyncIterator[tuple[Node, asyncio.Task[ForwardResult]]]:
    """A node, and a request on its way there."""
    node, scope = Node(), {"method": "POST", "path": "/mcp", "headers": [], "framehold": Hop("a", False)}
    forward = Forward(cast(Peers, node))
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    sending = asyncio.create_task(forward.forward(address, (scope, b"{}"), node.receive, node.send))
    try:
        yield node, sending
    finally:
        for event in (node.begins, node.ends):
            event.set()
        await asyncio.wait((sending,))
        await forward.close()
        await close_server(server)


async def test_one_that_has_said_nothing_is_not_waited_for() -> None:
    async with forwarded() as (node, sending):
        await until(lambda: node.asked.is_set() or sending.done(), "the request")
        node.gone.set()
        assert await sending is ForwardResult.VANISHED and node.heard == []


async def test_one_that_has_begun_its_response_may_end_it() -> None:
    """It lives, and only the store has lost it: the client gets the whole response, and the request is sent nowhere
    else."""
    async with forwarded() as (node, sending):
        node.begins.set()
        await until(lambda: b"".join(node.heard) == PARTS[0], "the first part")
        node.gone.set()
        for _ in range(50):
            await asyncio.sleep(0)
        assert not sending.done()
        node.ends.set()
        assert await sending is ForwardResult.ANSWERED and b"".join(node.heard) == b"".join(PARTS)
