"""A node lease as a process keeps it: what the core says of each heartbeat, sent through the simulated network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framehold_core import lease
from framehold_core.lease import LeaseFinding, LeaseReply, NodeRecord, Tenure

from .changes import digest
from .weather import TTL

if TYPE_CHECKING:
    from .node import Process


PATIENCE = TTL / 5
"""Seconds until an unanswered heartbeat is given up: by default a node waits for so long."""


class Membership(Tenure):
    """The lease of one process. It sends one heartbeat at a time, and takes no reply for it that comes too late."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lives = self._sent = self._doubts = 0
        super().__init__(process.name, process.boot, TTL, process.now(), self._name)
        self._beat(b"")

    def _name(self) -> str:
        self._lives += 1
        return f"{self._process.boot}.{self._lives}"

    def renew(self) -> None:
        """Send the next heartbeat now."""
        self._beat(b"")

    def _beat(self, over: bytes) -> None:
        process, store = self._process, self._process.world.store
        code = lease.code_names(digest(process.code_of(client.program)) for client in process.world.plan.clients)
        state = "draining" if process.draining else lease.LIVE
        wanted = self.wanted(store.now(), f"http://{process.name}", state, code, "")
        self._sent += 1
        number, started = self._sent, process.now()
        script = store.renew if self.is_registered else store.register
        last = self.lease.beat if self.is_registered else over

        def answered(reply: LeaseReply) -> None:
            if number == self._sent:
                self._sent += 1
                self._answered(wanted, reply, over, started)

        store.call(process, script, (wanted, last, TTL), answered)
        process.later(PATIENCE, self._unanswered, number)

    def _unanswered(self, number: int) -> None:
        if number == self._sent:
            self.silent()
            self._rest()

    def _rest(self) -> None:
        """Wait for the time of the next heartbeat."""
        self._sent += 1
        self._process.later(self.pause, self._turn, self._sent)

    def _turn(self, number: int) -> None:
        if number == self._sent:
            self._beat(b"")

    def _answered(self, wanted: NodeRecord, reply: LeaseReply, over: bytes, started: float) -> None:
        process, stored, is_new = self._process, reply.stored, not self.is_registered
        is_sealed = stored is not None and process.world.seals.holds(process.name, stored)
        heard = self.heard(stored or wanted, reply, is_sealed, over, started, process.now())
        finding = heard.finding
        if finding is LeaseFinding.RENEWED:
            self._renewed(is_new)
        elif finding is LeaseFinding.TAKEN:
            process.world.say(process.boot, "finds another process under its name and exits")
            process.world.watch.replaced(process)
            process.leave()
        elif finding is not LeaseFinding.HELD and not is_new:
            process.world.counts["lapses"] += 1
            process.world.say(process.boot, "finds its lease lapsed")
        if heard.over is None:
            self._rest()
        else:
            self._beat(heard.over)

    def _renewed(self, is_new: bool) -> None:
        process = self._process
        if is_new:
            process.world.say(process.boot, f"is registered as {self.lease.incarnation}")
        process.driver.renewed(self.lease, anew=is_new)
        if self.doubts != self._doubts:
            self._doubts = self.doubts
            process.recheck()

    def notices(self, stored: NodeRecord | None) -> bool:
        """Whether the next heartbeat shows that the store went back, where it has `stored` as this node's lease."""
        held = self.lease
        known = stored is not None and stored.inc == held.incarnation and stored.beat >= held.beat
        return not known or self.missing_from == float("inf")

    def give_back(self) -> None:
        """Nobody need wait for this lease to run out."""
        store = self._process.world.store
        store.call(self._process, store.leave, (self._process.name, self.lease.incarnation), lambda _: None)
