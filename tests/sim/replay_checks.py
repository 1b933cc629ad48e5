"""Replay and divergence, as the world can see them: a handler that goes on has come to all that was recorded.

None of this asks the cursor: a frame notes for itself what it came to and what it knows, and is held to the entries
that it was rebuilt from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from framehold_core import lease
from framehold_core.call import Phase
from framehold_core.events import MayClaim
from framehold_core.ids import NodeId
from framehold_core.journal import Entry, EntryKind
from framehold_core.requests import Evidence, Record
from framehold_core.value import replace

from .changes import digest
from .handlers import opened

if TYPE_CHECKING:
    from framehold_core.call import Call
    from framehold_core.lease import NodeRecord

    from .handlers import Frame
    from .scripts import Slot
    from .world import World

Fail = Callable[[str, str], None]


class ReplayWatch:
    """What is known of rebuilt frames. `fail` stops the schedule."""

    def __init__(self, world: World, fail: Fail) -> None:
        self._world = world
        self._fail = fail
        self._wrote: dict[str, set[str]] = {}
        self.gave_up: set[str] = set()
        """Calls that met code which had not written them, and diverged."""

    def only_knows(self, call: str, program: str) -> bool:
        """Whether nothing but this code has written to a call."""
        return self._wrote.get(call, set()) <= {program}

    def first_code(self, call: str, program: str) -> str:
        """The code that a call began with, where it is kept: a changed one, or `program` if nothing has written yet."""
        return next(iter(self._wrote.get(call, ())), program)

    def diverged(self, slot: Slot, was: Call) -> None:
        """A replay was given up."""
        if not self.only_knows(was.id, slot.program):
            self._world.counts["divergences"] += 1
            self.gave_up.add(was.id)
        self.divergence_leaves_the_record(slot, was)

    def finished(self, call: str) -> None:
        """A client heard the outcome of a call."""
        self._world.counts["finished after a divergence"] += call in self.gave_up

    def goes_on(self, slot: Slot) -> None:
        """A rebuilt handler asks, has an effect or ends."""
        frame = slot.frame
        self.one_code_writes(slot)
        self._wrote.setdefault(slot.call.id, set()).add(slot.program)
        for item in frame.entries if frame is not None else ():
            assert frame is not None
            self.divergence_is_noticed(slot.call.id, frame, item)
            self.i4_goes_on_with_what_is_recorded(slot.call.id, frame, item)

    # ---- the invariants

    def one_code_writes(self, slot: Slot) -> None:
        """Where code is kept, the code that began a marked call carries it on (docs/protocol.md, rule 28)."""
        if not self._world.plan.keeps_code or not slot.call.reentrant:
            return
        if not self._world.adversary.leaves(slot.call.id, "rule 28"):
            return
        stored = self._world.store.calls.get(slot.call.id)
        present = digest(slot.program)
        named = present if stored is None else stored.record.head.code
        if named != present or not self.only_knows(slot.call.id, slot.program):
            self._fail("rule 28", f"{slot.call.id} is carried on by other code than it began with")

    def the_very_code_first(
        self, slot: Slot, record: Record, leases: Mapping[NodeId, NodeRecord], judged: MayClaim
    ) -> None:
        """No node claims a call of other code than its own, which nobody runs, while a live one serves the very code
        and no request that waits was passed on before (docs/protocol.md, rule 28)."""
        process, code = slot.process, record.head.code
        if not judged.died and judged.evidence is not Evidence.RELEASED:
            return
        if not record.head.reentrant or code == digest(slot.program) or record.is_over:
            return
        live = (name for name, item in leases.items() if name != process.name and item.state == lease.LIVE)
        other = next((name for name in live if leases[name].serves(code)), None)
        if other is not None and process.may_offer(slot):
            self._fail("rule 28", f"{slot.call.id} is taken by {process.name}, and {other} serves its very code")

    def a_claim_enters_its_own_code(self, slot: Slot, record: Record) -> None:
        """A call that is claimed is entered by the code that it began with, where the fleet keeps that
        (docs/protocol.md, rule 28)."""
        code = record.head.code
        if slot.call.phase is not Phase.CLAIMING or not record.head.reentrant or code not in self._world.kept:
            return
        if code != digest(slot.program) and self._world.adversary.leaves(slot.call.id, "rule 28"):
            self._fail("rule 28", f"{slot.call.id} is claimed with other code than it began with, which is kept")

    def divergence_is_noticed(self, call: str, frame: Frame, item: Entry) -> None:
        """No handler goes on that did not come to each recorded ask, effect and value, as it was."""
        if item.kind in (EntryKind.ANSWER, EntryKind.RESULT) or (
            not item.value and call in self._world.adversary.touched
        ):
            # The adversary made up a question or an intent: one that the handler comes to anyway changes nothing.
            return
        met = frame.came.get((EntryKind.INTENT if item.kind is EntryKind.EFFECT else item.kind, item.key))
        if met != item.fp:
            how = "never came to" if met is None else "came otherwise to"
            self._fail(
                "divergence", f"{call} goes on although its handler {how} {item.kind} {item.key} of entry {item.n}"
            )

    def i4_goes_on_with_what_is_recorded(self, call: str, frame: Frame, item: Entry) -> None:
        """A rebuilt handler hears the recorded answers and values and no others. An ask that it no longer waited for is
        decided by a timer, which is not recorded."""
        if item.kind not in (EntryKind.ANSWER, EntryKind.VALUE) or item.key[0] == "t":
            return
        reply = frame.known.get(item.key)
        if reply is not None and reply != opened(item.value):
            self._fail("I4 one-resume", f"{call} goes on with {reply} for {item.key}; recorded is {opened(item.value)}")

    def divergence_leaves_the_record(self, slot: Slot, was: Call) -> None:
        """A frame that diverged has written nothing: the record is as the claim left it, no answer was taken. Where
        somebody has written the record meanwhile, the journal alone is."""
        stored = self._world.store.calls.get(was.id)
        if stored is None or slot.claimed is None or stored.record.epoch != was.epoch:
            return
        if not self._world.watch.holds(was.id, "I2"):
            return
        if was.id in self._world.adversary.touched:
            stored = replace(stored, record=slot.claimed.record)
        if stored != slot.claimed:
            self._fail("divergence", f"{was.id} diverged at epoch {was.epoch} and left a trace")
