"""A store that somebody else wrote to: what can't be read, or was not sealed here for its place, is named in the log
and run on by nobody; put right again, the call goes on."""

from __future__ import annotations

import ast
import io
import itertools
import logging
import os
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import pytest
from mcp.server.mcpserver import Context
from mcp.types import InputRequiredResult

import framehold
from framehold.config import Settings
from framehold.engine import runtime
from framehold.engine.runtime import Runtime
from framehold.sdk.replies import REASON
from framehold_core.journal import GENESIS, chain
from framehold_store import pickles
from framehold_store.named import Known
from tests.kit.client import Caller, Reply
from tests.kit.nodes import KEY, served
from tests.kit.processes import ROOT
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said, server_of
from tests.node.spoil import (
    ANSWERS,
    CODECS,
    EFFECTS,
    EVERYTHING,
    MADE_UP,
    MARK,
    ORDERS,
    RESULTS,
    SHAPES,
    SHOWN,
    VALUES,
    Bomb,
    Log,
    Place,
    Spoil,
    hand_worker,
    learn,
    worker,
)
from tests.structure.rooms import FRAMEHOLD

pytestmark = pytest.mark.anyio
_count = itertools.count()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for the file: the tests of spoiled journals share a node."""
    return "asyncio"


@pytest.fixture(autouse=True, scope="module")
def often() -> Iterator[None]:
    """The pass that finds what is due comes at once, not within a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "SWEEP", 0.02)
        yield


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@pytest.fixture
def namespace() -> str:
    return f"spoiled-{os.getpid()}-{next(_count)}"


class Site:
    """A node in this process over a real Redis, one life of it."""

    def __init__(self, caller: Caller, runtime: Runtime) -> None:
        self.caller, self.runtime = caller, runtime

    async def parked(self) -> tuple[Reply, Reply]:
        """A call of `work` that has answered its first question; both replies."""
        first = await self.caller.call("work")
        assert first.messages == ["one?"], first.message
        second = await self.answer(first)
        assert second.messages == ["two?"], second.message
        return first, second

    async def answer(self, reply: Reply, word: str = "x") -> Reply:
        return await self.caller.retry("work", reply.token, reply.accept(word=word))


@asynccontextmanager
async def site(redis: RedisServer, namespace: str, *tools: Callable[..., Any], **settings: Any) -> AsyncIterator[Site]:
    server = server_of("spoiled", *tools)
    fixed = {"store_url": redis.url, "namespace": namespace, "node_id": "one", "keys": (KEY,), "lease_ttl": 30}
    app = framehold.asgi(server, Settings(**{**fixed, **settings}))
    async with served(app) as url, Caller(url) as caller:
        yield Site(caller, app.attached.runtime)


class Journal:
    """One call's journal in Redis."""

    def __init__(self, redis: RedisServer, namespace: str, reply: Reply) -> None:
        self.call = reply.token.split(".")[1]
        self._redis, self._key = redis, f"fh:{namespace}:{{{self.call}}}:j"

    def read(self) -> list[bytes]:
        with self._redis.client() as client:
            return [bytes(item) for item in client.lrange(self._key, 0, -1)]

    def write(self, entries: list[bytes], *, cover: bool = False) -> None:
        """Write these entries; `cover` also makes the record name them, as somebody who knows the format would.
        Attempts are counted anew."""
        with self._redis.client() as client:
            client.delete(self._key)
            if entries:
                client.rpush(self._key, *entries)
            result: dict[str, Any] = {"attempts": 0}
            if cover:
                result |= {"n": len(entries), "jh": chain(GENESIS, entries)}
            client.hset(f"{self._key[:-1]}r", mapping=result)


def bomb(tmp_path: Path) -> bytes:
    return pickle.dumps(Bomb(tmp_path / "exploded"))


class Unpickled:
    """Everything that any unpickler of this process was given."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: list[bytes] = []
        loads, plain = pickle.loads, pickle.Unpickler

        def heard(data: Any, /, *args: Any, **kwargs: Any) -> Any:
            self.seen.append(bytes(data))
            return loads(data, *args, **kwargs)

        class Hearing(plain):  # type: ignore[misc, valid-type]  # its base is a variable
            def __init__(inner, file: Any, *args: Any, **kwargs: Any) -> None:
                data = file.read()
                self.seen.append(bytes(data))
                super().__init__(io.BytesIO(data), *args, **kwargs)

        for module in (pickle, cloudpickle):
            patch.setattr(module, "loads", heard)
            patch.setattr(module, "load", lambda file, **kwargs: Hearing(file, **kwargs).load())
        patch.setattr(pickle, "Unpickler", Hearing)
        read = pickles.loads

        def read_and_heard(data: bytes, known: Known) -> Any:
            self.seen.append(bytes(data))
            return read(data, known)

        patch.setattr(pickles, "loads", read_and_heard)


@pytest.fixture
def unpickled(monkeypatch: pytest.MonkeyPatch) -> Unpickled:
    return Unpickled(monkeypatch)


def test_the_recorder_hears_what_is_unpickled(unpickled: Unpickled, tmp_path: Path) -> None:
    """A control: what is loaded is heard, by whatever name, and the bomb does go off."""
    data = bomb(tmp_path)
    assert MARK in data
    pickle.loads(data)
    assert (tmp_path / "exploded").read_bytes() == MARK
    cloudpickle.load(io.BytesIO(data))
    assert unpickled.seen == [data, data]


class Shared(NamedTuple):
    """The node of all tests of one spoiled journal, what its handler did in the present one, and what was unpickled."""

    site: Site
    redis: RedisServer
    namespace: str
    log: Log
    unpickled: Unpickled


@pytest.fixture(scope="module")
async def node(redis: RedisServer) -> AsyncIterator[Shared]:
    """A node that drops each frame once it has parked."""
    log, namespace = Log(), f"spoiled-{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        unpickled = Unpickled(patch)
        async with site(redis, namespace, worker(log), rehearse=True, max_round=2) as one:
            yield Shared(one, redis, namespace, log, unpickled)


async def spoiled(node: Shared, tmp_path: Path, spoil: Spoil, *, cover: bool) -> tuple[Reply, Reply]:
    """Park a call whose frame is dropped then, spoil its journal, answer; then put the journal right and answer again.
    Both replies."""
    one, log, unpickled = node.site, node.log, node.unpickled.seen
    unpickled.clear()
    _, reply = await one.parked()
    _, other = await one.parked()
    sealed = set(unpickled)
    assert len(sealed) == 3 and not any(MARK in data for data in sealed), "a tuple, and an exception in two ways"
    log.ran, log.entered, log.after = [], 0, []
    journal, others = (Journal(node.redis, node.namespace, each) for each in (reply, other))
    good = journal.read()
    assert len(good) == 12 and len(others.read()) == 12
    place = Place(journal.call, good, others.read(), one.runtime.payloads, node.namespace, bomb(tmp_path))
    bad = spoil(place)
    assert bad != good, "nothing was spoiled"
    journal.write(bad, cover=cover)
    unpickled.clear()
    result = await one.answer(reply)
    # Those of VALUES are sealed by this fleet for their places: they may be tried, and fail.
    assert set(unpickled) <= sealed or spoil in VALUES.values(), unpickled
    assert not any(MARK in data for data in unpickled)
    assert log.after == [] and log.ran == [], (result.message, log)
    assert not log.entered or spoil in VALUES.values(), "entered with a journal that somebody else has written"
    assert not (tmp_path / "exploded").exists()
    assert journal.read() == bad, "what can't be read is left as it is"
    assert not len(one.runtime.table)
    journal.write(good, cover=True)
    again = await one.answer(reply)
    assert (await one.answer(other)).text == "x x", "another call suffered"
    return result, again


def named(told: Reply) -> bool:
    words = "answers were not taken, and no recorded effect was run again"
    return bool(told.result["isError"]) and words in told.text


TRUNCATED: dict[str, Spoil] = {
    "the last entry gone": lambda at: at.entries[:-1],
    "the last two gone": lambda at: at.entries[:-2],
    "half of it gone": lambda at: at.entries[:6],
    "all of it gone": lambda at: [],
}
MOVED: dict[str, Spoil] = {
    "another call's journal": lambda at: at.other,
    "another call's end": lambda at: [*at.entries[:9], *at.other[9:]],
    "an answer of another round": lambda at: at.changed(at.index("answer"), ROUND=2),
    "an effect of another lane": lambda at: at.changed(at.index("intent"), LANE="side"),
    "a question of another text": lambda at: at.changed(at.index("ask"), FP="0" * 32),
    "an effect of other arguments": lambda at: at.changed(at.index("intent"), FP="0" * 32),
    "a question of another key": lambda at: at.changed(at.index("ask"), KEY="another"),
    "an effect of another key": lambda at: at.changed(at.index("intent"), KEY="another"),
}


def _few(spoils: dict[str, Spoil]) -> dict[str, Spoil]:
    """Two of them: of how they look there it does not depend."""
    return dict(itertools.islice(spoils.items(), 2))


JOURNALS = {**EVERYTHING, **ANSWERS, **SHOWN, **MADE_UP, **TRUNCATED, **MOVED}


@pytest.mark.parametrize("spoil", JOURNALS.values(), ids=JOURNALS.keys())
async def test_a_journal_that_was_spoiled(
    node: Shared, tmp_path: Path, spoil: Spoil, caplog: pytest.LogCaptureFixture
) -> None:
    """By somebody who made its record fit: the handler does not go on, no effect runs, the client is told so and the
    log says why; put right, the call completes and each effect has run once. What reaches an unpickler are the pickles
    that this fleet sealed for their places, byte for byte."""
    result, again = await spoiled(node, tmp_path, spoil, cover=True)
    assert named(result), result.message
    assert "can't be continued here: " in caplog.text and "Traceback" not in caplog.text, caplog.text
    assert again.text == "x x" and node.log.ran == ["after", "after"]


CARELESS = {**SHAPES, **ORDERS, **TRUNCATED, **MOVED, **_few(RESULTS), **_few(ANSWERS), **_few(VALUES), **CODECS}


@pytest.mark.parametrize("spoil", CARELESS.values(), ids=CARELESS.keys())
async def test_a_journal_that_its_record_does_not_name(
    node: Shared, tmp_path: Path, spoil: Spoil, caplog: pytest.LogCaptureFixture
) -> None:
    """Altered, and the record not: no handler is entered at all. One of another length is no journal of this call: the
    store has lost it, and its client is told so."""
    result, again = await spoiled(node, tmp_path, spoil, cover=False)
    if not named(result):
        assert result.result["isError"] and "the store of this node has no trace of it" in result.text
    else:
        assert "is not the one that its record names" in caplog.text or "journal entry " in caplog.text, caplog.text
    assert again.text == "x x"


async def test_a_record_that_only_says_that_its_call_is_done(node: Shared, caplog: pytest.LogCaptureFixture) -> None:
    _, reply = await node.site.parked()
    call = reply.token.split(".")[1]
    with node.redis.client() as client:
        client.hset(f"fh:{node.namespace}:{{{call}}}:r", "state", "done")
    result = await node.site.answer(reply)
    assert result.result["isError"] and result.result["_meta"][REASON] == "lost", result.message
    assert "its outcome can't be opened" in caplog.text and "Traceback" not in caplog.text


async def test_a_pickle_where_none_may_be(
    redis: RedisServer, namespace: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log()
    async with site(redis, namespace, worker(log)) as one:
        _, reply = await one.parked()
    log.ran, log.entered, log.after = [], 0, []
    journal = Journal(redis, namespace, reply)
    good = journal.read()
    async with site(redis, namespace, worker(log), pickle=False) as one:
        result = await one.answer(reply)
        assert named(result) and "FRAMEHOLD_PICKLE is off on this node" in caplog.text
        assert log.entered == 1 and log.after == log.ran == [] and journal.read() == good
    async with site(redis, namespace, worker(log)) as one:
        assert (await one.answer(reply)).text == "x x"


async def test_a_rotated_key_that_was_dropped_too_early(
    redis: RedisServer, namespace: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The token is under the new key, the journal's beginning under the old one that is gone: named, not guessed."""
    new, log = "a new key of at least 32 bytes, indeed", Log()
    async with site(redis, namespace, worker(log)) as one:
        first = await one.caller.call("work")
    async with site(redis, namespace, worker(log), keys=(new, KEY)) as one:
        second = await one.answer(first)
    log.after, log.ran = [], []
    async with site(redis, namespace, worker(log), keys=(new,)) as one:
        result = await one.answer(second)
    assert named(result) and "its key is not among FRAMEHOLD_KEYS" in caplog.text and log.after == log.ran == []


_LOADERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "jsonpickle", "yaml"}
_RUNNERS = {"eval", "exec", "compile", "__import__"}
PICKLES_PY = "store/framehold_store/pickles.py"


def test_only_two_functions_unpickle() -> None:
    """Nothing else in the distribution imports a library that makes objects of bytes: one unpickles values, one kept
    code. One function runs a text: a constant expression of a module that the process has imported."""
    found: list[str] = []
    paths = [path for package, room in FRAMEHOLD.items() for path in sorted((room / package).rglob("*.py"))]
    for file in paths:
        path, tree = str(file.relative_to(ROOT)), ast.parse(file.read_text())
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [(node.module or "").split(".")[0]]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _RUNNERS:
                found.append(f"{path}: {node.func.id}()")
            elif isinstance(node, ast.Attribute) and node.attr in ("persistent_load", "Unpickler"):
                found.append(f"{path}: {node.attr}")
            found += [f"{path}: {name}" for name in names if name in _LOADERS]
    code = "node/framehold/code"
    assert sorted(found) == sorted(
        [
            *(f"{PICKLES_PY}: {name}" for name in ("pickle", "cloudpickle", "Unpickler")),
            *(f"{code}/loading.py: pickle", f"{code}/loading.py: Unpickler", f"{code}/writing.py: cloudpickle"),
            *(f"{code}/constants.py: {name}()" for name in ("compile", "eval")),
        ]
    )


async def test_a_state_that_its_journal_keeps(
    redis: RedisServer, namespace: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that parks by hand first and is held after that brings along what it learned. Where that can't be read
    any more when its frame is rebuilt, the handler does not go on."""
    log = Log()
    by_hand = hand_worker(log)

    @framehold.reentrant
    async def work(ctx: Context) -> str | InputRequiredResult:
        if ctx.request_state is None:
            asked: InputRequiredResult = await by_hand(ctx)
            return asked
        log.entered += 1
        try:
            await learn(log)
        except Exception as error:
            log.after.append(f"went on with {error!r}")
        return said(await ctx.elicit("held?", Word))

    async with site(redis, namespace, work) as one:
        first = await one.caller.call("work")
        reply = await one.answer(first)
        assert reply.messages == ["held?"] and log.ran == EFFECTS, reply.message
    log.after = []
    async with site(redis, namespace, work, pickle=False) as one:
        result = await one.answer(reply)
        assert named(result) and log.after == [], (result.message, log.after)
    assert "FRAMEHOLD_PICKLE is off" in caplog.text
    async with site(redis, namespace, work) as one:
        assert (await one.answer(reply)).text == "x"
    assert log.ran == EFFECTS and log.after == []
