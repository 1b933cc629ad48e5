"""What the log tells once: bursts of lines, descriptors that run out, a wrong clock, servers that share a namespace."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import resource
from pathlib import Path

import pytest

from framehold.frame.logged_call import NamedCall, logged_call
from framehold_core.clock import Clock
from framehold_core.ids import CallId
from framehold_fleet.members.membership import STRANGE, Member
from framehold_fleet.members.wrong_clock import LIMIT, WrongClock
from framehold_fleet.telemetry.descriptors import Descriptors, SpentDescriptors, read
from framehold_fleet.telemetry.log_bursts import LogBursts
from framehold_router.collect.identities import STEADY, Identities
from tests.kit.processes import until
from tests.router.cast import member

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


def test_a_burst_whose_loop_was_closed_silences_nothing_in_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is left who would end it. What it had counted is told with the next count."""
    bursts = LogBursts(log, 0.02)

    async def lines(first: int) -> None:
        for number in range(first, first + 2):
            bursts.warning("refused %d", number, extra={})

    async def counted() -> None:
        await lines(3)
        await until(lambda: len(warnings(caplog)) == 3, "the count")

    with caplog.at_level(logging.DEBUG, "bursts"):
        asyncio.run(lines(1))
        asyncio.run(counted())
    assert warnings(caplog)[:2] == ["refused 1", "refused 3"]
    assert warnings(caplog)[2].startswith("2 more lines") and warnings(caplog)[2].endswith(": refused 4")


async def test_errors_with_their_tracebacks_come_likewise(caplog: pytest.LogCaptureFixture) -> None:
    bursts = LogBursts(log, 0.02)
    with caplog.at_level(logging.DEBUG, "bursts"):
        for number in range(2):
            bursts.line(logging.ERROR, "lost %d", number, extra={}, error=KeyError())
    found = [(record.levelno, record.exc_info is not None) for record in caplog.records]
    assert found == [(logging.ERROR, True), (logging.DEBUG, True)]


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


def test_what_is_open_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the size of the folder, or by its entries. A process that can't even count has none left."""
    found = read()
    with open(os.devnull):
        assert read() == (found.used + 1 if found.used else None, found.limit)
    assert found.limit in (resource.getrlimit(resource.RLIMIT_NOFILE)[0], None)
    assert read(tmp_path).used is None
    assert not Descriptors(9).are_spent and not Descriptors(limit=9).are_spent and Descriptors(9, 9).are_spent

    def full(path: object) -> list[str]:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", full)
        found = read()
    assert found.used == found.limit


def test_the_end_is_told_once_and_so_is_that_there_are_some_again(caplog: pytest.LogCaptureFixture) -> None:
    now, used = [100.0], [59]
    watch = SpentDescriptors(lambda: Descriptors(used[0], 60), lambda: now[0])
    with caplog.at_level("INFO"):
        for used[0] in (59, 60, 61, 59):
            watch.look()
    spent, again = caplog.records
    assert spent.levelname == "ERROR" and "all 60 descriptors" in spent.getMessage() and "LimitNOFILE" in spent.message
    assert again.levelname == "INFO" and "59 of 60" in again.getMessage()
    now[0] = 130.0
    assert watch.now() == ((59, 60), 30.0) and SpentDescriptors().now()[1] == math.inf


@pytest.mark.parametrize(("wrong", "says"), [(LIMIT, "20 s ahead of the store's"), (-90.0, "90 s behind the store's")])
def test_a_wrong_wall_clock_is_told_once_and_so_is_its_end(
    wrong: float, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    off = [LIMIT - 1.0]
    clock = Clock(lambda: 0.0, lambda: 1000.0 + off[0], bytes)
    clock.measured(1000.0, 0.0, 0.0)
    watch = WrongClock(clock)
    with caplog.at_level("INFO"):
        for off[0] in (LIMIT - 1.0, wrong, wrong, 0.0, 0.0):
            watch.look()
    first, second = caplog.records
    assert first.levelname == "WARNING" and says in first.getMessage() and "NTP" in first.getMessage()
    assert second.levelname == "INFO" and "agrees with the store's again" in second.getMessage()


def servers(*nodes: tuple[str, str | None, str | None], state: str = "live") -> list[Member]:
    """Nodes, each with the name of its server and the digest of its tools."""
    found = []
    for name, server, tools in nodes:
        one = member(name, f"http://{name}:1", state)
        found.append(one._replace(stats=one.stats._replace(server=server, tools_digest=tools)))
    return found


def test_two_servers_are_one_line_until_they_change(caplog: pytest.LogCaptureFixture) -> None:
    """Nodes of another fleet are no second server."""
    found = Identities(lambda: 0.0)
    found.look(servers(("a", "shop", "1"), state=STRANGE))
    assert not found.servers
    with caplog.at_level(logging.WARNING, "framehold_router.collect.identities"):
        found.look(servers(("a", "shop", "1"), ("b", "shop", "1")))
        assert not caplog.records and found.servers == ("shop",)
        for _ in range(3):
            found.look(servers(("a", "shop", "1"), ("b", "bank", "2"), ("c", None, None)))
        found.look(servers(("a", "shop", "1")))
        found.look(servers(("a", "shop", "1"), ("b", "bank", "2")))
    first, again = (record.getMessage() for record in caplog.records)
    assert "2 servers share one namespace of the store (bank: b; shop: a)" in first == again
    assert "FRAMEHOLD_NAMESPACE" in first


def test_lists_of_tools_are_steady_while_no_node_comes_or_goes() -> None:
    """A rolling update replaces nodes one after the other."""
    now = [0.0]
    found = Identities(lambda: now[0])
    for a, b, passed, steady in (
        ("1", "1", 1.0, False), ("1", "2", STEADY, False), ("2", "2", STEADY - 1, False), ("2", "2", STEADY, True)
    ):  # fmt: skip
        now[0] += passed
        found.look(servers(("a", "shop", a), ("b", "shop", b)))
        assert found.are_steady is steady
