"""What all tests have in common: they run on asyncio alone, since frames are asyncio tasks and the router's transports
are asyncio's; and a Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.server import RedisServer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A Redis for every test that only stores things; namespaces keep them apart."""
    server = RedisServer()
    server.start()
    yield server
    server.remove()
