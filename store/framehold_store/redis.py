"""The store in Redis: requests become script calls, replies come back through the codec.

Which server a call's script goes to is the business of `Servers`: one Redis, the master that sentinels name, or a
cluster. They know nothing of records, and this file knows nothing of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

from redis.exceptions import ResponseError

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import NodeId, prefix
from framehold_core.lease import NodeRecord, Renewal
from framehold_core.requests import Reply, Request

from . import codec
from .base import Done, Swept
from .batch import Item, pack
from .channels import follow
from .cluster import Cluster
from .config import StoreConfig
from .connections import open_pool
from .keys import Keys
from .registry import Registry
from .scripts import SCRIPTS
from .servers import OneServer, Servers
from .sweep import sweep

_log = logging.getLogger(__name__)


class RedisStore:
    """A `Store` in a Redis or Valkey of 6.2 or later.

    Raises:
        ConfigError: redis-py can't use the URL.
    """

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._keys = Keys(config.namespace)
        self._servers = self._make_servers(config)
        self._send = self._servers.submit
        self._registry = Registry(self._keys, self._script, self._command, config.poll, self._servers.together)
        self._writes: Counter[str] = Counter()
        self._listener: asyncio.Task[None] | None = None

    def _make_servers(self, config: StoreConfig) -> Servers:
        if config.address is not None and config.address.kind == "cluster":
            return Cluster(config)
        return OneServer(open_pool(config), config)

    def submit(self, request: Request, done: Done) -> None:
        try:
            script, arguments = codec.encode(request)
            record, journal = self._keys.call(request.call)
            packed = pack(("EVALSHA", script.sha, 2, record, journal, *arguments))
        except (ValueError, TypeError) as error:
            self._tell(done, StoreUnavailable(f"a request can't be encoded ({error}); it was not sent; this is a bug"))
            return
        self._writes[script.name] += 1
        settle = self._settler(request, done)
        self._send(Item(packed, record, script.name, settle))

    def _settler(self, request: Request, done: Done) -> Callable[[Any], None]:
        def settle(raw: Any) -> None:
            try:
                outcome: Reply | StoreUnavailable = codec.decode(request, raw)
            except ValueError as error:
                outcome = self._unreadable(request, raw, error)
            self._tell(done, outcome)

        return settle

    def _unreadable(self, request: Request, raw: Any, error: ValueError) -> StoreUnavailable:
        if isinstance(raw, StoreUnavailable):
            return raw
        name = type(request).__name__.lower()
        if isinstance(raw, ResponseError):
            _log.warning(
                "store %s refused a %s (%s): its caller hears StoreUnavailable", self._config.target, name, raw
            )
            return StoreUnavailable(
                f"the store refused the {name} ({raw}); it was not completed; look at the store's own log"
            )
        _log.error(
            "the record of call %s can't be read (%s): the call is not continued; check who else writes this store",
            prefix(request.call),
            error,
        )
        return StoreUnavailable(
            f"the record of call {prefix(request.call)} can't be read ({error}); it was not guessed at"
        )

    def _tell(self, done: Done, outcome: Reply | StoreUnavailable) -> None:
        try:
            done(outcome)
        except Exception:
            _log.exception("whoever waited for the store failed on its reply; the reply stands, other requests go on")

    async def run(self, request: Request) -> Reply:
        future: asyncio.Future[Reply | StoreUnavailable] = asyncio.get_running_loop().create_future()
        self.submit(request, lambda outcome: None if future.done() else future.set_result(outcome))
        outcome = await future
        if isinstance(outcome, StoreUnavailable):
            raise outcome
        return outcome

    async def _command(self, key: str, *command: str | bytes | int) -> Any:
        """Send any command along with the batch; an error of the server is returned."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        item = Item(pack(command), key, str(command[0]), lambda raw: None if future.done() else future.set_result(raw))
        self._send(item)
        raw = await future
        if isinstance(raw, StoreUnavailable):
            raise raw
        return raw

    async def _script(self, name: str, key: str, *arguments: str | bytes | int) -> Any:
        """Run a script on one key; an error of the server is StoreUnavailable."""
        raw = await self._command(key, "EVALSHA", SCRIPTS[name].sha, 1, key, *arguments)
        if isinstance(raw, ResponseError):
            raise StoreUnavailable(f"the store refused to {name} ({raw}); look at the store's own log")
        return raw

    async def register(self, node: NodeRecord, ttl: float) -> Renewal:
        self._writes["register"] += 1
        return await self._registry.register(node, ttl)

    async def renew(self, node: NodeRecord, acknowledged: int, ttl: float) -> tuple[Renewal, int]:
        self._writes["renew"] += 1
        return await self._registry.renew(node, acknowledged, ttl)

    async def leave(self, node: NodeRecord) -> None:
        self._writes["leave"] += 1
        await self._registry.leave(node)

    async def nodes(self, named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        return await self._registry.nodes(named)

    async def sweep(self, cursor: str = "", count: int = 100) -> Swept:
        return await sweep(self._servers, self._command, self._keys, cursor, count)

    async def alive(self) -> int:
        return await self._registry.alive()

    def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        return self._registry.changes(self._servers.pool, self._config.op_timeout)

    async def tell(self, message: bytes) -> None:
        raw = await self._command(self._keys.events, "PUBLISH", self._keys.events, message)
        if isinstance(raw, ResponseError):
            raise StoreUnavailable(f"the store refused to publish ({raw}); nobody heard it; look at its own log")

    def listen(self, hear: Callable[[bytes], None]) -> None:
        def heard(said: bytes | None) -> None:
            if said is not None:
                hear(said)

        following = follow(self._servers.pool, self._keys.events, heard, self._config.op_timeout)
        self._listener = asyncio.get_running_loop().create_task(following, name="framehold events")

    async def open(self) -> None:
        """Connects with the first request: a store that is down at the start is none the worse for it."""

    async def close(self) -> None:
        await self._registry.close()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait((self._listener,))
        await self._servers.close()

    @property
    def writes(self) -> Mapping[str, int]:
        return self._writes
