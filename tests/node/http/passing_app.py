"""An app on a node's HTTP server that passes each request on to a raw socket, so that the tests of a router's clients
run before a node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from framehold.http.app_server import AppServer
from framehold_fleet.headers import end_to_end
from framehold_fleet.members.address import Address
from framehold_router.config import RouterSettings
from tests.kit.nodes import served
from tests.router.wires import DEADLINE, KEY, Nodes, Router, head


class PassingApp:
    """The app: one connection to `address` for each request."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for stage in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{stage}.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        reader, writer = await asyncio.open_connection(*self._address)
        replying = asyncio.ensure_future(self._reply(scope, body, reader, writer, send))
        leaving = asyncio.ensure_future(receive())
        try:
            await asyncio.wait((replying, leaving), return_when=asyncio.FIRST_COMPLETED)
            if replying.done():
                replying.result()
        finally:
            for task in (replying, leaving):
                task.cancel()
            writer.close()

    async def _reply(
        self, scope: Any, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, send: Any
    ) -> None:
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        lines = [b"%b %b HTTP/1.1" % (scope["method"].encode(), target)]
        lines += [b"%b: %b" % item for item in end_to_end(scope["headers"])]
        writer.write(b"\r\n".join([*lines, b"content-length: %d" % len(body)]) + b"\r\n\r\n" + body)
        reply = await head(reader)
        length = int(reply.one(b"content-length") or b"0")
        is_chunked = reply.one(b"transfer-encoding") is not None
        headers = [item for item in reply.headers if item[0].lower() != b"transfer-encoding"]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        if scope["method"] == "HEAD" or reply.status in (204, 304):
            length, is_chunked = 0, False
        while is_chunked and (size := int(await reader.readuntil(b"\r\n"), 16)):
            piece = (await reader.readexactly(size + 2))[:-2]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": await reader.readexactly(length)})


@asynccontextmanager
async def before(address: Address, **settings: Any) -> AsyncIterator[Router]:
    """A node's HTTP server before `address`, with limits of these settings."""
    server = AppServer(lambda: RouterSettings(keys=(KEY,), **settings).limits)
    async with served(PassingApp(address), server.connection) as url, asyncio.timeout(DEADLINE):
        port = int(url.split("/")[2].split(":")[1])
        async with AsyncExitStack() as stack:
            it = _Node(server, port, stack)
            yield it


class _Node(Router):
    """The helper of a router's tests, before a node: its front begins with its first client."""

    def __init__(self, server: AppServer, port: int, stack: AsyncExitStack) -> None:
        self._server, self.port, self.stack, self.placer = server, port, stack, Nodes([])

    @property
    def front(self) -> Any:  # type: ignore[override]  # nobody sets it
        return self._server._server
