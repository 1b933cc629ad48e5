"""How tests stand in for processes of a fleet: they prove who they are, or say what a process would."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx2

from framehold.engine.runtime import Runtime
from framehold_core.ids import Boot
from framehold_fleet.headers import CALL_ID, Header
from framehold_fleet.identity import plane
from framehold_fleet.identity.plane import PROOF
from framehold_fleet.identity.statements import HELLO, Introduced, Role, Statements
from framehold_fleet.identity.trust import Trust
from framehold_store.seal import derive
from tests.kit.nodes import KEY
from tests.kit.processes import DEADLINE

AS = "x-tests-as"
"""The header of a request to `Insider` that says in which role it is sent. It is not sent."""
BOOT = Boot("boot-of-tests")


def statements(key: str = KEY) -> Statements:
    """Those of a fleet with this key."""
    return Trust([key.encode()]).statements


def sent_as(role: str, call: str = "") -> dict[str, str]:
    """Headers of a request to `Insider` that is sent in a role, with a call id."""
    return {AS: role, **({CALL_ID.decode(): call} if call else {})}


INSIDE = sent_as(Role.ADMIN)
"""What a part of the fleet brings along."""


def answered(hello: bytes, peer: Any, key: str = KEY, boot: str = "") -> bytes:
    """What a process with this boot answers to who asks for it, as a whole response; without one, the process that is
    asked for. `peer`: whom it sees."""
    boots = (boot or hello.decode().partition(".")[2] or BOOT,)
    proof = statements(key).answer(hello, boots, f"{peer[0]}:{peer[1]}")
    return b"HTTP/1.1 204 No Content\r\n%b: %b\r\n\r\n" % (PROOF, proof or b"")


async def introduced(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str = KEY) -> None:
    """Read the question who listens on a connection, and answer it."""
    head = await reader.readuntil(b"\r\n\r\n")
    [line] = [line for line in head.split(b"\r\n") if line.startswith(HELLO)]
    writer.write(answered(line.partition(b": ")[2], writer.get_extra_info("peername"), key))


def stated(runtime: Runtime, role: Role, peer: str, key: str = KEY, at: float | None = None) -> Header:
    """The header of a sender's statement to a node, on the connection from `peer`."""
    to = Introduced(runtime.heartbeat.lease.boot, peer)
    name, _, value = statements(key).stating(role, to, lambda: time.time() if at is None else at)().partition(b": ")
    return name, value.strip()


def planes(method: str, path: str, call: str = "", key: str = KEY, at: float | None = None) -> bytes:
    """The value of a load balancer's proof for one request."""
    own = plane.key_of(derive(key.encode(), "framehold wire 1", 32))
    return plane.proof(own, method.encode(), path.encode(), call.encode(), time.time() if at is None else at)


class Insider(httpx2.AsyncBaseTransport):
    """Sends requests that name a role (`AS`) on a connection of their own, in that role; others as they are."""

    def __init__(self, key: str = KEY, **options: Any) -> None:
        self._key, self._others = key, httpx2.AsyncHTTPTransport(**options)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        role = request.headers.pop(AS, None)
        if not role:
            return await self._others.handle_async_request(request)
        if role == Role.CLIENT:
            call = request.headers.get(CALL_ID.decode(), "")
            request.headers[PROOF.decode()] = planes(request.method, request.url.path, call, self._key).decode()
            return await self._others.handle_async_request(request)
        async with asyncio.timeout(DEADLINE):
            reader, writer = await asyncio.open_connection(request.url.host, request.url.port)
            try:
                proof = await self._proof(reader, writer, request.url.raw_path, Role(role))
                lines = [b"%b: %b\r\n" % item for item in request.headers.raw if item[0].lower() != b"connection"]
                first = b"%b %b HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)
                writer.write(first + b"".join(lines) + proof + b"connection: close\r\n\r\n" + await request.aread())
                return _response(await reader.read())
            finally:
                writer.close()

    async def _proof(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: bytes, role: Role
    ) -> bytes:
        writer.write(b"GET %b HTTP/1.1\r\nhost: tests\r\n%b: nonce.\r\n\r\n" % (path, HELLO))
        head = await reader.readuntil(b"\r\n\r\n")
        shown = next((line for line in head.split(b"\r\n") if line.startswith(PROOF)), b"").partition(b": ")[2]
        made = statements(self._key)
        to = made.introduced(shown, "nonce", ()) or Introduced(BOOT, "nobody")
        return made.stating(role, to, time.time)()

    async def aclose(self) -> None:
        await self._others.aclose()


def client(key: str = KEY, **options: Any) -> httpx2.AsyncClient:
    """A client that may ask in any role."""
    return httpx2.AsyncClient(transport=Insider(key), timeout=DEADLINE, **options)


def _response(data: bytes) -> httpx2.Response:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers: list[tuple[bytes, bytes]] = []
    for line in lines:
        name, _, value = line.partition(b": ")
        headers.append((name, value))
    if (b"transfer-encoding", b"chunked") in headers:
        headers.remove((b"transfer-encoding", b"chunked"))
        body = b"".join(_chunks(body))
    return httpx2.Response(int(first.split()[1]), headers=headers, content=body)


def _chunks(data: bytes) -> list[bytes]:
    pieces = []
    while data:
        size, _, rest = data.partition(b"\r\n")
        pieces.append(rest[: int(size, 16)])
        data = rest[int(size, 16) + 2 :]
    return pieces
