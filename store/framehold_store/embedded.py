"""A fake Redis for a fleet on one machine: fakeredis runs the same Lua scripts.

All data is lost when the process that serves it ends. There is no persistence, no replica, no memory limit and no
authentication, and a script costs 170-240 us instead of 12-20. It is meant for trials and tests.

lupa, which runs the Lua, has a bridge from Lua to Python: a script could run any code of the process. Here that bridge
is closed for all of fakeredis in this process, and a server that other processes reach runs no script but those of this
store.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from itertools import count
from pathlib import Path
from typing import Any

from fakeredis import FakeAsyncRedis, FakeServer, TcpFakeServer
from fakeredis._helpers import SimpleError
from fakeredis.commands_mixins import scripting_mixin
from redis.asyncio import Connection
from redis.exceptions import ConnectionError, ResponseError

from .config import StoreConfig
from .pipe import Lost, Receive
from .redis import RedisStore
from .scripts import SCRIPTS
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
        except Exception as error:
            self._lost(error)


class _Server(TcpFakeServer):
    """fakeredis on a Unix socket, for this fleet's scripts alone."""

    address_family = socket.AF_UNIX
    daemon_threads = True

    def __init__(self, path: str) -> None:
        self._numbers = count()
        super().__init__(path, bind_and_activate=False)  # type: ignore[arg-type]  # the address of a Unix socket
        self.fake_server = _OwnScripts()
        _remove_dead_socket(path)
        try:
            self.server_bind()
            self.server_activate()
        except OSError:
            self.server_close()
            raise

    def get_request(self) -> tuple[socket.socket, Any]:
        # fakeredis tells its clients apart by their addresses, and clients of a Unix socket have none.
        connection, _ = super().get_request()
        return connection, ("unix", next(self._numbers))


def _remove_dead_socket(path: str) -> None:
    """Remove the socket that a killed server left at `path`. A socket at which a server listens stays."""
    with socket.socket(socket.AF_UNIX) as caller:
        if Path(path).is_socket() and caller.connect_ex(path) == errno.ECONNREFUSED:
            os.unlink(path)


class LocalServer:
    """The fake Redis on a Unix socket at `path`, for the processes of a local fleet. Threads serve it until `stop`.
    Who may reach it is decided by the rights of the socket's folder."""

    def __init__(self, path: str) -> None:
        self._server = _Server(path)
        self._thread = threading.Thread(target=self._server.serve_forever, name="framehold embedded store", daemon=True)
        self._thread.start()
        self.url = f"unix://{path}"
        """The value of FRAMEHOLD_STORE_URL for the processes of the fleet."""

    def stop(self) -> None:
        """End the server and drop its data."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _OwnScripts(FakeServer):
    """A fake Redis that runs no script but those of this store."""

    def __init__(self) -> None:
        super().__init__()
        self._known = _Known()

    @property
    def script_cache(self) -> dict[bytes, bytes]:
        """The scripts by their SHA-1. Each way to run one puts it here first."""
        return self._known

    @script_cache.setter
    def script_cache(self, _: dict[bytes, bytes]) -> None:
        """SCRIPT FLUSH: the scripts that are known stay known."""


class _Known(dict[bytes, bytes]):
    def __setitem__(self, sha: bytes, script: bytes) -> None:
        if sha.decode() not in _SHAS:
            raise SimpleError("ERR this store runs its own scripts only; nothing was run")
        super().__setitem__(sha, script)


_SHAS = frozenset(script.sha for script in SCRIPTS.values())


def _nothing(item: object, name: object, setting: bool) -> str:
    raise SimpleError(f"ERR a script may not reach {name!r} of a Python object")


_CLOSE = b"python, package, require, os, io, debug, dofile, loadfile = nil"
"""The globals of lupa that lead out of a script. Redis has none of them either."""


class _Lua:
    """lupa's module, whose runtimes reach nothing of Python or of the system: neither by a global, nor by an attribute
    of what they are given."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def LuaRuntime(self, **settings: Any) -> Any:
        """A runtime for scripts."""
        made = self._module.LuaRuntime(
            register_eval=False, register_builtins=False, attribute_filter=_nothing, **settings
        )
        made.execute(_CLOSE)
        return made


vars(scripting_mixin)["LUA_MODULE"] = _Lua(scripting_mixin.LUA_MODULE)
