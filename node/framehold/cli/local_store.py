"""The store of a local fleet: the one that was given, else a private redis-server, else a stand-in in Python.

The private one listens on a unix socket in a folder that only this user may enter, and nowhere else.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from framehold_core.errors import ConfigError
from framehold_store import StoreConfig

from . import ports, readiness
from .children import Spec
from .store_health import PACKED
from .store_trouble import trouble

_SOCKET_PATH = 100
"""Characters that a unix socket's path may have, with some to spare."""
EMBEDDED = "embedded"


@dataclass(frozen=True)
class LocalStore:
    """Where a fleet keeps things. `specs`: the processes that it takes, if any. `sentence`: what it is, and what is
    kept. `folder`: to be removed at the end."""

    url: str
    sentence: str
    specs: Sequence[Spec] = ()
    folder: Path | None = None

    def remove(self) -> None:
        """Leave nothing behind. Its processes have ended."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


async def choose(config: StoreConfig, lasting_keys: bool) -> LocalStore:
    """The store for a fleet; its processes are not started. `lasting_keys`: the keys outlive this run.

    Raises:
        ConfigError: the given store does not answer.
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
    """A store that isn't there is told before anything starts."""
    from redis.exceptions import RedisError

    from framehold_store.connections import open_client

    try:
        client = open_client(replace(config, op_timeout=2.0))
        try:
            await client.ping()
        finally:
            await client.aclose()
    except (RedisError, OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"the store {config.target} {trouble(error, config).says}; nothing was started; start it, "
            "correct --store (FRAMEHOLD_STORE_URL), or leave it out for a private one"
        ) from None


def _private(program: str) -> LocalStore:
    folder = Path(tempfile.mkdtemp(prefix="framehold-"))
    place = folder / "redis.sock"
    if len(str(place)) > _SOCKET_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="framehold-", dir="/tmp"))
        place = folder / "redis.sock"
    quiet = ("--save", "", "--appendonly", "no", "--loglevel", "warning", "--maxmemory-policy", "noeviction")
    # The name that it had before 7.0, which later releases know too.
    packed = ("--hash-max-ziplist-value", str(PACKED))
    command = (program, "--port", "0", "--unixsocket", str(place), "--dir", str(folder), *quiet, *packed)
    spec = Spec("store", command, ready=partial(readiness.store_answers, str(place), 0), loss=_LOSS, heard=False)
    return LocalStore(f"unix://{place}", "redis (private; gone when you stop)", (spec,), folder)


def _embedded(asked: bool) -> LocalStore:
    port = ports.free()
    command = (sys.executable, "-P", "-m", "framehold", "embedded-store", "--port", str(port))
    spec = Spec("store", command, ready=partial(readiness.store_answers, "", port), loss=_LOSS, heard=False)
    why = "" if asked else "there is no redis-server on PATH; "
    return LocalStore(
        f"redis://127.0.0.1:{port}", f"embedded ({why}a slow stand-in in Python; gone when you stop)", (spec,)
    )


_LOSS = "all that it held is gone"


def serve_embedded(port: int) -> None:
    """Be the stand-in, until a signal ends this process."""
    from framehold_store.embedded import serve

    # Blocked before there are threads, so that none of them takes the signal instead of the wait below.
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        server = serve(ports.HOST, port)
    except OSError as error:
        raise ConfigError(f"port {port} can't be had ({error.strerror or error}); nothing was started") from None
    signal.sigwait(ends)
    server.stop()
