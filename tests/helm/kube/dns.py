"""The cluster's DNS server: A records of whatever it is asked to look up, for a time of zero seconds."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

_A, _IN = 1, 1
_ANSWER, _NO_SUCH_NAME = 0x8580, 0x8583
"""An authoritative answer that recursion is available for; and one that says that there is no such name."""

Look = Callable[[str], list[str] | None]
"""The addresses behind a name without its last dot; None where there is no such name."""


class Dns(asyncio.DatagramProtocol):
    """Answers from `look`."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is no asyncio.DatagramTransport by name.
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._transport.sendto(answer(data, self._look), addr)


def answer(query: bytes, look: Look) -> bytes:
    """The response to a query of one question."""
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    question = query[12 : at + 5]
    (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
    found = look(".".join(labels))
    addresses = (found or []) if kind == _A else []
    flags = _NO_SUCH_NAME if found is None else _ANSWER
    header = query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0)
    records = (struct.pack("!HHHIH", 0xC00C, _A, _IN, 0, 4) + socket.inet_aton(one) for one in addresses)
    return header + question + b"".join(records)


async def serve(address: str, look: Look) -> asyncio.BaseTransport:
    """Listen at the usual port there."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: Dns(look), local_addr=(address, 53))
    return transport
