"""A request's body, read up to a limit, and played again for whoever else reads it."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive


class TooLarge(Exception):
    """A body beyond FRAMEHOLD_MAX_BODY."""


class Body:
    """Reads a request's body up to `limit` bytes, and plays it again."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._limit = receive, limit
        self._read: list[Message] = []

    async def whole(self) -> bytes | None:
        """The body, None if its client left before its end.

        Raises:
            TooLarge: it is beyond the limit, and was read no further.
        """
        size = 0
        while True:
            message = await self._receive()
            self._read.append(message)
            if message["type"] != "http.request":
                return None
            size += len(message.get("body", b""))
            if size > self._limit:
                raise TooLarge
            if not message.get("more_body", False):
                break
        return b"".join([item.get("body", b"") for item in self._read])

    async def replay(self) -> Message:
        """The body's messages again, then what comes after them."""
        return self._read.pop(0) if self._read else await self._receive()


async def gone(receive: Receive) -> None:
    """Returns when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def left(receive: Receive, within: float) -> bool:
    """Whether the client leaves within so many seconds."""
    try:
        await asyncio.wait_for(gone(receive), within)
    except TimeoutError:
        return False
    return True
