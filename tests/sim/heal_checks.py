"""A store that went back is healed by the frames that live, as the world can see it (docs/protocol.md, rule 7).

Held only where nothing breaks but the store (`Plan.restores`): there each frame that lived when the store went back is
a whole copy of its call, and no call that has one is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from framehold_core.call import Phase
from framehold_core.requests import Claim, Evidence, Heal, Record, RecordState, Reply, Request, Stored, Verdict

from .weather import HEALED

if TYPE_CHECKING:
    from .node import Process
    from .scripts import Slot
    from .world import World

Fail = Callable[[str, str], None]


class HealWatch:
    """What the store has lost, and who can restore it. `fail` stops the schedule."""

    def __init__(self, world: World, fail: Fail) -> None:
        self._world = world
        self._fail = fail
        self._lost: set[str] = set()
        """Calls that nobody can restore: they had no frame when the store went back, or lost it by a limit."""
        self._unnoticed: set[str] = set()
        """Calls whose node can't know that the store went back before it writes: the store lost less than was written
        since the node's last heartbeat."""
        self.known: set[str] = set()
        """Calls that the store has had a record of."""
        self._going: set[str] = set()
        """Those whose last write was their outcome or their release."""

    # ---- what the world reports

    def written(self, call: str, record: Record) -> None:
        """The store has changed the record of a call."""
        self.known.add(call)
        if record.state in (RecordState.DONE, RecordState.RELEASED):
            self._going.add(call)
        else:
            self._going.discard(call)

    def store_went_back(self) -> None:
        """The store has forgotten something."""
        plan, nodes = self._world.plan, self._world.store.nodes
        if not plan.restores:
            return
        # The acknowledgement of an outcome, or of a release, may be on its way: then the frame is about to go.
        copies = (slot for slot in self._slots() if slot.frame is not None and slot.call.id not in self._going)
        held = {slot.call.id for slot in copies if self._is_found(slot)}
        self._lost |= self.known - held
        self._unnoticed = {
            slot.call.id
            for slot in self._slots()
            if self._may_be_behind(slot) and not slot.process.member.notices(nodes.get(slot.process.name))
        }
        if any(fault.kind == "crash" for fault in plan.faults):
            self._lost |= self._unnoticed
        self._world.after(HEALED, self.healed_at_once)

    def dropped(self, slot: Slot, cause: str) -> None:
        """A frame goes."""
        if not slot.call.reentrant or (cause != "released" and self._is_behind(slot)):
            self._lost.add(slot.call.id)

    def cut_off(self, process: Process) -> None:
        """A node that drains has met its deadline: rounds that run end with it, and calls whose last write the store
        has not answered."""
        for slot in process.driver.slots.values():
            waits = slot.call.phase is not Phase.PARKED or slot.call.outbox.in_flight is not None
            if waits and self._is_behind(slot):
                self._lost.add(slot.call.id)

    def promised(self, call: str, reentrant: bool) -> bool:
        """Whether this call must complete, though the store went back or was silent."""
        plan = self._world.plan
        stays = reentrant or all(fault.target == "store" for fault in plan.faults)
        return plan.restores and stays and call not in self._lost

    # ---- the rules

    def nobody_is_missed_too_early(self, request: Request, before: Stored | None, reply: Reply) -> None:
        """No call is taken from a node that lives, only because the store was silent or lost its lease (rule 25). A
        process that began since has seen nothing of it."""
        plan, nodes = self._world.plan, self._world.nodes
        if not plan.restores or before is None or not isinstance(request, Claim):
            return
        troubles = [fault.at for fault in plan.faults if fault.target == "store"]
        if nodes[request.owner].began > min(troubles, default=0.0):
            return
        owner = nodes.get(before.record.owner)
        lives = owner is not None and owner.alive and owner.boot == before.record.head.boot
        if lives and request.evidence is Evidence.GONE and reply.verdict in (Verdict.OK, Verdict.LOST):
            self._fail("rule 25", f"{request.call} is taken from {before.record.owner}, which lives")

    def refused(self, request: Request, reply: Reply) -> None:
        """A store that went back shows the frame under the incarnation that it had then: that is no other owner."""
        if not isinstance(request, Heal) or reply.verdict is not Verdict.FENCED or reply.stored is None:
            return
        record, fence = reply.stored.record, request.fence
        is_own = record.head.boot == request.head.boot and (record.epoch, record.round) == (fence.epoch, fence.round)
        # Whoever writes the store may put the record back between the read and the heal.
        if is_own and record.state is RecordState.OPEN and request.call not in self._world.adversary.touched:
            self._fail("rule 7", f"a frame of {request.call} is fenced by what the store kept of itself")

    def healed_at_once(self) -> None:
        """A while after the store went back it has all that live frames were acknowledged, also of those that rest."""
        for slot in self._slots():
            rests = slot.call.phase in (Phase.PARKED, Phase.RUNNING) and slot.call.outbox.in_flight is None
            if slot.frame is not None and rests and self._is_behind(slot) and slot.call.id not in self._unnoticed:
                self._fail("heal", f"{slot.call.id} is not healed {HEALED:.1f} s after the store went back")

    def _slots(self) -> list[Slot]:
        return [
            slot for process in self._world.nodes.values() if process.alive for slot in process.driver.slots.values()
        ]

    def _is_found(self, slot: Slot) -> bool:
        """Whether the client's token leads to this frame without a record: it names this node, or there is none yet."""
        tokens = [client.tokens[-1] for client in self._world.clients if client.call == slot.call.id and client.tokens]
        return all(token.node == slot.process.name for token in tokens)

    def _is_behind(self, slot: Slot) -> bool:
        """Whether the store has less of a call than this frame was acknowledged: fewer entries, or an older claim."""
        stored = self._world.store.calls.get(slot.call.id)
        if stored is None:
            return bool(slot.log)
        return len(slot.log) > stored.record.position or slot.call.epoch > stored.record.epoch

    def _may_be_behind(self, slot: Slot) -> bool:
        """The same, also where the store may have lost a write whose acknowledgement is on its way."""
        return self._is_behind(slot) or slot.call.outbox.in_flight is not None
