"""One measured server in a process of its own: `python -m framehold_loadtest.bench.subjects.serve VARIANT [--metered]`.

It binds a free port of 127.0.0.1, prints the number, and serves until it is terminated. All variants
run under the same uvicorn settings, but for the one that has the connections of `framehold node`. Framehold reads its
own settings from `FRAMEHOLD_*` in the environment, and tells routers the address that it bound.
"""

from __future__ import annotations

import argparse
import socket
import sys
from typing import TYPE_CHECKING, Any

import uvicorn

from framehold_loadtest.bench.subjects.meter import Meter
from framehold_loadtest.bench.subjects.weather import plain_server, reentrant_server
from framehold_loadtest.config import set_variable

if TYPE_CHECKING:
    from starlette.types import ASGIApp

SDK, SDK_DEFAULT, FRAMEHOLD, NODE = "sdk", "sdk, default", "framehold", "framehold node"
VARIANTS = (SDK, SDK_DEFAULT, FRAMEHOLD, NODE)
"""The SDK's hand-written handler, which responds with JSON alone, or in the SDK's default mode; and Framehold's, as
`uvicorn server:app` serves it, or as `framehold node` does."""
_IDLE_SECONDS = 3600  # a connection waits for its turn while other servers are measured, or filled


def build(variant: str) -> ASGIApp:
    """The ASGI app of a variant.

    Raises:
        ImportError: framehold is not installed.
    """
    if variant in (SDK, SDK_DEFAULT):
        return reentrant_server().streamable_http_app(json_response=variant == SDK)
    import framehold

    app: ASGIApp = framehold.asgi(plain_server())
    return app


def main() -> None:
    """Serve one variant; a server that cannot be built says why in one line and exits with 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--metered", action="store_true", help="measure inside the server too")
    chosen = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = listener.getsockname()[1]
        set_variable("FRAMEHOLD_ADVERTISE_URL", f"http://127.0.0.1:{port}")
        try:
            app = build(chosen.variant)
        except Exception as error:
            sys.exit(f"{chosen.variant} could not be built: {type(error).__name__}: {error}")
        http: Any = "httptools"
        if chosen.variant == NODE:
            from framehold.http.app import Application
            from framehold_cli.serve.node import protocol

            assert isinstance(app, Application), "`framehold.asgi` makes one"
            http = protocol(app)
        if chosen.metered:
            app = Meter(app)
        serve(app, listener, http)


def serve(app: ASGIApp, listener: socket.socket, http: Any = "httptools") -> None:
    """Print the port of a socket that listens, and serve an app there until the process is terminated. `http` is what
    uvicorn makes of each connection."""
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=http,
        log_level="error",
        access_log=False,
        timeout_keep_alive=_IDLE_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
