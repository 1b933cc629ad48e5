"""The fake Redis: shared inside a process, and served on a Unix socket to a local fleet."""

import socket
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path

import pytest
from fakeredis import FakeAsyncRedis, FakeServer
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ResponseError

from framehold_cli.local.local_store import _embedded
from framehold_core.errors import ConfigError
from framehold_core.requests import Verdict
from framehold_store import StoreConfig
from framehold_store.embedded import EmbeddedStore, LocalServer
from framehold_store.scripts import SCRIPTS
from tests.store.calls import Story

pytestmark = pytest.mark.anyio


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalServer]:
    server = LocalServer(str(tmp_path / "redis.sock"))
    yield server
    server.stop()


async def test_stores_of_one_process_may_share_a_server() -> None:
    """So that a test can run several nodes without a Redis."""
    server, config = FakeServer(), StoreConfig("embedded://", op_timeout=10.0)
    one, two, other = EmbeddedStore(config, server), EmbeddedStore(config, server), EmbeddedStore(config)
    story = Story()
    await one.run(story.ask)
    assert (await two.run(story.read)).verdict is Verdict.OK
    assert (await other.run(story.read)).verdict is Verdict.MISSING
    for store in (one, two, other):
        await store.close()


async def asked(local: LocalServer, *command: str | int) -> object:
    """One command over a connection of its own: fakeredis ends a connection with the first error."""
    async with Redis.from_url(local.url) as client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis has no types for it


async def test_it_runs_its_own_scripts_only(local: LocalServer) -> None:
    """Whoever reaches it runs no other, by no way that Redis has."""
    text, function = "return 1", "#!lua name=own\nredis.register_function('own', function() return python.eval end)"
    assert await asked(local, "SCRIPT", "FLUSH")
    for way in (("EVAL", text, 0), ("SCRIPT", "LOAD", text)):
        with pytest.raises(ResponseError, match="its own scripts only; nothing was run"):
            await asked(local, *way)
    with pytest.raises(NoScriptError):
        await asked(local, "EVALSHA", sha1(text.encode()).hexdigest(), 0)
    with pytest.raises(ResponseError):
        await asked(local, "FUNCTION", "LOAD", function)
        await asked(local, "FCALL", "own", 0)
    own = next(iter(SCRIPTS.values()))
    assert await asked(local, "SCRIPT", "LOAD", own.text) == own.sha.encode()


@pytest.mark.parametrize(
    "script",
    [
        "return python.eval('1')",
        "return python.builtins.open",
        "return tostring(python)",
        "return redis.call.__globals__",
        "return redis.call['__closure__']",
        "redis.call.x = 1",
        "return require('python')",
        "return package.loaded.python",
        "local f = getmetatable(redis.call) return f.__index(redis.call, '__globals__')",
        "return os.execute('true')",
        "return io.open('/etc/passwd')",
        "return dofile('/etc/passwd')",
        "return debug.getregistry()",
    ],
)
async def test_a_script_does_not_reach_python(script: str) -> None:
    """lupa has a bridge from Lua to Python. In this process fakeredis does not have it."""
    client = FakeAsyncRedis()
    with pytest.raises(ResponseError):
        found = await client.eval(script, 0)
        assert found == b"nil", found
        raise ResponseError("it is not there")
    assert await client.eval("return redis.call('GET', KEYS[1])", 1, "x") is None
    await client.aclose()


def test_only_its_user_may_reach_it() -> None:
    store = _embedded(asked=True)
    try:
        assert store.folder is not None and store.folder.stat().st_mode & 0o777 == 0o700
        assert store.url.startswith(f"unix://{store.folder}/")
    finally:
        store.remove()


def test_a_taken_path_is_an_error(local: LocalServer, tmp_path: Path) -> None:
    """A server that runs keeps its socket, and a file that is no socket is not removed."""
    file = tmp_path / "file"
    file.touch()
    for path in (local.url.removeprefix("unix://"), str(file)):
        with pytest.raises(OSError, match="in use"):
            LocalServer(path)
    assert file.exists()


def test_it_starts_where_a_killed_one_left_its_socket(tmp_path: Path) -> None:
    """Nothing removes the socket of a process that is killed."""
    path = tmp_path / "redis.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
        killed.listen()
    assert path.is_socket()
    LocalServer(str(path)).stop()


def test_without_it_and_without_redis_there_is_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framehold_cli.local.local_store.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="neither redis-server nor fakeredis is installed here"):
        _embedded(asked=False)
