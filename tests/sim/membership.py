"""A node lease as a process keeps it: register, renew, and what follows when it is gone
(docs/protocol.md, rules 3 to 7)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from framehold_core import lease
from framehold_core.ids import Incarnation, NodeId
from framehold_core.lease import Lease, NodeRecord, Renewal

from .changes import digest
from .weather import TTL

if TYPE_CHECKING:
    from .node import Process


class Membership:
    """The lease of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.lease: Lease | None = None
        self._lives = self._beats = 0
        self._claims_from = 0.0
        self._missing_from = -math.inf
        """Before this time a missing lease proves nothing: the store was silent (docs/protocol.md, rule 25)."""
        self._unheard = False
        self._since: float | None = None
        """When this process registered first, on the store's clock."""
        self._register()
        process.later(TTL / 3, self._tick)

    def _register(self) -> None:
        """A new incarnation (rule 4). A registration that got no answer is repeated as it was."""
        self._lives += 1
        self.incarnation = Incarnation(f"{self._process.boot}.{self._lives}")
        self.registered = False
        self._ask_to_register(self.incarnation)

    def _ask_to_register(self, incarnation: Incarnation, over: NodeRecord | None = None) -> None:
        if incarnation != self.incarnation or self.registered:
            return
        started, store = self._process.now(), self._process.world.store
        wanted = self._wanted(incarnation)
        store.call(
            self._process,
            store.register,
            (wanted, TTL, over),
            lambda result: self._asked_to_register(wanted, started, *result),
        )
        self._process.later(TTL / 4, self._ask_to_register, incarnation)

    def _wanted(self, incarnation: Incarnation) -> NodeRecord:
        process = self._process
        self._beats += 1
        code = lease.code_names(digest(process.code_of(client.program)) for client in process.world.plan.clients)
        state = "draining" if process.draining else lease.LIVE
        where = f"http://{process.name}"
        return NodeRecord(process.name, incarnation, process.boot, self._beats, where, state, code, "", 0.0)

    def _asked_to_register(
        self, wanted: NodeRecord, started: float, record: NodeRecord | None, result: Renewal
    ) -> None:
        if wanted.inc != self.incarnation or self.registered:
            return
        if result is Renewal.RENEWED:
            now = self._process.world.store.now()
            self.registered, self._since = True, now if self._since is None else self._since
            self.lease = Lease(wanted.node, wanted.inc, wanted.boot, wanted.beat, lease.window_until(started, TTL))
            self._process.world.say(self._process.boot, f"is registered as {wanted.inc}")
            self._process.driver.renewed(self.lease, anew=True)
            self._heard(doubtful=self._lives > 1)
        elif record is not None and not self._is_believed(record):
            self._ask_to_register(wanted.inc, over=record)

    def _tick(self) -> None:
        self._process.later(TTL / 3, self._tick)
        self.renew()
        self._process.driver.tick()

    def renew(self) -> None:
        """Send a heartbeat."""
        if self._unheard:
            self._missing_from = math.inf
        self._unheard = True
        if self.registered and self.lease is not None:
            started, store = self._process.now(), self._process.world.store
            wanted = self._wanted(self.incarnation)
            store.call(
                self._process,
                store.renew,
                (wanted, self.lease.beat, TTL),
                lambda result: self._renewed(wanted, started, *result),
            )

    def _renewed(self, wanted: NodeRecord, started: float, record: NodeRecord | None, result: Renewal) -> None:
        held = self.lease
        if wanted.inc != self.incarnation or held is None or not self.registered:
            return
        if result is Renewal.LAPSED and record is not None and record.beat >= wanted.beat and self._is_believed(record):
            return  # A later renewal has overtaken this one.
        self._heard(doubtful=False)
        if result is Renewal.RENEWED and record is not None:
            until = max(held.until, lease.window_until(started, TTL))
            self.lease = held._replace(beat=max(held.beat, record.beat), until=until)
            self._process.driver.renewed(self.lease, anew=False)
        elif result is Renewal.TAKEN and self._is_another(record):
            self._process.world.say(self._process.boot, "finds another process under its name and exits")
            self._process.world.watch.replaced(self._process)
            self._process.leave()
        else:
            held_on = self._process.now() < held.until + TTL * lease.MARGIN
            self._lapse(went_back=record is not None or held_on)

    def _is_another(self, found: NodeRecord | None) -> bool:
        """Whether the lease under this node's name is that of a process that began later (docs/protocol.md, rule 4)."""
        return found is not None and found.boot != self._process.boot and self._is_believed(found)

    def _is_believed(self, found: NodeRecord) -> bool:
        """Whether a lease under this node's name is its own, or one that says who has the name. Any other one is of
        somebody who writes the store, and this node registers over it."""
        world, name = self._process.world, self._process.name
        if found.boot == self._process.boot:
            return world.seals.is_lease(found)
        return world.seals.is_later(name, found, self._since, world.store.now())

    def _heard(self, doubtful: bool) -> None:
        """The store has answered a heartbeat. After it was silent, or where it is `doubtful` for another reason, it may
        have gone back (docs/protocol.md, rule 7)."""
        self._unheard = False
        if self._missing_from == math.inf:
            self._missing_from = self._process.now() + TTL
            doubtful = True
        if doubtful:
            self._process.recheck()

    def notices(self, stored: NodeRecord | None) -> bool:
        """Whether the next heartbeat shows that the store went back, where it has `stored` as this node's lease."""
        held = self.lease
        known = stored is not None and held is not None and stored.inc == held.incarnation and stored.beat >= held.beat
        return not known or self._missing_from == math.inf

    def believes_absences(self, members: dict[NodeId, NodeRecord]) -> bool:
        """Whether a missing lease proves that its node is gone: the store was not silent lately, and has not lost what
        it acknowledged of this node's own lease (docs/protocol.md, rule 25)."""
        now, held = self._process.now(), self.lease
        if now < self._missing_from or held is None:
            return False
        renewed_at = held.until - TTL * (1 - lease.MARGIN)
        return lease.proves_absences(members.get(self._process.name), held, renewed_at, TTL, now)

    def _lapse(self, went_back: bool) -> None:
        """The lease is gone: the window closes at once, and old frames must be verified."""
        self._process.world.counts["lapses"] += 1
        self._process.world.say(self._process.boot, "finds its lease lapsed")
        assert self.lease is not None
        self.lease = self.lease._replace(until=self._process.now())
        self._missing_from = max(self._missing_from, self._process.now() + TTL)
        if went_back:
            self._claims_from = self._process.now() + TTL
        self._register()

    def give_back(self) -> None:
        """Nobody need wait for this lease to run out."""
        store = self._process.world.store
        store.call(self._process, store.leave, (self._process.name, self.incarnation), lambda _: None)

    def may_claim(self) -> bool:
        """Whether this node claims calls: the store did not go back lately."""
        return self._process.now() >= self._claims_from
