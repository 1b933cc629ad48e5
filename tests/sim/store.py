"""The store: `record.apply` and the lease functions over two dicts, on a clock of its own.

It can stop answering; it can go back: forget what it acknowledged in the last moments, as a failover does, after which
some may talk to the old primary yet; it can let go of things before their time; and its clock can jump.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from framehold_core import lease, pauses, record
from framehold_core.ids import NodeId
from framehold_core.lease import LeaseReply, NodeRecord
from framehold_core.requests import Reply, Request, Stored
from framehold_core.value import replace

if TYPE_CHECKING:
    from .node import Process
    from .scripts import Attempt
    from .world import World


RESUMED_AFTER = 1.0
"""Seconds after which an operator resumes a handler that was paused."""


def is_torn(stored: Stored) -> bool:
    """Whether a record lacks its journal, or a part of it: then it counts as missing."""
    return not stored.record.is_over and stored.record.position != len(stored.journal)


def _kept(held: NodeRecord | None) -> NodeRecord | None:
    """A lease whose key lives, for the scripts: they go by the key, and not by the end that the lease names."""
    return None if held is None else replace(held, expires=math.inf)


def _raw(item: NodeRecord) -> bytes:
    """The bytes of a lease, as a node reads them."""
    return repr(item).encode()


class Primary(NamedTuple):
    """A server of the store: one that lost its office answers some for a while yet."""

    calls: dict[str, Stored]
    nodes: dict[str, NodeRecord]
    until: float


class Store:
    """The one store of a schedule."""

    def __init__(self, world: World, rate: float) -> None:
        self._world = world
        self._rate, self._ahead = rate, 0.0
        self._down_until = 0.0
        self.was_set_back = False
        """Whether its clock was set back."""
        self._undo: list[tuple[float, dict[str, Any], str, Any]] = []
        self._paused: set[str] = set()
        self._deaths: dict[str, dict[str, float]] = {}
        self._astray: dict[str, Primary] = {}
        self.last: dict[str, tuple[NodeRecord, float]] = {}
        """The lease that each node wrote last, and when."""
        self.first: dict[str, float] = {}
        """When each process wrote its lease first."""
        self.lives: dict[str, float] = {}
        """Until when the key of a lease lives, where that is not the end that the lease names."""
        self.calls: dict[str, Stored] = {}
        self.nodes: dict[str, NodeRecord] = {}

    def now(self) -> float:
        """Seconds on the store's clock."""
        return 1000.0 + self._world.now * self._rate + self._ahead

    def call(
        self, process: Process, script: Callable[..., Any], args: tuple[Any, ...], then: Callable[..., Any]
    ) -> None:
        """Send a script from `process`; `then` gets its result there, if both messages arrive."""
        self._world.send(process.name, "store", self._serve, process, script, args, then)

    def _serve(
        self, process: Process, script: Callable[..., Any], args: tuple[Any, ...], then: Callable[..., Any]
    ) -> None:
        if self._world.now < self._down_until:
            self._world.counts["store down"] += 1
            return
        old = self._astray.get(process.name)
        if old is not None and self._world.now < old.until:
            new = Primary(self.calls, self.nodes, 0.0)
            self.calls, self.nodes = old.calls, old.nodes
            result = script(*args)
            self.calls, self.nodes = new.calls, new.nodes
        else:
            result = script(*args)
        self._world.send("store", process.name, process.take, then, result)

    def apply(self, request: Request, attempt: Attempt | None = None) -> Reply:
        """One record script."""
        before = self.calls.get(request.call)
        if before is not None and before.record.expires <= self.now():
            del self.calls[request.call]
            before = None
        if before is not None and is_torn(before):
            before = None
        after, reply = record.apply(before, request, self.now())
        self._world.watch.applied(request, before, after, reply, attempt)
        if after is not before and after is not None:
            self._put(self.calls, request.call, after)
        if attempt is not None and self._world.lines is not None:
            self._world.say("store", f"{request.call} {attempt.write.op} of {attempt.who} -> {reply.verdict}")
        return reply

    def died(self, tool: str, boot: str) -> bool:
        """The script by which the end of a process is held against a handler; whether the handler is paused now."""
        self._world.watch.bounds.reported(boot)
        deaths = self._deaths[tool] = pauses.add_death(self._deaths.get(tool, {}), boot, self.now())
        if tool not in self._paused and pauses.is_poison(deaths, self._world.plan.poison):
            self._world.counts["pauses"] += 1
            self._world.say("store", f"[{tool}] is paused")
            self._paused.add(tool)
            self._world.after(RESUMED_AFTER, self._resume, tool)
        return tool in self._paused

    def cleared(self, tool: str) -> None:
        """A call of the handler that was taken over has moved on: it does not end its process."""
        self._deaths.pop(tool, None)
        self._world.watch.bounds.forgiven()

    def _resume(self, tool: str) -> None:
        self._world.say("operator", f"resumes [{tool}]")
        self._paused.discard(tool)
        self._deaths.pop(tool, None)
        self._world.watch.bounds.forgiven()

    def members(self) -> tuple[dict[NodeId, NodeRecord], float]:
        """The node leases whose keys live, and the time of the read."""
        return {NodeId(name): item for name, item in self.nodes.items() if self._lives(name, item)}, self.now()

    def _lives(self, name: str, item: NodeRecord) -> bool:
        return self.lives.get(name, item.expires) > self.now()

    def _lease(self, name: str, over: bytes = b"") -> NodeRecord | None:
        """The lease that stands under a name, if its key lives. `over` are the bytes of one that does not count."""
        item = self.nodes.get(name)
        return None if item is None or (over and over == _raw(item)) or not self._lives(name, item) else item

    def register(self, wanted: NodeRecord, over: bytes, ttl: float) -> LeaseReply:
        """The register script. `over` are the bytes of a lease that the node has read, and does not believe."""
        held = self._lease(wanted.node, over)
        wanted = replace(wanted, expires=self.now() + ttl)
        _, result = lease.register(_kept(held), wanted, ttl, self.now())
        if result is lease.Renewal.RENEWED and (stands := self._lease(wanted.node)) is not None:
            self._world.watch.registers_over(wanted, stands)
        return self._renewed(wanted, held, result)

    def renew(self, wanted: NodeRecord, acknowledged: int, ttl: float) -> LeaseReply:
        """The renew script."""
        wanted = replace(wanted, expires=self.now() + ttl)
        held = self._lease(wanted.node)
        _, result = lease.renew(_kept(held), wanted, acknowledged, ttl, self.now())
        return self._renewed(wanted, held, result)

    def _renewed(self, wanted: NodeRecord, held: NodeRecord | None, result: lease.Renewal) -> LeaseReply:
        """The reply of a script of leases: with what stands there if it was refused, else with what was written, whose
        end the node knows already."""
        if result is not lease.Renewal.RENEWED:
            return LeaseReply(result, self.now(), held, b"" if held is None else _raw(held))
        self._put_lease(wanted)
        return LeaseReply(result, self.now(), wanted)

    def _put_lease(self, item: NodeRecord) -> None:
        """A node has written its lease. In the simulation the store sets its end, and the node has sealed it."""
        self._world.seals.renewed(item)
        self.last[item.node] = item, self._world.now
        self.first.setdefault(item.boot, self._world.now)
        self.lives.pop(item.node, None)
        self._put(self.nodes, item.node, item)

    def leave(self, node: str, incarnation: str) -> None:
        """The leave script."""
        held = self.nodes.get(node)
        if held is not None and held.inc == incarnation:
            del self.nodes[node]

    def lapse(self, node: str) -> None:
        """A node lease expires early."""
        self.nodes.pop(node, None)

    def forget(self, seconds: float) -> None:
        """Let go of everything that was written in the last `seconds`."""
        for when, table, key, _ in self._undo:
            if when > self._world.now - seconds:
                table.pop(key, None)

    def empty(self) -> None:
        """Forget everything: a restart without a file."""
        self._world.counts["emptied"] += 1
        self._undo.clear()
        self.calls.clear()
        self.nodes.clear()
        self._world.watch.heals.store_went_back()

    def jump(self, seconds: float) -> None:
        """The clock is another from now on."""
        self._ahead += seconds
        self.was_set_back |= seconds < 0

    def fail_over(self, seconds: float, node: str, span: float) -> None:
        """Another server is the primary now. It lacks the last `seconds`; `node` has not heard of it for a while, and
        what the old one acknowledges until then is lost."""
        self._astray[node] = Primary(dict(self.calls), dict(self.nodes), self._world.now + span)
        self.go_back(seconds)

    def fail(self, span: float) -> None:
        """Answer nothing for a while."""
        self._down_until = max(self._down_until, self._world.now + span)

    def go_back(self, seconds: float) -> None:
        """Forget everything written in the last `seconds`."""
        self._world.counts["rollbacks"] += 1
        while self._undo and self._undo[-1][0] > self._world.now - seconds:
            _, table, key, old = self._undo.pop()
            if old is None:
                table.pop(key, None)
            else:
                table[key] = old
        self._world.watch.heals.store_went_back()

    def _put(self, table: dict[str, Any], key: str, value: Any) -> None:
        if self._world.plan.acts:
            self._world.adversary.saw(key if table is self.calls else f"node {key}", value)
        if self._world.plan.loses:
            self._undo.append((self._world.now, table, key, table.get(key)))
        table[key] = value
