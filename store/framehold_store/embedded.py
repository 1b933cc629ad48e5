"""A fake Redis for a fleet on one machine: fakeredis runs the same Lua scripts.

All data is lost when the process that serves it ends. There is no persistence, no replica, no memory limit and no
authentication, and a script costs 170-240 us instead of 12-20. It is meant for trials and tests.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

from fakeredis import FakeAsyncRedis, FakeServer, TcpFakeServer
from redis.asyncio import Connection
from redis.exceptions import ConnectionError, RedisError, ResponseError

from .config import StoreConfig
from .pipe import Lost, Receive
from .redis import RedisStore
from .servers import OneServer, Servers


class EmbeddedStore(RedisStore):
    """A `Store` over a fake Redis inside this process. The stores of several nodes of this process may share one
    `server`."""

    def __init__(self, config: StoreConfig, server: FakeServer | None = None) -> None:
        self._server = server or FakeServer()
        super().__init__(config)

    def _make_servers(self, config: StoreConfig) -> Servers:
        return OneServer(FakeAsyncRedis(server=self._server, protocol=2).connection_pool, config, _ReadPipe)


class _ReadPipe:
    """A `Pipe` to a fake Redis in this process, which has no transport: a task reads its replies."""

    def __init__(self, connection: Connection, receive: Receive, lost: Lost) -> None:
        self._connection, self._receive, self._lost = connection, receive, lost
        self._closed = False
        self._task = asyncio.get_running_loop().create_task(self._read(), name="framehold embedded store")

    def write(self, data: bytes) -> None:
        writer = self._connection._writer
        if writer is None:
            raise ConnectionError("it has ended")
        writer.writelines([data])

    def close(self) -> None:
        self._closed = True
        self._task.cancel()

    async def _read(self) -> None:
        try:
            while not self._closed:
                try:
                    raw = await self._connection.read_response()
                except ResponseError as error:
                    raw = error
                self._receive(raw)
        except RedisError as error:
            self._lost(error)


class _Server(TcpFakeServer):
    """fakeredis over TCP with TCP_NODELAY: without it a batch takes 40 ms."""

    daemon_threads = True

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address


class LocalServer:
    """The fake Redis on a TCP port of this machine, for the processes of a local fleet. Threads serve it until
    `stop`."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server = _Server((host, port))
        self._thread = threading.Thread(target=self._server.serve_forever, name="framehold embedded store", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The value of FRAMEHOLD_STORE_URL for the processes of the fleet."""
        host, port = self._server.server_address[:2]
        return f"redis://{host!s}:{port}"

    def stop(self) -> None:
        """End the server and drop its data."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(host: str = "127.0.0.1", port: int = 0) -> LocalServer:
    """Serve a fake Redis at `host` and `port` (0: any free port) until its `stop`.

    Raises:
        OSError: the port is taken.
    """
    return LocalServer(host, port)
