"""What readers in this process find in a stream: the router's, and uvicorn's with h11 and with the parser of `framehold
node`, on a transport in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from framehold_cli.serve.http_protocol import HttpProtocol
from framehold_fleet.http_server.request_reader import Reader, RequestRefused
from tests.kit.limits import limits_of

from .streams import PLANTED
from .strict import Meaning, path_of

_CALM = 20
"""Turns of the loop in which nothing happens: then nothing will, since no socket takes part."""


class _Memory(asyncio.Transport):
    """A transport that counts what is written, and forgets it."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = 0, False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)}.get(name, default)

    def write(self, data: Any) -> None:
        self.written += len(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        pass


class Uvicorn:
    """A uvicorn that serves nothing but what it is given; `name` says with which parser."""

    def __init__(self, name: str) -> None:
        kind: Any = {"h11": H11Protocol, "node": HttpProtocol}[name]
        self.name, self._found = name, list[Meaning]()
        self.raised = list[str]()
        """What its protocol raised at the last stream."""
        self.planted = list[tuple[bytes, bytes]]()
        """The internal headers of a client that its application saw in the last stream."""
        # The parser's messages are of no interest, and formatting them costs more than parsing.
        config = uvicorn.Config(self._app, http=kind, ws="none", interface="asgi3", log_config=None, access_log=False)
        config.load()
        self._protocol = kind
        self._config = config

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.planted += [
            header for header in scope["headers"] if header[0][:10] == b"framehold-" and PLANTED in header[1]
        ]
        body, message = b"", {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        self._found.append(Meaning(scope["method"].encode(), target, body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def read(self, pieces: Sequence[bytes]) -> list[Meaning]:
        """The requests that it accepts in a stream."""
        self._found, self.raised, self.planted = [], [], []
        state, transport = ServerState(), _Memory()
        protocol = self._protocol(self._config, state, {})
        protocol.connection_made(transport)
        for piece in pieces:
            if transport.closed:
                break
            try:
                protocol.data_received(piece)
            except Exception as error:
                # A loop closes the transport then, and tells nobody but its log.
                self.raised.append(repr(error))
                break
            await asyncio.sleep(0)
        await self._calm(transport)
        protocol.connection_lost(None)
        if state.tasks:
            await asyncio.wait(state.tasks)
        return [Meaning(found.method, path_of(found.target), found.body) for found in self._found]

    async def _calm(self, transport: _Memory) -> None:
        seen, calm = (-1, -1), 0
        while calm < _CALM:
            await asyncio.sleep(0)
            now = (len(self._found), transport.written)
            calm, seen = (calm + 1, seen) if now == seen else (0, now)


def read_by_router(pieces: Sequence[bytes]) -> list[Meaning]:
    """The requests that the router's reader accepts in a stream, up to the first that it refuses."""
    reader, found = Reader(limits_of(4 << 20, 32 * 1024, 100)), list[Meaning]()
    try:
        for piece in pieces:
            while piece:
                piece = piece[reader.feed(piece) :]
                if reader.whole:
                    is_last = not reader.keep_alive
                    head, body, _ = reader.take("")
                    found.append(Meaning(head.method, head.target, body))
                    if is_last:
                        return found
    except RequestRefused:
        pass
    return found
