"""What an attacker sends, position by position. Each function opens connections to one port, sends, and keeps them open
until it is told to end; it returns nothing and counts the bytes that it has sent."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import NamedTuple

from framehold import json_text
from framehold.http.intake import HEAVIEST
from tests.kit.client import Caller

MIB = 1 << 20
BODY = 4 * MIB
Attack = Callable[["Attacker"], Awaitable[None]]
SHAPES: Mapping[str, bytes] = {
    "lists": b"[]",
    "objects": b'{"a":{}}',
    "numbers": b"1",
    "fractions": b"1.2345678",
    "texts": b'"abcdefghij"',
}


@dataclass
class Attacker:
    """One attacker of a port of 127.0.0.1. `sent`: bytes; `statuses`: of the responses that came."""

    port: int
    sent: int = 0
    statuses: list[int] = field(default_factory=list)
    _open: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def sends(self, data: bytes) -> asyncio.StreamReader | None:
        """Send bytes on a connection of their own, which stays open. None: the server closed it."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return None
        self._open.append((reader, writer))
        for at in range(0, len(data), 1 << 16):
            piece = data[at : at + (1 << 16)]
            writer.write(piece)
            try:
                await asyncio.wait_for(writer.drain(), 5)
            except (OSError, TimeoutError):
                return reader
            self.sent += len(piece)
        return reader

    async def asks(self, data: bytes, patience: float = 10.0) -> int | None:
        """Send a request; the status of its response, None if none came in time."""
        reader = await self.sends(data)
        if reader is None:
            return None
        try:
            line = await asyncio.wait_for(reader.readline(), patience)
        except (OSError, TimeoutError):
            return None
        status = int(line.split()[1]) if line.count(b" ") else None
        if status is not None:
            self.statuses.append(status)
        return status

    def request(self, method: str, params: dict[str, object], given: bytes = b"", size: int = 0) -> bytes:
        """A request as bytes. `given` stands for the text "@" in it; `size` is how long its body is made by spaces."""
        envelope = Caller("").envelope(method, params)
        body = json.dumps(envelope.body).encode().replace(b'"@"', given or b"null")
        body += b" " * (size - len(body))
        lines = [f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\ncontent-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in envelope.headers.items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def close(self) -> None:
        for _, writer in self._open:
            writer.close()


def heaviest(item: bytes, weight: int) -> bytes:
    """A JSON list of as many of this item as a body may have whose values take `weight` bytes."""
    each = json_text.weight(item + b",", weight).structure
    count = min(weight // each, (BODY - 2000) // (len(item) + 1)) - 100
    return b"[" + b",".join([item] * count) + b"]"


async def heads(it: Attacker) -> None:
    """Unfinished heads of many small headers."""
    head = b"POST /mcp HTTP/1.1\r\nhost: a\r\n" + b"".join(b"%x:\r\n" % number for number in range(6_000))
    await asyncio.gather(*(it.sends(head[: 32 * 1024 - 10]) for _ in range(600)))


async def long_heads(it: Attacker) -> None:
    """Heads without an end, of long headers."""
    await asyncio.gather(*(it.sends(b"GET / HTTP/1.1\r\n" + b"a: " + b"x" * (2 * MIB)) for _ in range(60)))


async def unfinished_bodies(it: Attacker) -> None:
    """Bodies that lack their last byte."""
    request = it.request("tools/call", {"name": "marked", "arguments": {}}, size=BODY - 1)
    await asyncio.gather(*(it.sends(request[:-1]) for _ in range(150)))


async def complete_bodies(it: Attacker) -> None:
    """Large bodies of calls that take long."""
    request = it.request("tools/call", {"name": "slow", "arguments": {}}, size=BODY - 1)
    await asyncio.gather(*(it.asks(request) for _ in range(100)))


async def subscriptions(it: Attacker) -> None:
    """Streams of events, more than a node has places for."""
    params: dict[str, object] = {"notifications": {"toolsListChanged": True}}
    request = it.request("subscriptions/listen", params, size=8000)
    for _ in range(15):
        await asyncio.gather(*(it.asks(request) for _ in range(100)))


def shape(tool: str, item: bytes, count: int) -> Attack:
    """Calls whose values weigh as much as may be, so many at once, which stay parked."""

    async def attack(it: Attacker) -> None:
        request = it.request(
            "tools/call", {"name": tool, "arguments": {"given": "@"}}, heaviest(item, HEAVIEST * BODY - (1 << 16))
        )
        await asyncio.gather(*(it.asks(request, 30) for _ in range(count)))

    return attack


def bomb(tool: str) -> Attack:
    """Bodies of empty lists, as long as a body may be."""

    async def attack(it: Attacker) -> None:
        given = b"[" + b"[]," * 1_390_000 + b"[]]"
        request = it.request("tools/call", {"name": tool, "arguments": {"given": "@"}}, given)
        await asyncio.gather(*(it.asks(request, 30) for _ in range(24)))

    return attack


class Row(NamedTuple):
    """An attack: by whom it is met, whether values are built of what is sent, and whether it is a single request."""

    attack: Attack
    at: str
    builds: bool = False
    is_one: bool = False


def rows() -> Mapping[str, Row]:
    """All positions by name."""
    found = {
        "router: unfinished heads": Row(heads, "router"),
        "router: unfinished bodies": Row(unfinished_bodies, "router"),
        "router: complete bodies": Row(complete_bodies, "router"),
        "router: subscriptions": Row(subscriptions, "router"),
        "node: unfinished heads": Row(heads, "node"),
        "node: long heads": Row(long_heads, "node"),
        "node: unfinished bodies": Row(unfinished_bodies, "node"),
        "node: complete bodies": Row(complete_bodies, "node", builds=True),
        "node: subscriptions": Row(subscriptions, "node", builds=True),
        "node: empty lists, unmarked": Row(bomb("unmarked"), "node"),
    }
    for name, item in SHAPES.items():
        found[f"node: {name}, marked"] = Row(shape("marked", item, 40), "node", builds=True)
        found[f"node: one of {name}"] = Row(shape("marked", item, 1), "node", builds=True, is_one=True)
    found["node: lists, unmarked"] = Row(shape("unmarked", SHAPES["lists"], 40), "node", builds=True)
    return found


def attacks(name: str, port: int, link: Connection) -> None:
    """In a process of its own: attack, tell what was sent, and keep all connections open until told to end."""

    async def run() -> None:
        attacker = Attacker(port)
        try:
            async with asyncio.timeout(60):
                await rows()[name].attack(attacker)
        except TimeoutError:
            pass
        link.send((attacker.sent, dict(Counter(attacker.statuses))))
        await asyncio.to_thread(link.recv)
        attacker.close()

    asyncio.run(run())
