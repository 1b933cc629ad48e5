"""Settings, keys and the choice of a store."""

import time
from importlib.resources import files

import pytest
from redis.asyncio.connection import SSLConnection, parse_url

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
        ("redis+sentinel://:secret@s1,s2,s3/fleet", RedisStore),
        ("rediss+sentinel://s1:26379/fleet/1?sentinel_password=x", RedisStore),
        ("redis+cluster://h1,h2:6380", RedisStore),
        ("rediss+cluster://user:secret@h1?ssl_ca_certs=%2Fca.pem", RedisStore),
    ],
)
def test_the_url_names_the_store(url: str | None, kind: type) -> None:
    """Building one connects to nothing."""
    assert type(open_store(StoreConfig(url), time.time)) is kind


MALFORMED = [
    ("redis+sentinel://a,b,c", "names no service"),
    ("redis+sentinel://a,b,c/", "names no service"),
    ("redis+sentinel://a/main/x", "no number of a database"),
    ("redis+sentinel://a/main/0/1", "no number of a database"),
    ("redis+sentinel://a/ma in", "service is not a name"),
    ("redis+sentinel:///main", "host number 1"),
    ("redis+sentinel://a,,b/main", "host number 2"),
    ("redis+sentinel://a:0/main", "host number 1"),
    ("redis+sentinel://a:65536/main", "host number 1"),
    ("redis+sentinel://a,b:port/main", "host number 2"),
    ("redis+sentinel://u:se/cret@a/main", "host number 1"),
    ("redis+sentinel://u:12/secret@a/main", "service is not a name|no number"),
    ("redis+sentinel://u:se#cret@a/main", "'#'"),
    ("redis+sentinel://u:secret@a,[::1/main", "brackets"),
    ("redis+sentinel://u:secret@\u2048/main", "characters that no URL has"),
    ("redis+cluster://", "host number 1"),
    ("redis+cluster://a,b/main", "has a path"),
    ("redis+cluster://a,b/1", "has a path"),
    ("redis+cluster://a b", "host number 1"),
    ("redis+cluster://a?sentinel_password=secret", "for redis\\+sentinel:// alone"),
]


@pytest.mark.parametrize(("url", "why"), MALFORMED)
def test_a_malformed_url_of_several_servers_is_refused(url: str, why: str) -> None:
    """Before anything starts, by what is wrong with it, and without a piece of its password."""
    with pytest.raises(ConfigError, match=f"FRAMEHOLD_STORE_URL.*({why}).*nothing was started") as caught:
        StoreConfig(url)
    assert "secret" not in str(caught.value)
    assert "se/cret" not in str(caught.value)


def test_a_url_of_several_servers_is_taken_apart() -> None:
    """Ports have the defaults of sentinels and servers; credentials and options are redis-py's."""
    options = "?sentinel_username=w&sentinel_password=s%40&ssl_ca_certs=%2Fca.pem&socket_keepalive=yes"
    address = StoreConfig(f"rediss+sentinel://user:pass%2Fword@s1,s2:1,[::1]:2/fleet/3{options}").address
    assert address is not None
    assert (address.kind, address.tls, address.service) == ("sentinel", True, "fleet")
    assert address.places == (("s1", 26379), ("s2", 1), ("::1", 2))
    assert address.login == {"username": "w", "password": "s@"}
    assert parse_url(address.server) == {
        "username": "user",
        "password": "pass/word",
        "host": "s1",
        "port": 26379,
        "db": 3,
        "ssl_ca_certs": "/ca.pem",
        "socket_keepalive": True,
        "connection_class": SSLConnection,
    }
    address = StoreConfig("redis+cluster://h1,h2:7000/").address
    assert address is not None
    assert (address.kind, address.tls, address.places) == ("cluster", False, (("h1", 6379), ("h2", 7000)))


@pytest.mark.parametrize(
    "url",
    ["", "localhost:6379", "http://secret@x", "memory", "secret", "sentinel://a/main", "redis+sentinels://a/main"],
)
def test_a_url_of_no_kind_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"FRAMEHOLD_STORE_URL.*names no kind of store") as caught:
        StoreConfig(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *("redis://localhost:port", "redis://localhost?socket_timeout=x", "redis://h?nonsense=1"),
        *("redis+sentinel://h/fleet?nonsense=1", "redis+cluster://h?nonsense=1", "redis+cluster://h?socket_timeout=x"),
    ],
)
def test_a_url_that_redis_cant_use_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="FRAMEHOLD_STORE_URL"):
        open_store(StoreConfig(url), time.time)


def test_logs_show_no_password() -> None:
    assert StoreConfig("rediss://user:secret@redis.example:6380/3?x=secret").target == "rediss://redis.example:6380"
    assert StoreConfig("redis://:secret@h").target == "redis://h:6379"
    assert StoreConfig("redis://:secret@h:port").target == "redis://?"
    assert StoreConfig("unix://:secret@/run/redis.sock").target == "unix:///run/redis.sock"
    assert StoreConfig("redis+sentinel://u:secret@a,b:1/fleet/1?sentinel_password=secret").target == (
        "redis+sentinel://a:26379,b:1/fleet"
    )
    assert StoreConfig("rediss+cluster://u:secret@a,[::1]:7").target == "rediss+cluster://a:6379,[::1]:7"
    for url in ("redis://:secret@h", "redis+cluster://:secret@h", "redis+sentinel://h/m?sentinel_password=secret"):
        assert "secret" not in repr(StoreConfig(url))
        assert "secret" not in repr(StoreConfig(url).address)


@pytest.mark.parametrize("setting", ["op_timeout", "max_queue", "poll"])
def test_limits_are_above_zero(setting: str) -> None:
    for value in (0, -1, float("nan")):
        with pytest.raises(ConfigError, match=setting):
            StoreConfig(**{setting: value})  # type: ignore[arg-type]  # of whichever type, it is refused


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


SCRIPT_FILES = files("framehold_store.scripts").iterdir()
LUA = sorted((path for path in SCRIPT_FILES if path.name.endswith(".lua")), key=lambda path: path.name)


def test_every_script_is_loaded() -> None:
    assert {path.name for path in LUA} == {
        f"{name}.lua" for name in (*SCRIPTS, "count", "fence", "lease", "record", "size", "trail", "version")
    }
