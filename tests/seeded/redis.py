"""The common store as Redis has it: the scripts run in an interpreter of Lua, behind the lanes that ship.

fakeredis runs the scripts, in this process and on virtual time. What is between the lane of a process and the scripts
is imitated: the connection. A connection of which something was lost is lost: nothing that is sent or answered on it
later arrives, and its process may hear of it, or not.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Never

from fakeredis import FakeRedis, FakeServer
from fakeredis import _helpers as helpers
from fakeredis._socket import _base as sockets
from fakeredis.commands_mixins import server_mixin
from redis.exceptions import ConnectionError

from framehold_core.ids import CallId, NodeId
from framehold_core.lease import LeaseReply, NodeRecord
from framehold_core.requests import Read, Record, Request
from framehold_store import codec
from framehold_store.base import POLL, Done, Store
from framehold_store.batch import BatchLane, pack
from framehold_store.config import StoreConfig
from framehold_store.feed import Feed
from framehold_store.keys import Keys
from framehold_store.pipe import Lost, Pipe, Receive
from framehold_store.redis import RedisStore
from framehold_store.scripts import SCRIPTS
from framehold_store.servers import OneServer

from .link import Line, Watch, announce, spread
from .loop import SeededLoop
from .places import APPLIED, MESSAGES, SENT

CONFIG = StoreConfig("embedded://")
KEYS = Keys(CONFIG.namespace)
_OTHER = {"leave": "unregister", "keep": "keep_code", "members": "nodes"}
NAMES = {
    script.sha.encode(): next((name for name in MESSAGES if name.lower() == script.name), _OTHER.get(script.name, ""))
    for script in SCRIPTS.values()
}
"""The messages by the digests of their scripts."""
_CALLS = KEYS.call("0" * 32)[0].partition("0")[0].encode()
"""How the key of a record begins."""


class _VirtualTime:
    """The module `time` as fakeredis sees it."""

    now: Callable[[], float] = staticmethod(time.time)

    def time(self) -> float:
        return _VirtualTime.now()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


for module in (helpers, sockets, server_mixin):
    vars(module)["time"] = _VirtualTime()


class CommonRedis:
    """`Common` with the scripts of Redis. `watch` sees each record before and after each script."""

    def __init__(self, loop: SeededLoop, rate: float, watch: Watch) -> None:
        _VirtualTime.now = staticmethod(lambda: 1.7e9 + loop.time() * rate)
        self.lines: list[Line] = []
        self.down_until = 0.0
        self._watch = watch
        self._server = FakeServer()
        self._records: dict[CallId, Record | None] = {}
        self._connections: list[Any] = []
        """A connection that nobody keeps closes its socket."""
        self._own = self.socket()
        for script in SCRIPTS.values():
            self._answer("SCRIPT", "LOAD", script.text)

    def socket(self) -> Any:
        """A connection to the server: it takes bytes, and has what was answered."""
        connection = FakeRedis(server=self._server, protocol=2).connection_pool.get_connection()
        self._connections.append(connection)
        return connection._sock

    def _answer(self, *command: str | bytes | int) -> Any:
        self._own.sendall(pack(command))
        return self._own.responses.get_nowait()

    def store(self, line: Line) -> Store:
        """The store as a process has it, at the end of a line."""
        return _FarRedis(self, line)

    def ran(self, sha: bytes, key: bytes) -> None:
        """A script has run on a key."""
        if not key.startswith(_CALLS) or NAMES.get(sha) == Read.__name__:
            return
        call = KEYS.call_of(key.decode())
        old, new = self._records.get(call), self.record(call)
        self._records[call] = new
        if new is not None and new != old:
            self._watch(call, NAMES.get(sha, ""), old, new)

    def record(self, call: CallId) -> Record | None:
        """The record of a call."""
        request = Read(call)
        script, arguments = codec.encode(request, CONFIG.max_journal)
        raw = self._answer("EVALSHA", script.sha, 2, *KEYS.call(call), *arguments)
        stored = codec.decode(request, raw).stored
        return None if stored is None else stored.record

    def keeps(self, code: str) -> bool:
        """Whether the store has this code."""
        return bool(self._answer("EXISTS", KEYS.code(code)))

    def lapse(self, node: NodeId) -> None:
        """The lease of a node is gone."""
        self._answer("DEL", KEYS.node(node))

    def snapshot(self) -> Any:
        """All that is stored."""
        data = self._server.dbs[0]
        return copy.deepcopy((data._dict, data._expiry_heap))

    def go_back(self, then: Any) -> None:
        """The store is as it was at a snapshot."""
        data = self._server.dbs[0]
        data._dict, data._expiry_heap = copy.deepcopy(then)


class _FarRedis(RedisStore):
    """The store that ships, whose lane has a line in place of a connection."""

    def __init__(self, common: CommonRedis, line: Line) -> None:
        self._common, self._line = common, line
        super().__init__(CONFIG)

    def _make_servers(self, config: StoreConfig) -> _Server:
        return _Server(_Connections(self._common, self._line), config)

    def submit(self, request: Request, done: Done) -> None:
        self._line.strike(type(request).__name__, SENT)
        super().submit(request, done)

    async def _script(self, name: str, key: str, *arguments: str | bytes | int) -> Any:
        self._line.strike(NAMES[SCRIPTS[name].sha.encode()], SENT)
        return await super()._script(name, key, *arguments)

    async def register(self, node: NodeRecord, ttl: float, over: bytes = b"") -> LeaseReply:
        found = await super().register(node, ttl, over)
        announce(self._common, node.node)
        return found

    async def renew(self, node: NodeRecord, acknowledged: int, ttl: float) -> LeaseReply:
        found = await super().renew(node, acknowledged, ttl)
        announce(self._common, node.node)
        return found

    async def unregister(self, node: NodeRecord) -> None:
        await super().unregister(node)
        announce(self._common, node.node)

    async def code(self, digest: str) -> bytes | None:
        return self._line.has_read(digest, await super().code(digest))

    def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        return self._line.feed.changes()

    def subscribe(self, receive: Callable[[bytes], None]) -> None:
        self._line.receive = receive

    async def publish(self, message: bytes) -> None:
        await super().publish(message)
        spread(self._common, message)

    async def open(self) -> None:
        await super().open()
        self._line.feed = Feed(POLL)

    async def close(self) -> None:
        self._line.feed.close()
        await super().close()


class _Server(OneServer):
    """The server, whose lane has a line in place of a connection."""

    def __init__(self, connections: _Connections, config: StoreConfig) -> None:
        self._lane = BatchLane(connections, config.op_timeout, config.max_queue)  # type: ignore[arg-type]
        self.submit = self._lane.submit

    def pool(self) -> Never:
        raise NotImplementedError("nothing is published here")

    async def close(self) -> None:
        await self._lane.close()


class _Connections:
    """What a lane needs of `framehold_store.link.StoreLink`, over a line."""

    name = "the common store"
    trouble = refusal = limit = ""

    def __init__(self, common: CommonRedis, line: Line) -> None:
        self._common, self._line = common, line

    async def connect(self, receive: Receive, lost: Lost) -> Pipe:
        while self._line.is_cut():
            await asyncio.sleep(0.05)
        await asyncio.sleep(self._line.delay())
        return _Pipe(self._common, self._line, receive, lost)

    async def drop(self) -> None:
        """The connection is left: its pipe was closed."""


class _Pipe:
    """A connection."""

    def __init__(self, common: CommonRedis, line: Line, receive: Receive, lost: Lost) -> None:
        self._line, self._receive, self._lost = line, receive, lost
        self._socket = common.socket()
        self._is_lost = self._closed = False
        process = self._socket._process_command

        def watched(fields: list[bytes]) -> None:
            process(fields)
            if fields[0].upper() == b"EVALSHA":
                common.ran(fields[1], fields[3])
                line.strike(NAMES.get(fields[1], ""), APPLIED)

        self._socket._process_command = watched

    def write(self, data: bytes) -> None:
        if self._is_lost:
            return
        self._line.send(lambda: self._arrive(data), self._lose)

    def close(self) -> None:
        self._closed = True

    def _arrive(self, data: bytes) -> None:
        if self._is_lost:
            return
        self._socket.sendall(data)
        while not self._socket.responses.empty():
            raw = self._socket.responses.get_nowait()
            self._line.answer(lambda raw=raw: self._hear(raw), self._lose)  # type: ignore[misc]

    def _hear(self, raw: Any) -> None:
        if not (self._closed or self._is_lost):
            self._receive(raw)

    def _lose(self) -> None:
        """Something was lost: so is the connection."""
        if not self._is_lost:
            self._is_lost = True
            if self._line.chance(0.5):
                self._line.loop.call_later(self._line.delay(), self._end, context=self._line.context)

    def _end(self) -> None:
        if not self._closed:
            self._lost(ConnectionError("the connection was reset"))
