"""The three stores, each clean for its test."""

import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from fakeredis import FakeServer

from framehold_store import Store, StoreConfig
from framehold_store.embedded import EmbeddedStore
from framehold_store.memory import MemoryStore
from framehold_store.redis import RedisStore
from tests.store.server import RedisServer

_count = itertools.count()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RedisServer]:
    """A Redis for every test that only stores things; namespaces keep them apart."""
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A Redis that the test may pause, stop and flush."""
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def namespace() -> str:
    return f"test-{os.getpid()}-{next(_count)}"


@pytest.fixture(params=["memory", "embedded", "redis"])
async def store(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Store]:
    """Each kind of store in turn: one contract holds them equal."""
    built: Store
    if request.param == "memory":
        built = MemoryStore(time.time, poll=60.0)
    elif request.param == "embedded":
        built = EmbeddedStore(StoreConfig("embedded://", namespace, op_timeout=10.0, poll=60.0), FakeServer())
    else:
        url = request.getfixturevalue("shared_server").url
        built = RedisStore(StoreConfig(url, namespace, op_timeout=10.0, poll=60.0))
    await built.open()
    yield built
    await built.close()
