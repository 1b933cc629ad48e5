"""The store in Redis: requests become script calls, replies come back through the codec.

`Servers` choose the server that a script goes to: one Redis, the master that sentinels name, or a server of a cluster.
`Servers` know nothing of records, and this file knows nothing of servers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any

from redis.exceptions import ResponseError

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import NodeId, prefix
from framehold_core.lease import LeaseReply, NodeRecord
from framehold_core.pauses import Pause, Tools
from framehold_core.requests import Claim, Read, Reply, Request, Verdict

from . import codec
from .base import Done, MemoryUse, ScanStep, StoredEvent, StreamName
from .batch import Item, pack
from .channels import follow
from .cluster import Cluster
from .config import StoreConfig
from .connections import open_pool
from .event_log import EventLog, memory, refused, unsaved
from .keys import Keys
from .pauses import PausedTools
from .registry import Registry
from .samples import Samples
from .scan import scan
from .scripts import SCRIPTS
from .servers import OneServer, Servers

_log = logging.getLogger(__name__)
_END = 13
"""Digits of its end that stand before the code of a handler (scripts/keep.lua)."""
_AROUND = 64
"""Bytes of its end and its seal, and some more."""


class RedisStore:
    """A `Store` in a Redis or Valkey of 6.2 or later.

    Raises:
        ConfigError: redis-py can't use the URL.
    """

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._keys = Keys(config.namespace)
        self._request_counts: Counter[str] = Counter()
        self._use_fresh_servers()

    def _use_fresh_servers(self) -> None:
        """Use servers without connections from now on."""
        self._servers = self._make_servers(self._config)
        self._send = self._servers.submit
        multi_key = self._servers.accepts_multi_key_commands
        self._registry = Registry(self._keys, self._script, self._strings, self._config.poll, multi_key)
        self._log = EventLog(self._keys, self._script)
        self._samples = Samples(self._keys, self._command, self._strings)
        self._tools = PausedTools(self._keys, self._script)
        self._subscription: asyncio.Task[None] | None = None
        self._closed = False

    def _make_servers(self, config: StoreConfig) -> Servers:
        if config.address is not None and config.address.kind == "cluster":
            return Cluster(config)
        return OneServer(open_pool(config), config)

    def submit(self, request: Request, done: Done) -> None:
        try:
            script, arguments = codec.encode(request, self._config.max_journal)
            record, journal = self._keys.call(request.call)
            packed = pack(("EVALSHA", script.sha, 2, record, journal, *arguments))
        except (ValueError, TypeError) as error:
            failure = StoreUnavailable(f"a request can't be encoded ({error}); it was not sent; this is a bug")
            self._deliver(done, failure)
            return
        self._request_counts[script.name] += 1
        settle = self._settler(request, done)
        self._send(Item(packed, record, script.name, settle))

    def _settler(self, request: Request, done: Done) -> Callable[[Any], None]:
        def settle(raw: Any) -> None:
            try:
                outcome: Reply | StoreUnavailable = codec.decode(request, raw)
            except ValueError as error:
                outcome = self._unreadable(request, raw, error)
            self._deliver(done, outcome)

        return settle

    def _unreadable(self, request: Request, raw: Any, error: ValueError) -> Reply | StoreUnavailable:
        if isinstance(raw, StoreUnavailable):
            return raw
        name = type(request).__name__.lower()
        if isinstance(raw, ResponseError):
            _log.warning(
                "store %s refused a %s (%s): its caller hears StoreUnavailable", self._config.target, name, raw
            )
            return refused(
                f"the store refused the {name} ({raw}); it was not completed; look at the store's own log", raw
            )
        if isinstance(error, codec.Illegible) and isinstance(request, Read | Claim):
            _log.error(
                "the record of call %s can't be read (%s): it counts as missing; check who else writes this store",
                prefix(request.call),
                error,
            )
            return Reply(Verdict.MISSING)
        _log.error(
            "the record of call %s can't be read (%s): the call is not continued; check who else writes this store",
            prefix(request.call),
            error,
        )
        return StoreUnavailable(
            f"the record of call {prefix(request.call)} can't be read ({error}); it was not guessed at"
        )

    def _deliver(self, done: Done, outcome: Reply | StoreUnavailable) -> None:
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
        """Send one command in the next batch, and return its raw reply; an error reply of the server is returned too.

        Raises:
            StoreUnavailable: no answer came in time.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        item = Item(pack(command), key, str(command[0]), lambda raw: None if future.done() else future.set_result(raw))
        self._send(item)
        raw = await future
        if isinstance(raw, StoreUnavailable):
            raise raw
        return raw

    async def _script(self, name: str, key: str, *arguments: str | bytes | int) -> Any:
        """Run a script on one key, and return its raw reply.

        Raises:
            StoreUnavailable: no answer came in time, or the server replied with an error.
        """
        raw = await self._command(key, "EVALSHA", SCRIPTS[name].sha, 1, key, *arguments)
        if isinstance(raw, ResponseError):
            where = "check who else writes there, and look at the store's own log"
            raise refused(f"the store refused to run `{name}` at {key} ({raw}); {where}", raw)
        return raw

    async def _strings(self, keys: Sequence[str], most: int) -> tuple[list[Any], int]:
        """What is stored at some keys, which one server has in one slot: for each its value, None if there is none, or
        the number of its bytes if it has more than `most`; 0 if it is no string. And the time on that server's clock,
        in milliseconds.

        Raises:
            StoreUnavailable: no answer came in time, or the server replied with an error.
        """
        raw = await self._command(keys[0], "EVALSHA", SCRIPTS["strings"].sha, len(keys), *keys, most)
        if isinstance(raw, ResponseError):
            raise refused(
                f"the store refused to read {keys[0]} ({raw}); look at its log, and at its user's rights", raw
            )
        *found, at = raw
        return found, at

    async def register(self, node: NodeRecord, ttl: float, over: bytes = b"") -> LeaseReply:
        self._request_counts["register"] += 1
        return await self._registry.register(node, ttl, over)

    async def renew(self, node: NodeRecord, acknowledged: int, ttl: float) -> LeaseReply:
        self._request_counts["renew"] += 1
        return await self._registry.renew(node, acknowledged, ttl)

    async def unregister(self, node: NodeRecord) -> None:
        self._request_counts["leave"] += 1
        await self._registry.unregister(node)

    async def nodes(self, named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        return await self._registry.nodes(named)

    async def scan(self, cursor: str = "", count: int = 100) -> ScanStep:
        return await scan(self._servers, self._command, self._keys, cursor, count)

    async def tools(self) -> Tools:
        return await self._tools.read()

    async def cleared(self, tool: str) -> None:
        self._request_counts["cleared"] += 1
        await self._tools.cleared(tool)

    async def pause(self, pause: Pause) -> None:
        self._request_counts["pause"] += 1
        await self._tools.pause(pause)

    async def resume(self, tool: str) -> bool:
        self._request_counts["pause"] += 1
        return await self._tools.resume(tool)

    async def died(self, tool: str, boot: str, limit: int, why: str) -> tuple[Pause | None, bool]:
        self._request_counts["died"] += 1
        return await self._tools.died(tool, boot, limit, why)

    async def keep_code(self, digest: str, code: bytes, ttl: float) -> None:
        self._request_counts["keep"] += 1
        await self._script("keep", self._keys.code(digest), code, codec.milliseconds(ttl))

    async def code(self, digest: str) -> bytes | None:
        key = self._keys.code(digest)
        [found], _ = await self._strings([key], self._config.max_code + _AROUND)
        if isinstance(found, int):
            what = f"{found} bytes, more than FRAMEHOLD_MAX_CODE allows" if found else "no text"
            _log.warning("the code at %s is not read: it is %s; check who else writes there", key, what)
            return b""
        return None if found is None else bytes(found[_END:])

    async def count_nodes(self) -> int:
        return await self._registry.count_nodes()

    def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        return self._registry.changes(self._servers.pool, self._config.op_timeout)

    async def publish(self, message: bytes) -> None:
        raw = await self._command(self._keys.events, "PUBLISH", self._keys.events, message)
        if isinstance(raw, ResponseError):
            raise StoreUnavailable(f"the store refused to publish ({raw}); nobody heard it; look at its own log")

    def subscribe(self, receive: Callable[[bytes], None]) -> None:
        def on_message(message: bytes | None) -> None:
            if message is not None:
                receive(message)

        following = follow(self._servers.pool, self._keys.events, on_message, self._config.op_timeout)
        self._subscription = asyncio.get_running_loop().create_task(following, name="framehold events")

    async def append_events(self, entries: Sequence[bytes], to: StreamName = "log") -> None:
        await self._log.append(entries, to)

    async def events(self, after: str = "", count: int = 500, of: StreamName = "log") -> tuple[StoredEvent, ...]:
        return await self._log.read(after, count, of)

    async def keep_sample(self, step: int, slot: int, sample: bytes, ttl: float) -> None:
        await self._samples.keep(step, slot, sample, ttl)

    async def samples(self, step: int, slots: Sequence[int]) -> tuple[bytes | None, ...]:
        return await self._samples.read(step, slots)

    async def time(self) -> float:
        raw = await self._command(self._keys.nodes, "TIME")
        if isinstance(raw, ResponseError):
            raise refused(f"the store refused to tell its time ({raw}); look at its log, and at its user's rights", raw)
        return int(raw[0]) + int(raw[1]) / 1e6

    async def memory(self) -> MemoryUse | None:
        return await memory(self._servers)

    async def unsaved(self) -> str:
        return await unsaved(self._servers)

    async def open(self) -> None:
        """Connect nothing: the first request connects, so a store may be down at the start."""
        if self._closed:
            self._use_fresh_servers()

    async def close(self) -> None:
        self._closed = True
        subscription, self._subscription = self._subscription, None
        try:
            await self._registry.close()
            if subscription is not None:
                subscription.cancel()
                await asyncio.wait((subscription,))
        finally:
            await self._servers.close()

    @property
    def request_counts(self) -> Mapping[str, int]:
        return self._request_counts

    @property
    def unreadable_leases(self) -> int:
        return self._registry.unreadable
