"""What the protocol rules out is an error that says so, under `python -O` too, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framehold_core import record, recovery, rounds, writes
from framehold_core.call import Call
from framehold_core.effects import Op, Write
from framehold_core.errors import ProtocolError
from framehold_core.events import Acked, StoreDown, WriteRefused
from framehold_core.ids import Boot, CallId, Incarnation, NodeId
from framehold_core.lease import Lease
from framehold_core.outbox import Outbox
from framehold_core.requests import Batch, Fence, Head, Reply, Result, Verdict
from framehold_core.value import replace

CALL = Call(CallId("c" * 32), NodeId("n1"), Incarnation("i1"), reentrant=True, ttl=600.0)
ACKED = Acked(1, 1, "history", is_open=True, sent=0.0)
HEAD = Head(Boot("b1"), True, "tool", "code", "tools/call", "tool", "args", "")
TERMS = writes.Terms(HEAD, 600.0, 600.0)
PACKED = writes.Packed((), "history", 0.0)
LEASE = Lease(NodeId("n1"), Incarnation("i1"), Boot("b1"), 1, 100.0)
BEHIND = WriteRefused(Verdict.BEHIND, None)
RESULT = Result(CALL.id, Fence(CALL.owner, CALL.incarnation, 1, 0, 0), Batch((), ""), 600.0)


def sending(write: Write) -> Call:
    """A call with `write` in flight."""
    return replace(CALL, outbox=Outbox(write))


IMPOSSIBLE: dict[str, tuple[Callable[[], object], str]] = {
    "an acknowledgement of nothing": (lambda: rounds.acked(CALL, ACKED, 0.0), "acknowledged a write"),
    "a refusal of nothing": (lambda: recovery.write_refused(CALL, BEHIND, 0.0), "refused a write"),
    "a refused heal that was not sent": (lambda: recovery.heal_refused(CALL, BEHIND, 0.0), "refused a heal"),
    "a verification that was not sent": (lambda: recovery.verify_acked(CALL, ACKED, 0.0), "names no incarnation"),
    "a verification of no incarnation": (
        lambda: recovery.verify_acked(sending(Write(Op.VERIFY)), ACKED, 0.0),
        "names no incarnation",
    ),
    "a heal that was not sent": (lambda: recovery.heal_acked(CALL, ACKED, 0.0), "that no write waits for"),
    "a heal that no write waits for": (
        lambda: recovery.heal_acked(sending(Write(Op.HEAL)), ACKED, 0.0),
        "that no write waits for",
    ),
    "silence after nothing": (lambda: recovery.write_unanswered(CALL, StoreDown(True), 0.0), "left a write unanswered"),
    "a request to verify no incarnation": (
        lambda: writes.request(CALL, Write(Op.VERIFY), PACKED, TERMS, ()),
        "names no incarnation",
    ),
    "a claim without evidence": (
        lambda: writes.request(CALL, Write(Op.CLAIM), PACKED, TERMS, ()),
        "a write of kind 'claim' lacks",
    ),
    "a granted claim without a record": (
        lambda: writes.event(CALL, Write(Op.CLAIM), PACKED, Reply(Verdict.OK), LEASE, 0.0),
        "did not return the record",
    ),
    "a first write that begins no record": (lambda: record._advance(None, RESULT, 0.0), "carries no head"),
}


@pytest.mark.parametrize(("act", "says"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_what_the_protocol_rules_out_is_an_error(act: Callable[[], object], says: str) -> None:
    with pytest.raises(ProtocolError, match=says) as raised:
        act()
    assert str(raised.value).endswith("nothing was done; this is a bug in the code that drives the core: report it")
