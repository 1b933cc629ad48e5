"""Which calls are suspects, and when a node may enter one of them."""

from __future__ import annotations

import pytest

from framehold_core.pauses import is_blamed
from framehold_core.record import apply
from framehold_core.requests import Evidence, RecordState, Seen, Stored, Verdict
from framehold_core.suspects import PATIENCE, Suspects, is_suspect
from framehold_core.value import replace
from tests.store.calls import Story


@pytest.mark.parametrize("evidence", Evidence)
@pytest.mark.parametrize("boot", ["boot-1", "another"])
@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_a_suspect_is_a_call_that_its_claim_leaves_with_more_than_one_attempt(
    attempts: int, boot: str, evidence: Evidence
) -> None:
    """A process that ends then is held against it."""
    story, owner = Story(), "node-1" if evidence is Evidence.OWNER else "node-2"
    stored, _ = apply(None, story.ask, 0.0)
    assert stored is not None
    record = replace(stored.record, attempts=attempts)
    if evidence is Evidence.RELEASED:
        record = replace(record, state=RecordState.RELEASED, owner="", incarnation="")
    claim = story.claims(Seen(1, record.owner, record.incarnation), evidence, owner, boot=boot)
    after, reply = apply(Stored(record, stored.journal), claim, 1.0)
    assert reply.verdict is Verdict.OK and after is not None
    assert is_suspect(record, evidence, boot) is (after.record.attempts > 1) is is_blamed(after.record)


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
