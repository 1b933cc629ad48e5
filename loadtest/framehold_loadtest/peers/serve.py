"""One peer in Python, in a process of its own: `python -m framehold_loadtest.peers.serve PEER`."""

from __future__ import annotations

import argparse
import socket
import sys

from framehold_loadtest.bench.subjects.serve import serve
from framehold_loadtest.peers.tools import fastmcp_app, resolve_app, restate_app

APPS = {"resolve": resolve_app, "fastmcp": fastmcp_app, "restate": restate_app}


def main() -> None:
    """Serve one peer; one that cannot be built says why in one line and exits with 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=APPS)
    peer = parser.parse_args().peer
    try:
        app = APPS[peer]()
    except ImportError as error:
        sys.exit(f"{error}; pip install {'restate-sdk' if peer == 'restate' else peer}")
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        serve(app, listener)


if __name__ == "__main__":
    main()
