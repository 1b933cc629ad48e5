"""The stores, each clean for its test."""

import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace

import pytest
from fakeredis import FakeServer

from framehold_store import Store, StoreConfig
from framehold_store.embedded import EmbeddedStore
from framehold_store.memory import MemoryStore
from framehold_store.redis import RedisStore
from tests.kit.redis_server import RedisServer, running
from tests.kit.redis_topologies import ClusterTrio, SentinelTrio
from tests.store.rights import RIGHTS, as_user, restrict

_count = itertools.count()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RedisServer]:
    """A Redis for every test that only stores things; namespaces keep them apart."""
    with running(RedisServer()) as built:
        yield built


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A Redis that the test may pause, stop and flush."""
    with running(RedisServer()) as built:
        yield built


@pytest.fixture
def namespace() -> str:
    return f"test-{os.getpid()}-{next(_count)}"


@pytest.fixture(scope="session")
def sentinels() -> Iterator[SentinelTrio]:
    """A master under sentinels, for every test that only stores things."""
    with running(SentinelTrio()) as built:
        yield built


@pytest.fixture(scope="session")
def cluster() -> Iterator[ClusterTrio]:
    """A cluster, for every test that only stores things."""
    with running(ClusterTrio()) as built:
        yield built


@pytest.fixture(scope="session")
def restricted(shared_server: RedisServer) -> SimpleNamespace:
    """The shared server, for a user that may do what docs/operating.md says and nothing else."""
    restrict(shared_server, *RIGHTS)
    return SimpleNamespace(url=as_user(shared_server.url))


URLS = {"redis": "shared_server", "restricted": "restricted", "sentinel": "sentinels", "cluster": "cluster"}
"""Kinds of Redis, and the fixture that has its URL."""


@pytest.fixture(params=["memory", "embedded", "restricted", "sentinel", "cluster"])
async def store(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Store]:
    """Each kind of store in turn: one contract holds them equal."""
    built: Store
    if request.param == "memory":
        built = MemoryStore(time.time, poll=60.0)
    elif request.param == "embedded":
        built = EmbeddedStore(StoreConfig("embedded://", namespace, op_timeout=10.0, poll=60.0), FakeServer())
    else:
        url = request.getfixturevalue(URLS[request.param]).url
        built = RedisStore(StoreConfig(url, namespace, op_timeout=10.0, poll=60.0))
    await built.open()
    yield built
    await built.close()
