"""A fleet that runs elsewhere: loaded and judged by its address alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from framehold_loadtest.local.fleet import Fleet, FleetPlan
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.report import data
from framehold_loadtest.report.series import Sample, worst_lag
from framehold_loadtest.scenario.elsewhere import Elsewhere
from framehold_loadtest.scenario.run import Order, run
from framehold_loadtest.scenario.scenarios import SOAK, STEADY, THUNDERING
from framehold_loadtest.scenario.swarm import Crowd

pytestmark = pytest.mark.load


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        made = Fleet(tmp_path_factory.mktemp("elsewhere"), FleetPlan(nodes=2))
        made.start(stack)
        yield made


@contextmanager
def locked() -> Iterator[str]:
    """The address of an API that wants a token."""

    class Locked(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def order(fleet: Fleet, folder: Path, scenario: str, api: str = "", ledger: Path | None = None) -> Order:
    crowd = Crowd(scenario, users=8, seconds=4.0, think=0.2, wave=2.0)
    # A process that is fresh grows for longer than a miniature takes.
    bounds = replace(SOAK.bounds, growth=2.0**30)
    return Order(crowd, folder / "run", bounds=bounds, url=fleet.url, api=api or fleet.url, ledger=ledger)


@pytest.mark.parametrize(
    ("scenario", "sampled"), [(THUNDERING.name, "loop lag, p99"), (SOAK.name, "memory"), (STEADY.name, "affinity")]
)
def test_it_is_judged_by_samples_of_its_api(
    fleet: Fleet, scenario: str, sampled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What nobody can know without a ledger is left out, and said so."""
    found = run(order(fleet, tmp_path, scenario), print)
    assert found.passed, found.verdicts
    assert sampled in {verdict.name for verdict in found.verdicts}
    assert "effects" not in {verdict.name for verdict in found.verdicts} and found.effects is None
    assert found.series.rss.keys() == fleet.nodes.keys()
    result = capsys.readouterr().out
    assert "effects: not judged, for no --ledger" in result
    assert " rounds/s  parked n1:" in result
    assert data.Scenario.model_validate_json((tmp_path / "run" / "report.json").read_bytes()) == found


def test_with_its_ledger_its_effects_are_judged(fleet: Fleet, tmp_path: Path) -> None:
    found = run(order(fleet, tmp_path, STEADY.name, ledger=fleet.ledger), print)
    assert found.passed, found.verdicts
    assert found.effects is not None and found.effects.wanted == found.effects.once > 0


def test_without_its_token_nothing_is_started_that_samples_judge(fleet: Fleet, tmp_path: Path) -> None:
    with locked() as api, pytest.raises(NotAvailable, match=r"wants the admin token.*; nothing was started"):
        run(order(fleet, tmp_path, THUNDERING.name, api), print)
    assert not (tmp_path / "run").exists()


def test_without_its_token_the_rest_is_judged(fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked() as api:
        found = run(order(fleet, tmp_path, STEADY.name, api), print)
    assert found.passed, found.verdicts
    assert not found.series.rss
    assert "samples: none are taken: 401: " in capsys.readouterr().out


def test_a_router_that_stops_answering_leaves_an_empty_sample() -> None:
    with locked() as api, closing(Elsewhere(api, None)) as elsewhere:
        assert elsewhere.look().rss == {}


def test_the_latest_loop_of_any_minute_counts() -> None:
    samples = [Sample(1.0, late={"n1": 0.1}), Sample(2.0, late={"n1": 0.3, "n2": 0.2}), Sample(3.0)]
    assert worst_lag(samples) == 0.3
