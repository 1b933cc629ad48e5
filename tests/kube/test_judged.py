"""What the users of a drill saw is judged as docs/guarantees.md has it: by the ledger, and by nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fleet.ledger import Ledger
from tests.kube.drills.judged import EFFECTS, Facts, Wanted, judge
from tests.kube.drills.users import ENDED, FAILED, MARKED, REPORTED, UNBORN, UNMARKED, User

DEAD = "node-1"


def user(column: str, outcome: str, wait: float = 0.1, why: str = "", node: str = "node-0") -> User:
    made = User(column, "http://127.0.0.1/mcp", nodes={node})
    made.outcome, made.why, made.waits = outcome, why, [wait]
    return made


def judged(folder: Path, users: Sequence[User], wanted: Wanted, *more: str, visits: Sequence[User] = ()) -> Facts:
    """The verdict on users whose calls had their effects; `more`: lines of the ledger beside these."""
    lines = [f"{who.name} effect key{n} 1" for who in [*users, *visits] if who.outcome == ENDED for n in range(EFFECTS)]
    (folder / "ledger").write_text("".join(f"{line}\n" for line in [*lines, *more]))
    return judge("trial", 1.0, 1, users, visits, Ledger(folder / "ledger"), wanted)


def test_calls_that_all_end_pass(tmp_path: Path) -> None:
    facts = judged(tmp_path, [user(MARKED, ENDED, 1.5), user(UNMARKED, ENDED)], Wanted(wait=2.0, reported=False))
    assert facts.passed
    assert facts.longest[MARKED] == 1.5


def test_nobody_parked_is_no_evidence(tmp_path: Path) -> None:
    assert judged(tmp_path, [], Wanted()).faults == ["no call was parked"]


@pytest.mark.parametrize(
    ("users", "wanted", "fault"),
    [
        ([user(MARKED, FAILED, why="gone")], Wanted(), "1 marked calls did not end"),
        ([user(MARKED, ENDED, 9.0)], Wanted(wait=7.0), "a marked call stood still for 9.0 s"),
        ([user(UNMARKED, REPORTED)], Wanted(reported=False), "1 unmarked calls were lost"),
        ([user(UNMARKED, FAILED, why="odd")], Wanted(), "1 calls failed, the first: "),
    ],
)
def test_what_is_not_promised_to_happen_is_a_fault(
    tmp_path: Path, users: Sequence[User], wanted: Wanted, fault: str
) -> None:
    assert any(found.startswith(fault) for found in judged(tmp_path, users, wanted).faults)


def test_an_unmarked_call_may_be_lost_where_its_user_is_told(tmp_path: Path) -> None:
    assert judged(tmp_path, [user(UNMARKED, REPORTED)], Wanted()).passed


def test_a_visitor_may_be_turned_away_only_where_a_drill_allows_it(tmp_path: Path) -> None:
    parked, turned_away = [user(MARKED, ENDED)], [user(MARKED, UNBORN, why="503")]
    assert judged(tmp_path, parked, Wanted(), visits=turned_away).passed
    assert judged(tmp_path, parked, Wanted(refused=False), visits=turned_away).faults == [
        "1 first requests failed, such as: 503"
    ]


def test_an_effect_that_ran_twice_is_a_fault_whatever_users_saw(tmp_path: Path) -> None:
    ended = user(MARKED, ENDED)
    assert "1 effects ran twice" in judged(tmp_path, [ended], Wanted(), f"{ended.name} effect key0 2").faults


def test_an_effect_that_is_missing_is_a_fault(tmp_path: Path) -> None:
    ended = user(MARKED, ENDED)
    (tmp_path / "ledger").write_text(f"{ended.name} effect key0 1\n")
    found = judge("trial", 1.0, 1, [ended], [], Ledger(tmp_path / "ledger"), Wanted())
    assert found.faults == [f"{EFFECTS - 1} effects of ended calls are missing"]


def doubtful(folder: Path, who: User, wanted: Wanted, key: str = "key0") -> Facts:
    """The verdict on a user whose call ran all its effects but one, which `once` left in doubt."""
    lines = [f"{who.name} effect key{number} 1" for number in range(1, EFFECTS)] + [f"{who.name} doubt {key} 2"]
    (folder / "ledger").write_text("".join(f"{line}\n" for line in lines))
    return judge("trial", 1.0, 1, [who], [], Ledger(folder / "ledger"), wanted)


def test_an_effect_in_doubt_is_not_missing_where_the_process_of_its_call_died(tmp_path: Path) -> None:
    facts = doubtful(tmp_path, user(MARKED, ENDED, node=DEAD), Wanted(died=DEAD))
    assert (facts.faults, facts.short, facts.doubted, facts.twice) == ([], 0, 1, 0)


@pytest.mark.parametrize("died", ["", DEAD])
def test_a_doubt_of_a_call_whose_process_did_not_die_is_a_fault(tmp_path: Path, died: str) -> None:
    facts = doubtful(tmp_path, user(MARKED, ENDED), Wanted(died=died))
    assert facts.faults == ["1 effects were left in doubt though the process of their call did not die"]


def test_a_doubt_does_not_stand_for_another_effect_that_is_missing(tmp_path: Path) -> None:
    facts = doubtful(tmp_path, user(MARKED, ENDED, node=DEAD), Wanted(died=DEAD), "key1")
    assert facts.faults == ["1 effects of ended calls are missing"]


def test_a_doubt_of_a_call_that_nobody_began_is_a_fault(tmp_path: Path) -> None:
    facts = judged(tmp_path, [user(MARKED, ENDED)], Wanted(died=DEAD), "nobody doubt key0 1")
    assert facts.faults == ["1 effects were left in doubt though the process of their call did not die"]


def test_an_unmarked_handler_that_is_entered_twice_is_a_fault(tmp_path: Path) -> None:
    result = user(UNMARKED, REPORTED)
    entries = [f"{result.name} entered errand {process}" for process in (1, 2)]
    assert judged(tmp_path, [result], Wanted(), *entries).faults == ["1 unmarked handlers were entered twice"]
