"""The keeper: the store is written once per code, and loads only what this fleet has sealed for this digest."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from framehold.code.codes import LoadedCode, NotKept
from framehold.code.keeper import MAX_LOADED, Keeper
from framehold_core.errors import StoreFull, StoreUnavailable
from framehold_store.memory import MemoryStore
from framehold_store.seal import Sealer
from tests.kit.operators import marked, pair
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer, running
from tests.node.code.releases import written

pytestmark = pytest.mark.anyio
KEY = b"k" * 32
CODE = "c" * 32
TEXT = "def handler(): return 'old'"
HOUR = 3600.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Troubled(MemoryStore):
    """A store that may refuse to keep code, and to give it. `writes` counts."""

    trouble: StoreUnavailable | None = None
    writes = 0

    async def keep_code(self, digest: str, code: bytes, ttl: float) -> None:
        self.writes += 1
        await anyio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        await super().keep_code(digest, code, ttl)

    async def code(self, digest: str) -> bytes | None:
        if self.trouble is not None:
            raise self.trouble
        return await super().code(digest)


class Tool:
    tool = "book"

    def __init__(self, data: bytes | NotKept = b"", code: str = CODE) -> None:
        self.code, self._data = code, data
        self.entered: LoadedCode | None = None

    def written(self) -> bytes:
        if isinstance(self._data, NotKept):
            raise self._data
        return self._data

    def enter_kept(self, digest: str, kept: LoadedCode, data: bytes) -> None:
        self.entered = kept


class Shop:
    def __init__(self, limit: int = 1 << 20, namespace: str = "shop", key: bytes = KEY) -> None:
        self.clock = Clock()
        self.store = Troubled(self.clock)
        self.sealer = Sealer((key,), namespace)
        self.keeper = Keeper(self.store, self.sealer, limit, self.clock)

    async def says(self, code: str = CODE) -> Any:
        tool = Tool(code="present")
        return tool.entered.handler.function() if await self.keeper.load(tool, code) and tool.entered else None


async def test_code_is_written_once_and_again_before_it_expires(tmp_path: Path) -> None:
    shop, tool = Shop(), Tool(written(tmp_path / "a", TEXT))
    assert shop.keeper.is_due(CODE, HOUR) and not shop.keeper.is_due("", HOUR)
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(shop.keeper.keep, tool, HOUR)
    assert shop.store.writes == 1 and await shop.says() == "old"
    shop.clock.now += HOUR - 1
    assert not shop.keeper.is_due(CODE, HOUR)
    shop.clock.now += 2
    assert shop.keeper.is_due(CODE, HOUR)
    await shop.keeper.keep(tool, HOUR)
    shop.clock.now += 2 * HOUR - 1
    assert shop.store.writes == 2 and await shop.store.code(CODE) is not None


@pytest.mark.parametrize(
    ("data", "limit", "text"),
    [
        (NotKept("'file' in the closure of server.book is a file"), 1000, "'file' in the closure"),
        (b"x" * 1001, 1000, "it has 1001 bytes, FRAMEHOLD_MAX_CODE allows 1000"),
    ],
)
async def test_what_can_not_be_kept_is_said_once(
    data: bytes | NotKept, limit: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop, tool = Shop(limit), Tool(data)
    await shop.keeper.keep(tool, HOUR)
    assert not shop.keeper.is_due(CODE, HOUR) and shop.store.writes == 0
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("the code of 'book' is not kept: ") and text in line


@pytest.mark.parametrize("trouble", [StoreUnavailable("silent"), StoreFull("full")])
async def test_a_store_in_trouble_stops_no_call_and_is_tried_again(
    trouble: StoreUnavailable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop, tool = Shop(), Tool(written(tmp_path / "a", TEXT))
    shop.store.trouble = trouble
    await shop.keeper.keep(tool, HOUR)
    assert "could not be stored now" in caplog.text and not shop.keeper.is_due(CODE, HOUR)
    for looks in (shop.keeper.load(Tool(), CODE), shop.keeper.find(CODE)):
        with pytest.raises(StoreUnavailable):
            await looks
    shop.store.trouble = None
    shop.clock.now += 6
    assert shop.keeper.is_due(CODE, HOUR)
    await shop.keeper.keep(tool, HOUR)
    assert await shop.says() == "old"


class Canary:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def _seal(shop: Shop, data: bytes, code: str = CODE, **place: Any) -> bytes:
    usual = {"call": code, "n": 0, "kind": "code", "key": ""}
    return shop.sealer.seal(place.pop("purpose", "code"), data, **{**usual, **place})


async def test_nothing_is_unpickled_that_this_fleet_did_not_seal_for_this_digest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Forged, moved, of another namespace, of another purpose, truncated, altered, empty: the present code is tried."""
    import pickle

    caplog.set_level(logging.WARNING)
    shop, canary = Shop(), tmp_path / "canary"
    head, _, _ = written(tmp_path / "a", TEXT).partition(b"\n")
    data = head + b"\n" + pickle.dumps(Canary(canary))
    sealed = _seal(shop, data)
    wrong = {
        "unsealed": data,
        "of other keys": _seal(Shop(key=b"o" * 32), data),
        "of another namespace": _seal(Shop(namespace="other"), data),
        "of another digest": _seal(shop, data, call="d" * 32),
        "sealed as a value": _seal(shop, data, purpose="value"),
        "sealed as an outcome": _seal(shop, data, purpose="outcome", kind="outcome"),
        "truncated": sealed[:-1],
        "altered": sealed[:-1] + bytes([sealed[-1] ^ 1]),
        "empty": b"",
    }
    for what, blob in wrong.items():
        caplog.clear()
        await shop.store.keep_code(CODE, blob, HOUR)
        assert await shop.says() is None and await shop.keeper.find(CODE) is None, what
        assert "which can't be used here" in caplog.text, what
        assert not canary.exists(), what
    # The canary sings where the seal is right: the checks above check something.
    await shop.store.keep_code(CODE, sealed, HOUR)
    assert await shop.says() is None and canary.exists()


@pytest.mark.parametrize("code", ["", "not a digest", "a" * 31, "A" * 32])
async def test_a_record_that_names_no_digest_is_tried_with_the_present_code(code: str) -> None:
    assert await Shop().says(code) is None


async def test_few_codes_stay_loaded(tmp_path: Path) -> None:
    shop, data = Shop(), written(tmp_path / "a", TEXT)
    for number in range(MAX_LOADED + 5):
        code = f"{number:032x}"
        await shop.store.keep_code(code, _seal(shop, data, code), HOUR)
        found = await shop.keeper.find(code)
        assert found is not None and found.function() == await shop.says(code) == "old"
    assert len(shop.keeper._loaded) == MAX_LOADED


async def test_calls_that_want_one_code_at_once_load_it_once(tmp_path: Path) -> None:
    shop, tool = Shop(), Tool(written(tmp_path / "a", TEXT))
    await shop.keeper.keep(tool, HOUR)
    tools = [Tool(code="present") for _ in range(20)]
    async with anyio.create_task_group() as group:
        for item in tools:
            group.start_soon(shop.keeper.load, item, CODE)
    assert tools[0].entered is not None and {id(item.entered) for item in tools} == {id(tools[0].entered)}


async def test_names_that_the_code_binds_anew_are_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "n = 0\ndef handler():\n    global n\n    n += 1"
    shop, tool = Shop(), Tool(written(tmp_path / "a", text))
    for _ in range(2):
        await shop.keeper.keep(tool, HOUR)
        shop.clock.now += 3 * HOUR
    assert (
        caplog.text.count("keeps state in names: server.handler binds 'n'; after a deploy that changes this code") == 1
    )


async def test_code_is_kept_again_where_the_store_has_lost_it(tmp_path: Path) -> None:
    with running(RedisServer()) as redis, redis.client() as client:
        async with pair(redis, tmp_path.name, marked, lease_ttl=3.0) as (a, _):
            await a.caller.call("marked")
            [key] = client.keys("fh:*:code:*")
            client.flushall()
            await until(lambda: client.exists(key), "the code of the call that waits")


async def test_what_can_not_be_kept_is_not_tried_again_after_a_loss() -> None:
    shop = Shop()
    await shop.keeper.keep(Tool(NotKept("a file")), HOUR)
    shop.keeper.lost()
    assert not shop.keeper.is_due(CODE, HOUR)
