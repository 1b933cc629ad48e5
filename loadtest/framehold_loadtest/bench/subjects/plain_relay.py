"""A relay as one would write it on aiohttp, a process of its own: `framehold router` is compared with it.

It does only what the data path of a router does. It buffers the body of the request, looks up the call id of the token
(or a fresh id) on a consistent-hash ring, sends the request on with the proof of a load balancer, and streams the
response back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import time
import uuid
from base64 import b64decode

import aiohttp
import uvloop
from aiohttp import web
from uhashring import HashRing

from framehold_fleet.identity import plane
from framehold_loadtest.config import variable

_OWN = frozenset(("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host"))
_IDLE_SECONDS = 300.0  # a connection waits for its turn while other relays are measured


class PlainRelay:
    """Relays to the node that the ring names."""

    def __init__(self, nodes: list[int], key: bytes) -> None:
        self._ring = HashRing(nodes=[f"http://127.0.0.1:{port}" for port in nodes])
        self._key = key
        # Bytes pass as they are, over as many connections as it takes.
        self._client = aiohttp.ClientSession(auto_decompress=False, connector=aiohttp.TCPConnector(limit=0))

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        body = await request.read()
        state = json.loads(body).get("params", {}).get("requestState") or ""
        named = state.split(".", 2)[1] if state.startswith("h1.") else None
        call = named or uuid.uuid4().hex
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _OWN]
        said, path = "" if named else call, request.path_qs.partition("?")[0]
        proof = plane.proof(self._key, request.method.encode(), path.encode(), said.encode(), time.time())
        headers += [("framehold-proof", proof.decode()), *([("framehold-call-id", said)] if said else [])]
        url = self._ring.get_node(call) + request.path_qs
        async with self._client.request(request.method, url, headers=headers, data=body) as answer:
            kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in _OWN]
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


async def _serve(nodes: list[int]) -> None:
    relay = PlainRelay(nodes, b64decode(variable("FRAMEHOLD_SECRET")))
    runner = web.ServerRunner(web.Server(relay, access_log=None, keepalive_timeout=_IDLE_SECONDS))
    await runner.setup()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await web.SockSite(runner, listener).start()
        print(listener.getsockname()[1], flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", type=int, action="append", required=True, help="port of a node; once for each")
    uvloop.run(_serve(parser.parse_args().node))


if __name__ == "__main__":
    main()
