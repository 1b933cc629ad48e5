"""One peer in Python, in a process of its own: `python -m framehold_loadtest.peers.serve PEER`."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from framehold_loadtest.bench.subjects.serve import serve
from framehold_loadtest.peers.tools import fastmcp_app, resolve_app, restate_app

if TYPE_CHECKING:
    from starlette.types import ASGIApp

APPS: dict[str, Callable[[bool], ASGIApp]] = {
    "resolve": resolve_app,
    "fastmcp": fastmcp_app,
    "restate": lambda _: restate_app(),
}


def main() -> None:
    """Serve one peer; one that cannot be built says why in one line and exits with 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=APPS)
    parser.add_argument("--json", action="store_true", help="respond with JSON alone, where a peer has this mode")
    chosen = parser.parse_args()
    peer = chosen.peer
    try:
        app = APPS[peer](chosen.json)
    except ImportError as error:
        sys.exit(f"{error}; pip install {'restate-sdk' if peer == 'restate' else peer}")
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        serve(app, listener)


if __name__ == "__main__":
    main()
