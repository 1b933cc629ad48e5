"""Nodes that are reached by TLS, whose certificates an authority of the fleet's own has signed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from framehold_cli.local.ports import free as free_port
from framehold_core.errors import ConfigError
from framehold_fleet.identity.trust import Trust
from tests.kit.client import Caller
from tests.kit.fleet import Fleet, RouterProcess, listens
from tests.kit.nodes import KEY
from tests.kit.processes import Child, python_path, until
from tests.kit.redis_server import RedisServer
from tests.store.certificates import Authority

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

SECRET = "Bearer a-token-that-nobody-else-may-read"


class Recorder:
    """Passes bytes on to a port, and keeps them."""

    def __init__(self, port: int) -> None:
        self.behind, self.port, self.seen = port, 0, bytearray()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            there, back = await asyncio.open_connection("127.0.0.1", self.behind)
            with contextlib.closing(back):
                await asyncio.gather(self._passed(reader, back), self._passed(there, writer))

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65536):
                self.seen += piece
                writer.write(piece)
            writer.close()


@asynccontextmanager
async def recorder() -> AsyncIterator[Recorder]:
    """In front of a port that nobody has yet."""
    made = Recorder(free_port())
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


def node(made: Fleet, name: str, port: int, signed: tuple[Path, Path], seen_at: int) -> Child:
    """uvicorn with TLS; others reach it at the port `seen_at`."""
    own = {"FRAMEHOLD_KEYS": KEY, "FRAMEHOLD_NODE_ID": name, "FRAMEHOLD_ADVERTISE_URL": f"https://127.0.0.1:{seen_at}"}
    pair = ["--ssl-certfile", str(signed[0]), "--ssl-keyfile", str(signed[1])]
    command = [sys.executable, "-m", "uvicorn", "tests.node.three_rounds:app", "--port", str(port), *pair]
    child = Child(command, made.folder / f"{name}.log", env={**python_path(), **made.common, **own})
    child.launch()
    return child


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Scene:
    """A router, and three nodes behind recorders, by their names. For two the authority of the fleet has signed,
    for the last another one."""

    router: RouterProcess
    recorders: list[Recorder]
    authority: Path


@pytest.fixture(scope="module")
async def scene(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    folder = tmp_path_factory.mktemp("tls")
    ours, another = Authority(folder / "ours"), Authority(folder / "another", "another")
    made, children = Fleet(folder, redis, fleet_ca=str(ours.path)), list[Child]()
    async with AsyncExitStack() as stack:
        stack.callback(made.stop)
        recorders = [await stack.enter_async_context(recorder()) for _ in range(3)]
        for number, (place, signer) in enumerate(zip(recorders, (ours, ours, another), strict=True)):
            signed = signer.sign(f"node-{number}")
            children.append(node(made, f"node-{number}", place.behind, signed, place.port))
            stack.callback(children[-1].kill)
        await until(lambda: all(listens(place.behind) for place in recorders), "all nodes to listen")
        router = await made.start_router()
        await router.knows("node-0", "node-1", "node-2")
        yield Scene(router, recorders, ours.path)


async def test_nothing_is_readable_between_routers_and_nodes(scene: Scene) -> None:
    """Rounds, relays from node to node, and what routers ask of nodes go through; nobody in between reads them."""
    bearer = {"authorization": SECRET}
    async with Caller(scene.router.url) as caller:
        asked = await asyncio.gather(
            *(caller.call("one", arguments={"name": f"n{number}"}, headers=bearer) for number in range(12))
        )
        assert {reply.headers["framehold-node"] for reply in asked} == {"node-0", "node-1"}
        done = await caller.retry("one", asked[0].token, asked[0].accept(word="w"), arguments={"name": "n0"})
        assert done.text == "n0: w"
    away = next(reply for reply in asked[1:] if reply.headers["framehold-node"] == "node-1")
    name = f"n{asked.index(away)}"
    params = {"name": "one", "arguments": {"name": name}, "requestState": away.token}
    sent = caller.envelope("tools/call", {**params, "inputResponses": dict(away.accept(word="w"))})
    checking = ssl.create_default_context(cafile=str(scene.authority))
    async with httpx2.AsyncClient(verify=checking, timeout=20) as http:
        # To the node that does not hold it.
        relayed = await http.post(
            f"https://127.0.0.1:{scene.recorders[0].port}/mcp", json=sent.body, headers=sent.headers
        )
    assert relayed.headers["framehold-route"] == "lease" and f"{name}: w" in relayed.text
    for each in scene.recorders:
        assert each.seen
        for text in (b"framehold-", b"HTTP/1.1", b"authorization", SECRET.encode(), b"h1.", b"jsonrpc"):
            assert text not in each.seen


async def test_a_node_whose_certificate_another_authority_signed_gets_nothing(scene: Scene) -> None:
    """It has the keys, and its lease is believed; calls go to the other nodes, and the log says what to look at."""
    async with Caller(scene.router.url) as caller:
        asked = await asyncio.gather(*(caller.call("never", arguments={"name": f"n{number}"}) for number in range(24)))
    assert {reply.headers["framehold-node"] for reply in asked} <= {"node-0", "node-1"}
    await until(lambda: "no TLS with the node at" in scene.router.log(), "the router to say so")
    assert "FRAMEHOLD_FLEET_CA" in scene.router.log()


@pytest.mark.parametrize("name", ["ca.pem", "nowhere.pem"])
def test_an_authority_that_can_not_be_read_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=rf"FRAMEHOLD_FLEET_CA is wrong: .*{name} can't be read as certificates"):
        Trust((), str(tmp_path / name))
