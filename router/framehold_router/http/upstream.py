"""The pool of connections to nodes: it sends requests and delivers responses, and keeps connections open.

The law: the sender of a request learns whether a byte of it may have been sent.

    1  send: the request goes to the idle connection that was used last, or to a new one. Only connecting needs a task
    2  there is no connection within the time limit: NOT_SENT. The request may go to another node
    3  the connection is lost, or the bytes that come are not HTTP, after bytes were sent: BROKEN. A node that closes an
       idle connection while a request is on its way to it also gives BROKEN, because the cases can't be distinguished.
       Nothing comes for too long: SILENT
    4  the sender gives up while the connection is made: the connection is kept for the next request
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Sequence

from ..config import RouterSettings
from ..fleet.address import Address
from .node_connection import Connection, Conversation, Failure, Link

_log = logging.getLogger(__name__)


class Opening:
    """A connection that is being made, and the request that waits for it. It is the link of that request."""

    def __init__(self, data: Sequence[bytes], conversation: Conversation, mute: bool) -> None:
        self._data = data
        self._mute = mute
        self._conversation: Conversation | None = conversation
        self._link: Connection | None = None
        self._paused = False

    def opened(self, link: Connection) -> bool:
        """Send the request on the new connection. Returns False if the request was given up: then the connection is
        free."""
        conversation, self._conversation = self._conversation, None
        data, self._data = self._data, ()
        if conversation is None:
            return False
        if not link.take(data, conversation, self._mute):
            conversation.failed(Failure.NOT_SENT)
            return True
        self._link = link
        if self._paused:
            link.pause()
        return True

    def failed(self) -> None:
        """Report to the conversation that there is no connection."""
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

    def send(self, address: Address, data: Sequence[bytes], conversation: Conversation, *, mute: bool = False) -> Link:
        """Send a complete request to `address`, in these pieces; its response goes to `conversation`. `mute`: the
        response has no body (HEAD)."""
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
        task.add_done_callback(lambda done: self._openings.pop(done, None))
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
            # A ValueError comes from a host name that IDNA can't encode: the conversation must get its failure too.
            if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
                _log.error(
                    "out of file descriptors: no connection to any node can be made; raise the limit (ulimit -n)"
                )
            opening.failed()
            return
        if not opening.opened(link):
            idle.append(link)

    async def close(self) -> None:
        """Break off all requests, and close all connections."""
        self.closed = True
        self._timer.cancel()
        openings = dict(self._openings)
        for task in openings:
            task.cancel()
        await asyncio.gather(*openings, return_exceptions=True)
        # From Python 3.12 on gather may return before the callbacks of these tasks have run.
        self._openings.clear()
        for opening in openings.values():
            opening.failed()
        for link in tuple(self.connections):
            link.close()

    def _sweep(self) -> None:
        self._timer = self.loop.call_later(self._pause, self._sweep)
        now = self.loop.time()
        for link in tuple(self.connections):
            link.sweep(now)
