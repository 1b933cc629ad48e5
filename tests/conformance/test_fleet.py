"""The official conformance suite on three nodes behind a router, by name for each revision; `python -m
tests.conformance --nodes 3 --beside-sdk` prints the same as figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import node_cache, suite
from tests.conformance.__main__ import PLAIN
from tests.conformance.child import serving
from tests.conformance.fleet import TARGET, fleet_serving

pytestmark = pytest.mark.npm

SECONDS = 120.0


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node_cache.ensure(timeout=240)
    with fleet_serving(3, TARGET, tmp_path_factory.mktemp("conformance") / "fleet") as url:
        yield url


def test_every_check_of_2026_07_28_passes_on_three_nodes_behind_the_router(endpoint: str) -> None:
    """All 152, and none was skipped."""
    report = suite.run(endpoint, "2026-07-28", SECONDS, "test")
    assert report.passed == report.counted == 152, (report.faults, report.problem)


def test_2025_11_25_passes_no_fewer_checks_on_the_fleet_than_on_the_sdk_alone(endpoint: str, tmp_path: Path) -> None:
    """The same tools, with a router and three nodes in between, and without Framehold."""
    ours = suite.run(endpoint, "2025-11-25", SECONDS, "test")
    with serving(PLAIN, tmp_path / "server.log", timeout=30) as url:
        alone = suite.run(url, "2025-11-25", SECONDS, "test-sdk")
    assert not alone.problem and alone.passed >= 81, (alone.faults, alone.problem)
    assert ours.passed >= alone.passed, (ours.faults, ours.problem)
