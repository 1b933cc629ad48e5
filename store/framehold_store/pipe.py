"""A connection of redis-py as callbacks: one call for each reply, and none in between.

redis-py makes the connection and logs in, and the link loads the scripts by it. Then the pipe takes over its transport.
redis-py's own way to send commands and to read a reply is made for tasks: it takes a stream, context managers and two
turns of a task for each write. A write that travels alone took a third more CPU that way.

The law: replies are given in the order of the commands; after `close` or the end of the connection none is given. The
end is reported once, and not after `close`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

import hiredis
from redis.asyncio import Connection
from redis.exceptions import ConnectionError, InvalidResponse, RedisError

Receive = Callable[[Any], None]
"""Receives one raw reply. An error reply of the server is an exception of redis-py."""
Lost = Callable[[Exception], None]
"""Is called when the connection has ended, or was answered with something else than Redis' protocol."""

_INCOMPLETE = object()


class Pipe(Protocol):
    """A connection of redis-py, which nobody reads from in another way."""

    def write(self, data: bytes) -> None:
        """Send commands.

        Raises:
            ConnectionError: the connection has ended.
        """

    def close(self) -> None:
        """Give no further reply, and report no end. The owner of the connection closes it."""


Open = Callable[[Connection, Receive, Lost], Pipe]
"""Makes a pipe of a connection that is ready. Raises ConnectionError if the connection has ended already."""


class TransportPipe(asyncio.Protocol):
    """A `Pipe` that takes over the transport of the connection."""

    def __init__(self, connection: Connection, receive: Receive, lost: Lost) -> None:
        # redis-py gives no public access to its streams.
        reader, writer, parser = connection._reader, connection._writer, connection._parser
        if reader is None or writer is None or reader.at_eof() or writer.transport.is_closing():
            raise ConnectionError("it ended as soon as it was made")
        self._receive: Receive | None = receive
        self._lost: Lost | None = lost
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse, replyError=parser.parse_error, notEnoughData=_INCOMPLETE
        )
        self._transport = cast(asyncio.Transport, writer.transport)
        self._before = self._transport.get_protocol()
        self._transport.set_protocol(self)

    def write(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise ConnectionError("it has ended")
        self._transport.write(data)

    def close(self) -> None:
        self._receive = self._lost = None

    # Called by the event loop.

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while self._receive is not None and (reply := reader.gets()) is not _INCOMPLETE:
                self._receive(reply)
        except RedisError as error:
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        # redis-py waits for it where it closes the connection.
        self._before.connection_lost(exc)
        self._end(exc or ConnectionError("the server closed it"))

    def _end(self, error: Exception) -> None:
        lost = self._lost
        self.close()
        if lost is not None:
            lost(error)
