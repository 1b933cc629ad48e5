"""Plays a schedule: real runtimes, one store behind faulty links, clients that keep asking, and what must hold."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from framehold.frame.contained import contain
from framehold_core.ids import CallId, NodeId
from framehold_core.requests import Record

from .checks import Violation, Watch
from .clients import Client
from .handlers import Ledger, Scripted
from .link import Common, CommonMemory
from .loop import OWNER, SeededLoop, Stuck
from .places import Places
from .plan import CALM, CUT, KILL, LATE, LEAVE, STAND, Aim, Fault, Plan
from .process import Process, Serve
from .redis import CommonRedis

GRACE = 60.0
"""Seconds after CALM within which each client must have heard the end of its call."""
AFTER = 3.0
"""Seconds for which a schedule is played on after all clients have heard the end of their calls."""
ROUNDS = 0.5
"""Seconds between two rounds of the operator, who ends pauses when the faults are over."""


class World:
    """One schedule while it is played. `lines` is its trace. `places` tells it what a process comes to."""

    def __init__(self, plan: Plan, places: Places) -> None:
        self.plan, self.places, self.random = plan, places, Random(plan.seed)
        self.loop = SeededLoop(Random(plan.seed + 1))
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()
        self._here = self.loop.context("world")
        self.ids: dict[str, CallId] = {}
        """The id of each call by its name."""
        self.watch = Watch(plan.loses, plan.early)
        self.ledger = Ledger(self)
        made = CommonRedis if plan.redis else CommonMemory
        self.store: Common = made(self.loop, plan.rates[-1], self.applied)
        self.nodes: dict[int, Process] = {}
        self.replaced: list[Process] = []
        """Processes that lived when another one began under their node's name."""
        self._lives: Counter[int] = Counter()
        self._aims: defaultdict[int, list[Aim]] = defaultdict(list)
        for aim in plan.aims:
            self._aims[aim.place % max(1, len(places.sites))].append(aim)
        self._visits: Counter[int] = Counter()
        self.clients = [Client(self, number, intent) for number, intent in enumerate(plan.intents)]

    def say(self, who: str, text: str) -> None:
        """Add a line to the trace."""
        self.lines.append(f"{self.loop.time():9.4f}  {who:<6} {text}")

    def later(self, seconds: float, act: Callable[..., object], *args: Any) -> None:
        """Have something done outside of all processes."""
        self.loop.call_later(seconds, act, *args, context=self._here)

    def delay(self) -> float:
        """Seconds of a message between a client and a node."""
        return self.random.uniform(0.0005, 0.004)

    def request(self, node: int, call: CallId | None, serve: Serve) -> asyncio.Future[Any]:
        """Send a request to a node; its reply. `call` is its call, None if that is not held."""
        reply = self.loop.create_future()
        self.later(self.delay(), lambda: self._reached(node).take(call, serve, reply))
        return reply

    def _reached(self, node: int) -> Process:
        """The process that a request to a node comes to: some client knows the address of a former one."""
        former = [process for process in self.replaced if process.number == node and process.alive]
        return former[-1] if former and self.random.random() < 0.3 else self.nodes[node]

    def any_node(self) -> int:
        """The number of a node."""
        return self.random.randrange(self.plan.nodes)

    def kill(self, owner: str, again: float) -> None:
        """Kill a process, if it lives. Its node begins anew after a while."""
        process = self._process(owner)
        if process is not None and process.alive:
            self.say(owner, "ends")
            self.watch.deaths += 1
            process.kill()
            if process is self.nodes[process.number]:
                self.later(again, self._boot, process.number)

    def _process(self, owner: str) -> Process | None:
        return next((process for process in (*self.nodes.values(), *self.replaced) if process.owner == owner), None)

    def _boot(self, number: int) -> None:
        self._lives[number] += 1
        self.nodes[number] = Process(self, number, self._lives[number])
        self.say(self.nodes[number].owner, "begins")

    def play(self) -> None:
        """Play the schedule to its end.

        Raises:
            Violation: something does not hold.
        """
        events: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: events.append(context))
        self.places.reach, self.places.kill = self.reach, lambda owner: self.kill(owner, 0.3)
        contain(self.loop)
        try:
            self.loop.run_until_complete(self.loop.create_task(self._play(), context=self._here))
        finally:
            for error in self.watch.wrong:
                raise error
        for context in events:
            raise Violation(f"a callback raised {context.get('exception')!r}: {context.get('message')}")

    async def _play(self) -> None:
        for number in range(self.plan.nodes):
            self._boot(number)
        for fault in self.plan.faults:
            self.later(fault.at, self._strike, fault)
        self.later(ROUNDS, self._make_round)
        for client in self.clients:
            client.task = self.loop.create_task(client.run(), context=self.loop.context(client.name))
        tasks = [client.task for client in self.clients if client.task is not None]
        done, pending = await asyncio.wait(tasks, timeout=CALM + GRACE)
        for client in self.clients:
            if client.task in done:
                client.task.result()
        if pending:
            raise Violation(f"{len(pending)} clients have not heard the end of their calls")
        # A process that stood still, or was cut off, goes on, and may do what it was about to do.
        back = max(process.line.cut_until for process in self.nodes.values())
        await asyncio.sleep(AFTER + max(0.0, back - self.loop.time()))
        began = self.ledger.began.items()
        self.watch.effects({of: times for of, times in began if not self._is_carried(of[0])})

    def _is_carried(self, call: str) -> bool:
        return self.clients[int(call.partition(".")[0][1:])].intent.carried

    # ---- what is done to the fleet

    def _make_round(self) -> None:
        """An operator looks at all nodes, and ends all pauses when the faults are over."""
        for process in self.nodes.values():
            if process.alive and process.ready:
                self.look(process)
                if self.loop.time() > CALM:
                    process.run(process.resume())
        self.later(ROUNDS, self._make_round)

    def look(self, process: Process) -> None:
        """See whether a node has left undone what it could have done."""
        disturbed = max(process.disturbed, self.store.down_until, self.loop.stands_until(process.owner))
        self.watch.overdue(process.owner, self.loop.time() - max(disturbed, process.line.cut_until), process.overdue())

    def _strike(self, fault: Fault) -> None:
        process = self.nodes[fault.target]
        self.say(process.owner, f"!! {fault.kind} for {fault.lasts}")
        self.counts[fault.kind] += 1
        if fault.kind == "outage":
            self.store.down_until = self.loop.time() + fault.lasts
        elif fault.kind == "rewind":
            self.later(fault.lasts, self.store.go_back, self.store.snapshot())
        elif fault.kind == "leave":
            client = self.clients[fault.target % len(self.clients)]
            if client.waiting is not None and not client.waiting.done():
                client.waiting.cancel()
        elif process.alive:
            self._strike_node(fault, process)

    def _strike_node(self, fault: Fault, process: Process) -> None:
        process.disturbed = self.loop.time()
        if fault.kind == "kill":
            self.kill(process.owner, fault.lasts)
        elif fault.kind == "stand":
            self.loop.stand_still(process.owner, fault.lasts)
        elif fault.kind == "replace":
            self.loop.stand_still(process.owner, fault.lasts)
            self.replaced.append(process)
            self._boot(process.number)
        elif fault.kind == "cut":
            process.line.cut_until = self.loop.time() + fault.lasts
        elif fault.kind == "slow":
            process.line.slow = 0.2
        elif fault.kind == "lapse":
            self.store.lapse(NodeId(process.name))
        elif fault.kind == "drain" and process.ready:
            process.run(process.drain(fault.lasts))
        elif fault.kind == "evict" and process.ready:
            self.loop.call_soon(process.runtime.eviction._evict, 1, "memory", context=process.context)
        elif fault.kind == "pause" and process.ready:
            process.run(process.pause(Scripted.tool))

    def reach(self, place: int, owner: str) -> str:
        """A process comes to a place; what is done to it there."""
        if (aims := self._aims.get(place)) is None or self.loop.time() > CALM:
            return ""
        process = self._process(owner)
        if process is None or not process.alive:
            return ""
        self._visits[place] += 1
        for aim in aims:
            if aim.nth == self._visits[place]:
                return self._struck(aim, process, place)
        return ""

    def _struck(self, aim: Aim, process: Process, place: int) -> str:
        self.say(process.owner, f"!! {aim.kind} at {self.places.sites[place]}")
        self.counts[f"at a place: {aim.kind}"] += 1
        process.disturbed = self.loop.time()
        if aim.kind == KILL:
            self.kill(process.owner, aim.lasts)
        elif aim.kind == STAND:
            self.loop.stand_still(process.owner, aim.lasts)
        elif aim.kind == LEAVE:
            process.leave()
        elif aim.kind == CUT:
            process.line.cut_until = self.loop.time() + aim.lasts
        return aim.kind if aim.kind in (KILL, LATE, STAND) else ""

    # ---- what must hold

    def replied(self, call: CallId, found: Any) -> None:
        """A request of a call gets its reply."""
        self.watch.replied(call, found, self.store.record(call))

    def answers(self, node: str, call: CallId, given: Mapping[str, Any], found: Any, ungated: bool) -> None:
        """A node decides on the reply to a request of a call, which brought the answers that were `given`."""
        self.counts["ungated"] += ungated
        if ungated:
            self.watch.ungated.add(call)
        self.watch.answers(node, call, given, found, self.store.record(call), self.loop.time(), ungated)

    def applied(self, call: CallId, request: str, old: Record | None, new: Record) -> None:
        """The store has applied a request, named `request`, and has `new` in place of `old`."""
        self.watch.applied(call, request, old, new)
        if old is not None and old.owner != new.owner:
            owner = next((process for process in self.nodes.values() if process.name == old.owner), None)
            lives = owner is not None and owner.alive and owner.ready
            self.counts["claimed from who lives" if lives else "claimed"] += 1

    def released(self, call: str, release: str) -> None:
        """A handler is entered by a release."""
        record = self.store.record(self.ids[call])
        code = "" if record is None else record.head.code
        process = self._process(OWNER.get())
        # Who looked for it before another process kept it tries its own.
        missed = process is not None and code in process.line.missing
        self.watch.released(call, release, kept=bool(code) and self.store.keeps(code) and not missed)

    def begins(self, call: str, key: str) -> None:
        """An effect begins, in a process that has its call, as the store has it. What looked at the window in the same
        step is held to that: a process that stands behind that look may be late (docs/protocol.md, rule 6)."""
        task, name = asyncio.current_task(), OWNER.get().partition(".")[0]
        if task not in self.places.went_on:
            self.watch.begins(call, key, name, self.store.record(self.ids[call]))

    def recorded(self, call: str, key: str, learned: str) -> None:
        """An effect begins, after its handler has `learned` so much. One of a process that stood behind its look may
        come when another process has asked the next round."""
        if not self._is_carried(call):
            self.watch.called(call, key, learned)
        heard = "!" in learned or "?" in learned
        if asyncio.current_task() not in self.places.went_on:
            self.watch.recorded(call, key, heard, self.store.record(self.ids[call]))


_KEPT: list[World] = []
"""The worlds that were played. A coroutine that nobody keeps is closed, and runs its `finally`: one of a process that
was killed would do what no killed process does."""


def play(plan: Plan, places: Places) -> tuple[World, Exception | None]:
    """Play a schedule; what did not hold."""
    logging.disable(logging.CRITICAL)
    world = World(plan, places)
    _KEPT.append(world)
    try:
        world.play()
    except (Violation, Stuck) as error:
        return world, error
    finally:
        logging.disable(logging.NOTSET)
    return world, None
