"""Node leases in Redis: their stored form, who is a member, and who hears that it changed.

The lease is the truth and the list of names a hint: each registration and renewal sends the name first and the
lease's script behind it, in one batch, so that whoever hears of the change finds the name on the list.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

from redis.asyncio import ConnectionPool
from redis.exceptions import NoPermissionError, ResponseError

from framehold_core.errors import ProtocolError, StoreUnavailable
from framehold_core.ids import Boot, Incarnation, NodeId, is_node_id
from framehold_core.lease import NodeRecord, Renewal

from .channels import follow
from .codec import milliseconds
from .feed import Feed
from .keys import FORGET_MS, Keys

_log = logging.getLogger(__name__)

_RENEWALS = {renewal.value.encode(): renewal for renewal in Renewal}
_NAME = re.compile(r"[0-9A-Za-z_.:-]{1,64}")
_MAX_NODES = 10_000
_PORTION = 256
"""Leases that one command asks for: a thousand at once would keep the store from others for a millisecond."""

Script = Callable[..., Awaitable[Any]]
"""(script's name, key, arguments) -> raw reply; raises StoreUnavailable."""
Command = Callable[..., Awaitable[Any]]
"""(key, command and arguments) -> raw reply or ResponseError; raises StoreUnavailable."""


class Registry:
    """Node leases of one namespace over a store's lane; `together` is that of its `Servers`."""

    def __init__(self, keys: Keys, script: Script, command: Command, poll: float, together: bool) -> None:
        self._keys = keys
        self._script = script
        self._command = command
        self._together = together
        self._garbage: dict[str, bytes] = {}
        self._listener: asyncio.Task[None] | None = None
        self.feed = Feed(poll, deaf=True)

    async def register(self, node: NodeRecord, ttl: float) -> Renewal:
        renewal, _ = await self._put("register", node, ttl, node.beat)
        return renewal

    async def renew(self, node: NodeRecord, acknowledged: int, ttl: float) -> tuple[Renewal, int]:
        return await self._put("renew", node, ttl, acknowledged)

    async def leave(self, node: NodeRecord) -> None:
        _, gone = await self._script("leave", self._keys.node(node.node), *_names(node), self._keys.changes)
        if gone:
            # Its name stays, as that of a lease that ends now: counted on, it would hide one that ran out.
            with contextlib.suppress(StoreUnavailable):
                await self._script("member", self._keys.nodes, node.node, 0, FORGET_MS)

    async def _put(self, name: str, node: NodeRecord, ttl: float, beat: int) -> tuple[Renewal, int]:
        life = milliseconds(ttl)
        fixed = "".join(f"{json.dumps(text)}," for text in (node.node, node.address, node.state, node.code))
        value = (*_names(node), self._keys.changes, fixed, f"{json.dumps(node.stats)}]", life, beat)
        key = self._keys.node(node.node)
        _, raw = await asyncio.gather(
            self._script("member", self._keys.nodes, node.node, life, FORGET_MS),
            self._script(name, key, *value),
        )
        return _RENEWALS[raw[0]], raw[1]

    async def nodes(self, wanted: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        names = await self._listed() if wanted is None else sorted(wanted)
        named = [name for name in names if is_node_id(name)]
        garbage = {name: b"" for name in names if not is_node_id(name)}
        values = await self._values([self._keys.node(name) for name in named])
        found: list[NodeRecord] = []
        for name, value in zip(named, values, strict=True):
            if value is None:
                continue
            if isinstance(value, NoPermissionError):
                raise StoreUnavailable(f"the leases of nodes can't be read ({value}); give the store's user that right")
            node = _read(name, value)
            if node is None:
                garbage[name] = bytes(value) if isinstance(value, bytes) else str(value).encode()
            else:
                found.append(node)
        if wanted is None:
            self._report(garbage)
        return tuple(found)

    async def _listed(self) -> list[str]:
        """The names on the list of members."""
        raw = await self._command(self._keys.nodes, "ZRANGE", self._keys.nodes, 0, _MAX_NODES - 1)
        if isinstance(raw, ResponseError):
            raise StoreUnavailable(
                f"the list of nodes at {self._keys.nodes} is not ours ({raw}); check who else writes there"
            )
        return sorted(name.decode("utf-8", "replace") for name in raw)

    async def alive(self) -> int:
        return int(await self._script("alive", self._keys.nodes))

    async def _values(self, keys: list[str]) -> list[Any]:
        """What stands at each key: its value, None, or the server's error."""
        found: dict[str, Any] = {}
        if self._together:
            portions = [keys[start : start + _PORTION] for start in range(0, len(keys), _PORTION)]
            answers = await asyncio.gather(*(self._command(some[0], "MGET", *some) for some in portions))
            for some, answer in zip(portions, answers, strict=True):
                found.update(zip(some, answer if isinstance(answer, list) else [answer] * len(some), strict=True))
        # MGET has nothing to say of what is no string; GET has.
        missing = [key for key in keys if found.get(key) is None]
        found.update(
            zip(missing, await asyncio.gather(*(self._command(key, "GET", key) for key in missing)), strict=True)
        )
        return [found[key] for key in keys]

    def _report(self, garbage: dict[str, bytes]) -> None:
        """One line for each entry that can't be read, and no second one until it changes."""
        for name, value in garbage.items():
            if self._garbage.get(name) != value:
                _log.warning(
                    "the node registry has an entry that is no lease: %.80r; it is passed over; check who else writes "
                    "there",
                    name,
                )
        self._garbage = garbage

    def changes(self, pool: Callable[[], ConnectionPool], patience: float) -> AsyncIterator[frozenset[NodeId | None]]:
        if self._listener is None:
            following = follow(pool, self._keys.changes, self._heard, patience, self._deaf)
            self._listener = asyncio.get_running_loop().create_task(following, name="framehold change feed")
        return self.feed.changes()

    def _heard(self, said: bytes | None) -> None:
        self.feed.deaf = False
        try:
            # What was said before a subscription was missed: it counts as a message of all nodes.
            self.feed.notify(self._keys.node_of(said.decode()) if said is not None else None)
        except ValueError:
            self.feed.notify()

    def _deaf(self) -> None:
        self.feed.deaf = True

    async def close(self) -> None:
        self.feed.close()
        task, self._listener = self._listener, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))


def _names(node: NodeRecord) -> tuple[str, str]:
    """Incarnation and boot, which the scripts compare between quotes."""
    for name in (node.inc, node.boot):
        if _NAME.fullmatch(name) is None:
            raise ProtocolError(
                f"incarnation or boot {name[:80]!r} must be 1 to 64 letters, digits, '_', '.', ':' or '-'"
            )
    return node.inc, node.boot


def _read(name: str, value: Any) -> NodeRecord | None:
    """The lease stored under a node's name; None for what is none."""
    try:
        _, beat, inc, boot, expires, node, address, state, code, stats, *_ = json.loads(value)
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (inc, boot, node, address, state, code, stats)
    if not all(isinstance(text, str) for text in texts) or type(beat) is not int or type(expires) is not int:
        return None
    if node != name:
        return None
    return NodeRecord(NodeId(node), Incarnation(inc), Boot(boot), beat, address, state, code, stats, expires / 1000)
