"""The async tests of this folder run on asyncio alone: the supervisor and its children are asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import framehold as public
from framehold.config import Settings
from tests.cli.desk import server
from tests.node.nodes import KEY, served


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def desk() -> AsyncIterator[str]:
    """The address of a node that serves the desk's tools."""
    settings = Settings(keys=(KEY,), node_id="n1", route_headers=True)
    async with served(public.asgi(server(), settings)) as address:
        yield address
