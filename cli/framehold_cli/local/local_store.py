"""The store of a local fleet: the store that the user gave, else a private redis-server, else a stand-in in Python.

The private redis-server and the stand-in listen only on a unix socket, in a folder that only this user may enter.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from framehold_core.errors import ConfigError
from framehold_router.own_folder import NOWHERE
from framehold_store import StoreConfig
from framehold_store.config import PACKED_VALUE_BYTES

from ..checks import readiness
from ..checks.store_trouble import trouble
from .children import Spec

_SOCKET = "redis.sock"
_MAX_SOCKET_PATH = 100
"""Characters that the path of a unix socket may have, a few below the limit of the system."""
EMBEDDED = "embedded"


@dataclass(frozen=True)
class LocalStore:
    """The store of a local fleet.

    `specs`: the processes that the store needs, if any. `sentence`: what the store is, and how long its contents are
    kept, for the table. `folder`: a folder to remove at the end."""

    url: str
    sentence: str
    specs: Sequence[Spec] = ()
    folder: Path | None = None

    def remove(self) -> None:
        """Remove the store's folder. Call it after the store's processes have ended."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


async def choose(config: StoreConfig, lasting_keys: bool) -> LocalStore:
    """Choose the store for a fleet; don't start its processes. `lasting_keys`: the fleet's keys outlive this run.

    Raises:
        ConfigError: the store that the user gave does not answer, or there is none at all, or nowhere to put its
            socket.
    """
    if config.scheme in ("memory", EMBEDDED):
        program = shutil.which("redis-server") if config.scheme == "memory" else None
        return _private(program) if program else _embedded(asked=config.scheme == EMBEDDED)
    await _check(config)
    kept = (
        "stays when you stop" if lasting_keys else "stays, but this run's keys don't: set FRAMEHOLD_KEYS to go on later"
    )
    return LocalStore(config.url or "", f"{config.target} (yours; what is in it {kept})")


async def _check(config: StoreConfig) -> None:
    """Raise ConfigError if the store does not answer, before anything starts."""
    from redis.exceptions import RedisError

    from framehold_store.connections import open_client

    try:
        client = open_client(replace(config, op_timeout=2.0))
        try:
            await client.ping()
        finally:
            await client.aclose()
    except (RedisError, OSError, ValueError, TypeError) as error:
        found = trouble(error, config)
        raise ConfigError(
            f"the store {config.target} {found.says}; nothing was started; {found.do}; or leave --store "
            "(FRAMEHOLD_STORE_URL) out for a private one"
        ) from None


def _socket() -> Path:
    """The path of a socket in a new folder that only this user may enter. Raises ConfigError."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="framehold-"))
    except FileNotFoundError:
        raise ConfigError(NOWHERE) from None
    if len(str(folder / _SOCKET)) > _MAX_SOCKET_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="framehold-", dir="/tmp"))
    return folder / _SOCKET


def _private(program: str) -> LocalStore:
    place = _socket()
    quiet = ("--save", "", "--appendonly", "no", "--loglevel", "warning", "--maxmemory-policy", "noeviction")
    # The name of the option before Redis 7.0; later releases know it too.
    packed = ("--hash-max-ziplist-value", str(PACKED_VALUE_BYTES))
    command = (program, "--port", "0", "--unixsocket", str(place), "--dir", str(place.parent), *quiet, *packed)
    spec = Spec("store", command, ready=partial(readiness.store_answers, str(place), 0), loss=_LOSS, shows_output=False)
    return LocalStore(f"unix://{place}", "redis (private; gone when you stop)", (spec,), place.parent)


def _embedded(asked: bool) -> LocalStore:
    if find_spec("fakeredis") is None:
        raise ConfigError(
            "there is no store: neither redis-server nor fakeredis is installed here (images have none); nothing was "
            "started; install one of them, or name a Redis by --store (FRAMEHOLD_STORE_URL)"
        )
    place = _socket()
    command = (sys.executable, "-P", "-m", "framehold", "embedded-store", str(place))
    spec = Spec("store", command, ready=partial(readiness.store_answers, str(place), 0), loss=_LOSS, shows_output=False)
    why = "" if asked else "there is no redis-server on PATH; "
    sentence = f"embedded ({why}a slow stand-in in Python; gone when you stop)"
    return LocalStore(f"unix://{place}", sentence, (spec,), place.parent)


_LOSS = "all that it held is gone"


def serve_embedded(path: str) -> None:
    """Serve the stand-in for Redis on a Unix socket at `path` until SIGINT or SIGTERM.

    Raises:
        ConfigError: there can be no socket."""
    from framehold_store.embedded import LocalServer

    # The signals are blocked before threads start, so that no thread takes a signal away from `sigwait` below.
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        server = LocalServer(path)
    except OSError as error:
        raise ConfigError(f"no socket can be had at {path} ({error.strerror or error}); nothing was started") from None
    signal.sigwait(ends)
    server.stop()
