"""What the example's HAProxy proves to nodes, and has them prove; servers of this test stand for nodes, and note each
byte that comes."""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from framehold_fleet.identity import plane
from framehold_fleet.identity.router_keys import RouterKey
from tests.kit.fleet import PLANE_KEY, haproxy
from tests.kit.nodes import KEY
from tests.kit.processes import ROOT, until

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

EXAMPLE = (ROOT / "examples/haproxy.cfg").read_text()
OURS = b64decode(PLANE_KEY)
NEWER, THEIRS = (plane.key_of(RouterKey.of(key * 32).wire) for key in (b"n", b"t"))
_CHECK = re.compile(rb"GET /readyz\?nonce=([0-9A-F]{64}) HTTP/1\.0\r\n\r\n")
_HEAD = re.compile(rb"(?P<method>[A-Z]+) (?P<target>[^ ]+) HTTP/1\.1\r\n(?P<lines>(?:[^\r]+\r\n)*)\r\n")

Answer = Callable[[str, "Server"], tuple[int, bytes]]
"""Status and proof of the answer to a check with this nonce."""


class Request:
    """One that came, and was no check."""

    def __init__(self, head: bytes) -> None:
        found = _HEAD.fullmatch(head)
        assert found, head
        self.method, self.path = found["method"], found["target"].partition(b"?")[0]
        lines = [line.split(b": ", 1) for line in found["lines"].split(b"\r\n")[:-1]]
        self.headers = {name.lower(): value for name, value in lines}
        assert len(self.headers) == len([name for name, _ in lines if name != b"x-forwarded-for"]) + 1, head
        self.call = self.headers.get(b"framehold-call-id", b"")

    def is_proved(self, *keys: bytes, call: bytes | None = None) -> bool:
        shown, call = self.headers[b"framehold-proof"], self.call if call is None else call
        return plane.is_proved(keys, shown, self.method, self.path, call, time.time())


@dataclass
class Server:
    """One that answers each check as `answer` says, and any other request with its name."""

    name: str
    answer: Answer
    root: str = ""
    checks: int = 0
    raw: bytearray = field(default_factory=bytearray)
    requests: list[Request] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.raw += head
                if (check := _CHECK.fullmatch(head)) is not None:
                    status, proof = self.answer(check[1].decode(), self)
                    writer.write(b"HTTP/1.0 %d Said\r\nframehold-proof: %b\r\n\r\n" % (status, proof))
                    self.checks += 1
                    return
                self.requests.append(request := Request(head))
                self.raw += await reader.readexactly(int(request.headers.get(b"content-length", b"0")))
                name = self.name.encode()
                if request.headers.get(b"upgrade"):
                    # HAProxy checks that this belongs to the key that was sent.
                    accept = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                    writer.write(b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n%b\r\n" % accept)
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(name), name))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def checked(self, times: int = 2) -> None:
        """Wait until HAProxy has heard so many further answers: the last one may not be judged yet."""
        before = self.checks
        await until(lambda: self.checks > before + times, f"{self.name} to be checked")


def proving(*keys: bytes, status: int = 200) -> Answer:
    """As a node with these keys answers."""
    return lambda nonce, server: (status, plane.answer(keys, nonce, server.name) or b"")


def stranger(status: int, proof: bytes = b"") -> Answer:
    """As whoever has no key may answer."""
    return lambda nonce, server: (status, proof)


def relaying(nonce: str, server: Server) -> tuple[int, bytes]:
    """As one that has a node of another name answer the nonce."""
    return 200, plane.answer((OURS,), nonce, "node-1") or b""


LEAVES = proving(OURS, status=503)
"""As a node that drains answers."""


@asynccontextmanager
async def behind(folder: Path, *servers: Server) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of HAProxy in front of these servers, once it has judged them. Its checks are more frequent than the
    example's, and as patient."""
    (template := folder / "example.cfg").write_text(
        EXAMPLE.replace("inter 1s", "inter 200ms").replace("timeout connect", "timeout check 5s\n    timeout connect")
    )
    async with AsyncExitStack() as stack:
        for server in servers:
            listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
            stack.callback(listening.close)
            server.root = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        url = await stack.enter_async_context(haproxy(folder, template, {server.name: server for server in servers}))
        async with asyncio.TaskGroup() as group:
            for server in servers:
                group.create_task(server.checked())
        for server in servers:
            server.requests.clear()
        yield await stack.enter_async_context(httpx2.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=10))


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def test_each_request_is_proved_for_itself(tmp_path: Path) -> None:
    """Whatever its method and path, with an id of a new call and without; for nothing else, and by no other key."""
    node = Server("node-1", proving(OURS))
    token = {"params": {"requestState": f"h1.{'a' * 22}.x"}}
    sent = [
        ("POST", "/mcp", {}), ("POST", "/mcp?x=%2f", token), ("GET", "/a%20b/%C3%A4", {}), ("DELETE", "/mcp/", {}),
        ("GET", "//x/../y", {}), ("OPTIONS", "/mcp;a=b", {}), ("PUT", "/" + "p" * 2000, {}),
    ]  # fmt: skip
    async with behind(tmp_path, node) as client:
        for method, target, body in sent:
            assert (await client.request(method, target, json=body)).status_code == 200
    assert len(node.requests) == len(sent)
    assert [bool(request.call) for request in node.requests] == [True, False, True, True, True, True, True]
    for request in node.requests:
        assert request.is_proved(OURS) and not request.is_proved(THEIRS)
        assert not request.is_proved(OURS, call=b"c" * 32)
        assert not plane.is_proved(
            (OURS,), request.headers[b"framehold-proof"], b"GET", b"/admin/node", b"", time.time()
        )


async def test_what_a_client_says_of_its_connection_takes_nothing_away(tmp_path: Path) -> None:
    """The next hop gets no list of names of the client's. A WebSocket still gets through. Its own proofs do not."""
    node, named = Server("node-1", proving(OURS)), "framehold-proof, framehold-call-id, authorization, keep-alive"
    async with behind(tmp_path, node) as client:
        claims = {"connection": named, "framehold-proof": "v1p.client.1.x", "Framehold-Call-Id": "c" * 32}
        await client.post("/mcp", json={}, headers=claims)
        socket = {
            "connection": f"{named}, Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
        assert (await client.get("/live", headers=socket)).status_code == 101
    plain, live = node.requests
    assert plain.headers.get(b"connection") is None and live.headers[b"connection"].lower() == b"upgrade"
    assert plain.call != b"c" * 32
    assert plain.is_proved(OURS) and live.is_proved(OURS)


async def test_its_key_is_in_nothing_that_it_sends(tmp_path: Path) -> None:
    """Neither as it was given, nor as bytes, nor as digits; and no two nonces are the same."""
    node, other = Server("node-1", proving(OURS)), Server("node-2", stranger(200))
    async with behind(tmp_path, node, other) as client:
        await client.post("/mcp", json={})
        await client.get("/anything")
        await node.checked()
    for seen in (node.raw, other.raw):
        for form in (PLANE_KEY.encode(), PLANE_KEY.rstrip("=").encode(), OURS, OURS.hex().encode(), KEY.encode()):
            assert form not in seen and form.upper() not in seen.upper()
    nonces = re.findall(rb"nonce=([0-9A-F]+)", bytes(node.raw + other.raw))
    assert len(nonces) == len(set(nonces)) == node.checks + other.checks


async def test_a_stranger_at_a_nodes_address_gets_neither_token_nor_body(tmp_path: Path) -> None:
    """Whatever it answers, and whoever else it asks. A session that names it is not brought to it either. While keys
    are rotated nodes answer with each listed key, in any order, and believe each; one that is not ready gets nothing
    but what belongs to it."""
    old = plane.answer((OURS,), "A" * 64, "node-4")
    strangers = [
        Server("node-2", stranger(200)), Server("node-3", stranger(404)), Server("node-4", stranger(200, old or b"")),
        Server("node-5", relaying), Server("node-6", proving(THEIRS)), Server("node-7", stranger(503, b"x" * 64)),
        Server("node-8", lambda nonce, server: (200, (plane.answer((OURS,), nonce, "node-8") or b"")[:-1])),
        Server("node-9", proving(NEWER)),
    ]  # fmt: skip
    lists = {"node-0": (OURS, NEWER), "node-1": (NEWER, OURS)}
    nodes, leaving = [Server(name, proving(*keys)) for name, keys in lists.items()], Server("node-a", LEAVES)
    async with behind(tmp_path, *nodes, leaving, *strangers) as client:
        for one in (*nodes, leaving, *strangers):
            named = {"mcp-session-id": f"l1.{one.name}.s", "authorization": "Bearer b"}
            await client.post("/mcp", json={}, headers=named)
        assert len(leaving.requests) == 1
        await asyncio.gather(*(client.post("/mcp", json={"number": number}) for number in range(40)))
    assert [one.name for one in strangers if one.requests] == []
    assert sum(len(node.requests) for node in nodes) == 40 + len(nodes) + len(strangers) and len(leaving.requests) == 1
    for node in nodes:
        assert node.requests and all(request.is_proved(*lists[node.name]) for request in node.requests)


async def test_an_address_that_is_taken_over_gets_nothing_after_two_checks(tmp_path: Path) -> None:
    """Until then it is believed for what it was: mutual TLS closes that."""
    node, taken = Server("node-1", proving(OURS)), Server("node-2", proving(OURS))
    async with behind(tmp_path, node, taken) as client:

        async def sent() -> None:
            await asyncio.gather(*(client.post("/mcp", json={"number": number}) for number in range(40)))

        await sent()
        assert node.requests and taken.requests
        taken.answer = stranger(200)
        await taken.checked()
        taken.requests.clear()
        await sent()
        assert not taken.requests
