"""The day of these tests: one for all scenes, which follow each other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.dashboard.screen import chromium
from tests.fleet.day.stage import Day
from tests.fleet.day.stage import day as began


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def day(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Day]:
    """The running fleet."""
    async with chromium() as browser, began(tmp_path_factory.mktemp("day"), browser) as made:
        yield made
