"""The connection of one lane. redis-py makes it, and so handles authentication, TLS and the options of the URL. The
link loads the scripts into the server, and connects again after a loss.

The law: a connection is used again only if every reply on it was read to its end. Otherwise it is dropped.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import resource
from collections.abc import Callable
from typing import Any

from redis.asyncio import Connection, ConnectionPool
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.utils import str_if_bytes

from framehold_core.errors import StoreUnavailable, causes

from .config import StoreConfig
from .keys import Keys
from .pipe import Lost, Open, Pipe, Receive, TransportPipe
from .scripts import SCRIPTS, LuaScript

_log = logging.getLogger(__name__)
_HEARS = 0.1
"""Seconds within which a server that hangs up says why."""
_BACKOFF = (0.0, 0.02, 0.05, 0.1, 0.25, 0.5)


_REFUSAL = re.compile(
    r"\b(BUSY|MISCONF|READONLY|NOREPLICAS|LOADING|NOAUTH|WRONGPASS|NOPERM|MASTERDOWN|CLUSTERDOWN)\b.{,150}"
    "|max number of clients reached"
)
"""An error that concerns a whole server, not one request."""
_CODES: tuple[tuple[type[Exception], str], ...] = (
    (ReadOnlyError, "READONLY"),
    (NoPermissionError, "NOPERM"),
    (BusyLoadingError, "LOADING"),
    (AuthenticationError, "NOAUTH"),
    (MasterDownError, "MASTERDOWN"),
    (ClusterDownError, "CLUSTERDOWN"),
)
"""The errors that the client has a class for: it leaves their codes out of their texts."""


def words_of(error: object) -> str:
    """What a server says that refuses everybody's requests, from its error's code on; empty if `error` is no such
    error. What follows the error of a script, the name of the script, is left out."""
    text = str(error).partition(" script: ")[0]
    code = next((code for kind, code in _CODES if isinstance(error, kind)), "")
    found = _REFUSAL.search(text) or _REFUSAL.search(f"{code} {text}")
    return found[0] if found is not None and isinstance(error, RedisError) else ""


def answer_of(error: object) -> str:
    """The error with which a server answers: that which refuses everybody's requests, else any other, without what was
    asked. Empty if `error` is no answer."""
    text = str(error).partition(" script: ")[0].partition(", with args")[0]
    return words_of(error) or (text[:150] if isinstance(error, ResponseError) else "")


def exhausted(error: BaseException) -> str:
    """Which limit of the system kept this process from opening a file or a connection, if that is what led to `error`;
    else empty."""
    for cause in causes(error):
        if isinstance(cause, StoreUnavailable) and cause.limit:
            return cause.limit
        if isinstance(cause, OSError) and cause.errno == errno.EMFILE:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            return f"this process may have {limit} descriptors open and has no more (RLIMIT_NOFILE, ulimit -n)"
        if isinstance(cause, OSError) and cause.errno == errno.ENFILE:
            return "this machine may have no more files open (fs.file-max)"
    return ""


async def last_words(pool: ConnectionPool, error: Exception) -> Exception:
    """What the server says while it hangs up, where `error` says no more than that it did: who writes to a server that
    has no connection left may not hear why. A connection that writes nothing does. Else `error`."""
    if words_of(error) or not isinstance(error.__cause__ or error, ConnectionResetError | BrokenPipeError):
        return error
    asking = pool.make_connection()  # type: ignore[no-untyped-call]
    asking.redis_connect_func = _write_nothing
    try:
        await asking.connect()
        await asking.read_response(timeout=_HEARS)
    except Exception as why:
        return why if words_of(why) else error
    finally:
        await asking.disconnect(nowait=True)
    return error


def _write_nothing(connection: Connection) -> None:
    """Have what the server says read, and greet it with nothing."""
    connection._parser.on_connect(connection)  # type: ignore[no-untyped-call]


class StoreLink:
    """Holds one connection of `pool`. `name` is the target as logs show it, without credentials. `on_failure` is called
    after each failed attempt to connect. `open_pipe` makes callbacks of a connection."""

    def __init__(
        self,
        pool: ConnectionPool,
        name: str,
        config: StoreConfig,
        on_failure: Callable[[], None] | None = None,
        open_pipe: Open = TransportPipe,
    ) -> None:
        self._pool = pool
        self._open_pipe = open_pipe
        self._timeout = config.op_timeout
        self._keys = Keys(config.namespace)
        self._on_failure = on_failure
        self._failures = 0
        self._reason = ""
        self.refusal = self.limit = ""
        """What the server said if it refused the last attempt to connect, and which limit of the system made that
        fail; empty if nothing did."""
        self.name = name
        self._connection: Connection | None = None

    @property
    def trouble(self) -> str:
        """Why the last attempt to connect failed; empty while connected."""
        return self._reason

    async def connect(self, receive: Receive, lost: Lost) -> Pipe:
        """Try until there is a connection and its server has the scripts; return it as callbacks. Never gives up;
        cancel it to stop."""
        while True:
            await asyncio.sleep(_BACKOFF[min(self._failures, len(_BACKOFF) - 1)])
            try:
                async with asyncio.timeout(self._timeout):
                    # redis-py decorates it without types
                    self._connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
                    await self._load_scripts(self._connection)
                    pipe = self._open_pipe(self._connection, receive, lost)
            except Exception as error:
                await self.drop()
                self._failed(await last_words(self._pool, error))
            except asyncio.CancelledError:
                await self.drop()
                raise
            else:
                if self._failures:
                    _log.info("store %s is back after %d failed attempts", self.name, self._failures)
                self._failures, self._reason, self.limit, self.refusal = 0, "", "", ""
                return pipe

    def _failed(self, error: Exception) -> None:
        self.limit, self.refusal = exhausted(error), answer_of(error)
        self._reason = self.limit or f"{type(error).__name__}: {error}".rstrip(": ")
        if not self._failures:
            _log.warning(
                "store %s can't be used (%s): requests wait and then fail, parked frames stay; trying again",
                self.name,
                self._reason,
            )
        self._failures += 1
        if self._on_failure is not None:
            self._on_failure()

    async def _load_scripts(self, connection: Connection) -> None:
        """Load every script in one write, and check that the user may run all their commands. Redis keeps the scripts
        until it restarts or somebody flushes them.

        Raises:
            NoPermissionError: the user may not run one of the commands.
            ResponseError: the server refused a script, or has it under another digest.
        """
        commands = [connection.pack_command("SCRIPT", "LOAD", script.text) for script in SCRIPTS.values()]
        await connection.send_packed_command([piece for command in commands for piece in command], check_health=False)
        for script in SCRIPTS.values():
            self._check(script, await connection.read_response())
        allowed = SCRIPTS["allowed"].sha
        await connection.send_command("EVALSHA", allowed, 0, self._keys.nodes, self._keys.changes, check_health=False)
        if refused := await connection.read_response():
            names = ", ".join(sorted({str_if_bytes(name) for name in refused}))
            raise NoPermissionError(
                f"its user may not run {names} on {self._keys.nodes} and the like; give it what "
                "docs/operating.md#which-redis lists"
            )

    def _check(self, script: LuaScript, reply: Any) -> None:
        sha = reply.decode() if isinstance(reply, bytes) else reply
        if sha != script.sha:
            raise ResponseError(f"the server knows {script.name} by {sha!r}")

    async def drop(self) -> None:
        """Close the connection without waiting; requests and replies under way are lost."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            await connection.disconnect(nowait=True)
            await self._pool.release(connection)
        except Exception as error:
            _log.debug("store %s: closing a connection failed (%r); it is abandoned", self.name, error)
