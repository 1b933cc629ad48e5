"""The invariants of docs/protocol.md, as the world can see them. Each is a function with its name; I5 has a file of
its own (`effect_checks`), and so have I8 and I9 (`bound_checks`).

The watch sees every script before and after, every entry into a handler, every effect and every reply. It believes
nothing that a node says of itself except which frame spoke. A schedule whose store loses acknowledged writes is held
to I3, I6, I8 and I9 only: the others are promised while it loses none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from framehold_core import journal, retry
from framehold_core.call import Phase
from framehold_core.effects import Effect, Op, Outcome, Questions, Relay, Respond, Write
from framehold_core.ending import CANCELLED
from framehold_core.errors import JournalError
from framehold_core.events import Answer, Event, Left, Retry, Start, Stop
from framehold_core.journal import Entry, EntryKind
from framehold_core.requests import Answered, Claim, Read, Record, RecordState, Reply, Request, Stored, Verdict

from .bound_checks import BoundWatch
from .effect_checks import EffectWatch
from .handlers import ended, is_fragile
from .heal_checks import HealWatch
from .plan import LONG
from .replay_checks import ReplayWatch
from .scripts import MAX_ROUND, SKEW
from .weather import TTL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from framehold_core.call import Call
    from framehold_core.lease import NodeRecord

    from .clients import Client
    from .handlers import Frame
    from .node import Process
    from .scripts import Attempt, Slot
    from .world import World

APPLIED = (Verdict.OK, Verdict.LOST)
"""Verdicts with which a script may have changed the record (a claim writes LOST before anyone is told)."""

UNFENCED = (Read, Claim)
"""Requests that present no fence."""

CARRIERS = (Op.PARK, Op.INTEND, Op.FINISH)
"""Writes that take a round's answers along. The result of an effect that began before the round was answered may be
written between the answers' delivery and these; it fixes nothing, unless it has the answers with it."""


def _carries_answers(write: Write) -> bool:
    return write.op in CARRIERS or write.answered is not None


class Violation(Exception):
    """An invariant does not hold; the text begins with its name."""


class Watch:
    """What was seen so far, and the checks on it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.effects = EffectWatch(world, self.fail)
        self.replays = ReplayWatch(world, self.fail)
        self.bounds = BoundWatch(world, self.fail)
        self.heals = HealWatch(world, self.fail)
        self._strict = not world.plan.loses
        self._not_taken: set[str] = set()
        self._began: dict[str, tuple[str, str, bool]] = {}
        """The tool, the code and the mark that each call began with."""
        self._entered: dict[tuple[str, int], int] = {}
        self._entries: dict[str, int] = {}
        self._owners: dict[tuple[str, int], tuple[str, str]] = {}
        self._parked: set[tuple[str, int, str]] = set()
        self._asked: dict[tuple[str, int], object] = {}
        self._outcomes: dict[str, set[str]] = {}
        self._given: dict[str, str] = {}
        self._fixed: dict[tuple[str, int], Answered] = {}
        self._known: set[str] = set()
        self._loose: set[str] = set()
        self._early: set[str] = set()
        """Calls that ended while they were parked: a retry hears their last round, whatever it answers."""
        self._stopped: set[str] = set()

    def holds(self, call: str, name: str) -> bool:
        """Whether this invariant is promised of a call: the store has lost nothing, and nobody has changed something of
        the call that takes the promise away."""
        return self._strict and self._world.adversary.leaves(call, name)

    def fail(self, name: str, text: str) -> None:
        """Stop the schedule."""
        raise Violation(f"{name}: {text}")

    # ---- what the world reports

    def applied(
        self, request: Request, before: Stored | None, after: Stored | None, reply: Reply, attempt: Attempt | None
    ) -> None:
        """A script ran."""
        self.i2_refused_leaves_nothing(request, before, after, reply)
        self.bounds.applied(request, before, after, reply)
        self.heals.nobody_is_missed_too_early(request, before, reply)
        if after is None or after is before:
            return
        self._known.add(request.call)
        self.heals.written(request.call, after.record)
        self.i2_monotone(request.call, before, after)
        self.i1_one_owner_per_epoch(request.call, after.record)
        if after.record.state not in (RecordState.DONE, RecordState.LOST):
            self._parked.add((request.call, after.record.round, after.record.history))
        if after.record.state is RecordState.DONE:
            text = after.record.outcome.split(b":", 1)[1].decode()
            self._outcomes.setdefault(request.call, set()).add(text)
            if after.record.ending == CANCELLED:
                self._stopped.add(request.call)
            elif after.record.ending != ended(text):
                self.fail("stored", f"{request.call} ended with {text}, and its record says {after.record.ending}")
        self.effects.applied(request, attempt)
        if attempt is not None and reply.verdict is Verdict.OK and _carries_answers(attempt.write):
            self.i4_answers_fixed(request.call, attempt.believed)

    def entered(self, slot: Slot, epoch: int, frame: int, entries: tuple[Entry, ...]) -> None:
        """A handler is entered."""
        call, reentrant = slot.call.id, slot.call.reentrant
        self._world.counts["entries"] += 1
        self._entries[call] = self._entries.get(call, 0) + 1
        self.i6_nothing_was_started(call)
        if not reentrant and self._entries[call] > 1:
            self.fail("I6 no-hidden-re-entry", f"{call} is not re-entrant and is entered {self._entries[call]} times")
        if self.holds(call, "I5") and call in self._stopped:
            self.fail("I6 no-hidden-re-entry", f"{call} was ended by an operator and is entered again")
        self.i10_as_the_token_allows(slot, entries)
        self.i1_single_owner(call, epoch, frame)

    def replaced(self, process: Process) -> None:
        """A process ends, since it finds another one under its name: then another one has written its lease since this
        one began."""
        store = self._world.store
        last, at = store.last[process.name]
        if store.was_set_back and store.nodes.get(process.name) not in (None, last):
            # Somebody has written a lease of a former life again: by the store's clock it may end later than any since.
            return
        if last.boot == process.boot or at <= process.began:
            self.fail("lease", f"{process.boot} ends, and no other process has its name")

    def registers_over(self, wanted: NodeRecord, stands: NodeRecord) -> None:
        """A process writes its lease over one that stands there. It is not that of a process that came later, as that
        one has written it: two would take turns under one name. Where the store's clock was set back meanwhile, a later
        lease may end as early as one of a former life (docs/protocol.md, rule 4)."""
        store = self._world.store
        if store.was_set_back:
            return
        last, at = store.last[wanted.node]
        if stands == last and last.boot != wanted.boot and at > store.first.get(wanted.boot, at) + TTL:
            self.fail("lease", f"{wanted.boot} registers over {last.boot}, which came later")

    def not_taken(self, call: str) -> None:
        """A node says that it did not take a first request: its router sends it elsewhere."""
        self._not_taken.add(call)
        self._world.counts["said not-taken"] += 1
        self.i6_nothing_was_started(call)

    def i6_nothing_was_started(self, call: str) -> None:
        """No handler is entered of a call that a node did not take, before or after it said so (rule 9)."""
        if call in self._not_taken and call in self._entries:
            self.fail("I6 no-hidden-re-entry", f"a node says that {call} was not taken, and its handler is entered")

    def goes_on(self, slot: Slot) -> None:
        """A handler asks, has an effect or ends: what it learned is about to show."""
        self.replays.goes_on(slot)

    def replied(self, slot: Slot, event: object, answer: Questions | Outcome, text: object, ungated: bool) -> None:
        """A reply leaves a node. `text` is what the client will read."""
        if isinstance(answer, Questions):
            self.i3_questions_gated(slot, answer)
        else:
            self.i3_outcome_gated(slot, str(text), ungated)
        if not self.holds(slot.call.id, "I4"):
            return
        if isinstance(answer, Questions):
            first = self._asked.setdefault((slot.call.id, answer.round), text)
            if first != text:
                self.fail("I4 one-resume", f"round {answer.round} of {slot.call.id} asks two different things")
        elif slot.call.id not in self._loose:
            first = self._given.setdefault(slot.call.id, str(text))
            if first != text:
                self.fail("I4 one-resume", f"{slot.call.id} has two outcomes, {first} and {text}")
        if isinstance(event, Retry) and not (isinstance(answer, Questions) and answer.round <= event.round):
            self.i4_same_answers(slot, event)

    # ---- the invariants

    def i10_as_the_token_allows(self, slot: Slot, entries: tuple[Entry, ...]) -> None:
        """No handler is entered that its token and mark do not allow: again only one that is marked, by the code that
        its call began with or by the present code of the same tool, and with what nodes have written for this call."""
        call, process = slot.call, slot.process
        tool, code, marked = self._began.setdefault(call.id, (slot.tool, slot.program, call.reentrant))
        if call.phase is not Phase.REBUILDING:
            return
        if slot.tool != tool or slot.program not in (code, process.code_of(tool)):
            self.fail("I10 allowed", f"{call.id} of [{tool}] began with [{code}] and enters [{slot.program}]")
        if not marked:
            self.fail("I10 allowed", f"{call.id} is not marked and is entered again")
        forged = [item for item in entries if not self._world.seals.wrote_entry(call.id, item)]
        if forged:
            self.fail("I10 allowed", f"{call.id} is entered with entry {forged[0].n}, which no node has written")

    def i1_single_owner(self, call: str, epoch: int, frame: int) -> None:
        """Per (call, epoch) at most one frame."""
        if self.holds(call, "I1") and self._entered.setdefault((call, epoch), frame) != frame:
            self.fail("I1 single-owner", f"two frames of {call} have epoch {epoch}")

    def i1_one_owner_per_epoch(self, call: str, record: Record) -> None:
        """Per (call, epoch) one owner and one incarnation ever stand in the store."""
        if self.holds(call, "I1") and record.owner:
            who = (record.owner, record.incarnation)
            if self._owners.setdefault((call, record.epoch), who) != who:
                self.fail("I1 single-owner", f"epoch {record.epoch} of {call} belongs to two incarnations")

    def i1_runs_as_recorded(self, slot: Slot) -> None:
        """An effect is let go only under an owner, incarnation and epoch that have stood in the store together. Nobody
        else can know of a call that has nothing stored."""
        call = slot.call
        if (
            self.holds(call.id, "I1")
            and call.position
            and self._owners.get((call.id, call.epoch)) != (call.owner, call.incarnation)
        ):
            self.fail(
                "I1 single-owner", f"{call.id} goes on at epoch {call.epoch} as {call.incarnation}, which it is not"
            )

    def i2_refused_leaves_nothing(
        self, request: Request, before: Stored | None, after: Stored | None, reply: Reply
    ) -> None:
        """A refused write leaves the record identical."""
        if reply.verdict not in APPLIED and before is not None and after != before:
            self.fail("I2 monotone", f"{type(request).__name__} was refused ({reply.verdict}) and left a trace")

    def i2_monotone(self, call: str, before: Stored | None, after: Stored) -> None:
        """Epoch, round and position never move backward; the journal only grows, and is what its hash says; a round
        keeps its answers. Where a store that was replaced acknowledged one history and the new one another, the heal
        of the later epoch wins: its round, its journal, its answers."""
        strict = self.holds(call, "I2")
        if not strict and before is None:
            return
        new = after.record
        if before is not None:
            old = before.record
            healed = not strict and new.epoch > old.epoch
            forward = new.epoch >= old.epoch and (healed or (new.round >= old.round and new.position >= old.position))
            if not forward:
                self.fail("I2 monotone", f"{call} went back")
            if old.state in (RecordState.DONE, RecordState.LOST):
                self.fail("I2 monotone", f"{call} was {old.state} and is {new.state}")
            kept = all(new.answers.get(round_) == item for round_, item in old.answers.items())
            if not (kept or healed) and self._world.adversary.leaves(call, "I4"):
                self.fail("I4 one-resume", f"{call} has other answers recorded than it had")
        if new.state not in (RecordState.DONE, RecordState.LOST) and self._world.adversary.leaves(call, "I2"):
            self._i2_journal(call, before, after)

    def _i2_journal(self, call: str, before: Stored | None, after: Stored) -> None:
        start = len(before.journal) if before else 0
        if after.record.position != len(after.journal):
            self.fail("I2 monotone", f"{call} says {after.record.position} entries and has {len(after.journal)}")
        if before and self.holds(call, "I2") and after.journal[:start] != before.journal:
            self.fail("I2 monotone", f"the journal of {call} was rewritten")
        try:
            entries = [journal.decode(raw, n) for n, raw in enumerate(after.journal)]
        except JournalError as error:
            self.fail("I2 monotone", f"the journal of {call} has a gap: {error}")
        self.i4_answers_are_there(call, after.record.answers.values(), entries)

    def i3_questions_gated(self, slot: Slot, answer: Questions) -> None:
        """No question leaves before the store holds its commit."""
        if (slot.call.id, answer.round, answer.round_history) not in self._parked:
            self.fail("I3 output-gate", f"questions of round {answer.round} of {slot.call.id} leave uncommitted")

    def i3_asked_by_the_owner(self, slot: Slot) -> None:
        """No question is asked again by a frame whose call another process has taken over. Where a lease may run out
        early, an open window proves nothing."""
        stored, call = self._world.store.calls.get(slot.call.id), slot.call
        if (
            not self.holds(call.id, "I1")
            or self._world.plan.rushes
            or stored is None
            or stored.record.epoch <= call.epoch
        ):
            return
        if stored.record.owner != call.owner or stored.record.head.boot != slot.process.boot:
            self.fail("I3 output-gate", f"{call.id} asks again at epoch {call.epoch}, but is another's by now")

    def i3_outcome_gated(self, slot: Slot, text: str, ungated: bool) -> None:
        """No outcome leaves before the store holds it, but for rule 1's exception."""
        call = slot.call.id
        if text in self._outcomes.get(call, ()) or (call not in self._known and not slot.written):
            return
        if not ungated:
            self.fail("I3 output-gate", f"the outcome of {call} leaves uncommitted")
        self.effects.outcome_leaves(slot)
        process = slot.process
        if process.now() >= process.lease.until:
            self.fail("I3 output-gate", f"the outcome of {call} leaves ungated while the window is shut")
        self._world.counts["ungated"] += 1
        self._loose.add(call)

    def i4_answers_fixed(self, call: str, believed: Iterable[Answered]) -> None:
        """Per call and round one digest of answers is behind everything that commits."""
        for item in believed:
            if self.holds(call, "I4") and self._fixed.setdefault((call, item.round), item) != item:
                self.fail("I4 one-resume", f"round {item.round} of {call} was resumed with other answers")

    def i4_answers_are_there(self, call: str, answers: Iterable[Answered], entries: Iterable[Entry]) -> None:
        """What a record says of a round's answers is what its journal has: whoever replays it hears these."""
        given = [item for item in entries if item.kind is EntryKind.ANSWER]
        for answered in answers:
            result = (Answer(item.key, item.fp, item.value) for item in given if item.round == answered.round)
            if retry.digest(result) != answered.digest:
                self.fail("I4 one-resume", f"round {answered.round} of {call} has answers that its journal has not")

    def fenced_by_another(self, request: Request, reply: Reply) -> None:
        """A live frame is fenced only where another has the call: no write of its own gets in its way (rule 20)."""
        if (
            not self.holds(request.call, "rule 20")
            or reply.verdict is not Verdict.FENCED
            or reply.stored is None
            or isinstance(request, UNFENCED)
        ):
            return
        record, fence = reply.stored.record, request.fence
        mine = (record.owner, record.incarnation, record.epoch) == (fence.owner, fence.incarnation, fence.epoch)
        if mine and record.state is RecordState.OPEN:
            self.fail("rule 20", f"a frame of {request.call} is fenced by a write of its own")

    def i4_same_answers(self, slot: Slot, event: Retry) -> None:
        """Whoever is told how a round went on had sent the answers that it went on with."""
        fixed = self._fixed.get((slot.call.id, event.round))
        if fixed is None:
            if slot.call.id in self._known and slot.call.id not in self._loose | self._early:
                self.fail("I4 one-resume", f"round {event.round} of {slot.call.id} went on with no answers recorded")
            return
        if retry.digest(retry.usable(event.answers, fixed.keys)) != fixed.digest:
            self.fail("I4 one-resume", f"round {event.round} of {slot.call.id} answers a retry with other answers")

    def nobody_forgotten(self, was: Call, event: Event, call: Call, effects: tuple[Effect, ...]) -> None:
        """Whoever waited still waits, or is answered or relayed in this step, or has left."""
        unheard = call.ended is not None and call.phase in (Phase.PARKED, Phase.VERIFYING)
        if unheard or (isinstance(event, Stop) and call is not was):
            self._early.add(call.id)
        before = {item.waiter for item in (*was.waiting, *was.undecided)}
        if isinstance(event, Start | Retry):
            before.add(event.waiter)
        elif isinstance(event, Left):
            before.discard(event.waiter)
        before -= {item.waiter for item in (*call.waiting, *call.undecided)}
        if before and before - {effect.waiter for effect in effects if isinstance(effect, Respond | Relay)}:
            self.fail("waiters", f"{type(event).__name__} at {was.phase.name} forgets a request of {was.id}")

    def shielded(self, slot: Slot, frame: Frame, cause: str) -> None:
        """Nobody's leaving, no limit and no lack of memory takes a frame away in the middle of an effect (rule 8)."""
        cut = self.effects.unrecorded(slot.call.id, frame.running)
        if (
            self.holds(slot.call.id, "I5")
            and cut
            and cause in ("left", "overran", "evicted", "rehearsed", "released", "stopped", "expired")
        ):
            self.fail("shield", f"{slot.call.id} is dropped ({cause}) while an effect runs")

    def finally_(self, clients: list[Client]) -> None:
        """I7 no-loss: with all faults healed, whoever retries learns how the call ended."""
        # Changed code kills its node in round 1: nobody was asked anything, and each call is another.
        killers = [one for one in clients if not one.ended and not one.tokens and "x" in one.intent.program]
        for client in clients:
            self._world.counts[f"ended {client.ended or 'never'}"] += 1
            if not client.ended and killers:
                # Its nodes die before they have answered anybody.
                continue
            if not client.ended:
                self.fail("I7 no-loss", f"the client of {client.call} never learns how it ended")
            if client.ended == "outcome":
                self.replays.finished(client.call)
            fine = {"outcome", *(["expired"] if self._world.plan.token_ttl < LONG else [])} | (
                {"diverged"} if self._may_diverge(client) else set()
            )
            # A token may outlive its record if it was made by a process that stood still for too long.
            fine |= {"forgotten"} if "expired" in fine and self._world.plan.stalls > MAX_ROUND + SKEW else set()
            # Only what kills its nodes is stuck, and what met changed code again and again (rule 15).
            fine |= (
                {"stuck"} if killers or "x" in client.intent.program or client.call in self.replays.gave_up else set()
            )
            promised = self.holds(client.call, "I7") and client.intent.reentrant
            if (promised or self.heals.promised(client.call, client.intent.reentrant)) and client.ended not in fine:
                self.fail("I7 no-loss", f"{client.call} may go on and ends {client.ended}")

    def _may_diverge(self, client: Client) -> bool:
        """Whether a call need not find the code that wrote to it: I7 promises nothing then."""
        intent = client.intent
        if self._world.plan.keeps_code and intent.reentrant:
            return is_fragile(self.replays.first_code(client.call, intent.program))
        old = self.replays.only_knows(client.call, intent.program)
        return is_fragile(intent.program) or self._world.plan.changed_for_good or not old
