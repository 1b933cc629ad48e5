"""The booking example, served to clients of both eras: one fleet, and one server of the time before 2026-07-28."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.serving import fleet_serving, serving


@pytest.fixture(scope="package")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A router's URL; two nodes behind it serve the booking example."""
    folder = tmp_path_factory.mktemp("clients") / "booking"
    with fleet_serving(2, "framehold.examples.booking:mcp", folder) as url:
        yield url


@pytest.fixture(scope="package")
def of_2025(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that speaks 2025-11-25 and nothing later."""
    with serving("tests.clients.of_2025:app", tmp_path_factory.mktemp("of-2025") / "server.log") as url:
        yield url
