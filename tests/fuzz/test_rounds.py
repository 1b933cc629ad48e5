"""New rounds each day, for some seconds, at three nodes: whatever the SDK answers, Framehold answers too."""

from __future__ import annotations

import pytest

from tests.store.server import RedisServer

from . import rounds, today

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

SECONDS = 12.0


async def test_rounds_say_what_the_sdk_says(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Behind the router, behind HAProxy, at each of two nodes, and at one that `uvicorn` serves."""
    async with rounds.positions(tmp_path_factory.mktemp("fuzz"), redis) as at:
        done = await rounds.play(today(), SECONDS, at)
    assert done.found == [] and done.tried > 20
