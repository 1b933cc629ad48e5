"""What the users of a drill saw, as figures, and what of it docs/guarantees.md does not allow. Pure.

Law: a drill without evidence has failed. The ledger says what ran; no status and no text of a reply does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tests.fleet.ledger import Ledger
from tests.kube.drills.users import ENDED, FAILED, MARKED, REPORTED, UNBORN, UNMARKED, User

EFFECTS = 4
"""How many effects a call has that came to its end."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a drill may do to its users. `wait`: the longest that a marked call may stand still, in seconds; None where
    nothing is promised."""

    wait: float | None = None
    reported: bool = True
    """Whether unmarked calls may be lost, if their users get an error that says so."""
    refused: bool = True
    """Whether a first request, which nobody sends again, may come to nothing."""
    died: str = ""
    """The pod whose process the drill killed, if it killed one: the effects that ran there may be left in doubt."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A drill's figures. Seconds, and numbers of calls."""

    drill: str
    seconds: float
    parked: dict[str, int]
    """By column, how many calls were parked."""
    held: int
    """How many of these the part held that was struck."""
    ended: dict[str, int]
    reported: int
    failed: list[str]
    longest: dict[str, float]
    """By column, the longest wait of a parked call after its answer."""
    retried: int
    visits: int
    visits_ended: int
    visits_unborn: list[str]
    longest_visit: float
    twice: int
    """Effects that ran twice."""
    entered_again: int
    """Unmarked calls whose handlers were entered twice."""
    short: int
    """Effects that ended calls lack: they neither ran nor were left in doubt."""
    doubted: int
    """Effects that `once` did not run, because they may have run in a process that died."""
    undue: int
    """Those of them whose calls were at no process that the drill killed."""
    faults: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing happened that is not allowed."""
        return not self.faults


def judge(
    drill: str, seconds: float, held: int, users: Sequence[User], visits: Sequence[User], ledger: Ledger, wanted: Wanted
) -> Facts:
    """The figures, and what is wrong with them."""
    everybody = [*users, *visits]
    settled = ledger.settled()
    doubted = {(line.call, line.key) for line in ledger.lines(what="doubt")}
    struck = {user.name for user in everybody if wanted.died in user.nodes}
    unmarked = [user.name for user in everybody if user.column == UNMARKED]
    facts = Facts(
        drill=drill,
        seconds=seconds,
        parked={column: sum(user.column == column for user in users) for column in (MARKED, UNMARKED)},
        held=held,
        ended={
            column: sum(user.column == column and user.outcome == ENDED for user in users)
            for column in (MARKED, UNMARKED)
        },
        reported=sum(user.outcome == REPORTED for user in users),
        failed=[
            f"{user.name}, asked last by {user.node}, after {len(user.waits)} answers: {user.why}"
            for user in everybody
            if user.outcome == FAILED
        ],
        longest={column: _longest([user for user in users if user.column == column]) for column in (MARKED, UNMARKED)},
        retried=sum(user.retried for user in everybody),
        visits=len(visits),
        visits_ended=sum(user.outcome == ENDED for user in visits),
        visits_unborn=[user.why for user in visits if user.outcome == UNBORN],
        longest_visit=_longest(visits),
        twice=len(ledger.repeated()),
        entered_again=len(ledger.entered_again(unmarked)),
        short=sum(EFFECTS - len(settled[user.name]) for user in everybody if user.outcome == ENDED),
        doubted=len(doubted),
        undue=sum(call not in struck for call, _ in doubted),
    )
    facts.faults.extend(_faults(facts, wanted))
    return facts


def unfinished(drill: str, why: str) -> Facts:
    """A drill that has no figures, and has failed."""
    return replace(judge(drill, 0.0, 0, [], [], Ledger(Path(os.devnull)), Wanted()), faults=[why])


def _faults(facts: Facts, wanted: Wanted) -> list[str]:
    parked = facts.parked[MARKED]
    longest = facts.longest[MARKED]
    checks = {
        "no call was parked": parked + facts.parked[UNMARKED] == 0,
        f"{parked - facts.ended[MARKED]} marked calls did not end": facts.ended[MARKED] < parked,
        f"{len(facts.failed)} calls failed, the first: {''.join(facts.failed[:1])}": bool(facts.failed),
        f"{facts.reported} unmarked calls were lost": bool(facts.reported) and not wanted.reported,
        f"a marked call stood still for {longest:.1f} s": wanted.wait is not None and longest > wanted.wait,
        f"{len(facts.visits_unborn)} first requests failed, such as: {''.join(facts.visits_unborn[:1])}": bool(
            facts.visits_unborn
        )
        and not wanted.refused,
        f"{facts.twice} effects ran twice": facts.twice > 0,
        f"{facts.entered_again} unmarked handlers were entered twice": facts.entered_again > 0,
        f"{facts.short} effects of ended calls are missing": facts.short > 0,
        f"{facts.undue} effects were left in doubt though the process of their call did not die": facts.undue > 0,
    }
    return [what for what, is_so in checks.items() if is_so]


def _longest(users: Sequence[User]) -> float:
    return max((wait for user in users for wait in user.waits), default=0.0)


def as_json(facts: Facts) -> dict[str, object]:
    """The figures as they are kept."""
    return asdict(facts)
