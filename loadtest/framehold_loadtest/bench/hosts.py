"""What could host a node's app, a process of its own: `python -m framehold_loadtest.bench.hosts KIND`.

    uvicorn   an ASGI app as small as one can be, served as a node is
    reader    no ASGI and no limits: the router's reader takes a request, a task answers it. No server of our own that
              reads as strictly, and gives each request its task, could cost less
    bytes     no HTTP at all: bytes come, bytes go. What the kernel and the event loop take by themselves

All answer every request with the same 600 bytes of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
from typing import TYPE_CHECKING, cast

import uvloop

from framehold_loadtest.bench.serve import serve
from framehold_loadtest.bench.upstream import body
from framehold_router.reader import Reader

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

UVICORN, READER, BYTES = "uvicorn", "reader", "bytes"
KINDS = (UVICORN, READER, BYTES)
_BODY = body("a")
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_BODY))]
_RESPONSE = b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (b"\r\n".join(b": ".join(pair) for pair in _HEADERS), _BODY)
_MAX_BODY = 4 * 1024 * 1024


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        return
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _BODY})


class _Bytes(asyncio.Protocol):
    _transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class

    def data_received(self, data: bytes) -> None:
        # No client of the benchmark pipelines, and its requests come in one piece.
        self._transport.write(_RESPONSE)


class _Read(_Bytes):
    def __init__(self) -> None:
        self._reader = Reader(_MAX_BODY)
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        if self._reader.whole:
            self._reader.take("")
            task = self._loop.create_task(self._answer())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self) -> None:
        self._transport.write(_RESPONSE)


async def _listen(protocol: type[_Bytes], listener: socket.socket) -> None:
    server = await asyncio.get_running_loop().create_server(protocol, sock=listener)
    print(listener.getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    kind = parser.parse_args().kind
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        if kind == UVICORN:
            serve(_app, listener)
        else:
            uvloop.run(_listen(_Read if kind == READER else _Bytes, listener))


if __name__ == "__main__":
    main()
