"""Streams of requests at HAProxy as the example configures it, with a strict server behind it: what it accepts means
the same to the router, and to the nodes that it is passed on to."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from tests.kit.fleet import haproxy
from tests.kit.processes import DEADLINE, ROOT

from .front import difference, shown
from .others import Uvicorn, read_by_router
from .part import Outcome, played
from .strict import NUMBER, SERVER, Meaning, Strict, strict

_CLOSED = (b"admin", b"metrics", b"dashboard", b"api/v1")
"""What the targets have in them that the example's HAProxy answers by itself."""


class _Server(NamedTuple):
    """A node, as far as a balancer's configuration names one."""

    root: str


class Balanced:
    """HAProxy with a strict server behind it."""

    def __init__(self, port: int, behind: Strict) -> None:
        self._port, self._behind, self._node = port, behind, Uvicorn("node")
        self.shapes = set[tuple[object, ...]]()
        """What streams have led to: statuses and how many requests were passed on."""

    async def _sent(self, pieces: Sequence[bytes]) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        try:
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            # HAProxy answers what came before the end of a client's side, and closes then.
            writer.write_eof()
            return await reader.read()
        except OSError:
            # It was reset: what was refused was not read to its end.
            return b""
        finally:
            writer.close()

    async def wrong(self, pieces: Sequence[bytes]) -> str | None:
        """What is wrong with what a stream led to; None if nothing is."""
        self._behind.begin()
        try:
            async with asyncio.timeout(DEADLINE):
                got = await self._sent(pieces)
        except TimeoutError:
            return f"no end within {DEADLINE:g} s"
        passed = self._behind.requests
        statuses = tuple(line.split(b" ")[1] for line in got.split(b"\r\n") if line.startswith(b"HTTP/1.1 "))
        self.shapes.add((*statuses, len(passed)))
        if self._behind.violations:
            return f"{self._behind.violations}"
        numbers = [int(number) for number in NUMBER.findall(got)]
        if numbers != [*range(len(numbers))]:
            return f"{len(passed)} requests were passed on, and the client got {got[:2000]!r}"
        for one, raw in zip(passed, self._behind.raw, strict=True):
            if (wrong := difference("HAProxy", [one], "a node", await self._node.read([raw]))) is not None:
                return f"{wrong}: {raw!r}"
            if self._node.planted or self._node.raised:
                return f"a node is shown {self._node.planted} and raises {self._node.raised}: {raw!r}"
        return difference("the router", _of_nodes(read_by_router(pieces)), "HAProxy", _of_nodes(passed))


def _of_nodes(found: list[Meaning]) -> list[Meaning]:
    """Less what both answer themselves."""
    return [one for one in found if not any(word in unquote_to_bytes(one.target).lower() for word in _CLOSED)]


@asynccontextmanager
async def balanced(folder: Path) -> AsyncIterator[Balanced]:
    """A running HAProxy.

    Raises:
        AssertionError: it is not installed.
    """
    async with strict(is_lax=True) as behind:
        server = _Server(f"http://127.0.0.1:{behind.address[1]}")
        async with haproxy(folder, ROOT / "examples/haproxy.cfg", {SERVER: server}) as url:
            port = urlsplit(url).port
            assert port is not None
            yield Balanced(port, behind)


async def _run(seed: int, seconds: float) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        async with balanced(Path(folder)) as at:
            done = await played(seed, seconds, lambda number: shown(at.wrong, number))
            return done._replace(seen=f"{len(at.shapes)} kinds of outcome")


def run(seed: int, seconds: float) -> Outcome:
    """Send the streams of the seeds that begin with `seed`, for some seconds."""
    return asyncio.run(_run(seed, seconds))
