"""One write is in flight, the others wait in order, and a stalled one is sent again as it was."""

from __future__ import annotations

from framehold_core.effects import Op, Write
from framehold_core.outbox import EMPTY

FIRST, SECOND, THIRD = (Write(Op.RESULT, key=key) for key in "abc")


def test_an_outbox_knows_what_is_in_line() -> None:
    finish = Write(Op.FINISH)
    assert not EMPTY.has(Op.FINISH)
    assert EMPTY.send(finish)[0].has(Op.FINISH)
    behind = EMPTY.send(FIRST)[0].send(finish)[0]
    assert behind.has(Op.FINISH) and behind.has(Op.RESULT) and not behind.has(Op.PARK)
