"""The body of a request: it is read up to a limit, and can be read again by the next ASGI app."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive


class TooLarge(Exception):
    """A body is larger than FRAMEHOLD_MAX_BODY."""


class Body:
    """Reads the body of a request up to `limit` bytes, and replays its messages."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._limit = receive, limit
        self._read: list[Message] = []

    async def whole(self) -> bytes | None:
        """The whole body; None if the client left before its end.

        Raises:
            TooLarge: the body is larger than the limit, and was read no further.
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
        """A `receive` for the next app: it gives the messages of the body again, then those that follow."""
        return self._read.pop(0) if self._read else await self._receive()


async def gone(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def left(receive: Receive, within: float) -> bool:
    """Wait up to `within` seconds. Returns whether the client left meanwhile."""
    try:
        await asyncio.wait_for(gone(receive), within)
    except TimeoutError:
        return False
    return True
