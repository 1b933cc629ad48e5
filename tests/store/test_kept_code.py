"""The code of handlers in the store: the same of every store."""

from __future__ import annotations

import anyio
import pytest

from framehold_store import Store, StoreConfig
from framehold_store.keys import Keys
from framehold_store.redis import RedisStore
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio
ONE, OTHER = "0" * 31 + "1", "f" * 32


async def test_code_is_read_as_it_was_stored(store: Store) -> None:
    assert await store.code(ONE) is None
    await store.keep_code(ONE, b"\0\xff{code}", 30)
    await store.keep_code(OTHER, b"", 30)
    assert await store.code(ONE) == b"\0\xff{code}"
    assert await store.code(OTHER) == b""
    await store.keep_code(ONE, b"whole again", 30)
    assert await store.code(ONE) == b"whole again"


async def test_code_goes_when_its_time_is_over(store: Store) -> None:
    await store.keep_code(ONE, b"code", 0.05)
    with anyio.fail_after(5):
        while await store.code(ONE) is not None:
            await anyio.sleep(0.01)


async def test_a_later_end_stays(shared_server: RedisServer) -> None:
    store = RedisStore(StoreConfig(shared_server.url, namespace="kept"))
    await store.keep_code(ONE, b"code", 1000)
    await store.keep_code(ONE, b"code", 10)
    with shared_server.client() as admin:
        assert 990_000 < int(admin.pttl(Keys("kept").code(ONE))) <= 1_000_000
    await store.keep_code(ONE, b"code", 2000)
    with shared_server.client() as admin:
        assert 1_990_000 < int(admin.pttl(Keys("kept").code(ONE))) <= 2_000_000
    await store.close()


async def test_what_somebody_else_wrote_there_is_no_code_and_is_replaced(shared_server: RedisServer) -> None:
    store = RedisStore(StoreConfig(shared_server.url, namespace="spoiled"))
    with shared_server.client() as admin:
        admin.rpush(Keys("spoiled").code(ONE), "a list")
    assert await store.code(ONE) == b""
    await store.keep_code(ONE, b"code", 10)
    assert await store.code(ONE) == b"code"
    await store.close()


@pytest.mark.parametrize("digest", ["", "short", "g" * 32, "0" * 31 + "\n", "../" + "0" * 29])
def test_no_key_is_made_of_what_is_no_digest(digest: str) -> None:
    with pytest.raises(ValueError, match="not a digest"):
        Keys("kept").code(digest)
