"""A database for the tests of one version's calls, empty before each."""

from __future__ import annotations

import pytest

from tests.compat.dumps import admin
from tests.kit.redis_server import RedisServer


@pytest.fixture
def store(redis: RedisServer) -> RedisServer:
    """A Redis with nothing in the database of these tests."""
    with admin(redis) as client:
        client.flushdb()
    return redis
