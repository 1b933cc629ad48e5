"""One kept-alive HTTP/1.1 connection to a port of 127.0.0.1, one request at a time; it counts its bytes.

It reads what the servers here send: bodies with a Content-Length or in chunks, and event streams in chunks. It is a
protocol of asyncio and no pair of streams, because the benchmark's load must stay cheaper than the servers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

_DATA = b"data:"


class CallError(ValueError):
    """A response is not what the protocol and the tool promise; the message is the kind of the error."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response, or its head alone; the names of `fields` are in lower case."""

    status: int
    body: bytes = b""
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def streams(self) -> bool:
        """Whether the body is an event stream."""
        return self.fields.get("content-type", "").startswith("text/event-stream")


def post(port: int, fields: Mapping[str, str], message: Mapping[str, Any], path: str = "/mcp") -> bytes:
    """The bytes of a POST of a JSON message."""
    body = json.dumps(message, separators=(",", ":")).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    request = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{head}content-length: {len(body)}\r\n\r\n"
    return request.encode() + body


class Connection(asyncio.Protocol):
    """The connection. `sent` and `received` are its bytes so far, heads and frames of chunks included."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._arrival: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        self._head = Response(0)
        self._buffer = self._events = b""
        self.sent = self.received = 0

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect.

        Raises:
            OSError: nobody listens there.
        """
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    async def request(self, data: bytes) -> Response:
        """Send a request, and read its whole response.

        Raises:
            OSError: the server closed the connection.
            CallError: the response has neither a Content-Length nor chunks.
        """
        head = await self.begin(data)
        return Response(head.status, await self.body(), head.fields)

    async def begin(self, data: bytes) -> Response:
        """Send a request, and read the head of its response.

        Raises:
            OSError: the server closed the connection.
        """
        if self._transport is None or self._lost is not None:
            raise ConnectionResetError("the server closed the connection between two requests")
        self.sent += len(data)
        self._transport.write(data)
        first, *lines = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        self._head = Response(int(first[9:12]), fields={name.lower(): value.strip() for name, _, value in pairs})
        self._events = b""
        return self._head

    async def body(self) -> bytes:
        """All of the body that follows the head.

        Raises:
            OSError: the server closed the connection.
            CallError: the response has neither a Content-Length nor chunks.
        """
        if self._head.fields.get("transfer-encoding") == "chunked":
            parts = []
            while chunk := await self._chunk():
                parts.append(chunk)
            return b"".join(parts)
        length = self._head.fields.get("content-length")
        if length is None:
            self.close()
            raise CallError("a response without Content-Length and not in chunks")
        return await self._exactly(int(length))

    async def event(self) -> dict[str, Any] | None:
        """The next message of an event stream; None at its end.

        Raises:
            OSError: the server closed the connection.
        """
        while True:
            while b"\n" in self._events:
                line, _, self._events = self._events.partition(b"\n")
                if line.startswith(_DATA) and (text := line.removeprefix(_DATA).strip()):
                    found: dict[str, Any] = json.loads(text)
                    return found
            chunk = await self._chunk()
            if not chunk:
                return None
            self._events += chunk

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail whoever waits, and all requests from now on."""
        self._lost = exc or ConnectionResetError("the server closed the connection")
        self._wake()

    def data_received(self, data: bytes) -> None:
        """Keep what arrived for whoever waits."""
        self._buffer = self._buffer + data if self._buffer else data
        self._wake()

    async def _chunk(self) -> bytes:
        size = int((await self._until(b"\r\n")).partition(b";")[0], 16)
        return (await self._exactly(size + 2))[:size]

    async def _until(self, mark: bytes) -> bytes:
        while (place := self._buffer.find(mark)) < 0:
            await self._more()
        return self._taken(place + len(mark))

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._more()
        return self._taken(size)

    def _taken(self, size: int) -> bytes:
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        self.received += size
        return found

    async def _more(self) -> None:
        if self._lost is not None:
            raise self._lost
        self._arrival = asyncio.get_running_loop().create_future()
        await self._arrival

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
