"""Every check of the official conformance suite passes, by name for each revision: on three nodes behind a router, and
at one node, whatever becomes of a frame between its rounds. The SDK alone serves the same tools on 2025-11-25."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance import node_cache, suite
from tests.conformance.serving import fleet_serving, serving

pytestmark = pytest.mark.npm

WAYS = {"hold": {}, "rehearse": {"FRAMEHOLD_REHEARSE": "1"}, "replay": {"FRAMEHOLD_STRATEGY": "replay"}}
FLEET, ALONE = "three nodes", "the SDK alone"
SDK_VERSION = "2025-11-25"
"""The revision on which the SDK alone serves all of the example server."""
SECONDS = 120.0


@pytest.fixture(
    scope="module", params=[FLEET, *(pytest.param(one, marks=pytest.mark.nightly) for one in (ALONE, *WAYS))]
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Which server it is, and its URL."""
    node_cache.ensure(timeout=240)
    folder = tmp_path_factory.mktemp("conformance")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in WAYS.get(request.param, {}).items():
            environment.setenv(name, value)
        app = "tests.conformance.plain:app" if request.param == ALONE else "tests.conformance.held:app"
        started = (
            fleet_serving(3, "tests.conformance.server:mcp", folder / "fleet")
            if request.param == FLEET
            else serving(app, folder / "server.log")
        )
        with started as url:
            yield request.param, url


@pytest.mark.parametrize("version", suite.REQUIRED)
def test_every_check_passes_and_none_is_skipped(server: tuple[str, str], version: str) -> None:
    name, url = server
    if name == ALONE and version != SDK_VERSION:
        return
    report = suite.run(url, version, SECONDS, name.replace(" ", "-"))
    assert report.passed == report.counted == suite.REQUIRED[version], (report.faults, report.problem)
