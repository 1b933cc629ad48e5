"""A response that a task reads: its head, then its body piece by piece.

The law: a reader that is slow holds up its node, and no memory: the connection is not read while a piece waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from .node_connection import LinkFailure
from .response_head import ResponseHead
from .upstream import NodeLink


class BrokenOff(OSError):
    """There is no response, or no complete one. `why` says what happened."""

    def __init__(self, why: LinkFailure) -> None:
        super().__init__(why.value)
        self.why = why


class IncomingResponse:
    """The conversation of one request. `link` is set by who sends the request."""

    def __init__(self) -> None:
        self.link: NodeLink | None = None
        self._head: asyncio.Future[ResponseHead] = asyncio.get_running_loop().create_future()
        self._pieces: list[bytes] = []
        self._end: BrokenOff | bool | None = False
        """False until the response has ended; then None, or why it is not complete."""
        self._changed = asyncio.Event()

    async def head(self) -> ResponseHead:
        """The head of the response.

        Raises:
            BrokenOff: there is no response.
        """
        return await self._head

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, piece by piece as it comes.

        Raises:
            BrokenOff: the response is not complete.
        """
        while True:
            if self._pieces:
                piece = b"".join(self._pieces)
                self._pieces.clear()
                yield piece
            elif isinstance(self._end, BrokenOff):
                raise self._end
            elif self._end is None:
                return
            else:
                self._changed.clear()
                if self.link is not None:
                    self.link.resume()
                await self._changed.wait()

    def abort(self) -> None:
        """Close the connection, unless the response has ended."""
        link, self.link = self.link, None
        if link is not None and self._end is False:
            link.abort()

    def began(self, head: ResponseHead, length: bytes | None) -> None:
        if not self._head.done():
            self._head.set_result(head)

    def data(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            if self.link is not None:
                self.link.pause()
        self._changed.set()

    def done(self, piece: bytes) -> None:
        self.link = self._end = None
        self.data(piece)

    def failed(self, why: LinkFailure) -> None:
        self.link, self._end = None, BrokenOff(why)
        if not self._head.done():
            self._head.set_exception(self._end)
            # Nobody may wait for it any more.
            self._head.exception()
        self._changed.set()

    def abandons(self) -> bool:
        return False
