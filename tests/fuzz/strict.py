"""A server behind a router that takes nothing but what a router may send, and answers each request by its number."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import Address
from tests.kit.nodes import KEY as HAPROXYS
from tests.kit.proofs import answered
from tests.router import wires

from .streams import PLANTED

_TRUST = Trust([HAPROXYS.encode()])
NUMBER = re.compile(rb"(?i)\r\nx-number: (\d+)\r\n")
"""Finds the numbers in what a client received."""
_HEAD = re.compile(
    rb"[A-Z]+ (?:/[!-\"$-~]*|\*) HTTP/1\.1\r\n(?P<lines>(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[\t -~\x80-\xff]*\r\n)*)\r\n"
)
_LAX_HEAD = re.compile(rb"[^ \r\n]+ [^ \r\n]+ HTTP/[0-9.]+\r\n(?P<lines>(?:[^: \t\r\n]+:[^\r\n]*\r\n)*)\r\n")
_ABSOLUTE = re.compile(rb"[a-z]+://(?:[^/?#@]*@)?[^/?#@]+(?P<path>/[^#]*|\?[^#]*|)", re.IGNORECASE)
_ONE_CONNECTION = (b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade", b"http2-settings")
_OWN = frozenset((b"framehold-proof", b"framehold-call-id"))
"""Internal headers that a router sends itself."""
_HELLO = re.compile(rb"\r\nframehold-hello: (.*)\r\n")
_CHECK = re.compile(rb"GET /readyz\?nonce=([0-9A-F]{64}) HTTP/1\.0\r\n\r\n")
"""How HAProxy asks whether a server takes requests."""
SERVER = "strict"
"""What HAProxy calls this server."""


class Meaning(NamedTuple):
    """What a server takes a request for."""

    method: bytes
    target: bytes
    body: bytes


def path_of(target: bytes) -> bytes:
    """A target without its scheme and authority, in which a user may be named."""
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        return target
    return found["path"] if found["path"].startswith(b"/") else b"/" + found["path"]


class _Violation(Exception):
    """A request is not as a router may send it."""


@dataclass
class Strict:
    """The server, on the port of `address`. `is_lax`: whether what stands before it may do what HAProxy does: send a
    body in chunks, speak of its connection, and pass on what no parser takes for a framing. `requests` are what came
    since `begin`, `raw` their bytes, `violations` what was wrong."""

    address: Address
    is_lax: bool
    requests: list[Meaning] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    _open: dict[asyncio.StreamWriter, Any] = field(default_factory=dict)

    def begin(self) -> None:
        """Forget what came."""
        self.requests, self.raw, self.violations = [], [], []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request; the first that is not as it may be is the last."""
        self._open[writer] = asyncio.current_task()
        try:
            while await self._one(reader, writer):
                pass
        except (_Violation, asyncio.LimitOverrunError) as error:
            self.violations.append(str(error))
        except ConnectionError:
            pass
        finally:
            writer.close()
            del self._open[writer]

    async def close(self) -> None:
        """End its connections."""
        for writer in self._open:
            writer.close()
        if self._open:
            await asyncio.wait(self._open.values())

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            raw = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as rest:
            if rest.partial:
                raise _Violation(f"it ends within a head: {rest.partial[:300]!r}") from None
            return False
        if (check := _CHECK.fullmatch(raw)) is not None:
            proof = _TRUST.plane_answer(check[1].decode(), SERVER) or b""
            writer.write(b"HTTP/1.0 200 OK\r\nframehold-proof: %b\r\n\r\n" % proof)
            return False
        if (hello := _HELLO.search(raw)) is not None and PLANTED not in raw:
            writer.write(answered(hello[1], writer.get_extra_info("peername"), wires.KEY))
            return True
        method, target, headers = self._head(raw)
        try:
            sent, body = await self._body(reader, headers)
        except (asyncio.IncompleteReadError, ValueError) as error:
            raise _Violation(f"a body is not as its head says ({error!r}): {raw[:600]!r}") from None
        self.requests.append(Meaning(method, path_of(target), body))
        self.raw.append(raw + sent)
        text, number = b"" if method == b"HEAD" else b"fine", len(self.requests) - 1
        writer.write(b"HTTP/1.1 200 OK\r\nX-Number: %d\r\nContent-Length: %d\r\n\r\n%b" % (number, len(text), text))
        return b" HTTP/1.1\r\n" in raw

    def _head(self, raw: bytes) -> tuple[bytes, bytes, dict[bytes, bytes]]:
        """Method, target, and the headers by their names.

        Raises:
            _Violation: the head is not as it may be.
        """
        found = (_LAX_HEAD if self.is_lax else _HEAD).fullmatch(raw)
        if found is None:
            raise _Violation(f"a head is malformed: {raw[:600]!r}")
        method, target, _ = raw.split(b" ", 2)
        headers = dict[bytes, bytes]()
        for line in found["lines"].split(b"\r\n")[:-1]:
            name, _, value = line.partition(b":")
            name, value = name.lower(), value.strip()
            if name.startswith(b"framehold-") and (name not in _OWN or PLANTED in value):
                raise _Violation(f"a client's internal header came through: {raw[:600]!r}")
            if name in headers and (
                name.startswith(b"framehold-") or name in (b"host", b"content-length", b"transfer-encoding")
            ):
                raise _Violation(f"{name!r} is there twice: {raw[:600]!r}")
            headers[name] = value
        self._one_framing(headers, raw)
        return method, target, headers

    def _one_framing(self, headers: dict[bytes, bytes], raw: bytes) -> None:
        length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
        if b"host" not in headers and not self.is_lax:
            raise _Violation(f"there is no Host: {raw[:600]!r}")
        if length is not None and (coding is not None or not re.fullmatch(rb"[0-9]{1,12}", length)):
            raise _Violation(f"two framings, or a length that is none: {raw[:600]!r}")
        if coding is not None and not (self.is_lax and coding.lower() == b"chunked"):
            raise _Violation(f"a coding: {raw[:600]!r}")
        if not self.is_lax and (left := [name for name in (b"connection", *_ONE_CONNECTION) if name in headers]):
            raise _Violation(f"{left!r} of the client's own connection: {raw[:600]!r}")

    async def _body(self, reader: asyncio.StreamReader, headers: dict[bytes, bytes]) -> tuple[bytes, bytes]:
        """A body as it was sent, and what it is."""
        if b"transfer-encoding" not in headers:
            return 2 * (await reader.readexactly(int(headers.get(b"content-length", b"0"))),)
        raw = body = b""
        while True:
            line = await reader.readuntil(b"\r\n")
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}\r\n", line):
                raise ValueError(f"a chunk has the size {line!r}")
            size = int(line, 16)
            raw += line
            if not size:
                break
            piece = await reader.readexactly(size + 2)
            if not piece.endswith(b"\r\n"):
                raise ValueError(f"a chunk is longer than it says: {piece!r}")
            raw, body = raw + piece, body + piece[:-2]
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            raw += line
        return raw + line, body


@asynccontextmanager
async def strict(*, is_lax: bool = False) -> AsyncIterator[Strict]:
    """A running server."""
    made = Strict(("", 0), is_lax)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 20)
    made.address = server.sockets[0].getsockname()[:2]
    try:
        yield made
    finally:
        server.close()
        await made.close()
