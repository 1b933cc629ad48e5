"""An ASGI app on a free port of 127.0.0.1, served by uvicorn in a thread with a loop of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn


class _Announcing(uvicorn.Server):
    """Says when it has started, or that it never will."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.settled = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.settled.set()


@contextmanager
def over_http(app: Any) -> Iterator[str]:
    """Serve `app` and yield the URL of its `/mcp`."""
    config = uvicorn.Config(
        app, http="httptools", lifespan="on", log_level="warning", timeout_graceful_shutdown=2, ws="none"
    )
    server = _Announcing(config)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def serve() -> None:
            try:
                server.run(sockets=[listener])
            finally:
                server.settled.set()

        thread = threading.Thread(target=serve, name="over-http")
        thread.start()
        try:
            assert server.settled.wait(30), "the app did not start within 30 s"
            assert server.started, "the app's startup failed"
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join()
