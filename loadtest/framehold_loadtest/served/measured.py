"""One measured server in a process of its own: `python -m framehold_loadtest.served.measured VARIANT [--metered]`.

It binds a free port of 127.0.0.1, or the one that its parent holds for it, prints the number, and serves until it is
terminated. Then it ends as uvicorn does: it takes no new request, and gives requests in progress some seconds. All
variants run under the same uvicorn settings, but for the one that has the connections of `framehold node`. Framehold
reads its own settings from `FRAMEHOLD_*` in the environment, and tells routers the address that it bound.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn

from framehold_loadtest.config import set_variable
from framehold_loadtest.served import weather
from framehold_loadtest.served.meter import Meter

if TYPE_CHECKING:
    from starlette.types import ASGIApp

SDK, SDK_DEFAULT, FRAMEHOLD, NODE = "sdk", "sdk, default", "framehold", "framehold node"
BY_HAND = {way: f"by hand, {way}" for way in ("e", "e-naive", "f", "g", "a")}
"""The trade-off's tool as it is written for the SDK alone, by the names of `by_hand`."""
_LEAVE_SECONDS = 2
_IDLE_SECONDS = 3600  # a connection waits for its turn while other servers are measured, or filled


def _framehold() -> ASGIApp:
    import framehold

    app: ASGIApp = framehold.asgi(weather.awaiting())
    return app


def _by_hand(way: str) -> ASGIApp:
    from framehold_loadtest.served.by_hand import server

    # A has to ask over a stream.
    return server(way).streamable_http_app(json_response=way != "a")


VARIANTS: dict[str, Callable[[], ASGIApp]] = {
    SDK: lambda: weather.returning().streamable_http_app(json_response=True),
    SDK_DEFAULT: lambda: weather.returning().streamable_http_app(),
    FRAMEHOLD: _framehold,
    NODE: _framehold,
    "resolve": lambda: weather.resolving().streamable_http_app(json_response=True),
    "resolve, default": lambda: weather.resolving().streamable_http_app(),
    "fastmcp": lambda: weather.fastmcp(awaits=False).http_app(json_response=True),
    "fastmcp, default": lambda: weather.fastmcp(awaits=False).http_app(),
    "restate": weather.restate,
    **{name: partial(_by_hand, way) for way, name in BY_HAND.items()},
}
"""Hand-written handlers of the SDK and of FastMCP respond with JSON alone, or are in their default mode. Framehold's
are as `uvicorn server:app` serves them, or as `framehold node` does."""


def main() -> None:
    """Serve one variant; a server that cannot be built says why in one line and exits with 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--metered", action="store_true", help="measure inside the server too")
    parser.add_argument("--port", type=int, default=0, help="one that the parent may hold meanwhile")
    chosen = parser.parse_args()
    with socket.create_server(("127.0.0.1", chosen.port), backlog=512, reuse_port=bool(chosen.port)) as listener:
        port = listener.getsockname()[1]
        set_variable("FRAMEHOLD_ADVERTISE_URL", f"http://127.0.0.1:{port}")
        try:
            app = VARIANTS[chosen.variant]()
        except Exception as error:
            sys.exit(f"{chosen.variant} could not be built: {type(error).__name__}: {error}")
        http: Any = "httptools"
        if chosen.variant == NODE:
            from framehold.http.app import Application
            from framehold_cli.serve.node import protocol

            assert isinstance(app, Application), "`framehold.asgi` makes one"
            http = protocol(app)
        print(port, flush=True)
        config = uvicorn.Config(
            Meter(app) if chosen.metered else app,
            loop="uvloop",
            http=http,
            log_level="error",
            access_log=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_LEAVE_SECONDS,
        )
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
