"""A node lease as a process keeps it: register, renew, and what follows when it is gone
(docs/protocol.md, rules 3 to 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framehold_core import lease
from framehold_core.ids import Incarnation
from framehold_core.lease import Lease, NodeRecord, Renewal

from .weather import TTL

if TYPE_CHECKING:
    from .node import Process


class Membership:
    """The lease of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.lease: Lease | None = None
        self._lives = 0
        self._claims_from = 0.0
        self._register()
        process.later(TTL / 3, self._tick)

    def _register(self) -> None:
        """A new incarnation (rule 4). A registration that got no answer is repeated as it was."""
        self._lives += 1
        self.incarnation = Incarnation(f"{self._process.boot}.{self._lives}")
        self.registered = False
        self._ask_to_register(self.incarnation)

    def _ask_to_register(self, incarnation: Incarnation) -> None:
        if incarnation != self.incarnation or self.registered:
            return
        started, store = self._process.now(), self._process.world.store
        wanted = NodeRecord(self._process.name, incarnation, self._process.boot, 0, "", "live", "", "", 0.0)
        store.call(
            self._process,
            store.register,
            (wanted, TTL),
            lambda result: self._asked_to_register(incarnation, started, result),
        )
        self._process.later(TTL / 4, self._ask_to_register, incarnation)

    def _asked_to_register(self, incarnation: Incarnation, started: float, result: Renewal) -> None:
        if incarnation == self.incarnation and result is Renewal.RENEWED and not self.registered:
            self.registered = True
            self.lease = Lease(self._process.name, incarnation, self._process.boot, 0, lease.window_until(started, TTL))
            self._process.world.say(self._process.boot, f"is registered as {incarnation}")
            self._process.driver.renewed(self.lease, anew=True)

    def _tick(self) -> None:
        self._process.later(TTL / 3, self._tick)
        if self.registered and self.lease is not None:
            started, store, incarnation = self._process.now(), self._process.world.store, self.incarnation
            wanted = NodeRecord(self._process.name, incarnation, self._process.boot, 0, "", "live", "", "", 0.0)
            store.call(
                self._process,
                store.renew,
                (wanted, self.lease.beat, TTL),
                lambda result: self._renewed(incarnation, started, *result),
            )
        self._process.driver.tick()

    def _renewed(self, incarnation: Incarnation, started: float, record: NodeRecord | None, result: Renewal) -> None:
        held = self.lease
        if incarnation != self.incarnation or held is None or not self.registered:
            return
        if result is Renewal.RENEWED and record is not None:
            until = max(held.until, lease.window_until(started, TTL))
            self.lease = held._replace(beat=max(held.beat, record.beat), until=until)
            self._process.driver.renewed(self.lease, anew=False)
        elif result is Renewal.TAKEN:
            self._process.world.say(self._process.boot, "finds another process under its name and exits")
            self._process.leave()
        else:
            self._lapse(went_back=record is not None)

    def _lapse(self, went_back: bool) -> None:
        """The lease is gone: the window closes at once, and old frames must be verified."""
        self._process.world.counts["lapses"] += 1
        self._process.world.say(self._process.boot, "finds its lease lapsed")
        assert self.lease is not None
        self.lease = self.lease._replace(until=self._process.now())
        if went_back:
            self._claims_from = self._process.now() + TTL
        self._register()

    def give_back(self) -> None:
        """Nobody need wait for this lease to run out."""
        store = self._process.world.store
        store.call(self._process, store.leave, (self._process.name, self.incarnation), lambda _: None)

    def may_claim(self) -> bool:
        """Whether this node may take calls over."""
        held = self.lease
        open_ = self.registered and held is not None and lease.is_open(held, self._process.now())
        return open_ and self._process.now() >= self._claims_from
