"""What the users of a drill saw is judged as docs/guarantees.md has it: by the ledger, and by nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fleet.ledger import Ledger
from tests.kube.drills.judged import EFFECTS, Facts, Wanted, judge
from tests.kube.drills.users import ENDED, FAILED, MARKED, REPORTED, UNBORN, UNMARKED, User

DEAD = "node-1"
UNDUE = "1 effects were left in doubt though the process of their call did not die"
ALL = range(EFFECTS)


def user(column: str, outcome: str, wait: float = 0.1, why: str = "", node: str = "node-0") -> User:
    made = User(column, "http://127.0.0.1/mcp", name="ann", nodes={node})
    made.outcome, made.why, made.waits = outcome, why, [wait]
    return made


def judged(folder: Path, users: Sequence[User], wanted: Wanted, *ledger: str, visits: Sequence[User] = ()) -> Facts:
    (folder / "ledger").write_text("".join(f"{line}\n" for line in ledger))
    return judge("trial", 1.0, 1, users, visits, Ledger(folder / "ledger"), wanted)


def ran(*keys: int) -> list[str]:
    """The lines of the ledger of a call that had these effects."""
    return [f"ann effect key{key} 1" for key in keys]


CASES: dict[str, tuple[list[User], Wanted, list[str], list[str]]] = {
    "a marked call ended": ([user(MARKED, ENDED, 1.5)], Wanted(wait=2.0, reported=False), ran(*ALL), []),
    "nobody was parked": ([], Wanted(), [], ["no call was parked"]),
    "a call failed": (
        [user(MARKED, FAILED, why="gone")],
        Wanted(),
        [],
        ["1 marked calls did not end", "1 calls failed, the first: ann, asked last by , after 1 answers: gone"],
    ),
    "a call stood still": (
        [user(MARKED, ENDED, 9.0)],
        Wanted(wait=7.0),
        ran(*ALL),
        ["a marked call stood still for 9.0 s"],
    ),
    "an unmarked call was lost where none may": (
        [user(UNMARKED, REPORTED)],
        Wanted(reported=False),
        [],
        ["1 unmarked calls were lost"],
    ),
    "an unmarked call was lost, and its user told": ([user(UNMARKED, REPORTED)], Wanted(), [], []),
    "an effect ran twice": (
        [user(MARKED, ENDED)],
        Wanted(),
        [*ran(*ALL), "ann effect key0 2"],
        ["1 effects ran twice"],
    ),
    "effects are missing": (
        [user(MARKED, ENDED)],
        Wanted(),
        ran(0),
        [f"{EFFECTS - 1} effects of ended calls are missing"],
    ),
    "a doubt where the process died": (
        [user(MARKED, ENDED, node=DEAD)],
        Wanted(died=DEAD),
        [*ran(*ALL[1:]), "ann doubt key0 2"],
        [],
    ),
    "a doubt where no process died": ([user(MARKED, ENDED)], Wanted(), [*ran(*ALL[1:]), "ann doubt key0 2"], [UNDUE]),
    "a doubt where another process died": (
        [user(MARKED, ENDED)],
        Wanted(died=DEAD),
        [*ran(*ALL[1:]), "ann doubt key0 2"],
        [UNDUE],
    ),
    "a doubt of another effect": (
        [user(MARKED, ENDED, node=DEAD)],
        Wanted(died=DEAD),
        [*ran(*ALL[1:]), "ann doubt key1 2"],
        ["1 effects of ended calls are missing"],
    ),
    "a doubt of a call that nobody began": (
        [user(MARKED, ENDED)],
        Wanted(died=DEAD),
        [*ran(*ALL), "nobody doubt key0 1"],
        [UNDUE],
    ),
    "an unmarked handler was entered twice": (
        [user(UNMARKED, REPORTED)],
        Wanted(),
        ["ann entered errand 1", "ann entered errand 2"],
        ["1 unmarked handlers were entered twice"],
    ),
}


@pytest.mark.parametrize(("users", "wanted", "ledger", "faults"), CASES.values(), ids=CASES)
def test_what_is_not_promised_to_happen_is_a_fault(
    tmp_path: Path, users: list[User], wanted: Wanted, ledger: list[str], faults: list[str]
) -> None:
    assert judged(tmp_path, users, wanted, *ledger).faults == faults


def test_a_visitor_may_be_turned_away_only_where_a_drill_allows_it(tmp_path: Path) -> None:
    parked, turned_away = [user(MARKED, ENDED)], [user(MARKED, UNBORN, why="503")]
    assert judged(tmp_path, parked, Wanted(), *ran(*ALL), visits=turned_away).passed
    refused = judged(tmp_path, parked, Wanted(refused=False), *ran(*ALL), visits=turned_away)
    assert refused.faults == ["1 first requests failed, such as: 503"]
