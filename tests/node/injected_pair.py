"""Two nodes over one Redis, and what is done with them while one await of the engine or of the store raises."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, ClassVar

from mcp.server.mcpserver import Context

import framehold
from framehold.engine.slot import Slot
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_fleet.members.membership import LIVE
from framehold_store.keys import Keys
from tests.kit.client import Reply
from tests.kit.nodes import KEY
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer
from tests.kit.redis_topologies import ClusterTrio, SentinelTrio
from tests.kit.serving import Served, Word, said, serving

RAN: Counter[str] = Counter()
"""How often each effect ran, by its call and its key."""
TTL = 3.0
"""Seconds for which a lease of these nodes lasts."""
SOON = 10.0
"""Seconds within which each request has its reply, and each operation its end: the store's time-out, and what a machine
may take that has no processor for this process."""


def ran(what: str) -> str:
    RAN[what] += 1
    return what


@framehold.reentrant
async def book(name: str, ctx: Context) -> str:
    """Run an effect, ask, run another one."""
    first = await framehold.once("first", partial(ran, f"{name} first"))
    word = said(await ctx.elicit("Which word?", Word))
    second = await framehold.once("second", partial(ran, f"{name} second"))
    return f"{first}, {word}, {second}"


@framehold.options(strategy="replay")
@framehold.reentrant
async def replayed(name: str, ctx: Context) -> str:
    """Ask; the call travels in its token."""
    return f"{name}: {said(await ctx.elicit('Which word?', Word))}"


@framehold.reentrant
async def slow(name: str, ctx: Context) -> str:
    """Ask, and hang in an effect after that until it is let go."""

    async def effect() -> str:
        await Pair.held.wait()
        return ran(f"{name} slow")

    word = said(await ctx.elicit("Which word?", Word))
    return f"{await framehold.once('slow', effect)}, {word}"


def deployed(release: int) -> Callable[..., Any]:
    """A tool whose code is another one in each release."""
    if release == 1:

        @framehold.reentrant
        async def moved(name: str, ctx: Context) -> str:
            return f"{name}: {said(await ctx.elicit('Which word?', Word))}"

        return moved

    @framehold.reentrant
    async def moved_on(name: str, ctx: Context) -> str:
        return f"now {name}: {said(await ctx.elicit('Which word?', Word))}"

    moved_on.__name__ = "moved"
    return moved_on


SAYS = {
    "book": "{0} first, word, {0} second",
    "replayed": "{0}: word",
    "moved": "{0}: word",
    "slow": "{0} slow, word",
}
"""How each tool ends."""


def inside(node: Served) -> Any:
    """The runtime of a node, of which a scene uses what is private."""
    return node.runtime


Between = Callable[[str, Reply], Awaitable[None]]


class Silent(Exception):
    """Something was lost without a word, or hung."""


class Pair:
    """Nodes a and b. `words` are the errors that clients heard in a play, and `raised` what an operation raised to its
    caller."""

    a: Served
    b: Served
    pulses: list[Pulses]
    held: ClassVar[asyncio.Event]
    """Lets the effects of `slow` go. Each pair makes its own: an event belongs to the loop that first waited for it."""

    def __init__(self, redis: RedisServer, namespace: str, cluster: ClusterTrio, sentinels: SentinelTrio) -> None:
        self.redis, self.namespace, self.cluster, self.sentinels = redis, namespace, cluster, sentinels
        self._names = itertools.count(1)
        RAN.clear()
        Pair.held = asyncio.Event()
        self.words: list[str] = []
        self.raised: list[Exception] = []

    @asynccontextmanager
    async def node(self, name: str, release: int = 1, **settings: Any) -> AsyncIterator[Served]:
        """A node of this fleet."""
        usual = {"store_url": self.redis.url, "namespace": self.namespace, "keys": (KEY,), "lease_ttl": TTL}
        tools = (book, replayed, slow, deployed(release))
        async with serving(*tools, node_id=name, **{**usual, **settings}) as node:
            # No node passes a call on to another one that has its code: that would hide the kept code.
            inside(node).heartbeat.codes = ""
            yield node

    async def reply(self, sending: Awaitable[Reply]) -> Reply:
        """The reply to a request; an error is kept in `words`."""
        try:
            async with asyncio.timeout(SOON):
                reply = await sending
        except TimeoutError:
            raise Silent("a request has no reply") from None
        if "error" in reply.message:
            self.words.append(reply.text)
        return reply

    async def asked(self, at: Served, tool: str = "book") -> tuple[str, Reply]:
        """A call that has asked, by its name: the first one that was not refused."""
        for _ in range(40):
            name = f"call{next(self._names)}"
            reply = await self.reply(at.call(tool, arguments={"name": name}))
            if "error" not in reply.message:
                return name, reply
            await self.mended(at)
        raise Silent(f"no call begins any more: {self.words[-1]}")

    async def ended(self, at: Served, name: str, asked: Reply, tool: str = "book") -> None:
        """The call has its right end, after as many retries as it was told to make."""
        for _ in range(60):
            answers = asked.accept(word="word")
            reply = await self.reply(at.retry(tool, asked.token, answers, arguments={"name": name}))
            if "error" not in reply.message:
                break
            await self.mended(at)
        else:
            raise Silent(f"{name} has no end: {self.words[-1]}")
        if "requestState" in reply.result:
            return await self.ended(at, name, reply, tool)
        if reply.result.get("isError"):
            self.words.append(reply.text)
        elif reply.text != SAYS[tool].format(name):
            raise Silent(f"{name} ended by {reply.text!r}")
        twice = [what for what, times in RAN.items() if times > 1]
        if twice:
            raise Silent(f"these effects ran twice: {twice}")

    async def running(self, at: Served) -> asyncio.Task[Reply]:
        """The reply to a round whose effect runs until `held` is set."""
        name, asked = await self.asked(at, "slow")
        sending = at.retry("slow", asked.token, asked.accept(word="word"), arguments={"name": name})
        reply = asyncio.create_task(self.reply(sending))
        await until(lambda: reply.done() or inside(at).tasks._effects, "the effect", SOON)
        return reply

    async def mended(self, at: Served) -> None:
        """A heartbeat of each node, or a moment where it does not come."""
        for node in (self.a, self.b, at):
            node.runtime.heartbeat.announce(LIVE)
        await asyncio.sleep(0.03)

    def begin(self) -> None:
        """A play begins: what was heard before it is forgotten, and so are the records in the store. The nodes believe
        the store again at once, and not after a lease's life."""
        self.words.clear()
        self.raised.clear()
        self.held.clear()
        with self.redis.client() as client:
            if calls := client.keys(f"fh:{self.namespace}:{{*"):
                client.delete(*calls)
        for node in (self.a, self.b):
            node.runtime.heartbeat.claims_from = -math.inf
            if node.runtime.heartbeat.missing_from < math.inf:
                node.runtime.heartbeat.missing_from = -math.inf

    async def call(
        self, at: Served | None = None, tool: str = "book", to: Served | None = None, between: Between | None = None
    ) -> None:
        """A whole call, begun at one node and answered at another one. `between` comes between the two."""
        at = at or self.a
        name, asked = await self.asked(at, tool)
        if between is not None:
            await between(name, asked)
        await self.ended(to or at, name, asked, tool)

    def slot(self, at: Served, asked: Reply) -> Slot | None:
        """The slot of a call at a node."""
        return at.runtime.table.get(asked.token.split(".")[1])  # type: ignore[arg-type]

    async def tried(self, operation: Callable[[], Awaitable[Any]]) -> Any:
        """The result of an operation. If it raises, that is kept in `raised`, and it must succeed at the second try."""
        for last in (False, True):
            try:
                async with asyncio.timeout(SOON):
                    return await operation()
            except TimeoutError:
                raise Silent("an operation has no end") from None
            except Exception as error:
                if last:
                    raise Silent(f"an operation failed twice: {error!r}") from error
                self.raised.append(error)


class Pulses:
    """Counts what each background loop of a node has done."""

    def __init__(self, node: Served, redis: RedisServer, namespace: str) -> None:
        self._node, self._redis, self._channel = node, redis, Keys(namespace).changes
        self.counts: Counter[str] = Counter()
        self._count(node.runtime._gate, "release_slow", "sweep")
        self._count(node.runtime.orphan_scan, "walk", "scan")
        self._count(node.runtime.peers._membership, "_sufficient", "feed")

    def _count(self, owner: Any, method: str, name: str) -> None:
        usual = getattr(owner, method)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.counts[name] += 1
            return usual(*arguments, **named)

        setattr(owner, method, counted)

    async def go_on(self) -> None:
        """Each loop does its work again."""
        runtime = self._node.runtime
        runtime.orphan_scan.rank = 0
        before = {**self.counts, "beat": runtime.heartbeat.renewed_at}

        def silent() -> list[str]:
            now = {**self.counts, "beat": runtime.heartbeat.renewed_at}
            return [name for name in ("sweep", "scan", "feed", "beat") if now.get(name) == before.get(name)]

        def all_again() -> bool:
            runtime.heartbeat.announce(LIVE)
            client.publish(self._channel, "any lease")
            return not silent()

        try:
            with self._redis.client() as client:
                await until(all_again, "the loops", SOON)
        except AssertionError:
            raise Silent(f"these loops of {self._node.runtime.peers.node} stand: {silent()}") from None


def parked(slot: Slot | None) -> bool:
    return slot is not None and slot.call.phase is Phase.PARKED


def forget_lease(pair: Pair, node: str) -> None:
    with pair.redis.client() as client:
        client.delete(Keys(pair.namespace).node(node))


async def release(pair: Pair, asked: Reply) -> None:
    """Hand a parked call off."""
    slot = pair.slot(pair.a, asked)
    if slot is not None:
        await until(lambda: parked(slot), "the park", SOON)
        inside(pair.a).feed(slot, ev.Drain())
        await until(lambda: slot.frame is None, "the release", SOON)


async def shown(pair: Pair, address: str) -> None:
    """Node b sees that node a is at `address`."""

    async def seen() -> bool:
        inside(pair.a).heartbeat.announce(LIVE)
        await asyncio.sleep(0.01)
        with suppress(RuntimeError, OSError):
            return bool(await inside(pair.b).peers.names(address))
        return False

    async with asyncio.timeout(SOON):
        while not await seen():
            pass


@asynccontextmanager
async def born(pair: Pair) -> AsyncIterator[Served]:
    """A third node. If its start fails, another one is started."""
    for _ in range(2):
        before = len(pair.raised)
        async with pair.node("c", failures=pair.raised) as node:
            if len(pair.raised) == before:
                yield node
                return
