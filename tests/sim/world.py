"""The clock and the wires: a heap of things that will happen, and a network that may delay, drop or repeat them."""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any

from .adversary import Adversary
from .changes import digest
from .checks import Violation, Watch
from .clients import Client
from .node import Process
from .plan import REBOOT, Plan
from .seals import Seals
from .store import Store
from .weather import TTL, Fault

LATENCY = {"store": 0.003, "client": 0.015, "node": 0.006}
"""Typical seconds on a wire that ends at the store, at a client, or between nodes."""

GRACE = 40.0
"""Seconds that clients have for coming to an end after the last fault is over: where tokens are short-lived, one that
answers at the last moment takes some three for each asking."""


STORE: dict[str, Callable[[Store, Fault], None]] = {
    "outage": lambda store, fault: store.fail(fault.span),
    "rollback": lambda store, fault: store.go_back(fault.amount),
    "failover": lambda store, fault: store.fail_over(fault.amount, fault.target, fault.span),
    "empty": lambda store, fault: store.empty(),
    "forget": lambda store, fault: store.forget(fault.amount),
    "lapse": lambda store, fault: store.lapse(fault.target),
    "jump": lambda store, fault: store.jump(fault.amount),
}
"""What each fault of the store does to it."""


class World:
    """One schedule being played."""

    def __init__(self, plan: Plan, recording: bool = False) -> None:
        self.plan = plan
        self.now = 0.0
        self.lines: list[str] | None = [] if recording else None
        self.counts: Counter[str] = Counter()
        self.frames = count(1)
        self.seals = Seals()
        self.adversary = Adversary(self)
        self.watch = Watch(self)
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0
        self._streams: dict[str, random.Random] = {}
        self._links: dict[str, list[Fault]] = defaultdict(list)
        self.store = Store(self, plan.rates[-1])
        self.nodes: dict[str, Process] = {}
        self.code: dict[str, int] = {}
        """The variant of every handler that a node's next process runs, where that is not the old code."""
        self.upgraded: set[str] = set()
        """Nodes whose next process is of a newer release: it writes what an older one can't read."""
        self.kept: set[str] = set()
        """The digests of the code that the store keeps."""
        self.programs: dict[str, str] = {digest("o8"): "o8"}
        """All code, by its digest; also some that no node has."""
        self.releases: dict[str, int] = {}
        self._boots = 0
        for name in plan.nodes:
            self.boot(name)
        self.clients = [Client(self, number, intent) for number, intent in enumerate(plan.clients)]
        for fault in plan.faults:
            self._prepare(fault)
        for act in plan.acts:
            self.after(act.at, self.adversary.act, act)
        for item in plan.mischief:
            if item.call < len(self.clients):
                self.after(item.at, self.clients[item.call].misbehave, item)

    def _prepare(self, fault: Fault) -> None:
        source, link, target = fault.target.partition(">")
        if not link:
            self.after(fault.at, self._break, fault)
            return
        self._links[fault.target].append(fault)
        if fault.kind == "split":
            self._links[f"{target}>{source}"].append(fault)

    def stream(self, name: str) -> random.Random:
        """The random numbers of one link or actor."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = random.Random(f"{self.plan.seed}:{name}")
        return found

    def after(self, delay: float, act: Callable[..., None], *args: Any) -> None:
        """Do something `delay` seconds from now."""
        self._sequence += 1
        heapq.heappush(self._heap, (self.now + delay, self._sequence, act, args))

    def send(self, source: str, target: str, act: Callable[..., None], *args: Any, repeatable: bool = True) -> None:
        """Carry a message. A first request is never repeated by the network (docs/protocol.md, rule 9)."""
        link = f"{source}>{target}"
        kind = "store" if "store" in (source, target) else "client" if "client" in (source, target) else "node"
        rng = self.stream(link)
        delay = LATENCY[kind] * (0.5 + rng.random())
        for fault in self._links.get(link, ()):
            if not fault.at <= self.now < fault.at + fault.span:
                continue
            self.counts[fault.kind] += 1
            if fault.kind in ("cut", "split"):
                self.say(link, "the network drops a message")
                return
            if fault.kind == "slow":
                delay += fault.amount * rng.random()
            elif repeatable:
                self.after(delay + fault.amount * rng.random(), act, *args)
        self.after(delay, act, *args)

    def say(self, actor: str, text: str) -> None:
        """Add a line to the transcript."""
        if self.lines is not None:
            self.lines.append(f"{self.now:8.3f}  {actor:<9} {text}")

    def boot(self, name: str) -> None:
        """A fresh process under a node's name."""
        self._boots += 1
        rate = self.plan.rates[self.plan.nodes.index(name)]
        self.nodes[name] = Process(self, name, f"{name}{self._boots}", rate)

    def restart(self, name: str, down: float) -> None:
        """A node loses all its memory and comes back later."""
        self.counts["crashes"] += 1
        self.nodes[name].die()
        self.after(down, self.boot, name)

    def _break(self, fault: Fault) -> None:
        self.say(fault.target, f"!! {fault.kind} for {fault.span:.3f}" if fault.span else f"!! {fault.kind}")
        self.counts[f"{fault.kind} faults"] += 1
        if fault.kind in STORE:
            STORE[fault.kind](self.store, fault)
        elif fault.kind == "change":
            self.code[fault.target] = int(fault.amount)
            self._deploy(fault.target)
            if fault.span:
                self.after(fault.span, self._roll_back, fault.target)
        elif fault.kind == "upgrade":
            self.upgraded.add(fault.target)
            self._deploy(fault.target)
        elif fault.kind == "leave":
            for client in self.clients:
                client.leave()
        elif self.nodes[fault.target].alive:
            self._break_node(fault, self.nodes[fault.target])

    def _deploy(self, name: str) -> None:
        """A node starts again with the code that it has now; one that is away does so when it comes back."""
        if self.nodes[name].alive:
            self.restart(name, REBOOT)

    def _roll_back(self, name: str) -> None:
        self.say(name, "gets its old code again")
        self.code.pop(name, None)
        self._deploy(name)

    def _break_node(self, fault: Fault, process: Process) -> None:
        if fault.kind == "crash":
            self.restart(fault.target, fault.span)
        elif fault.kind == "evict":
            process.driver.evict()
        elif fault.kind == "stop":
            process.driver.stop()
        elif fault.kind == "drain":
            process.drain(fault.span)
        elif fault.kind == "skip":
            process.skip(fault.amount)
        else:
            process.pause(fault.span)
            if fault.kind == "replace":
                self.counts["replaced"] += 1
                self.boot(fault.target)
                self.after(fault.span + TTL, process.die)

    def play(self) -> Counter[str]:
        """Play the schedule to its end.

        Raises:
            Violation: an invariant does not hold.
        """
        end = self.plan.calm_from + GRACE
        quiet = self.plan.calm_from + 0.5
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.now, _, act, args = heapq.heappop(heap)
            act(*args)
            if self.now > quiet and all(client.ended for client in self.clients):
                break
        self.watch.finally_(self.clients)
        self.counts["schedules"] += 1
        return self.counts


def play(plan: Plan, recording: bool = False) -> tuple[World, Violation | None]:
    """Play a plan; the world as it was left, and what went wrong."""
    world = World(plan, recording)
    try:
        world.play()
    except Violation as violation:
        world.say("CHECK", str(violation))
        return world, violation
    return world, None
