"""`python -m tests.conformance.serve MODULE:NAME`: an ASGI app on a free port of 127.0.0.1.

The first line of standard output is the URL. The socket listens before the line is printed, so whoever has read it can
connect; nobody polls. httptools is named because it hands header values on unstripped, which a server must survive.
"""

from __future__ import annotations

import socket
import sys

import uvicorn
from uvicorn.importer import import_from_string


def main(target: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    config = uvicorn.Config(
        import_from_string(target), http="httptools", lifespan="on", log_level="warning", timeout_graceful_shutdown=2
    )
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
