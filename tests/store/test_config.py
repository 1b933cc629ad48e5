"""Settings, keys and the choice of a store."""

import itertools
import time
from importlib.resources import files
from importlib.resources.abc import Traversable

import pytest

from framehold_core.errors import ConfigError
from framehold_store import StoreConfig, open_store
from framehold_store.embedded import EmbeddedStore
from framehold_store.keys import Keys
from framehold_store.memory import MemoryStore
from framehold_store.redis import RedisStore
from framehold_store.scripts import SCRIPTS


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (None, MemoryStore),
        ("embedded://", EmbeddedStore),
        ("redis://localhost:6379/1", RedisStore),
        ("rediss://user:secret@redis.example:6380", RedisStore),
        ("unix:///run/redis.sock", RedisStore),
    ],
)
def test_the_url_names_the_store(url: str | None, kind: type) -> None:
    """Building one connects to nothing."""
    assert type(open_store(StoreConfig(url), time.time)) is kind


@pytest.mark.parametrize(
    "url", ["redis+sentinel://a,b/main", "sentinel://a", "redis+cluster://a", "rediss+cluster://a"]
)
def test_what_comes_later_is_refused(url: str) -> None:
    """By name, and before anything starts."""
    with pytest.raises(ConfigError, match=r"FRAMEHOLD_STORE_URL.*not served by this release"):
        StoreConfig(url)


@pytest.mark.parametrize("url", ["", "localhost:6379", "http://secret@x", "memory", "secret"])
def test_a_url_of_no_kind_is_refused(url: str) -> None:
    """Without repeating what may hold a password."""
    with pytest.raises(ConfigError, match=r"FRAMEHOLD_STORE_URL.*names no kind of store") as caught:
        StoreConfig(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["redis://localhost:port", "redis://localhost?socket_timeout=x", "redis://h?nonsense=1"]
)
def test_a_url_that_redis_cant_use_is_refused(url: str) -> None:
    """As a setting, not as a traceback."""
    with pytest.raises(ConfigError, match="FRAMEHOLD_STORE_URL"):
        open_store(StoreConfig(url), time.time)


def test_logs_show_no_password() -> None:
    """Only where the store is."""
    assert StoreConfig("rediss://user:secret@redis.example:6380/3?x=secret").target == "rediss://redis.example:6380"
    assert StoreConfig("redis://:secret@h").target == "redis://h:6379"
    assert StoreConfig("redis://:secret@h:port").target == "redis://?"
    assert StoreConfig("unix://:secret@/run/redis.sock").target == "unix:///run/redis.sock"
    assert "secret" not in repr(StoreConfig("redis://:secret@h"))


@pytest.mark.parametrize("setting", ["op_timeout", "max_queue", "poll"])
def test_limits_are_above_zero(setting: str) -> None:
    """The error names the one that is not."""
    for value in (0, -1, float("nan")):
        with pytest.raises(ConfigError, match=setting):
            StoreConfig(**{setting: value})


@pytest.mark.parametrize("namespace", ["", "a b", "a{b}", "a:b", "*", "é", "-a", "a" * 64, "a\n"])
def test_a_namespace_must_fit_into_a_key(namespace: str) -> None:
    """Anything else could reach another fleet's keys."""
    with pytest.raises(ConfigError, match="FRAMEHOLD_NAMESPACE"):
        StoreConfig(namespace=namespace)


def test_the_keys_are_those_of_the_protocol() -> None:
    """Operators look for them, and later releases must find them."""
    keys = Keys("prod.eu-1")
    call = "0" * 32
    assert keys.call(call) == (f"fh:prod.eu-1:{{{call}}}:r", f"fh:prod.eu-1:{{{call}}}:j")
    assert keys.node("node-1") == "fh:prod.eu-1:node:node-1"
    assert (keys.nodes, keys.changes) == ("fh:prod.eu-1:nodes", "fh:prod.eu-1:changes")
    for bad in ("", "a}b", "a" * 64, "*"):
        with pytest.raises(ValueError, match="not a call id"):
            keys.call(bad)
        with pytest.raises(ValueError, match="not a node id"):
            keys.node(bad)


LUA = sorted(path for path in files("framehold_store.scripts").iterdir() if path.name.endswith(".lua"))


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.name)
def test_every_script_documents_itself(path: Traversable) -> None:
    """KEYS, ARGV and what it returns come before its code."""
    lines = path.read_text(encoding="utf-8").splitlines()
    head = "\n".join(itertools.takewhile(lambda line: line.startswith("--"), lines))
    words = {"KEYS", "ARGV"} if path.name == "lease.lua" else {"KEYS", "ARGV", "Returns"}
    assert words <= set(head.split())
    assert max(map(len, lines)) <= 120


def test_every_script_is_loaded() -> None:
    """And each file is a script or the head of some."""
    assert {path.name for path in LUA} == {f"{name}.lua" for name in (*SCRIPTS, "fence", "lease")}
