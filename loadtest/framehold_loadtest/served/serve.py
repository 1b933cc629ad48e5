"""One server of `by_hand` in a process of its own: `python -m framehold_loadtest.served.serve WAY PORT`.

It prints its port when it listens. Its parent may hold the port meanwhile. On SIGTERM it ends as uvicorn does: it takes
no new request, and gives requests in progress some seconds.
"""

from __future__ import annotations

import argparse
import socket

import uvicorn

from framehold_loadtest.served.by_hand import WAYS, server

_IDLE_SECONDS = 60
_LEAVE_SECONDS = 2


def main() -> None:
    """Serve one way until it is terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("port", type=int)
    parser.add_argument("--json", action="store_true", help="respond with JSON alone: the SDK's fastest mode")
    chosen = parser.parse_args()
    with socket.create_server(("127.0.0.1", chosen.port), backlog=512, reuse_port=True) as listener:
        print(chosen.port, flush=True)
        config = uvicorn.Config(
            server(chosen.way).streamable_http_app(json_response=chosen.json),
            loop="uvloop",
            http="httptools",
            log_level="error",
            access_log=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_LEAVE_SECONDS,
        )
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
