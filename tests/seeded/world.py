"""Plays a schedule: real runtimes, one store behind faulty links, clients that keep asking, and what must hold."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, NamedTuple

from framehold.app import assemble
from framehold.config import Settings
from framehold.engine.replies import Answer, Elsewhere, Ended, Parked
from framehold.engine.token_claims import Claims
from framehold_core import effects as fx
from framehold_core.clock import Clock
from framehold_core.ids import CallId, NodeId
from tests.node.desk import claims

from .handlers import DOUBT, Ledger, Scripted, answer_to, card, expected
from .link import CommonStore, Link
from .loop import OWNER, SeededLoop, Stuck
from .plan import CALM, Fault, Intent, Plan

TTL = 1.5
GRACE = 40.0
"""Seconds after CALM within which each client must have heard the end of its call."""
AFTER = 3.0
"""Seconds for which a schedule is played on after all clients have heard the end of their calls."""
KEYS = "5" * 64
LOST = (fx.Reason.LOST, fx.Reason.STUCK)
AGAIN = (fx.Reason.UNAVAILABLE, fx.Reason.NOT_TAKEN)


class Violation(Exception):
    """Something does not hold."""


class Broken(Exception):
    """The connection to a node broke, or nobody accepted it."""


Serve = Callable[["Process"], Coroutine[Any, Any, Answer]]
"""Has a process serve a request."""


class Token(NamedTuple):
    """A question with what its token says."""

    parked: Parked
    claims: Claims


class Process:
    """A runtime under a node's name."""

    def __init__(self, world: World, number: int, life: int) -> None:
        self.world, self.number, self.name = world, number, f"n{number}"
        self.owner = f"{self.name}.{life}"
        loop = world.loop
        self.context = loop.context(self.owner)
        random, rate = Random(f"{world.plan.seed} {self.owner}"), world.plan.rates[number]
        self.link = Link(loop, world.random, self.context, world.store)
        begun = random.uniform(0.0, 1000.0)
        clock = Clock(lambda: begun + loop.time() * rate, lambda: 1.7e9 + loop.time(), random.randbytes)
        settings = Settings(
            node_id=self.name, lease_ttl=TTL, advertise_url=f"http://{self.name}", keys=KEYS, drain_timeout=2.0
        )
        self.runtime = self.context.run(assemble, settings, self.link, True, clock)
        self.alive, self.ready = True, False
        self._open: set[asyncio.Future[Any]] = set()
        self.run(self._begin())

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in this process."""
        return self.world.loop.create_task(work, context=self.context)

    async def _begin(self) -> None:
        await self.runtime.open()
        self.ready = True

    def kill(self) -> None:
        """It takes no step any more. Whoever waits for it hears that its connection broke."""
        self.alive = False
        self.world.loop.kill(self.owner)
        self.world.store.links.remove(self.link)
        for waiting in list(self._open):
            self.world.later(0.001, _broke, waiting)

    async def drain(self) -> None:
        """Leave the fleet, and end."""
        await self.runtime.drain(2.0)
        await self.runtime.close()
        if self.alive:
            self.kill()
            self.world.again(self.number, 0.1)

    def take(self, serve: Serve, reply: asyncio.Future[Any]) -> None:
        """A request arrives."""
        if not (self.alive and self.ready):
            self.world.later(0.001, _broke, reply)
            return
        self._open.add(reply)
        task = self.run(serve(self))
        reply.add_done_callback(lambda _: task.cancel() if reply.cancelled() else None)
        task.add_done_callback(lambda _: self._answered(task, reply), context=self.context)

    def _answered(self, task: asyncio.Task[Answer], reply: asyncio.Future[Any]) -> None:
        self._open.discard(reply)
        if task.cancelled():
            self.world.later(0.001, _broke, reply)
            return
        error = task.exception()
        found: Any = error if error is not None else task.result()
        if isinstance(found, Parked):
            found = Token(found, claims(found, self.runtime))
        self.world.later(self.world.delay(), _tell, reply, found)


class Client:
    """Makes one call, and answers until it has ended. It asks again where it gets no answer."""

    def __init__(self, world: World, number: int, intent: Intent) -> None:
        self.world, self.number, self.intent = world, number, intent
        self.name, self.end = f"c{number}", ""
        self.attempts = 0
        self.waiting: asyncio.Future[Any] | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def call(self) -> str:
        """The name of the call of the present attempt."""
        return f"{self.name}.{self.attempts}"

    def handler(self) -> Scripted:
        return Scripted(self.call, self.intent.program, self.intent.marked, self.world.ledger)

    async def run(self) -> None:
        """Make calls until one has ended, or was lost."""
        await asyncio.sleep(self.intent.at)
        while not self.end:
            self.attempts += 1
            token = await self._began()
            while isinstance(token, Token):
                token = await self._answered(token)
        self.world.say(self.name, f"hears the end: {self.end}")

    async def _began(self) -> Token | None:
        """Start a call. Where it gets no answer it was lost for this client, and it makes another one."""
        handler, call = self.handler(), CallId(self.world.random.randbytes(16).hex())
        self.world.ids[self.call] = call
        found = await self._ask(self.world.any_node(), lambda at: at.runtime.start(handler, card(at.context), call))
        if isinstance(found, Token | Ended):
            return self._heard(found)
        self.world.say(self.call, f"did not begin: {_said(found)}")
        await asyncio.sleep(0.1)
        return None

    async def _answered(self, token: Token) -> Token | None:
        """Answer the questions of a token until something comes of it."""
        answers = {key: answer_to(wire["asks"]) for key, wire in token.parked.questions.items()}
        node = int(token.claims.node[1:])
        await asyncio.sleep(self.world.random.choice((0.0, 0.3, 1.5)) * self.world.random.random())
        while True:
            if self.world.random.random() < 0.15:
                node = self.world.any_node()
            if self.world.random.random() < 0.15:
                self.world.request(self.world.any_node(), partial(self._retry, token, answers))
            found = await self._ask(node, partial(self._retry, token, answers))
            if isinstance(found, Token | Ended):
                return self._heard(found)
            self.world.say(self.call, f"answers {sorted(answers.values())} at n{node}: {_said(found)}")
            if isinstance(found, Elsewhere):
                node = int(found.node[1:])
            elif isinstance(found, fx.Refusal) and found.reason not in AGAIN:
                self.world.refused(self, found)
                return None
            elif isinstance(found, Exception) and not isinstance(found, Broken):
                raise Violation(f"{self.call}: a request raised {found!r}")
            else:
                node = self.world.any_node()
            await asyncio.sleep(self.world.random.uniform(0.05, 0.4))

    def _retry(self, token: Token, answers: dict[str, str], at: Process) -> Coroutine[Any, Any, Answer]:
        return at.runtime.retry(token.claims, answers, self.handler(), card(at.context))

    async def _ask(self, node: int, serve: Serve) -> Any:
        self.waiting = reply = self.world.request(node, serve)
        try:
            return await asyncio.wait_for(reply, self.world.random.choice((0.4, 1.0, 5.0)))
        except (TimeoutError, asyncio.CancelledError):
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            return Broken("the client left")

    def _heard(self, found: Token | Ended) -> Token | None:
        if isinstance(found, Token):
            self.world.say(self.call, f"is asked {[wire['asks'] for wire in found.parked.questions.values()]}")
            return found
        self.end = str(found.outcome)
        self.world.ended(self, self.end)
        return None


class World:
    """One schedule while it is played. `lines` is its trace."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.random = plan, Random(plan.seed)
        self.loop = SeededLoop(Random(plan.seed + 1))
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()
        self._here = self.loop.context("world")
        self.ids: dict[str, CallId] = {}
        """The id of each call by its name."""
        self.ledger = Ledger(self.say, self.random, self.begins)
        self.store = CommonStore(self.loop, plan.rates[-1])
        self.nodes: dict[int, Process] = {}
        self._lives: Counter[int] = Counter()
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

    def request(self, node: int, serve: Serve) -> asyncio.Future[Any]:
        """Send a request to a node; its reply."""
        reply = self.loop.create_future()
        self.later(self.delay(), lambda: self.nodes[node].take(serve, reply))
        return reply

    def any_node(self) -> int:
        """The number of a node."""
        return self.random.randrange(self.plan.nodes)

    def again(self, number: int, after: float) -> None:
        """A node's process begins after a while."""
        self.later(after, self._boot, number)

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
        self.loop.run_until_complete(self.loop.create_task(self._play(), context=self._here))
        for error in self.ledger.wrong:
            raise error
        for context in events:
            raise Violation(f"a callback raised {context.get('exception')!r}: {context.get('message')}")

    async def _play(self) -> None:
        for number in range(self.plan.nodes):
            self._boot(number)
        for fault in self.plan.faults:
            self.later(fault.at, self._strike, fault)
        for client in self.clients:
            client.task = self.loop.create_task(client.run(), context=self.loop.context(client.name))
        tasks = [client.task for client in self.clients if client.task is not None]
        done, pending = await asyncio.wait(tasks, timeout=CALM + GRACE)
        for task in done:
            task.result()
        if pending:
            raise Violation(f"{len(pending)} clients have not heard the end of their calls")
        # A process that stood still wakes, and may do what it was about to do.
        await asyncio.sleep(AFTER)
        for (call, atom), times in self.ledger.began.items():
            if atom[0] == "o" and times > 1:
                raise Violation(f"effect {atom} of {call} ran {times} times")

    def _strike(self, fault: Fault) -> None:
        process = self.nodes[fault.target]
        self.say(process.owner, f"!! {fault.kind} for {fault.lasts}")
        if fault.kind == "outage":
            self.store.down_until = self.loop.time() + fault.lasts
        elif fault.kind == "leave":
            client = self.clients[fault.target % len(self.clients)]
            if client.waiting is not None and not client.waiting.done():
                client.waiting.cancel()
        elif process.alive:
            self._strike_node(fault, process)

    def _strike_node(self, fault: Fault, process: Process) -> None:
        if fault.kind == "kill":
            process.kill()
            self.again(fault.target, fault.lasts)
        elif fault.kind == "stand":
            self.loop.stand_still(process.owner, fault.lasts)
        elif fault.kind == "cut":
            process.link.cut_until = self.loop.time() + fault.lasts
        elif fault.kind == "slow":
            process.link.slow = 0.2
        elif fault.kind == "lapse":
            self.store.memory._nodes.pop(NodeId(process.name), None)
        elif fault.kind == "drain" and process.ready:
            process.run(process.drain())
        elif fault.kind == "evict" and process.ready:
            self.loop.call_soon(process.runtime.eviction._evict, 1, "memory", context=process.context)

    # ---- what must hold

    def begins(self, call: str, key: str) -> None:
        """An effect begins: in a process that has its call, as the store has it."""
        name, stored = OWNER.get().partition(".")[0], self.store.memory._calls.get(self.ids[call])
        if key[0] == "o" and stored is not None and stored.record.owner not in ("", name):
            raise Violation(f"effect {key} of {call} begins at {OWNER.get()}; the call is {stored.record.owner}'s")

    def ended(self, client: Client, outcome: str) -> None:
        """A client hears the outcome of its call: the one that its program comes to."""
        wanted, heard = expected(client.call, client.intent.program).split("|"), outcome.split("|")
        fits = len(wanted) == len(heard) and all(
            one == other or (other == DOUBT and one[0] == "o") for one, other in zip(wanted, heard, strict=True)
        )
        if not fits:
            raise Violation(f"{client.call} ended with {outcome}, and comes to {'|'.join(wanted)}")
        self.counts["ended"] += 1
        self.counts["in doubt"] += DOUBT in heard

    def refused(self, client: Client, found: fx.Refusal) -> None:
        """A client hears that its call is over. Only one that is not marked may be lost."""
        if client.intent.marked or found.reason not in LOST:
            raise Violation(f"{client.call} is refused: {found.reason.value} {found.detail}")
        self.counts["told lost"] += 1
        client.end = "lost"


_KEPT: list[World] = []
"""The worlds that were played. A coroutine that nobody keeps is closed, and runs its `finally`: one of a process that
was killed would do what no killed process does."""


def play(plan: Plan) -> tuple[World, Exception | None]:
    """Play a schedule; what did not hold."""
    logging.disable(logging.CRITICAL)
    world = World(plan)
    _KEPT.append(world)
    try:
        world.play()
    except (Violation, Stuck) as error:
        return world, error
    finally:
        logging.disable(logging.NOTSET)
    return world, None


def _broke(reply: asyncio.Future[Any]) -> None:
    _tell(reply, Broken("the connection broke"))


def _tell(reply: asyncio.Future[Any], found: Any) -> None:
    if not reply.done():
        reply.set_result(found)


def _said(found: Any) -> str:
    return f"{found.reason.value} {found.detail}"[:90] if isinstance(found, fx.Refusal) else repr(found)[:90]
