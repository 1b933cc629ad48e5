"""The fleet of these tests, and calls on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.fleet.faults import FaultyFleet, standing
from tests.fleet.trial import Client, Trial, Trials


@pytest.fixture(scope="package")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyFleet]:
    """Three nodes and two routers for all these tests."""
    with standing(tmp_path_factory.mktemp("cells"), 3, 2) as made:
        yield made


@pytest.fixture
async def made(lasting: FaultyFleet) -> AsyncIterator[FaultyFleet]:
    """The same, mended; judged after the test."""
    await lasting.mend()
    yield lasting
    lasting.judge()


@pytest.fixture
def router(made: FaultyFleet) -> str:
    """Where its clients are."""
    return made.routers[0].url


@pytest.fixture
async def trial() -> AsyncIterator[Trials]:
    """Makes calls: `trial(shape, column)`, with further arguments by name."""
    async with Client() as client:
        yield lambda shape, column, **more: Trial(client, shape, column, **more)
