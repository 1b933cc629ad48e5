"""Which calls are suspects, and when a node may enter one of them."""

from __future__ import annotations

import pytest

from framehold_core.ids import Boot, CallId, Incarnation, NodeId
from framehold_core.pauses import is_blamed
from framehold_core.record import apply
from framehold_core.requests import Claim, Evidence, RecordState, Stored, Verdict
from framehold_core.suspects import PATIENCE, Suspects, is_suspect
from framehold_core.value import replace
from tests.core.test_record import RECORD


@pytest.mark.parametrize("evidence", Evidence)
@pytest.mark.parametrize("boot", [RECORD.head.boot, "another"])
@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_a_suspect_is_a_call_that_its_claim_leaves_with_more_than_one_attempt(
    attempts: int, boot: str, evidence: Evidence
) -> None:
    """A process that ends then is held against it."""
    released = evidence is Evidence.RELEASED
    state, owner = (RecordState.RELEASED, "") if released else (RecordState.OPEN, RECORD.owner)
    record = replace(RECORD, attempts=attempts, state=state, owner=owner, expires=100.0)
    mine = NodeId(owner) if evidence is Evidence.OWNER else NodeId("new")
    claim = Claim(CallId("c"), record.seen, evidence, mine, Incarnation("i"), Boot(boot), True, 9, 60.0)
    stored, reply = apply(Stored(record, ()), claim, 1.0)
    assert reply.verdict is Verdict.OK and stored is not None
    assert is_suspect(record, evidence, boot) is (stored.record.attempts > 1) is is_blamed(stored.record)


def test_suspects_are_entered_one_at_a_time_and_behind_others() -> None:
    line: Suspects[str] = Suspects()
    assert line.next(0.0, others=False) is None
    for name in ("a", "b", "b", "c"):
        line.join(name)
    assert line.waiting == 3 and line.waits("a") and not line.has_turn("a")
    assert line.next(0.0, others=True) is None, "other calls are being taken over"
    assert line.next(1.0, others=False) == "a" and line.has_turn("a") and not line.waits("a")
    assert line.next(1.0 + PATIENCE - 0.1, others=False) is None, "a has not moved on"
    line.leave("b")
    line.leave("a")
    assert line.next(2.0, others=False) == "c"
    line.leave("nobody")
    assert line.has_turn("c")


def test_one_that_runs_on_keeps_the_others_for_a_while_only() -> None:
    line: Suspects[str] = Suspects(patience=2.0)
    line.join("a")
    line.join("b")
    assert line.next(10.0, others=False) == "a"
    assert line.next(11.9, others=False) is None
    assert line.next(12.0, others=False) == "b"
    line.leave("a")
    assert line.has_turn("b"), "the end of a changes nothing for b"
