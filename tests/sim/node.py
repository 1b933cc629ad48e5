"""One life of a node: its lease, the requests that wait in it, and what it knows of others.

A process that is paused does nothing while its clock goes on; what arrives meanwhile waits, and is met with old
beliefs. A process that dies forgets everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from framehold_core import lease, ownership
from framehold_core.call import Call
from framehold_core.effects import Outcome, Questions, Reason, Relay, Respond
from framehold_core.events import Left, Retry, Start
from framehold_core.ids import Boot, CallId, NodeId, Waiter
from framehold_core.lease import Lease, NodeRecord
from framehold_core.ownership import Ownership
from framehold_core.suspects import Suspects
from framehold_fleet.members.ring import Ring

from .changes import changed
from .clients import Request, Said
from .driver import Driver
from .membership import Membership
from .scripts import SUSPECT_PATIENCE, Slot
from .tokens import Token, is_good, sealed
from .weather import TTL

if TYPE_CHECKING:
    from .world import World

MAX_RELAYS = 3
RELAY_PATIENCE = 0.25
DRAIN_TIMEOUT = 0.4
"""Seconds that a node which drains waits for what it can't hand off."""


@lru_cache(maxsize=64)
def ring_of(names: frozenset[NodeId]) -> Ring:
    """The ring of these nodes."""
    return Ring(names)


def code_of(program: str, variant: str) -> str:
    """The code that a process with this variant has for a handler."""
    return changed(program, int(variant)) if variant else program


class Open(NamedTuple):
    """A request that waits in this process. `origin` is set where another node relayed it here."""

    what: Request
    event: Start | Retry
    origin: Process | None


class Process:
    """One process under a node's name."""

    def __init__(self, world: World, name: str, boot: str, rate: float) -> None:
        self.world, self.name, self.boot = world, NodeId(name), Boot(boot)
        self.alive, self.began = True, world.now
        self.open: dict[int, Open] = {}
        self.suspects: Suspects[Slot] = Suspects(SUSPECT_PATIENCE)
        self.driver = Driver(self)
        self._rate, self._offset = rate, world.stream(f"clock {boot}").uniform(0, 100)
        self.variant = str(world.code.get(name, ""))
        """The number of the variant of each handler that this process has; empty for the handlers as they were."""
        self.release = world.releases[boot] = int(name in world.upgraded)
        self._paused_until = 0.0
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._waiters = count(1)
        self.draining = False
        self._relayed: dict[int, Open] = {}
        # Where nothing but the store breaks it waits as a node does. Elsewhere it waits for nobody, like one that has
        # just begun: its fences hold all the same, and schedules are harder.
        self.ownership = Ownership(TTL if world.plan.restores else 0.0)
        self.member = Membership(self)
        self.later(TTL / 3, self._tick)

    @property
    def lease(self) -> Lease:
        """The node lease as last acknowledged."""
        return self.member.lease

    def now(self) -> float:
        """Seconds on this node's clock."""
        return self._offset + self.world.now * self._rate

    def code_of(self, tool: str) -> str:
        """The code that this process has for a handler."""
        return code_of(tool, self.variant)

    def _tick(self) -> None:
        self.later(TTL / 3, self._tick)
        self.driver.tick()

    def take(self, act: Callable[..., None], *args: Any) -> None:
        """Something arrives."""
        if not self.alive:
            return
        if self.world.now < self._paused_until:
            self._inbox.append((act, args))
        else:
            act(*args)

    def later(self, delay: float, act: Callable[..., None], *args: Any) -> None:
        """A timer."""
        self.world.after(delay, self.take, act, *args)

    def pause(self, span: float) -> None:
        """Do nothing for a while; then everything that arrived, in order."""
        self._paused_until = max(self._paused_until, self.world.now + span)
        self.world.after(span, self._wake)

    def _wake(self) -> None:
        if self.world.now < self._paused_until or not self.alive:
            return
        self.world.say(self.boot, "wakes")
        inbox, self._inbox = self._inbox, []
        for act, args in inbox:
            if self.alive:
                act(*args)

    def die(self) -> None:
        """Lose everything."""
        self.alive = False

    def recheck(self) -> None:
        """The store may have gone back: compare all frames with it, one after the other."""
        for place, slot in enumerate(self.driver.slots.values()):
            self.later(0.01 * place, self.driver.recheck, slot)

    def skip(self, seconds: float) -> None:
        """The clock jumps forward."""
        self._offset += seconds

    def drain(self, away: float) -> None:
        """Take no new call and claim nothing; hand off what may be handed off, now and as it parks; keep the rest until
        a deadline; then give the lease back, leave, and come back after `away` seconds as a new process."""
        if not self.draining:
            self.world.counts["drains"] += 1
            self.draining = True
            self.member.renew()
            self.driver.drain()
            self._see_off(self.world.now + DRAIN_TIMEOUT, away)

    def _see_off(self, deadline: float, away: float) -> None:
        if self.driver.slots and self.world.now < deadline:
            self.later(0.05, self._see_off, deadline, away)
        else:
            self.world.watch.heals.cut_off(self)
            self.member.give_back()
            self.leave(away)

    def leave(self, away: float = 0.1) -> None:
        """Die; come back as a new process, unless another stands here already."""
        if self.world.nodes[self.name] is self:
            self.world.restart(self.name, away)
        else:
            self.die()

    # ---- requests

    def request(self, what: Request, origin: Process | None = None) -> None:
        """A request arrives from a client, or from the node that relays it."""
        slot = self.driver.slots.get(what.call)
        not_taken = Said(refusal=Reason.NOT_TAKEN if what.token is None else Reason.UNAVAILABLE)
        if what.token is None and (self.draining or not self.member.is_registered):
            self._send(what, origin, not_taken)
        elif not self.lets_in(what):
            self._send(what, origin, Said(invalid=True))
        elif slot is None and not self.driver.make_room():
            self.world.counts["no room"] += 1
            self._send(what, origin, not_taken)
        else:
            waiter = Waiter(next(self._waiters))
            self._enter(waiter, what, origin, slot)

    def lets_in(self, what: Request) -> bool:
        """The boundary: a token that is not ours, or not this client's, or too old, never reaches a call."""
        return what.token is None or is_good(what.token, what.call, what.user, self.world.now)

    def _enter(self, waiter: Waiter, what: Request, origin: Process | None, slot: Slot | None) -> None:
        token = what.token
        event: Start | Retry
        if token is None:
            event = Start(waiter)
        else:
            node = NodeId(token.node)
            event = Retry(
                waiter, token.round, token.epoch, token.round_history, node, what.answers, self.lease, token.head
            )
            self.world.watch.bounds.i8_sealed(what)
        if slot is None:
            call = Call(CallId(what.call), self.name, self.lease.incarnation, what.reentrant, self.world.plan.token_ttl)
            program = self.code_of(what.program)
            slot = self.driver.slots[what.call] = Slot(self, call, program, what.program)
        self.open[waiter] = Open(what, event, origin)
        self.driver.feed(slot, event)

    def hung_up(self, number: int) -> None:
        """The connection behind a request is gone."""
        self._relayed.pop(number, None)
        for waiter, item in list(self.open.items()):
            if item.what.number == number:
                del self.open[waiter]
                slot = self.driver.slots.get(item.what.call)
                if slot is not None:
                    self.driver.feed(slot, Left(Waiter(waiter)))

    def answer(self, slot: Slot, effect: Respond, text: object) -> None:
        """Give a waiter its reply."""
        item = self.open.pop(effect.waiter, None)
        if item is None:
            return
        reply = effect.response
        if isinstance(reply, Questions):
            keys = tuple(ask.key for ask in slot.call.asks)
            what, expires = item.what, self.world.now + reply.lasts
            at = (reply.round, reply.epoch, reply.round_history, self.name)
            token = Token(*at, keys, what.call, what.user, expires, slot.terms.head.seal)
            output = Said(token=sealed(token))
            self.world.watch.bounds.minted(sealed(token))
        elif isinstance(reply, Outcome):
            output = Said(outcome=str(text))
        else:
            self.world.counts[f"said {reply.reason}"] += 1
            output = Said(refusal=reply.reason)
        self._send(item.what, item.origin, output)

    def _send(self, what: Request, origin: Process | None, text: Said) -> None:
        if text.refusal is Reason.NOT_TAKEN:
            self.world.watch.not_taken(what.call)
        if origin is None:
            client = self.world.clients[what.client]
            self.world.send(self.name, "client", client.hear, what, text)
        else:
            self.world.send(self.name, origin.name, origin.take, origin.relayed_back, what.number, text)

    # ---- relaying: a star (docs/protocol.md, rule 19)

    def relay(self, effect: Relay, offered: bool) -> None:
        """Pass a request on; one that was relayed here goes back. `offered`: to a node that need not have the call."""
        item = self.open.pop(effect.waiter, None)
        if item is None:
            return
        what = item.what
        if item.origin is not None:
            self.world.send(self.name, item.origin.name, item.origin.take, item.origin.not_held, what.number)
            return
        self.world.counts["relays"] += 1
        self.world.watch.bounds.i9_star(what)
        self._relayed[what.number] = item._replace(what=what._replace(offered=what.offered or offered))
        peer = self.world.nodes.get(effect.node)
        if peer is not None:
            self.world.counts["offered"] += offered
            passed_on = what._replace(hops=what.hops + 1)
            self.world.send(self.name, effect.node, peer.take, peer.request, passed_on, self)
        self.later(RELAY_PATIENCE, self._relay_unanswered, what.number, what.tries)

    def relayed_back(self, number: int, text: Said) -> None:
        """The other node answered."""
        item = self._relayed.pop(number, None)
        if item is not None:
            self._send(item.what, None, text)

    def not_held(self, number: int) -> None:
        """The other node does not answer for the call: read again."""
        self._once_more(number)

    def _relay_unanswered(self, number: int, tries: int) -> None:
        item = self._relayed.get(number)
        if item is not None and item.what.tries == tries:
            self._once_more(number)

    def _once_more(self, number: int) -> None:
        item = self._relayed.pop(number, None)
        if item is None:
            return
        what = item.what._replace(tries=item.what.tries + 1)
        if what.tries >= MAX_RELAYS:
            self._send(what, None, Said(refusal=Reason.UNAVAILABLE))
        else:
            self.request(what)

    def heir(self, call: CallId, leases: Mapping[NodeId, NodeRecord]) -> NodeId | None:
        """Who carries on what this node would claim, if it drains: it leaves, so its claim would be another's next."""
        if not self.draining:
            return None
        live = frozenset(name for name, item in leases.items() if item.state == lease.LIVE)
        return ownership.heir(self.name, ring_of(live).order(call), {name: leases[name].address for name in live})

    def may_offer(self, slot: Slot) -> bool:
        """Whether the requests that wait for a lookup may be passed on to a node that need not have their call: each of
        them once."""
        waiting = [self.open[event.waiter] for event in slot.call.undecided if event.waiter in self.open]
        return not any(item.origin is not None or item.what.offered for item in waiting)
