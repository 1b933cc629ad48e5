"""A kept-alive HTTP/1.1 connection of a client, which counts its bytes: the same for clients of either era.

It reads what servers here send: bodies with a Content-Length or in chunks, and event streams in chunks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_DATA = b"data:"


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a response; names are in lower case."""

    status: int
    fields: Mapping[str, str]

    @property
    def streams(self) -> bool:
        """Whether events follow."""
        return self.fields.get("content-type", "").startswith("text/event-stream")


class Link:
    """One connection to a port of 127.0.0.1, one request at a time. What goes wrong is an OSError or an EOFError."""

    def __init__(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._port, self._reader, self._writer = port, reader, writer
        self._head = Head(0, {})
        self._rest = b""
        self.sent = self.received = 0
        """Bytes so far, heads and frames of chunks included."""

    @classmethod
    async def open(cls, port: int) -> Link:
        """Connect."""
        return cls(port, *await asyncio.open_connection("127.0.0.1", port, limit=2**20))

    def close(self) -> None:
        """Leave."""
        self._writer.close()

    async def post(self, fields: Mapping[str, str], message: Mapping[str, Any]) -> Head:
        """Send a message, and read the head of its response."""
        body = json.dumps(message, separators=(",", ":")).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        request = f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\n{head}content-length: {len(body)}\r\n\r\n"
        data = request.encode() + body
        self.sent += len(data)
        self._writer.write(data)
        lines = (await self._until(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(":") for line in lines[1:] if line)
        self._head = Head(int(lines[0].split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs})
        self._rest = b""
        return self._head

    async def body(self) -> bytes:
        """All of the response's body."""
        if self._head.fields.get("transfer-encoding") == "chunked":
            found = b""
            while chunk := await self._chunk():
                found += chunk
            return found
        length = int(self._head.fields.get("content-length", "0"))
        self.received += length
        return await self._reader.readexactly(length)

    async def event(self) -> dict[str, Any] | None:
        """The next message of an event stream; None at its end."""
        while True:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                if line.startswith(_DATA) and (text := line.removeprefix(_DATA).strip()):
                    found: dict[str, Any] = json.loads(text)
                    return found
            chunk = await self._chunk()
            if not chunk:
                return None
            self._rest += chunk

    async def _chunk(self) -> bytes:
        size = int((await self._until(b"\r\n")).partition(b";")[0], 16)
        found = await self._reader.readexactly(size + 2)
        self.received += size + 2
        return found[:size]

    async def _until(self, mark: bytes) -> bytes:
        found = await self._reader.readuntil(mark)
        self.received += len(found)
        return found
