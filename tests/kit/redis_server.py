"""A private redis-server child, and a wire to it that a test can cut."""

import asyncio
import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import redis

from framehold_cli.local.ports import free as free_port
from framehold_fleet.http_server.server import close_server
from tests.kit.processes import DEADLINE, Child


def tls_settings(folder: Path) -> dict[str, str]:
    """What a redis-server needs to speak TLS with everyone: ca.pem, server.pem and server.key of a folder."""
    names = {"tls-cert-file": "server.pem", "tls-key-file": "server.key", "tls-ca-cert-file": "ca.pem"}
    files = {setting: str(folder / name) for setting, name in names.items()}
    return files | {"tls-auth-clients": "optional", "tls-replication": "yes", "tls-cluster": "yes"}


def tls_client(folder: Path | None) -> dict[str, Any]:
    """What redis-py needs to speak it; nothing without a folder."""
    return {} if folder is None else {"ssl": True, "ssl_ca_certs": str(folder / "ca.pem")}


def wait_for(true: Callable[[], object], what: str, child: Child | None = None) -> None:
    """Block until `true`; a server that doesn't answer yet is none. Not longer than `child` lives."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        with contextlib.suppress(redis.RedisError):
            if true():
                return
        assert child is None or child.alive, f"{what}: the server ended:\n{child.tail()}"
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {DEADLINE:g} s\n{child.tail() if child else ''}")


class RedisServer(Child):
    """One redis-server on a free port of 127.0.0.1.

    It keeps nothing, unless `appendonly`: then whatever it acknowledged is there again after `kill` and `start`, on the
    same port. `options` go to redis-server as they are. `tls` is a folder with ca.pem, server.pem and server.key: the
    port speaks TLS alone."""

    def __init__(
        self, port: int | None = None, *, appendonly: bool = False, options: Sequence[str] = (), tls: Path | None = None
    ) -> None:
        binary = shutil.which("redis-server")
        assert binary, "redis-server is not installed: run tests/system_packages.sh (apt-get install redis-server)"
        self.folder = Path(tempfile.mkdtemp(prefix="framehold-redis-"))
        self.port = port or free_port()
        self._tls = tls
        command = [binary, "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder), *options]
        command += ["--appendonly", "yes", "--appendfsync", "always"] if appendonly else ["--appendonly", "no"]
        command += ["--port", str(self.port)] if tls is None else ["--port", "0", *self._tls_options(tls)]
        super().__init__(command, self.folder / "log")

    def _tls_options(self, folder: Path) -> list[str]:
        settings = tls_settings(folder) | {"tls-port": str(self.port)}
        return [word for name, value in settings.items() for word in (f"--{name}", value)]

    @property
    def url(self) -> str:
        return f"redis{'' if self._tls is None else 's'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and return when it answers and has read what it kept."""
        self.launch()
        wait_for(self._answers, "an answer of redis-server", self)

    def _answers(self) -> bool:
        with self.client() as client:
            return bool(client.ping())

    def client(self) -> "redis.Redis":
        """A client of the test's own."""
        return redis.Redis(host="127.0.0.1", port=self.port, protocol=2, **tls_client(self._tls))

    def keep(self) -> None:
        """Keep from now on what it acknowledges, as with `appendonly`. Waits until the first copy is on the disk."""
        with self.client() as client:
            client.config_set("appendfsync", "always")
            client.config_set("appendonly", "yes")

            def has_begun() -> bool:
                told = client.info("persistence")
                return bool(
                    told["aof_enabled"] and not (told["aof_rewrite_in_progress"] or told["aof_rewrite_scheduled"])
                )

            wait_for(has_begun, "the journal of redis-server", self)
        self._command[self._command.index("--appendonly") + 1] = "yes"

    def stop(self, how: signal.Signals = signal.SIGKILL) -> int | None:
        """End it, paused or not; without `appendonly` what it held is gone."""
        return super().stop(how)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Startable(Protocol):
    """A server, or several."""

    def start(self) -> None: ...

    def remove(self) -> None: ...


Started = TypeVar("Started", bound=Startable)


@contextlib.contextmanager
def running(server: Started) -> Iterator[Started]:
    """Start it; whatever happens, remove it."""
    try:
        server.start()
        yield server
    finally:
        server.remove()


class Wire:
    """A TCP proxy that counts what is written and can cut a connection in the middle of a reply."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.requests: list[bytes] = []
        self.connections = 0
        self.allowance: int | None = None
        """Bytes of replies that still pass; then the connection is cut and the allowance is off again."""
        self.cuts = 0
        """How many writes with a call's request in them will cost their connection, undelivered."""

    async def __aenter__(self) -> "Wire":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        await close_server(self._server)
        # A turn later the connection that was accepted last has begun to be served.
        await asyncio.sleep(0)
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        self.connections += 1
        self._writers.append(writer)
        upstream, out = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers.append(out)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, out))
                group.create_task(self._replies(upstream, writer))
        except* OSError:
            pass
        finally:
            writer.transport.abort()
            out.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 20):
            self.requests.append(data)
            if self.cuts and b"EVALSHA" in data and b"}:r" in data:
                self.cuts -= 1
                raise ConnectionResetError
            out.write(data)
            await out.drain()
        raise ConnectionResetError

    async def _replies(self, upstream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await upstream.read(1 << 20):
            if self.allowance is not None:
                data, self.allowance = data[: self.allowance], self.allowance - len(data)
                writer.write(data)
                await writer.drain()
                if self.allowance <= 0:
                    self.allowance = None
                    writer.close()
                    raise ConnectionResetError
                continue
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
