"""A client: it makes a call, and answers until that has ended. It asks again where it gets no answer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from framehold.engine.replies import Answer, Elsewhere, Ended
from framehold.engine.token_claims import mint
from framehold_core import effects as fx
from framehold_core.errors import NodeFull, StoreUnavailable
from framehold_core.ids import CallId

from .checks import Violation
from .handlers import MALFORMED, Scripted, answers_to, carrier_at
from .plan import Intent
from .process import SETTINGS, Broken, Process, Serve, Token
from .releases import Release, releases

if TYPE_CHECKING:
    from .world import World

MANY, LONG = 8, 18.0
"""After MANY tries a client waits for LONG seconds at least: longer than a round may take."""
_AGAIN = (fx.Reason.UNAVAILABLE, fx.Reason.NOT_TAKEN, fx.Reason.WAITS)


class Client:
    """Makes one call; another one where it got no token of it."""

    def __init__(self, world: World, number: int, intent: Intent) -> None:
        self.world, self.number, self.intent = world, number, intent
        self.name, self.end = f"c{number}", ""
        self.attempts = 0
        self._before: list[tuple[Token, dict[str, str]]] = []
        self.waiting: asyncio.Future[Any] | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def call(self) -> str:
        """The name of the call of the present attempt."""
        return f"{self.name}.{self.attempts}"

    async def run(self) -> None:
        """Make calls until one has ended, or was lost."""
        await asyncio.sleep(self.intent.at)
        while not self.end:
            self.attempts, self._before = self.attempts + 1, []
            token = await self._began()
            while isinstance(token, Token):
                token = await self._answered(token)
        self.world.say(self.name, f"hears the end: {self.end}")

    async def _began(self) -> Token | None:
        """Start a call. Where it gets no answer it was lost for this client, and it makes another one."""
        self.world.ids[self.call] = CallId(self.world.random.randbytes(16).hex())
        found = await self._ask(self.world.any_node(), self._start)
        if isinstance(found, Token | Ended):
            return self._heard(found)
        self.world.say(self.call, f"did not begin: {_said(found)}")
        await asyncio.sleep(0.1)
        return None

    async def _answered(self, token: Token) -> Token | None:
        """Answer the questions of a token until something comes of it."""
        first, second = (
            {key: answers_to(wire["asks"])[which] for key, wire in token.parked.questions.items()} for which in (0, 1)
        )
        node = int(token.claims.node[1:])
        await asyncio.sleep(self.world.random.choice((0.0, 0.3, self.intent.thinks)) * self.world.random.random())
        if len(first) > 1 and self.world.random.random() < 0.3:
            # It answers one question alone, and is asked for the others (docs/protocol.md, rule 10).
            first, second = ({key: said[key] for key in list(said)[:1]} for said in (first, second))
        self._before.append((token, first))
        retry, tries, chance = partial(self._retry, token, first), 0, self.world.random.random
        while True:
            if chance() < 0.2:
                node = self.world.any_node()
            if chance() < 0.3:
                self._send(self.world.any_node(), self._twice(token, first, second))
            tries += 1
            found = await self._ask(node, retry, LONG if tries > MANY else 0.0, self.intent.hasty)
            if isinstance(found, Token | Ended):
                self._not_again(token, first, found)
                return self._heard(found)
            self.world.say(self.call, f"answers at n{node}: {_said(found)}")
            if isinstance(found, fx.Refusal) and found.reason is fx.Reason.CONFLICT:
                # The answers that are recorded are the other ones.
                first, second = second, first
                retry = partial(self._retry, token, first)
            elif isinstance(found, Elsewhere):
                node = int(found.node[1:])
            elif isinstance(found, fx.Refusal) and found.reason not in _AGAIN:
                self._over(found)
                return None
            elif isinstance(found, Exception) and not isinstance(found, Broken | NodeFull):
                raise Violation(f"{self.call}: a request raised {found!r}")
            else:
                node = self.world.any_node()
            await asyncio.sleep(self.world.random.uniform(0.05, 0.4))

    def _twice(self, token: Token, first: dict[str, str], second: dict[str, str]) -> Serve:
        """A request beside the one that it waits for: of an earlier round, or with other or malformed answers."""
        chance = self.world.random.random()
        if chance < 0.15:
            return partial(self._retry, *self.world.random.choice(self._before))
        if chance < 0.3:
            return partial(self._retry, token, {**first, self.world.random.choice(list(first)): MALFORMED})
        return partial(self._retry, token, second if chance < 0.5 else first)

    def _not_again(self, token: Token, answers: dict[str, str], found: Token | Ended) -> None:
        """A client is not asked again what it has answered: rule 10."""
        asked = found.parked.questions if isinstance(found, Token) and found.claims.round > token.claims.round else {}
        again = asked.keys() & answers.keys()
        if again and not self.world.plan.loses:
            raise Violation(f"I4: {self.call} is asked {sorted(again)} again, and has answered that")

    async def _start(self, at: Process) -> Answer:
        if not at.knows_tool:
            raise Broken("this process has no such tool")
        handler = Scripted(self.call, self.intent, at.release, self.world.ledger)
        return await at.runtime.start(handler, carrier_at(at.context), self.world.ids[self.call])

    async def _retry(self, token: Token, answers: dict[str, str], at: Process) -> Answer:
        release = at.release if at.knows_tool else await self._kept(token, at)
        handler, carrier = Scripted(self.call, self.intent, release, self.world.ledger), carrier_at(at.context)
        if token.carried is not None:
            return await at.runtime.replay(token.carried, answers, handler, carrier)
        return await at.runtime.retry(token.claims, answers, handler, carrier)

    async def _kept(self, token: Token, at: Process) -> Release:
        """The release whose code the call began with, as a process finds it that has no such tool."""
        try:
            kept = await at.runtime.kept_code(
                token.parked.state or mint(token.parked, token.claims.node, token.claims.boot)
            )
        except StoreUnavailable as error:
            raise Broken(str(error)) from None
        if kept is None:
            raise Broken("this process has no such tool, and its code is not kept")
        self.world.counts["had no such tool"] += 1
        return next(release for release in releases() if release.name == kept.function())

    def _send(self, node: int, serve: Serve) -> asyncio.Future[Any]:
        return self.world.request(node, None if self.intent.carried else self.world.ids[self.call], serve)

    async def _ask(self, node: int, serve: Serve, least: float = 0.0, hasty: bool = False) -> Any:
        self.waiting = reply = self._send(node, serve)
        try:
            patience = 0.4 if hasty else self.world.random.choice((0.4, 1.0, 5.0))
            return await asyncio.wait_for(reply, max(least, patience))
        except (TimeoutError, asyncio.CancelledError):
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            return Broken("the client left")

    def _heard(self, found: Token | Ended) -> Token | None:
        if isinstance(found, Token):
            self.world.say(self.call, f"is asked {[wire['asks'] for wire in found.parked.questions.values()]}")
            return found
        self.end = str(found.outcome)
        self.world.watch.ended(self.call, self.intent.program, self.end)
        self.world.counts["ended"] += 1
        return None

    def _over(self, found: fx.Refusal) -> None:
        self.world.watch.refused(self.call, self.intent.marked, SETTINGS.max_attempts, found)
        self.world.counts[f"told {found.reason.value}"] += 1
        self.end = found.reason.value


def _said(found: Any) -> str:
    return f"{found.reason.value} {found.detail}"[:90] if isinstance(found, fx.Refusal) else repr(found)[:90]
