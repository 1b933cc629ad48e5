"""The ownership table: who carries on a call whose frame is not here. Each row is the only one that decides some
case."""

from __future__ import annotations

import math

import pytest

from framehold_core import ownership
from framehold_core.events import MayClaim, Pass, Retry
from framehold_core.ids import Boot, CallId, Incarnation, NodeId, Waiter
from framehold_core.lease import LIVE, Lease, NodeRecord, code_names
from framehold_core.ownership import ROWS, Death, Judgement, Ownership, Sight, Wait
from framehold_core.pauses import OPERATOR, Pause
from framehold_core.requests import Evidence, Head, Record, RecordState, Stored, Verdict
from framehold_core.value import replace

TTL = 5.0
NOW = 1000.0
CALL = CallId("c" * 32)
OURS, THEIRS = "a" * 64, "b" * 64
ME = Lease(NodeId("me"), Incarnation("me-i1"), Boot("me-b1"), 1, until=NOW + TTL)
PAUSE = Pause("book", 1.0, OPERATOR, "")


def lease(name: str, boot: str = "", *, state: str = LIVE, code: str = OURS, at: str = "") -> tuple[NodeId, NodeRecord]:
    node = NodeId(name)
    where = at or f"http://{name}"
    inc, life, names = Incarnation(f"{name}-i1"), Boot(boot or f"{name}-b1"), code_names([code])
    return node, NodeRecord(node, inc, life, 1, where, state, names, "", NOW + TTL)


HERE = lease("me")


def stored(
    state: RecordState = RecordState.OPEN,
    owner: str = "n1",
    boot: str = "n1-b1",
    *,
    code: str = OURS,
    reentrant: bool = True,
    attempts: int = 0,
) -> Stored:
    head = Head(Boot(boot), reentrant, "book", code, "tools/call", "book", "args", "ann", seal="sealed")
    inc = Incarnation(f"{owner}-i1")
    return Stored(Record(state, head, owner, inc, 2, 3, 4, "h", attempts, created=NOW - 9, expires=NOW + 600), ())


def token(*, round_: int = 3, epoch: int = 2, node: str = "n1", head: str = "sealed") -> Retry:
    return Retry(Waiter(1), round_, epoch, "h", NodeId(node), (), ME, head)


LIVES = Sight(CALL, stored(), (token(),), dict([HERE, lease("n1")]), frozenset(), ME, OURS, True)
GONE = replace(LIVES, leases=dict([HERE]))
TOLD = replace(GONE, death_told=True)
OTHERS = replace(TOLD, stored=stored(code=THEIRS), leases=dict([HERE, lease("n2", code=THEIRS)]))
AHEAD = replace(LIVES, waiting=(token(round_=4),), leases=dict([HERE]))
BY_ROW: dict[str, tuple[Sight, Judgement]] = {
    "a token is beyond the record, and its node may live": (AHEAD, Wait.HEALER),
    "there is no record": (replace(LIVES, stored=None, waiting=()), None),
    "it may be claimed, and the store went back lately": (replace(TOLD, may_claim=False), Wait.WENT_BACK),
    "its owner is gone, and something else stands in the place of its lease": (
        replace(TOLD, doubtful=frozenset({NodeId("n1")})),
        Wait.OVERWRITTEN,
    ),
    "its owner is gone, and a missing lease proves nothing": (replace(TOLD, absences_count=False), Wait.AWAY),
    "it is another node's, and this node drains": (replace(TOLD, heir=NodeId("n2")), Pass(NodeId("n2"))),
    "nobody runs it, and a live node serves the code that it began with": (OTHERS, Pass(NodeId("n2"), offered=True)),
    "it may be claimed and is not over, and this node is not registered": (
        replace(TOLD, is_registered=False),
        Wait.UNREGISTERED,
    ),
    "its process is gone, and that is not held against its tool yet": (GONE, Death(stored().record)),
    "its process is gone, and its tool is paused": (replace(TOLD, pause=PAUSE), PAUSE),
    "its owner lives": (LIVES, Pass(NodeId("n1"))),
    "it is a suspect, and others are before it": (replace(TOLD, stored=stored(attempts=1)), Wait.TURN),
    "else": (TOLD, MayClaim(Evidence.GONE, died=True)),
}
"""For each row a sight that it decides, and how."""


def judged(sight: Sight) -> Judgement:
    return Ownership(TTL).judge(sight, NOW)


@pytest.mark.parametrize("when", [row.when for row in ROWS])
def test_each_row_decides(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sight, then = BY_ROW[when]
    assert judged(sight) == then
    monkeypatch.setattr(ownership, "ROWS", tuple(row for row in ROWS if row.when != when))
    try:
        without = judged(sight)
    except (AssertionError, StopIteration):
        return  # No later row knows what to do.
    assert without != then


@pytest.mark.parametrize(("marked", "kept"), [(True, False), (False, True), (False, False)])
def test_a_call_is_entered_again_by_code_that_is_marked_here_or_was_when_it_began(marked: bool, kept: bool) -> None:
    """A release that takes the mark away leaves the calls of the one before theirs (docs/protocol.md, rule 28)."""
    may = MayClaim(Evidence.GONE, died=True, code=THEIRS)
    assert replace(OTHERS, is_marked=marked).found(may, kept=kept).reentrant is (marked or kept)


FREED = replace(TOLD, stored=stored(RecordState.RELEASED))
LIVES_WITH_THEIRS = dict([HERE, lease("n1", code=THEIRS), lease("n2", code=THEIRS)])
ITS_OWN = replace(TOLD, stored=stored(owner="me", boot="me-b1"))


@pytest.mark.parametrize(
    "change",
    [
        {"may_claim": False},
        {"absences_count": False},
        {"doubtful": frozenset({NodeId("n1")})},
        {"heir": NodeId("n2")},
        {"is_registered": False},
        {"pause": PAUSE},
        {"stored": stored(code=THEIRS), "leases": LIVES_WITH_THEIRS},
    ],
    ids=["it went back", "it was away", "doubt", "it drains", "unregistered", "paused", "another node serves the code"],
)
def test_a_living_owner_gets_its_call_whatever_else_is_so(change: dict[str, object]) -> None:
    assert judged(replace(LIVES, **change)) == Pass(NodeId("n1"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"absences_count": False}, {"doubtful": frozenset({NodeId("n1")})}, {"pause": PAUSE}],
    ids=["it was away", "doubt", "paused"],
)
def test_a_call_that_was_handed_off_needs_no_proof_that_its_owner_is_gone(change: dict[str, object]) -> None:
    """Nor is a pause for it: its process has not died (docs/protocol.md, rule 27)."""
    assert judged(replace(FREED, **change)) == MayClaim(Evidence.RELEASED, died=False)  # type: ignore[arg-type]


def test_a_node_that_drains_carries_on_what_it_ran_itself() -> None:
    assert judged(replace(ITS_OWN, heir=NodeId("n2"))) == MayClaim(Evidence.OWNER, died=False)


@pytest.mark.parametrize(
    ("record", "evidence"),
    [
        (stored(RecordState.RELEASED), Evidence.RELEASED),
        (stored(owner="me", boot="me-b1"), Evidence.OWNER),
        (stored(owner="me", boot="me-b0"), Evidence.OWNER),
        (stored(), Evidence.GONE),
        (stored(boot="n1-b0"), Evidence.GONE),
    ],
    ids=["released", "its own", "its former life's", "no lease", "no lease, an earlier life"],
)
def test_the_evidence_of_a_claim(record: Stored, evidence: Evidence) -> None:
    died = evidence is Evidence.GONE or record.record.head.boot == "me-b0"
    assert judged(replace(TOLD, stored=record)) == MayClaim(evidence, died)


@pytest.mark.parametrize("died", [True, False])
def test_a_call_that_is_over_is_answered_by_a_node_that_is_not_registered(died: bool) -> None:
    """Nothing is claimed for that. Its owner may be gone, or have been this process."""
    over = stored(RecordState.DONE) if died else stored(RecordState.DONE, "me", "me-b1")
    assert isinstance(judged(replace(TOLD, stored=over, is_registered=False)), MayClaim)


def test_a_lapse_is_not_a_death() -> None:
    """The owner's process lives under a newer incarnation (docs/protocol.md, rule 5)."""
    node, renewed = lease("n1")
    leases = dict([HERE, (node, replace(renewed, inc=Incarnation("n1-i2")))])
    assert judged(replace(LIVES, leases=leases)) == Pass(node)


def test_a_later_life_of_the_owner_shows_that_the_one_of_the_call_is_over() -> None:
    assert judged(replace(TOLD, leases=dict([HERE, lease("n1", "n1-b2")]))) == MayClaim(Evidence.GONE, died=True)


def test_an_old_lease_of_the_owner_shows_nothing_for_one_ttl() -> None:
    """Somebody has written the lease of an earlier life again (docs/protocol.md, rule 5)."""
    owner = Ownership(TTL)
    sight = replace(TOLD, leases=dict([HERE, lease("n1", "n1-b0")]))
    assert owner.judge(sight, NOW) is Wait.OVERWRITTEN
    assert owner.judge(sight, NOW + TTL - 0.01) is Wait.OVERWRITTEN
    assert owner.judge(sight, NOW + TTL) == MayClaim(Evidence.GONE, died=True)


def test_a_node_that_could_mend_the_record_is_waited_for_one_ttl() -> None:
    owner = Ownership(TTL)
    assert owner.judge(replace(AHEAD, death_told=True), NOW) is Wait.HEALER
    assert owner.judge(replace(AHEAD, death_told=True), NOW + TTL) == MayClaim(Evidence.GONE, died=True)


def test_a_token_of_a_later_epoch_than_the_record_names_a_node_too() -> None:
    assert judged(replace(LIVES, waiting=(token(epoch=3),), leases=dict([HERE]))) is Wait.HEALER


def test_a_process_that_shares_no_store_waits_for_nobody() -> None:
    alone = replace(AHEAD, me=replace(ME, until=math.inf), stored=stored(owner="me", boot="me-b1"))
    assert judged(alone) == MayClaim(Evidence.OWNER, died=False)


@pytest.mark.parametrize(
    "change",
    [
        {"leases": dict([HERE, lease("n2", code=THEIRS, state="draining")])},
        {"leases": dict([HERE, lease("n2", code=OURS)])},
        {"leases": dict([HERE, lease("n2", code=THEIRS, at="http://me")])},
        {"may_offer": False},
    ],
    ids=["it drains", "it has other code", "it ends with this process", "passed on before"],
)
def test_a_node_that_does_not_serve_the_code_is_offered_nothing(change: dict[str, object]) -> None:
    assert judged(replace(OTHERS, **change)) == MayClaim(Evidence.GONE, died=True, code=THEIRS)  # type: ignore[arg-type]


def test_a_call_that_was_handed_off_is_offered_to_a_node_that_serves_its_code() -> None:
    assert judged(replace(OTHERS, stored=stored(RecordState.RELEASED, code=THEIRS))) == Pass(NodeId("n2"), offered=True)


def test_a_node_whose_own_lease_is_not_there_offers_too() -> None:
    offers = replace(OTHERS, leases=dict([lease("n2", code=THEIRS)]))
    assert judged(offers) == Pass(NodeId("n2"), offered=True)


def test_a_call_always_gets_the_same_of_several_nodes_that_serve_its_code() -> None:
    found = [lease(name, code=THEIRS) for name in ("n2", "n3", "n4")]
    first = judged(replace(OTHERS, leases=dict([HERE, *found])))
    assert first == judged(replace(OTHERS, leases=dict([HERE, *reversed(found)])))
    others = {judged(replace(OTHERS, call=CallId(f"{n:032x}"), leases=dict([HERE, *found]))) for n in range(40)}
    assert len(others) == 3


@pytest.mark.parametrize(
    ("record", "waiting"),
    [
        (stored(code=THEIRS, reentrant=False), (token(),)),
        (stored(code=""), (token(),)),
        (stored(RecordState.DONE, code=THEIRS), (token(),)),
        (stored(code=THEIRS), (token(head="of another record"),)),
    ],
    ids=["not marked", "none is named", "it is over", "no token names this record"],
)
def test_kept_code_is_entered_only_where_the_record_and_a_token_allow_it(
    record: Stored, waiting: tuple[Retry, ...]
) -> None:
    assert judged(replace(TOLD, stored=record, waiting=waiting)) == MayClaim(Evidence.GONE, died=True)


def test_a_suspect_is_claimed_in_its_turn() -> None:
    sight = replace(TOLD, stored=stored(attempts=1), has_turn=True)
    assert judged(sight) == MayClaim(Evidence.GONE, died=True)


@pytest.mark.parametrize(
    "sight",
    [
        replace(TOLD, stored=stored(reentrant=False, attempts=7)),
        replace(TOLD, stored=stored(RecordState.DONE, attempts=7)),
        replace(TOLD, stored=stored(attempts=7), is_marked=False),
    ],
    ids=["unmarked", "over", "unmarked here"],
)
def test_a_call_that_no_claim_enters_waits_for_no_turn(sight: Sight) -> None:
    """Its client hears at once that it is lost, or how it ended."""
    assert judged(sight) == MayClaim(Evidence.GONE, died=True)


def test_a_suspect_whose_code_is_kept_waits_for_its_turn() -> None:
    sight = replace(TOLD, stored=stored(code=THEIRS, attempts=1), is_marked=False)
    assert judged(sight) == Wait.TURN


def test_the_heir_is_the_first_node_that_does_not_end_with_this_one() -> None:
    order = [NodeId(name) for name in ("me", "twin", "n1", "n2")]
    addresses = {node: f"http://{node}" for node in order} | {NodeId("twin"): "http://me"}
    assert ownership.heir(NodeId("me"), order, addresses) == "n1"
    assert ownership.heir(NodeId("me"), order[:2], addresses) is None


@pytest.mark.parametrize(
    ("record", "lives", "evidence", "verdict"),
    [
        (stored(), False, Evidence.GONE, Verdict.OK),
        (stored(), True, Evidence.OWNER, Verdict.OK),
        (stored(RecordState.RELEASED), True, Evidence.RELEASED, Verdict.OK),
        (stored(attempts=5), False, Evidence.GONE, Verdict.STUCK),
        (stored(reentrant=False, attempts=5), False, Evidence.GONE, Verdict.LOST),
        (stored(RecordState.LOST), False, Evidence.GONE, Verdict.LOST),
        (stored(RecordState.DONE), False, Evidence.GONE, Verdict.CHANGED),
    ],
)
def test_what_the_next_claim_gets(record: Stored, lives: bool, evidence: Evidence, verdict: Verdict) -> None:
    """As the store will say it (docs/protocol.md, rules 5, 15 and 16)."""
    assert ownership.next_claim(CALL, record, lives, max_attempts=5) == (evidence, verdict)
