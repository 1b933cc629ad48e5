"""The side that connects to nodes: requests out, responses in, over connections that are kept.

The law: whoever sent a request learns whether a byte of it can have left.

    1  send: the idle connection that was used last, or a new one. Only connecting costs a task
    2  no connection within the limit: NOT_SENT. What had already been written to no connection may go elsewhere
    3  the connection is lost, or answers something else than HTTP, once bytes were sent: BROKEN. So it is where a node
       closed an idle connection while the request was on its way: nobody can tell. Nothing for too long: SILENT
    4  whoever waits for a connection gives up: it is kept for the next request
"""

from __future__ import annotations

import asyncio
import errno
import logging

from .config import RouterSettings
from .link import Connection, Conversation, Failure, Link
from .message import Address

_log = logging.getLogger(__name__)


class Opening:
    """A connection on its way, and the request that waits for it."""

    def __init__(self, data: bytes, conversation: Conversation, mute: bool) -> None:
        self._data = data
        self._mute = mute
        self._conversation: Conversation | None = conversation
        self._link: Connection | None = None
        self._paused = False

    def opened(self, link: Connection) -> bool:
        """Whether the connection is taken; it isn't where nobody waits for it any more."""
        conversation, self._conversation = self._conversation, None
        if conversation is None:
            return False
        if not link.take(self._data, conversation, self._mute):
            conversation.failed(Failure.NOT_SENT)
            return True
        self._link = link
        if self._paused:
            link.pause()
        return True

    def failed(self) -> None:
        """There is no connection."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.failed(Failure.NOT_SENT)

    def abort(self) -> None:
        self._conversation = None
        if self._link is not None:
            self._link.abort()

    def pause(self) -> None:
        self._paused = True
        if self._link is not None:
            self._link.pause()

    def resume(self) -> None:
        self._paused = False
        if self._link is not None:
            self._link.resume()


class Upstream:
    """All connections to nodes."""

    def __init__(self, settings: RouterSettings) -> None:
        self.loop = asyncio.get_running_loop()
        self.timeout = settings.upstream_timeout
        self.connections: set[Connection] = set()
        self.closed = False
        self._connect_timeout = settings.connect_timeout
        self._idle: dict[Address, list[Connection]] = {}
        self._openings: dict[asyncio.Task[None], Opening] = {}
        self._pause = min(1.0, self.timeout / 4)
        self._timer = self.loop.call_later(self._pause, self._sweep)

    def send(self, address: Address, data: bytes, conversation: Conversation, *, mute: bool = False) -> Link:
        """Send a whole request; `conversation` hears the response. `mute` for HEAD: the response has no body."""
        idle = self._idle.get(address)
        if idle is None:
            idle = self._idle[address] = []
        while idle:
            link = idle.pop()
            if link.take(data, conversation, mute):
                return link
        opening = Opening(data, conversation, mute)
        if self.closed:
            self.loop.call_soon(opening.failed)
            return opening
        task = self.loop.create_task(self._open(address, idle, opening))
        self._openings[task] = opening
        task.add_done_callback(self._openings.pop)
        return opening

    async def _open(self, address: Address, idle: list[Connection], opening: Opening) -> None:
        link = Connection(self, idle)
        try:
            async with asyncio.timeout(self._connect_timeout):
                if isinstance(address, str):
                    await self.loop.create_unix_connection(lambda: link, address)
                else:
                    await self.loop.create_connection(lambda: link, *address)
        except (OSError, TimeoutError, ValueError) as error:
            # A ValueError is a host's name that IDNA has no form for: whoever waits has to hear of it all the same.
            if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
                _log.error(
                    "out of file descriptors: no connection to any node can be made; raise the limit (ulimit -n)"
                )
            opening.failed()
            return
        if not opening.opened(link):
            idle.append(link)

    async def close(self) -> None:
        """Break off what is under way and close everything."""
        self.closed = True
        self._timer.cancel()
        openings = dict(self._openings)
        for task in openings:
            task.cancel()
        await asyncio.gather(*openings, return_exceptions=True)
        for opening in openings.values():
            opening.failed()
        for link in tuple(self.connections):
            link.close()

    def _sweep(self) -> None:
        self._timer = self.loop.call_later(self._pause, self._sweep)
        now = self.loop.time()
        for link in tuple(self.connections):
            link.sweep(now)
