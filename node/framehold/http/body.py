"""The body of a request: it is read up to a limit, and can be read again by the next ASGI app. All bodies together are
read up to a limit too (`intake`)."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Scope, Send

from ..engine.runtime import Runtime
from ..hosts.listeners import LISTEN
from ..sdk.hop import Hop
from ..sdk.replies import crowded, too_large
from .intake import Crowded, Held, Intake, TooLarge

_SUBSCRIBES = (b"mcp-method", LISTEN.encode())
"""The header of a request that subscribes to events."""


class Body:
    """Reads the body of a request up to `limit` bytes, and replays it as one message, in however many it came. `held`
    is charged for what came."""

    def __init__(self, receive: Receive, limit: int, held: Held) -> None:
        self._receive, self._limit, self._held = receive, limit, held
        self._came: bytes | bytearray = b""
        self._read: Message | None = None

    async def whole(self) -> bytes | None:
        """The whole body; None if the client left before its end.

        Raises:
            TooLarge: the body is larger than the limit, and was read no further.
            Crowded: requests hold too much memory; it was read no further.
        """
        more = True
        while more:
            message = await self._next()
            if message["type"] != "http.request":
                return None
            piece, more = message.get("body", b""), message.get("more_body", False)
            if len(self._came) + len(piece) > self._limit:
                raise TooLarge(f"the limit is {self._limit} bytes (FRAMEHOLD_MAX_BODY)")
            self._held.receives(len(piece))
            # Not a list of messages: in pieces of one byte they would take some hundred times the body.
            if not self._came:
                self._came = piece
            elif isinstance(self._came, bytes):
                self._came = bytearray(self._came + piece)
            else:
                self._came += piece
        self._held.received()
        data, self._came = bytes(self._came), b""
        self._read = {"type": "http.request", "body": data, "more_body": False}
        return data

    def drop(self) -> None:
        """Forget what was read: the request is refused."""
        self._came, self._read = b"", None

    async def _next(self) -> Message:
        try:
            return await self._receive()
        except asyncio.CancelledError:
            if not self._held.was_refused():
                raise
            raise Crowded from None

    async def replay(self) -> Message:
        """A `receive` for the next app: it gives the body again, then the messages that follow."""
        read, self._read = self._read, None
        return await self._receive() if read is None else read


class Reception:
    """Receives the bodies of the requests that a node serves, within its limits."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self.limit = runtime, runtime.settings.max_body
        self._heavy = asyncio.Lock()
        eviction = runtime.eviction
        self.intake = Intake(lambda: eviction.intake, eviction.room)

    async def whole(self, body: Body, held: Held, scope: Scope, receive: Receive, send: Send) -> bytes | None:
        """The whole body of a request. Its hop gets the weight of its value. None: the client left, or the request was
        refused."""
        try:
            data = await body.whole()
            if data is not None:
                hop: Hop = scope["framehold"]
                hop.weight = held.weigh(data, self.limit, _SUBSCRIBES in scope["headers"])
            if held.is_heavy:
                # One after the other, and the loop has a turn for everything else between two of them.
                async with self._heavy:
                    await asyncio.sleep(0)
            return data
        except (TooLarge, Crowded) as error:
            why = error
        # A client may go on sending for a while: what it has sent is forgotten before that, and charged no more.
        data = None
        body.drop()
        self.intake.release(held)
        if isinstance(why, TooLarge):
            await too_large(str(why), receive, send)
        else:
            self._runtime.eviction.crowded_out()
            scope["framehold"].prove_not_taken(self._runtime)
            await crowded(self._runtime.retry_after, receive, send)
        return None


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
