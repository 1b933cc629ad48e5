"""The arithmetic of peers: ratios turn by turn, and what becomes of a peer that cannot be had."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framehold_loadtest.bench.generators.calls import Measured
from framehold_loadtest.bench.lab import servers as lab
from framehold_loadtest.bench.lab.servers import BASELINE, DEFAULT, Target, Window
from framehold_loadtest.local.listeners import Cores, Listener
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.peers import servers
from framehold_loadtest.peers.compare import PeersPlan, measure, rows
from framehold_loadtest.peers.servers import Peer
from framehold_loadtest.peers.tables import table

pytestmark = pytest.mark.load

CORES = Cores(server=0, load=0)
PLAN = PeersPlan(turns=2, lead=1.0, warm=0.0, seconds=1.0)


def run(count: int, *, server: float, store: float = 0.0, errors: dict[str, int] | None = None) -> Measured:
    """A window of one second with so many calls, and the CPU seconds of both processes."""
    return Measured(count, 1.0, server, store, 0.1, 0.001, 0.002, 0.003, 0.004, errors or {})


def test_a_ratio_compares_two_windows_of_one_turn_and_counts_the_store_in() -> None:
    """The second turn is twice as slow for all: the ratios do not see it."""
    sdk = [run(100, server=1.0), run(50, server=1.0)]
    peer = [run(300, server=0.6, store=0.3), run(150, server=0.6, store=0.3)]
    base, row = rows({BASELINE: sdk, "peer": peer})
    assert row.rates == pytest.approx([3.0, 3.0])
    assert row.costs == pytest.approx([0.3, 0.3])  # 0.9 s for 300 calls beside 1 s for 100
    assert (base.rates, base.costs) == ([], [])
    assert (row.calls_per_second, row.busy) == pytest.approx((225, 0.9))


def test_both_modes_of_the_sdk_are_compared_with_in_the_same_turn() -> None:
    """The baseline costs half of what the SDK's default mode does: the peer's two ratios differ by that."""
    sdk, default, peer = ([run(calls, server=1.0)] for calls in (100, 50, 200))
    base, other, row = rows({BASELINE: sdk, DEFAULT: default, "peer": peer})
    assert row.rates == pytest.approx([2.0]) and row.default_rates == pytest.approx([4.0])
    assert row.costs == pytest.approx([0.5]) and row.default_costs == pytest.approx([0.25])
    assert base.default_rates == pytest.approx([2.0]) and other.rates == pytest.approx([0.5])
    assert other.default_rates == []


def test_errors_of_all_turns_are_counted() -> None:
    (row,) = rows({BASELINE: [run(1, server=1.0, errors={"a": 1}), run(1, server=1.0, errors={"a": 2, "b": 1})]})
    assert row.errors == {"a": 3, "b": 1}


def test_without_the_baseline_there_are_figures_but_no_ratios() -> None:
    (row,) = rows({"peer": [run(10, server=0.5)]})
    assert (row.rates, row.calls_per_second) == ([], 10)


@contextlib.contextmanager
def missing(core: int) -> Iterator[Target]:
    """A peer that cannot be had."""
    raise NotAvailable("npm is missing")
    yield


def running(pid: int) -> Any:
    """A peer that runs, under a process id to know it by."""

    @contextlib.contextmanager
    def start(core: int) -> Iterator[Target]:
        yield Target(Listener(pid, 1, Path("/dev/null")), None)

    return start


@pytest.fixture
def driven(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Who was driven, in order; process 3 fails the second time."""
    order: list[int] = []

    def load(target: Target, window: Window, cores: Cores, call: str | None = None) -> Measured:
        order.append(target.child.pid)
        if target.child.pid == 3 and order.count(3) == 2:
            raise NotAvailable("no call completed")
        return run(100 * target.child.pid, server=0.5)

    monkeypatch.setattr(lab, "load", load)
    return order


def test_what_cannot_be_had_or_fails_in_a_turn_is_told_and_the_others_go_on(driven: list[int]) -> None:
    """They take turns, after one that is not counted; a peer that fails keeps no figure of the turns before."""
    peers = {
        BASELINE: Peer(running(1), "the first"),
        "absent": Peer(missing, "never there"),
        "other": Peer(running(2), "the second"),
        "broken": Peer(running(3), "the third"),
    }
    found = measure(PLAN, peers, CORES)
    assert driven == [1, 2, 3, 1, 2, 3, 1, 2]
    assert found["not_available"] == {"absent": "npm is missing", "broken": "no call completed"}
    assert [(row["peer"], row["rates"]) for row in found["rows"]] == [(BASELINE, []), ("other", [2.0, 2.0])]
    shown = table(found).text()
    assert "absent: not available: npm is missing" in shown
    assert "broken: not available: no call completed" in shown
    assert "never there" not in shown


def test_two_ways_to_call_one_server_share_it(driven: list[int]) -> None:
    """Restate is started once for both."""
    starts = []

    @contextlib.contextmanager
    def counted(core: int) -> Iterator[Target]:
        starts.append(core)
        with running(2)(core) as target:
            yield target

    found = measure(PLAN, {"known": Peer(counted, "one way"), "asked": Peer(counted, "another")}, CORES)
    assert starts == [CORES.server]
    assert [row["peer"] for row in found["rows"]] == ["known", "asked"]
    by_name = servers.peers(Path("/nonexistent"))
    assert by_name["restate, known"].start is by_name["restate, asked"].start
