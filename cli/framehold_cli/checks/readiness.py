"""Checks whether a process on this machine is ready. It opens plain connections, so no proxy is used."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

PATIENCE = 2.0
"""The timeout of one check, in seconds."""


async def status(url: str) -> int | None:
    """The HTTP status of a GET of `url` (http, on this machine). None without an HTTP response in `PATIENCE`
    seconds."""
    line = await _answer(url)
    words = line.split()
    return int(words[1]) if line.startswith(b"HTTP/") and len(words) > 1 and words[1].isdigit() else None


async def says_anything(url: str) -> bool:
    """Whether a GET of `url` gets any reply, of HTTP or not, in `PATIENCE` seconds."""
    return bool(await _answer(url))


async def is_ready(url: str) -> bool:
    """Whether a GET of `url` gets 200."""
    return await status(url) == 200


async def store_answers(socket_path: str, port: int) -> bool:
    """Whether a Redis answers a PING: on the unix socket `socket_path`, or, if that is empty, on 127.0.0.1 at
    `port`."""
    line = await _first_line(socket_path or "127.0.0.1", port, b"*1\r\n$4\r\nPING\r\n")
    return line.startswith(b"+PONG")


async def _answer(url: str) -> bytes:
    """The first line of the reply to a GET of `url`; empty without one."""
    parts = urlsplit(url)
    request = f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n"
    return await _first_line(parts.hostname or "", parts.port or 80, request.encode())


async def _first_line(host: str, port: int, request: bytes) -> bytes:
    writer = None
    try:
        async with asyncio.timeout(PATIENCE):
            unix = host.startswith("/")
            opening = asyncio.open_unix_connection(host) if unix else asyncio.open_connection(host, port)
            reader, writer = await opening
            writer.write(request)
            return await reader.readline()
    except (OSError, TimeoutError, ValueError):
        return b""
    finally:
        if writer is not None:
            writer.transport.abort()
