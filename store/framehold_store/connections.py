"""redis-py's connection pools for each kind of store. redis-py handles authentication and TLS, and finds the master.

The protocol is RESP2: the scripts expect its replies, and it needs no handshake. Lanes apply time-outs to requests;
requests to sentinels have time-outs of their own, so that one sentinel that hangs leaves time to ask the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from redis._parsers import _AsyncHiredisParser
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError

from framehold_core.errors import ConfigError

from .address import Address, Place
from .config import StoreConfig
from .keys import MAX_MESSAGE


def open_pool(config: StoreConfig, place: Place | None = None, patience: float | None = None) -> ConnectionPool:
    """A pool of connections to one server: the server of the URL, the master that the sentinels name, or the server of
    a cluster at `place` (by default the first in the URL). `patience` limits each read, in seconds; None is no limit.
    Opens no connection.

    Raises:
        ConfigError: redis-py can't use the URL.
    """
    try:
        pool = _pool(config, place, patience)
        # An unknown option in the URL shows here; nothing is opened. (redis-py decorates it without types.)
        pool.make_connection()  # type: ignore[no-untyped-call]
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"FRAMEHOLD_STORE_URL: redis-py can't use its port or one of its options ({type(error).__name__}); "
            "nothing was started; the options are those of redis-py's connections"
        ) from None
    return pool


def open_client(config: StoreConfig) -> Redis:
    """redis-py's client of the server that `open_pool` chooses, for checks that are not on the hot path, such as PING
    and INFO. Each connect and each read fails after the operation time-out. Closing the client closes its connections.

    Raises:
        ConfigError: redis-py can't use the URL.
    """
    return Redis.from_pool(open_pool(config, patience=config.op_timeout))


def _pool(config: StoreConfig, place: Place | None, patience: float | None) -> ConnectionPool:
    address = config.address
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_timeout": patience,
        "socket_connect_timeout": config.op_timeout,
        "decode_responses": False,
        "parser_class": _Parser,
        **parse_url(address.server if address else config.url or ""),
    }
    if options.get("connection_class") is SSLConnection:
        options["connection_class"] = _TLS
    if address is None:
        return ConnectionPool(**options)
    if address.kind == "sentinel":
        return _master_pool(address, options, config.op_timeout / (len(address.places) + 1))
    options["host"], options["port"] = place or address.places[0]
    return ConnectionPool(**options)


class _Parser(_AsyncHiredisParser):
    """redis-py's parser of replies, which gives up a reply that is too large before it has come to its end. Messages
    of channels are read by it, and nobody can ask for their size first."""

    async def read_from_socket(self) -> bool:
        reader: Any = self._reader
        if reader.len() > MAX_MESSAGE:
            raise ConnectionError(f"a message or reply has more than {MAX_MESSAGE} bytes; check who else writes there")
        return bool(await super().read_from_socket())  # type: ignore[no-untyped-call]  # redis-py does not annotate it


def _master_pool(address: Address, options: dict[str, Any], patience: float) -> ConnectionPool:
    """A pool whose every new connection asks the sentinels for the master. `patience` limits the request to one
    sentinel, in seconds."""
    for name in ("host", "port"):
        options.pop(name, None)
    tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
    once: dict[str, Any] = {"retry": Retry(NoBackoff(), 0), "socket_timeout": patience}
    asking = {**once, **tls, **address.login, "protocol": 2, "socket_connect_timeout": patience, "ssl": address.tls}
    sentinels = _Sentinels(address.places, asking)
    options["connection_class"] = _TLSToMaster if address.tls else _ToMaster
    return _MasterPool(address.service, sentinels, **options)  # type: ignore[no-untyped-call]


class _Sentinels(Sentinel):
    """Asks the sentinels for one connection at a time. redis-py moves the sentinel that answered to the front of its
    list. Two requests at once could overwrite an entry: that sentinel would be neither asked nor closed any more."""

    def __init__(self, places: Sequence[Place], options: dict[str, Any]) -> None:
        super().__init__(places, sentinel_kwargs=options)  # type: ignore[no-untyped-call]
        for sentinel in self.sentinels if options["ssl"] else ():
            sentinel.connection_pool.connection_class = _TLS
        self._asking = asyncio.Lock()

    async def discover_master(self, service_name: str) -> Place:
        async with self._asking:
            try:
                found: Place = await super().discover_master(service_name)
            except MasterNotFoundError:
                # redis-py's text has all options of all connections.
                raise MasterNotFoundError(f"no sentinel that could be asked names a master of {service_name}") from None
            return found


class _MasterPool(SentinelConnectionPool):
    """A pool that on `disconnect` also closes its connections to the sentinels."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        if inuse_connections:
            await self.sentinel_manager.aclose()


class _ToMaster(SentinelManagedConnection):
    """A connection that also asks the server itself whether it is the master: a sentinel may learn of a fail-over later
    than the servers, and a replica would answer reads with old data."""

    async def connect_to(self, address: Place) -> None:
        await super().connect_to(address)  # type: ignore[no-untyped-call]
        await self.send_command("ROLE")
        try:
            if (await self.read_response())[0] not in (b"master", "master"):
                raise ConnectionError("the sentinels name a master that isn't one; a fail-over may be on its way")
        except BaseException:
            # Also when the wait was cancelled: the pool doesn't know this connection yet, and would not close it.
            await self.disconnect(nowait=True)
            raise


class _TLS(SSLConnection):
    """A connection that reads its certificates and keys anew each time that it connects. redis-py keeps what it has
    read, and its pool uses a closed connection again: a file that was replaced would count from a restart on."""

    def connect(self) -> Coroutine[Any, Any, None]:
        self.ssl_context.context = None
        connecting: Coroutine[Any, Any, None] = super().connect()  # type: ignore[no-untyped-call]
        return connecting


class _TLSToMaster(_ToMaster, SentinelManagedSSLConnection):
    def connect_to(self, address: Place) -> Coroutine[Any, Any, None]:
        self.ssl_context.context = None
        return super().connect_to(address)
