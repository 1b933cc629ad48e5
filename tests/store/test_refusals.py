"""A store that answers, and refuses everybody's requests, is told as that, with its own word."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import redis
from redis.exceptions import ConnectionError, NoPermissionError, ResponseError

from framehold_core.errors import StoreFull, StoreRefused, StoreUnavailable
from framehold_router.verdict.wording import remedy
from framehold_store import StoreConfig
from framehold_store.event_log import refused as refusal
from framehold_store.link import answer_of, words_of
from framehold_store.redis import RedisStore
from tests.kit.leases import lease
from tests.kit.redis_server import RedisServer, running, wait_for
from tests.store.answers import ANSWERS, error_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def own() -> Iterator[RedisServer]:
    with running(RedisServer(options=["--save", "3600 1"])) as built:
        yield built


@pytest.fixture
async def store(own: RedisServer) -> AsyncIterator[RedisStore]:
    built = RedisStore(StoreConfig(own.url, op_timeout=0.5, poll=60.0))
    await built.register(lease("first"), 10.0)
    yield built
    await built.close()


def no_disk(server: RedisServer, client: redis.Redis) -> None:
    shutil.rmtree(server.folder)
    client.bgsave()
    wait_for(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", "a snapshot that failed")


def no_right(_: RedisServer, client: redis.Redis) -> None:
    client.acl_setuser("default", commands=["-evalsha", "-eval"])


def no_replica(_: RedisServer, client: redis.Redis) -> None:
    client.config_set("min-replicas-to-write", 1)


def read_only(_: RedisServer, client: redis.Redis) -> None:
    client.replicaof("127.0.0.1", 1)


def loses_its_master(_: RedisServer, client: redis.Redis) -> None:
    client.config_set("replica-serve-stale-data", "no")
    client.replicaof("127.0.0.1", 1)


def busy(_: RedisServer, client: redis.Redis) -> None:
    client.config_set("lua-time-limit", 1)
    client.connection_pool.get_connection().send_command(  # type: ignore[no-untyped-call]
        "EVAL", "while true do end", 0
    )
    wait_for(lambda: says_busy(client), "a script that does not end")


def says_busy(client: redis.Redis) -> bool:
    try:
        client.ping()
    except ResponseError as error:
        return "BUSY" in str(error)
    return False


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        (busy, "BUSY"),
        (no_disk, "MISCONF"),
        (no_right, "NOPERM"),
        (no_replica, "NOREPLICAS"),
        (read_only, "READONLY"),
        (loses_its_master, "MASTERDOWN"),
    ],
)
async def test_a_refusal_has_the_word_of_the_store(
    own: RedisServer, store: RedisStore, harm: Callable[[RedisServer, redis.Redis], None], word: str
) -> None:
    with own.client() as client:
        harm(own, client)
    with pytest.raises(StoreRefused) as refused:
        await store.register(lease("second", ttl=5.0), 10.0)
    assert refused.value.says.startswith(word)
    assert remedy(refused.value.says) != remedy("")


async def test_a_refusal_ends_with_its_cause(own: RedisServer, store: RedisStore) -> None:
    with own.client() as client:
        no_replica(own, client)
        with pytest.raises(StoreRefused):
            await store.register(lease("second"), 10.0)
        client.config_set("min-replicas-to-write", 0)
    await store.register(lease("second"), 10.0)
    with own.paused(), pytest.raises(StoreUnavailable) as silent:
        await store.register(lease("third"), 10.0)
    assert not isinstance(silent.value, StoreRefused), "it said nothing, and what it said before is over"


async def test_a_store_without_room_for_connections_keeps_saying_so(own: RedisServer) -> None:
    """It says why and hangs up. Who still writes then hears of a lost connection alone: what was heard before counts,
    until there is a connection."""
    with own.client() as client:
        client.config_set("maxclients", 1)
        store, found = RedisStore(StoreConfig(own.url, op_timeout=0.5, poll=60.0)), []
        for _ in range(7):
            with pytest.raises(StoreUnavailable) as refused:
                await store.register(lease("first"), 10.0)
            found.append(getattr(refused.value, "says", ""))
        first = found.index("max number of clients reached")
        assert found[first:] == ["max number of clients reached"] * (7 - first)
        client.config_set("maxclients", 100)
        async with asyncio.timeout(10):
            while found[-1]:
                try:
                    await store.register(lease("first"), 10.0)
                    found.append("")
                except StoreUnavailable:
                    """The next attempt to connect comes later."""
        await store.close()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (NoPermissionError("this user has no rights"), "NOPERM this user has no rights"),
        (ResponseError("@user_script:1: -MISCONF disk script: f_1, on line 1"), "MISCONF disk"),
        (ResponseError("WRONGTYPE Operation against a key"), ""),
        (ConnectionError("Connection refused"), ""),
        (ConnectionError("max number of clients reached"), "max number of clients reached"),
        (TimeoutError("READONLY"), ""),
    ],
)
def test_what_concerns_one_request_is_no_refusal_of_all(error: Exception, says: str) -> None:
    assert words_of(error) == says


@pytest.mark.parametrize(("reply", "do"), ANSWERS.items())
def test_an_error_is_an_answer(reply: str, do: str) -> None:
    """Whatever the error: who is told that the store is silent looks at the network, or starts it again."""
    error = error_of(reply)
    found = refusal("it was not written", error)
    assert isinstance(found, StoreRefused | StoreFull)
    assert do in remedy(answer_of(error)) and "swordfish" not in answer_of(error)
    assert getattr(found, "says", answer_of(error)) == answer_of(error) != ""
