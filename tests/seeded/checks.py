"""What must hold in each schedule: the invariants of docs/protocol.md, as far as they can be seen here.

A schedule whose store loses acknowledged writes is held to I3 and I6, and to an end in words for each client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framehold.engine.replies import Ended, Parked
from framehold_core import effects as fx
from framehold_core.ids import CallId
from framehold_core.requests import Record, RecordState
from framehold_core.writes import once_digest

from .handlers import DOUBT, expected

SOON = 2.5
"""Seconds in which a node must have done what it can: a message is given up after one, and half a second later at most
a heartbeat tells that the store answers."""
_LOST = (fx.Reason.LOST, fx.Reason.STUCK)
_FINAL = (*_LOST, fx.Reason.FORGOTTEN, fx.Reason.DIVERGED, fx.Reason.ALREADY_ANSWERED)


class Violation(Exception):
    """Something does not hold."""


class Watch:
    """What was seen of a schedule so far. `loses` says whether its store loses acknowledged writes, `early` whether
    leases end early: then two owners may overlap (docs/protocol.md, rule 5)."""

    def __init__(self, loses: bool, early: bool) -> None:
        self._strict, self._alone = not loses, not (loses or early)
        self.wrong: list[Violation] = []
        """What did not hold, as it was seen within a process."""
        self.ungated: set[CallId] = set()
        """Calls whose outcome has left while the store did not take it."""
        self.moved = 0
        """How often a call was claimed, or verified."""
        self.deaths = 0
        """How many processes have ended."""
        self._owners: dict[tuple[CallId, int], tuple[str, str]] = {}
        self._asked: dict[tuple[CallId, int], tuple[str, ...]] = {}
        self._given: dict[tuple[CallId, str], Any] = {}
        self._told: dict[tuple[CallId, int, int], float] = {}
        self._outcomes: dict[CallId, str] = {}
        self._arguments: dict[tuple[str, str], str] = {}
        self._releases: dict[str, str] = {}
        self._diverge: set[str] = set()
        """Calls whose code was lost: the present code was tried."""

    def _hold(self, holds: bool, text: str) -> None:
        if not holds:
            self.wrong.append(Violation(text))

    def applied(self, call: CallId, request: str, old: Record | None, new: Record) -> None:
        """The store has applied a request, named `request`, and has `new` in place of `old`: I1 and I2."""
        if not self._strict:
            return
        self.moved += old is not None and old.epoch != new.epoch
        if new.owner:
            who = new.owner, new.incarnation
            same = self._owners.setdefault((call, new.epoch), who) == who
            self._hold(same, f"I1: epoch {new.epoch} of {call[:4]} has two owners")
        if old is not None:
            forward = new.epoch >= old.epoch and new.round >= old.round and new.position >= old.position
            self._hold(forward and not old.is_over, f"I2: {call[:4]} went back by {request}")

    def replied(self, call: CallId, found: Any, record: Record | None) -> None:
        """A request of a call gets its reply, while the store has `record`: I3 and I4."""
        if isinstance(found, Parked):
            asked = tuple(sorted(f"{wire['asks']} after {wire['after']}" for wire in found.questions.values()))
            if self._strict:
                same = self._asked.setdefault((call, found.at.round), asked) == asked
                self._hold(same, f"I4: round {found.at.round} of {call[:4]} asks {asked}, and asked something else")
                kept = record is not None and record.round >= found.at.round and record.position >= found.at.position
                self._hold(kept, f"I3: round {found.at.round} of {call[:4]} asks {asked} before it is stored")
        elif isinstance(found, Ended) and self._strict and call not in self.ungated:
            outcome = str(found.outcome)
            self._hold(self._outcomes.setdefault(call, outcome) == outcome, f"I4: {call[:4]} has two outcomes")
            done = record is not None and record.state is RecordState.DONE
            self._hold(done, f"I3: {outcome} of {call[:4]} leaves before it is stored")

    def released(self, name: str, release: str, kept: bool) -> None:
        """A handler is entered by a release; the store has what it began with if `kept`: I10."""
        if self._releases.setdefault(name, release) != release:
            self._diverge.add(name)
            self._hold(not kept or not self._strict, f"I10: {name} goes on by the {release} release")

    def answers(
        self,
        owner: str,
        call: CallId,
        given: Mapping[str, Any],
        found: Any,
        record: Record | None,
        now: float,
        ungated: bool = False,
    ) -> None:
        """A node decides on the reply to a request: it asks again only what is its own, and requests that go on have
        the same answers. All who wait for a round are asked in the step in which it is stored: that is not again.

        The first write fixes a round's answers, and no write is behind a reply that leaves `ungated`: it fixes none
        (docs/protocol.md, rules 1 and 2). Nor does it contradict those that are fixed, while its window is its own."""
        if self._strict and isinstance(found, Parked | Ended) and (self._alone or not ungated):
            asked = found.questions if isinstance(found, Parked) else {}
            fixed = self._given.get if ungated else self._given.setdefault
            same = all(fixed((call, key), given[key]) == given[key] for key in given.keys() - asked)
            self._hold(same, f"I4: {call[:4]} goes on with other answers than it had: {given}")
        if isinstance(found, Parked) and self._alone and record is not None:
            round_ = call, found.at.round, found.at.epoch
            again = self._told.setdefault(round_, now) != now
            own = record.owner in ("", owner) or not again
            self._hold(own, f"I3: {owner} asks round {found.at.round} of {call[:4]} again, which is {record.owner}'s")

    def entered(self, name: str, again: bool, times: int) -> None:
        """A handler is entered for the `times`th time; `again`: it may be more than once: I6."""
        self._hold(again or times == 1, f"I6: {name} is not marked, and is entered {times} times")

    def begins(self, name: str, atom: str, owner: str, record: Record | None) -> None:
        """An effect begins at a node, while the store has `record`: the call is that node's."""
        if self._alone:
            own = record is None or record.owner in ("", owner)
            self._hold(
                own, f"I1: effect {atom} of {name} begins at {owner}, and the call is {record and record.owner}'s"
            )

    def recorded(self, name: str, atom: str, heard: bool, record: Record | None) -> None:
        """An effect begins, while the store has `record`: it has the answers that the handler has `heard` (rule 2), and
        no result of that effect (rule 13)."""
        known = record is not None and record.intents.get(once_digest(atom), False)
        self._hold(not (known and self._alone), f"I5: effect {atom} of {name} begins, and its result is recorded")
        if self._strict and heard and record is not None and not record.is_over:
            known = any(answered.round >= record.round for answered in record.answers.values())
            self._hold(known, f"I5: effect {atom} of {name} begins before the answers of round {record.round} are kept")

    def called(self, name: str, atom: str, learned: str) -> None:
        """An effect begins with what its handler had `learned`. Where it begins again, it is with the same: I5."""
        same = self._arguments.setdefault((name, atom), learned) == learned
        self._hold(same or not self._strict, f"I5: effect {atom} of {name} begins again, with {learned}")

    def overdue(self, owner: str, undisturbed: float, left: list[str]) -> None:
        """A process that was `undisturbed` for so many seconds, as was its store, has `left` this undone."""
        if left and undisturbed > SOON:
            self._hold(False, f"I7: {owner} leaves {', '.join(left)} undone, undisturbed for {undisturbed:.1f} s")

    def effects(self, began: dict[tuple[str, str], int]) -> None:
        """How often each effect of a held call has begun: I5."""
        for (name, atom), times in began.items():
            if self._strict and atom[0] in "oet" and times > 1:
                raise Violation(f"I5: effect {atom} of {name} ran {times} times")

    def ended(self, name: str, program: str, outcome: str) -> None:
        """A client hears the outcome of its call: the one that its program comes to."""
        wanted, heard = expected(name, program), outcome.split("|")
        if DOUBT in heard and self._strict and not (self.deaths or self.moved):
            raise Violation(f"I5: {name} is in doubt, and its process has not ended, nor lost the call")
        if len(wanted) != len(heard) or any(told not in fits for fits, told in zip(wanted, heard, strict=True)):
            raise Violation(f"I7: {name} ended with {outcome}, and comes to {wanted}")

    def refused(self, name: str, marked: bool, most: int, found: fx.Refusal) -> None:
        """A client hears that its call is over. Only one that is not marked may be lost, or one that is stuck: at least
        `most` processes have ended."""
        stuck = found.reason is fx.Reason.STUCK and self.deaths >= most
        lost = not marked and found.reason in _LOST
        diverged = name in self._diverge and found.reason is fx.Reason.DIVERGED
        if not (stuck or lost or diverged or (not self._strict and found.reason in _FINAL)):
            raise Violation(f"I7: {name} is refused: {found.reason.value} {found.detail}")
