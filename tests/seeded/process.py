"""One process of the fleet: a real runtime under a node's name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from framehold.app import assemble
from framehold.config import Settings
from framehold.engine.replies import Answer, Ended, Parked
from framehold.engine.slot import Slot
from framehold.engine.takeover_gate import MAX_JOURNAL_BYTES
from framehold.engine.token_claims import Carried, Claims, carried
from framehold_core.call import Phase
from framehold_core.clock import Clock
from framehold_core.errors import NodeNameTaken, StoreUnavailable
from framehold_core.ids import CallId
from tests.kit.engine import claims

from .link import Line
from .releases import Release, releases

if TYPE_CHECKING:
    from .world import World

TTL = 1.5
SETTINGS = Settings(lease_ttl=TTL, keys="5" * 64, drain_timeout=2.0, max_attempts=5, max_round=15.0)

LIGHT, LOOSE = 1_000, 16
"""Bytes of the journals that a node reads at once where it looks up fewer than LOOSE calls at once."""


class Broken(Exception):
    """The connection to a node broke, or nobody accepted it."""


Serve = Callable[["Process"], Coroutine[Any, Any, Answer]]
"""Has a process serve a request."""


class Token(NamedTuple):
    """A question with what its token says."""

    parked: Parked
    claims: Claims
    carried: Carried | None


class Process:
    """A runtime under a node's name."""

    def __init__(self, world: World, number: int, life: int) -> None:
        self.world, self.number, self.name = world, number, f"n{number}"
        self.owner = f"{self.name}.{life}"
        loop = world.loop
        self.context = loop.context(self.owner)
        random, rate = Random(f"{world.plan.seed} {self.owner}"), world.plan.rates[number]
        self.line = Line(loop, world.random, self.context, world.store, world.places)
        begun = random.uniform(0.0, 1000.0)
        clock = Clock(lambda: begun + loop.time() * rate, lambda: 1.7e9 + loop.time(), random.randbytes)
        named = {"node_id": self.name, "advertise_url": f"http://{self.name}", "rehearse": world.plan.rehearses}
        settings = SETTINGS.model_copy(update={**named, "token_ttl": world.plan.token_ttl})
        self.runtime = self.context.run(assemble, settings, world.store.store(self.line), True, clock)
        self._watch_replies()
        self.runtime._gate._free = world.plan.takeovers
        self.runtime._gate._limit = LIGHT if world.plan.takeovers < LOOSE else MAX_JOURNAL_BYTES
        self.release: Release = random.choice(releases()) if world.plan.deploys else releases()[0]
        self.knows_tool = number == 0 or not world.plan.lacks or random.random() < 0.8
        """Whether its release has the tool. That of the first node always does."""
        self.alive, self.ready = True, False
        self.disturbed = loop.time()
        """When something was last done to this process."""
        # A dict, since it keeps the order.
        self._open: dict[asyncio.Future[Any], None] = {}
        self.run(self._begin())

    def _watch_replies(self) -> None:
        """Show each reply to a request of a held call, in the step that decides on it."""
        performer = self.runtime._performer
        answer = performer.answer

        def watched(slot: Slot, waiter: int, found: Answer) -> None:
            arrival = slot.arrivals.get(waiter)
            if slot.place == slot.call.id and arrival is not None:
                # Only an outcome whose write is not applied leaves a call that waits for the store (docs/protocol.md,
                # rule 1).
                ungated = isinstance(found, Ended) and slot.call.phase is Phase.STRANDED
                self.world.answers(self.name, slot.call.id, arrival.raw, found, ungated)
            answer(slot, waiter, found)

        vars(performer)["answer"] = watched

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in this process."""
        return self.world.loop.create_task(work, context=self.context)

    async def _begin(self) -> None:
        try:
            await self.runtime.open()
        except NodeNameTaken:
            self.world.kill(self.owner, 0.5)
            return
        self.ready = True
        await self.runtime.heartbeat.lost.wait()
        self.world.say(self.owner, "has lost its name")
        await self.runtime.close()
        self.world.kill(self.owner, 0.3)

    def kill(self) -> None:
        """It takes no step any more. Whoever waits for it hears that its connection broke."""
        self.alive = False
        self.world.loop.kill(self.owner)
        self.world.store.lines.remove(self.line)
        for waiting in self._open:
            self.world.later(0.001, _broke, waiting)

    def leave(self) -> None:
        """A client whose request is served here leaves."""
        waiting = [reply for reply in self._open if not reply.done()]
        if waiting:
            self.world.random.choice(waiting).cancel()

    async def drain(self, patience: float) -> None:
        """Leave the fleet, and end."""
        await self.runtime.drain(patience)
        self.world.look(self)
        await self.runtime.close()
        if self.alive:
            self.world.kill(self.owner, 0.1)

    def overdue(self) -> list[str]:
        """The calls of which this process could have sent a write again, or handed them off, where the store answers
        for long enough."""
        draining = self.runtime.draining
        return [
            f"{slot.call.id[:4]} in {slot.call.phase.name}"
            for slot in self.runtime.table
            if slot.call.outbox.stalled or (draining.on and draining._may_go(slot))
        ]

    async def pause(self, tool: str) -> None:
        """An operator pauses a tool here."""
        try:
            await self.runtime.door.pauses.pause(tool, "", "an operator")
        except StoreUnavailable:
            self.world.say(self.owner, f"does not know whether {tool} is paused")

    async def resume(self) -> None:
        """An operator ends all pauses that this node knows."""
        for tool in list(self.runtime.door.pauses.known):
            try:
                await self.runtime.door.pauses.resume(tool, "an operator")
            except StoreUnavailable:
                self.world.say(self.owner, f"does not know whether {tool} is resumed")

    def take(self, call: CallId | None, serve: Serve, reply: asyncio.Future[Any]) -> None:
        """A request arrives. `call` is its call, None if that is not held."""
        if not (self.alive and self.ready):
            self.world.later(0.001, _broke, reply)
            return
        self._open[reply] = None
        task = self.run(serve(self))
        reply.add_done_callback(lambda _: task.cancel() if reply.cancelled() else None)
        task.add_done_callback(lambda _: self._answered(call, task, reply), context=self.context)

    def _answered(self, call: CallId | None, task: asyncio.Task[Answer], reply: asyncio.Future[Any]) -> None:
        self._open.pop(reply, None)
        if task.cancelled():
            self.world.later(0.001, _broke, reply)
            return
        error = task.exception()
        found: Any = error if error is not None else task.result()
        if call is not None:
            self.world.replied(call, found)
        if isinstance(found, Parked):
            found = Token(found, claims(found, self.runtime), carried(found.state) if found.state else None)
        self.world.later(self.world.delay(), tell, reply, found)


def _broke(reply: asyncio.Future[Any]) -> None:
    tell(reply, Broken("the connection broke"))


def tell(reply: asyncio.Future[Any], found: Any) -> None:
    """Give a request its reply, unless its client has left."""
    if not reply.done():
        reply.set_result(found)
