"""Two stub nodes in one process: relays are measured in front of them, because they are too cheap to be the bottleneck.

The process serves two ports and answers every request with the same 600 bytes of JSON, under the head that a node
sends. It keeps a node lease for each port in the store of FRAMEHOLD_STORE_URL, so that a router finds them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import time
from functools import partial
from typing import cast

import uvloop

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import NodeRecord, end_of
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.plane import PROOF
from framehold_fleet.identity.statements import Statements
from framehold_fleet.identity.trust import Trust
from framehold_loadtest.config import variable
from framehold_store import Store, StoreConfig, open_store

NODES = ("a", "b")
"""Names of the nodes; one letter, which is the last but three of each body."""
BODY_BYTES = 600
_BOOT = Boot("1")
_HELLO = re.compile(rb"framehold-hello: (.*)")
_TTL = 5.0
_RENEW_SECONDS = 1.0
_HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Sat, 21 Nov 2026 10:24:19 GMT\r\nserver: uvicorn\r\ncontent-type: application/json\r\n"
    b"framehold-node: %b\r\nframehold-route: ring\r\ncontent-length: %d\r\n\r\n"
)


def body(node: str) -> bytes:
    """What a node answers: a call's result, BODY_BYTES long."""
    result = {"content": [{"type": "text", "text": ""}], "resultType": "complete", "isError": False, "node": node}
    bare = len(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}))
    result["content"] = [{"type": "text", "text": "x" * (BODY_BYTES - bare)}]
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()


def node_of(body: bytes) -> bytes:
    """The letter of the node that made this body."""
    return body[-4:-3]


class Answering(asyncio.Protocol):
    """One connection: a response for each whole request with a Content-Length, and for each GET."""

    _transport: asyncio.Transport

    def __init__(self, response: bytes, statements: Statements) -> None:
        self._response = response
        self._statements = statements
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class

    def data_received(self, data: bytes) -> None:
        """Answer once the request is whole; no client of the benchmark pipelines."""
        data = self._buffer = self._buffer + data if self._buffer else data
        head, blank, rest = data.partition(b"\r\n\r\n")
        if not blank:
            return
        if (asked := _HELLO.search(head)) is not None:
            self._buffer = b""
            self._introduce(asked[1])
            return
        _, found, length = head.lower().partition(b"\r\ncontent-length:")
        if not found and head[:4] == b"GET ":
            # A load balancer asks whether we live.
            length = b"0"
        elif not found:
            self._transport.abort()
            return
        if len(rest) >= int(length.partition(b"\r\n")[0]):
            self._buffer = b""
            self._transport.write(self._response)

    def _introduce(self, hello: bytes) -> None:
        """Prove to a router who listens here."""
        host, port = self._transport.get_extra_info("peername")
        proof = self._statements.answer(hello, (_BOOT,), f"{host}:{port}") or b""
        self._transport.write(b"HTTP/1.1 204 No Content\r\n%b: %b\r\n\r\n" % (PROOF, proof))


async def _lease(store: Store, node: str, port: int) -> None:
    address = f"http://127.0.0.1:{port}"
    seals = LeaseSeal(Trust([variable("FRAMEHOLD_KEYS").encode()]), "default")

    def held(beat: int) -> NodeRecord:
        life = NodeId(node), Incarnation("1"), _BOOT, beat
        return seals.seal(NodeRecord(*life, address, "live", "", "{}", end_of(time.time(), _TTL)))

    await store.register(held(0), _TTL)
    for beat in itertools.count(1):
        await asyncio.sleep(_RENEW_SECONDS)
        await store.renew(held(beat), beat - 1, _TTL)


async def _serve(ports: list[int]) -> None:
    loop = asyncio.get_running_loop()
    statements = Trust([variable("FRAMEHOLD_KEYS").encode()]).statements
    for node, port in zip(NODES, ports, strict=True):
        answer = body(node)
        response = _HEAD % (node.encode(), len(answer)) + answer
        await loop.create_server(partial(Answering, response, statements), "127.0.0.1", port)
    store = open_store(StoreConfig(url=variable("FRAMEHOLD_STORE_URL")), time.monotonic)
    await store.open()
    print(ports[0], flush=True)
    await asyncio.gather(*(_lease(store, node, port) for node, port in zip(NODES, ports, strict=True)))


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, action="append", required=True, help="one for each node")
    uvloop.run(_serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
