"""Lines that may come in thousands: the first at once, then how many there were."""

from __future__ import annotations

import logging

import pytest

from framehold.frame.logged_call import NamedCall, logged_call
from framehold_core.ids import CallId
from framehold_fleet.telemetry.log_bursts import LogBursts
from tests.processes import until

pytestmark = pytest.mark.anyio
log = logging.getLogger("bursts")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_a_burst_is_the_first_line_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    """The count quotes the last line. A line of another kind is logged at once, and so is the first of a new burst."""
    bursts = LogBursts(log, 0.02)
    with caplog.at_level(logging.DEBUG, "bursts"):
        for number in range(20):
            bursts.warning("refused %d", number, extra={"call": f"c{number}"})
        bursts.warning("other", extra={})
        assert warnings(caplog) == ["refused 0", "other"]
        left_out = [vars(record)["call"] for record in caplog.records if record.levelno == logging.DEBUG]
        assert left_out == [f"c{number}" for number in range(1, 20)]
        await until(lambda: len(warnings(caplog)) == 3, "the count")
        assert warnings(caplog)[2].startswith("19 more lines like this one in the last 0.02 s")
        assert warnings(caplog)[2].endswith(": refused 19")
        await until(lambda: not bursts._bursts, "the end of the burst")
        bursts.warning("refused %d", 20, extra={})
    assert warnings(caplog)[3:] == ["refused 20"]


async def test_errors_with_their_tracebacks_come_likewise(caplog: pytest.LogCaptureFixture) -> None:
    bursts = LogBursts(log, 0.02)
    with caplog.at_level(logging.DEBUG, "bursts"):
        for number in range(3):
            bursts.line(logging.ERROR, "lost %d", number, extra={}, error=KeyError())
    assert [(record.levelno, record.exc_info is not None) for record in caplog.records] == [
        (logging.ERROR, True), (logging.DEBUG, True), (logging.DEBUG, True)
    ]  # fmt: skip


async def test_a_count_belongs_to_no_call(caplog: pytest.LogCaptureFixture) -> None:
    bursts, found = LogBursts(log, 0.02), []

    class Looks(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            found.append((record.getMessage()[:2], logged_call.get()))
            return True

    looks, call = Looks(), NamedCall(CallId("a" * 32))
    log.addFilter(looks)
    before = logged_call.set(call)
    try:
        bursts.warning("refused", extra={})
        bursts.warning("refused", extra={})
        await until(lambda: len(found) == 2, "the count")
    finally:
        logged_call.reset(before)
        log.removeFilter(looks)
    assert found == [("re", call), ("1 ", None)]
