"""What a node's shell asks of the store, as `framehold_core.writes` describes it.

A slot is one call on one process: the core's state, the frame, and the acknowledged journal. An attempt is one sending
of one write. Its reply counts only while it is the slot's latest attempt, while the core still waits for that write,
and until it was given up: a late reply to a write that was reported as unanswered is dropped, the write is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from framehold_core import journal, lease, pauses, writes
from framehold_core.call import Call, Phase, progress
from framehold_core.effects import Op, Write
from framehold_core.errors import JournalError
from framehold_core.events import (
    Acked,
    Claimed,
    Event,
    MayClaim,
    Pass,
    Retry,
    StoreDown,
    Unreadable,
    WriteRefused,
)
from framehold_core.ids import NodeId
from framehold_core.journal import Draft, Entry
from framehold_core.lease import Lease
from framehold_core.ownership import Death, Sight, Wait
from framehold_core.pauses import Pause
from framehold_core.requests import Answered, Head, Read, Reply, Request, Stored, Verdict
from framehold_core.value import replace
from framehold_core.writes import Packed, Terms

from .changes import digest
from .handlers import Frame
from .seals import sealed

if TYPE_CHECKING:
    from .node import Process

SKEW = 0.5
"""Seconds that clocks may differ by: a record outlives its tokens by this much, and by the longest round."""
MAX_ROUND = 0.7
"""Seconds that a round may run."""
STORE_PATIENCE = 0.12
"""Seconds until an unanswered script is given up."""
GATE = 0.03
"""Seconds for which a journal waits until those of other calls leave room for it, at most."""
SUSPECT_PATIENCE = 0.4
"""Seconds for which a suspect waits for its turn."""
TAKEN_OVER = (Phase.LOOKING, Phase.CLAIMING, Phase.REBUILDING)
"""Where a call is that is being taken over."""


@dataclass(eq=False, slots=True)
class Attempt:
    """One sending of one write; `believed` are the answers that its frame has resumed with."""

    write: Write
    packed: Packed
    request: Request
    believed: tuple[Answered, ...]
    n: int
    who: str


class Slot:
    """One call on one process."""

    def __init__(self, process: Process, call: Call, program: str, tool: str) -> None:
        self.process = process
        self.call = call
        self.program, self.is_marked = program, call.reentrant
        self.tool = tool
        """The program as clients name it, whatever code the process has for it."""
        self.frame: Frame | None = None
        self.log: list[bytes] = []
        self.attempt: Attempt | None = None
        self.lookup = 0
        self.offered = False
        """Whether the requests are passed on to a node that need not have the call."""
        self.written = False
        self.running_since = self.parked_since = 0.0
        self.claimed: Stored | None = None
        """The record as this slot's claim left it."""
        code = digest(program)
        process.world.programs[code] = program
        head = Head(process.boot, call.reentrant, tool, code, "tools/call", tool, "args", "who")
        self.terms = terms(call, sealed(call.id, head))

    def load(self, head: Head) -> None:
        """Go on with the record of a claimed call: each write of this slot names its head from now on."""
        self.terms = terms(self.call, replace(head, boot=self.process.boot))


def terms(call: Call, head: Head) -> Terms:
    """The terms of a call with this head."""
    tombstone_ttl = call.ttl + SKEW
    return Terms(head, tombstone_ttl + MAX_ROUND, tombstone_ttl)


class Scripts:
    """The scripts that one process sends."""

    def __init__(self, process: Process, slots: dict[str, Slot], feed: Callable[[Slot, Event], None]) -> None:
        self._process = process
        self._world = process.world
        self._slots = slots
        self._feed = feed
        self._nonces = count(1)

    def _seal(self, n: int, draft: Draft) -> bytes:
        return f"{self._process.boot}.{next(self._nonces)}:".encode() + draft.value

    def write(self, slot: Slot, write: Write) -> None:
        """Send a write; the same write at the same position is sent as the same bytes."""
        last = slot.attempt
        if last is not None and last.write is write and last.n == slot.call.position:
            packed = last.packed
        else:
            outcome = f"{self._process.boot}.{next(self._nonces)}:{write.outcome}".encode()
            packed = writes.pack(slot.call, write, self._seal, self._process.now(), outcome)
        request = writes.request(slot.call, write, packed, slot.terms, slot.log)
        self._world.seals.wrote(request)
        who = f"{self._process.boot} epoch {slot.call.epoch} n {slot.call.position}"
        attempt = Attempt(write, packed, request, progress(slot.call).answered, slot.call.position, who)
        slot.attempt, slot.written = attempt, True
        if write.op is Op.PARK and self._world.plan.keeps_code and slot.terms.head.reentrant:
            self._world.kept.add(slot.terms.head.code)
        if write.op in (Op.PARK, Op.INTEND, Op.RESULT, Op.FINISH):
            self._world.watch.goes_on(slot)
        store = self._world.store
        store.call(self._process, store.apply, (request, attempt), lambda reply: self._answered(slot, attempt, reply))
        self._process.later(STORE_PATIENCE, self._give_up, slot, attempt)

    def _live(self, slot: Slot, attempt: Attempt) -> bool:
        call = slot.call
        held = self._slots.get(call.id) is slot and slot.attempt is attempt
        return held and call.outbox.in_flight is attempt.write and not call.outbox.stalled

    def _answered(self, slot: Slot, attempt: Attempt, reply: Reply) -> None:
        if not self._live(slot, attempt):
            return
        held = self._process.lease
        self._world.counts[str(reply.verdict)] += 1
        event = self._event(slot, attempt, reply, held)
        if isinstance(event, WriteRefused):
            self._world.watch.fenced_by_another(attempt.request, reply)
            self._world.watch.heals.refused(attempt.request, reply)
            if event.verdict is Verdict.BEHIND and attempt.write.op not in (Op.VERIFY, Op.HEAL):
                self._process.recheck()
        if isinstance(event, Claimed):
            self._world.counts["takeovers"] += 1
            slot.log, slot.claimed = list(event.stored.journal), event.stored
            slot.load(event.stored.record.head)
        elif isinstance(event, Acked):
            slot.log += attempt.packed.entries
            self._count(attempt.write.op)
            if self._world.plan.poison and slot.claimed is not None and attempt.write.op in (Op.PARK, Op.FINISH):
                store = self._world.store
                store.call(self._process, store.cleared, (slot.tool,), lambda _: None)
        self._feed(slot, event)
        if isinstance(event, Claimed) and slot.call.incarnation != event.stored.record.incarnation:
            self._world.watch.fail("core", f"{slot.call.id} was claimed under another incarnation than its frame has")

    def _event(self, slot: Slot, attempt: Attempt, reply: Reply, held: Lease) -> Event:
        try:
            granted = reply.verdict in (Verdict.OK, Verdict.ALREADY)
            if attempt.write.op is Op.CLAIM and granted and reply.stored is not None:
                self._world.seals.check(slot.call.id, reply.stored)
                self._read(slot.call.id, reply.stored)
            return writes.event(slot.call, attempt.write, attempt.packed, reply, held, self._process.now())
        except JournalError as error:
            return Unreadable(str(error))

    def _read(self, call: str, stored: Stored) -> tuple[Entry, ...]:
        """The entries of a record. What a newer release wrote has the next format to this one.

        Raises:
            JournalVersionError: a newer release wrote it.
            JournalError: it was not sealed for this call, or its record says otherwise.
        """
        self._world.seals.check_entries(call, stored)
        entries = writes.read(stored)
        for item, raw in zip(entries, stored.journal, strict=True):
            writer = item.value.split(b".", 1)[0].decode()
            if self._world.releases.get(writer, 0) > self._process.release:
                _, rest = raw.split(b",", 1)
                journal.decode(b"[%d,%s" % (journal.VERSION + 1, rest), item.n)
        return entries

    def _count(self, op: Op) -> None:
        name = {Op.PARK: "parks", Op.VERIFY: "verifies", Op.HEAL: "heals", Op.FINISH: "finishes"}.get(op)
        if name:
            self._world.counts[name] += 1

    def _give_up(self, slot: Slot, attempt: Attempt) -> None:
        held = self._process.lease
        if self._live(slot, attempt):
            is_open = held.incarnation == slot.call.incarnation and lease.is_open(held, self._process.now())
            self._feed(slot, StoreDown(is_open))

    def look(self, slot: Slot) -> None:
        """Read the record, then the registry: never the other way round, or an incarnation that began in between
        would look gone."""
        slot.lookup += 1
        number, store, held, waiting = slot.lookup, self._world.store, self._process.lease, slot.call.undecided

        def first(reply: Reply) -> None:
            if self._looking(slot, number):
                store.call(self._process, store.members, (), lambda result: second(reply.stored, *result))

        def second(stored: Stored | None, members: dict[NodeId, lease.NodeRecord], read_at: float) -> None:
            if self._looking(slot, number):
                self._found(slot, stored, members, read_at, held, waiting)

        store.call(self._process, store.apply, (Read(slot.call.id),), first)
        self._process.later(2 * STORE_PATIENCE, self._stop_looking, slot, number)

    def _looking(self, slot: Slot, number: int) -> bool:
        here = self._slots.get(slot.call.id) is slot
        return here and slot.call.phase is Phase.LOOKING and slot.lookup == number

    def _stop_looking(self, slot: Slot, number: int) -> None:
        if self._looking(slot, number):
            self._feed(slot, StoreDown(False))

    def _found(
        self,
        slot: Slot,
        stored: Stored | None,
        read: Mapping[NodeId, lease.NodeRecord],
        read_at: float,
        held: Lease,
        waiting: tuple[Retry, ...],
    ) -> None:
        """`held` is this node's lease before the read, and `waiting` are the requests that had come."""
        process, seals, now = self._process, self._world.seals, self._process.now()
        leases = seals.members(read, read_at)
        sight = Sight(
            call=slot.call.id,
            stored=seals.whole(slot.call.id, stored),
            waiting=waiting,
            leases=leases,
            doubtful=frozenset(read.keys() - leases.keys()),
            me=process.lease,
            code=digest(slot.program),
            is_marked=slot.is_marked,
            is_registered=process.member.is_registered,
            may_claim=process.member.claims(now),
            absences_count=not self._world.plan.restores
            or process.member.believes_absences(leases.get(process.name), held, now),
            heir=process.heir(slot.call.id, leases),
            may_offer=process.may_offer(slot),
            has_turn=process.suspects.has_turn(slot),
        )
        self._judge(slot, sight)

    def _judge(self, slot: Slot, sight: Sight) -> None:
        judged = self._process.ownership.judge(sight, self._process.now())
        slot.offered = isinstance(judged, Pass) and judged.offered
        self._world.counts["passed on to the very code"] += slot.offered
        if isinstance(judged, Death):
            self._tell_death(slot, sight, judged)
        elif judged is Wait.TURN:
            self._wait_for_turn(slot)
        elif isinstance(judged, Wait | Pause):
            self._feed(slot, StoreDown(False))
        elif isinstance(judged, MayClaim) and sight.stored is not None:
            self._claim(slot, sight, sight.stored, judged)
        else:
            # While its owner lives the call is passed on unread: the owner can read what it wrote.
            self._feed(slot, sight.found(judged))

    def _claim(self, slot: Slot, sight: Sight, stored: Stored, judged: MayClaim) -> None:
        self._world.watch.bounds.a_lapse_is_not_a_death(stored.record, sight.leases, judged.evidence)
        self._world.watch.replays.the_very_code_first(slot, stored.record, sight.leases, judged)
        try:
            entries = self._read(slot.call.id, stored)
        except JournalError as error:
            self._feed(slot, Unreadable(str(error)))
            return
        number = slot.lookup

        def loaded(is_kept: bool) -> None:
            if self._looking(slot, number):
                if is_kept:
                    self._enter_kept(slot, judged.code)
                self._feed(slot, sight.found(judged, entries, is_kept))
                self._world.watch.replays.a_claim_enters_its_own_code(slot, stored.record)

        def weighed() -> None:
            if judged.code:
                self._world.store.call(self._process, self._is_kept, (judged.code,), loaded)
            else:
                loaded(False)

        self._process.later(GATE * self._world.stream("gate").random(), weighed)

    def _is_kept(self, code: str) -> bool:
        return code in self._world.kept

    def _enter_kept(self, slot: Slot, code: str) -> None:
        """Have the code entered that began a call."""
        slot.program = self._world.programs[code]
        self._world.counts["kept code entered"] += 1

    def _tell_death(self, slot: Slot, sight: Sight, death: Death) -> None:
        """Hold the end of the process that ran a call against the handler, and judge the call again."""
        number, store, told = slot.lookup, self._world.store, replace(sight, death_told=True)
        if not self._world.plan.poison or not pauses.is_blamed(death.record):
            self._judge(slot, told)
            return

        def answered(paused: bool) -> None:
            if self._looking(slot, number):
                pause = Pause(slot.tool, store.now(), pauses.FRAMEHOLD, "") if paused else None
                self._judge(slot, replace(told, pause=pause))

        store.call(self._process, store.died, (slot.tool, death.record.head.boot), answered)

    def _wait_for_turn(self, slot: Slot) -> None:
        """A suspect waits for its turn, and is looked up again then."""
        slot.lookup += 1
        self._process.suspects.join(slot)
        self._world.counts["suspects waited"] += 1
        self._process.later(SUSPECT_PATIENCE, self._give_up_turn, slot, slot.lookup)
        self.next_suspect()

    def next_suspect(self) -> None:
        """Look up the suspect whose turn has come, if any."""
        line = self._process.suspects
        busy = (slot for slot in self._slots.values() if slot.call.phase in TAKEN_OVER)
        others = any(not line.waits(slot) and not line.has_turn(slot) for slot in busy)
        if (slot := line.next(self._process.now(), others)) is not None:
            self.look(slot)

    def _give_up_turn(self, slot: Slot, number: int) -> None:
        if self._process.suspects.waits(slot) and self._looking(slot, number):
            self._process.suspects.leave(slot)
            self._feed(slot, StoreDown(False))
