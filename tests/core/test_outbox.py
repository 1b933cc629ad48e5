"""One write is in flight, the others wait in order, and a stalled one is sent again as it was."""

from __future__ import annotations

from framehold_core.effects import Op, Write
from framehold_core.outbox import EMPTY

FIRST, SECOND, THIRD = (Write(Op.RESULT, key=key) for key in "abc")


def test_writes_leave_one_by_one_in_order() -> None:
    outbox, sent = EMPTY.send(FIRST)
    assert sent == (FIRST,) and outbox.in_flight is FIRST
    for write in (SECOND, THIRD):
        outbox, sent = outbox.send(write)
        assert sent == () and outbox.in_flight is FIRST
    for write in (SECOND, THIRD):
        outbox, sent = outbox.next()
        assert sent == (write,) and outbox.in_flight is write
    assert outbox.next() == (EMPTY, ())


def test_a_stalled_write_is_sent_again_once_and_nothing_overtakes_it() -> None:
    stalled = EMPTY.send(FIRST)[0].stall()
    assert stalled.resend() == (EMPTY.send(FIRST)[0], (FIRST,))
    outbox, sent = stalled.send(SECOND)
    assert sent == (FIRST,) and outbox.queue == (SECOND,) and not outbox.stalled
    assert outbox.resend() == (outbox, ())


def test_what_is_lined_up_is_not_sent() -> None:
    held_back = EMPTY.line_up(FIRST)
    assert held_back.in_flight is None and held_back.queue == (FIRST,)
    assert held_back.next()[1] == (FIRST,)
    stalled = EMPTY.send(FIRST)[0].stall().line_up(SECOND)
    assert stalled.stalled and stalled.queue == (SECOND,)


def test_an_outbox_knows_what_is_in_line() -> None:
    finish = Write(Op.FINISH)
    assert not EMPTY.has(Op.FINISH)
    assert EMPTY.send(finish)[0].has(Op.FINISH)
    behind = EMPTY.send(FIRST)[0].send(finish)[0]
    assert behind.has(Op.FINISH) and behind.has(Op.RESULT) and not behind.has(Op.PARK)
