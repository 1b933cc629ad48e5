"""The node's side of a standby: a process that gets ready beside the node that serves, and serves after it.

The supervisor's side is `standby`. They speak through a socket, in lines:

1. the node has imported all but TARGET: it says READY
2. the supervisor says CHECK: the node imports and checks TARGET, and replies with one line about it (`check.report`).
   If TARGET can't be served, the process ends with the error
3. the supervisor says SERVE: the node before has ended, and this one begins

A process whose socket is closed before that ends: nobody waits for it any more.
"""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Any, TextIO

from . import check

if TYPE_CHECKING:
    from framehold.config import Settings

READY, CHECK, SERVE = "ready\n", "check\n", "serve\n"


def server_in_turn(target: str, settings: Settings, line: int) -> Any:
    """Import TARGET when the supervisor says so, and return it when it is to be served. `line` is the file descriptor
    of the socket.

    Raises:
        ConfigError: TARGET can't be served.
    """
    with socket.socket(fileno=line) as connection, connection.makefile("rw", encoding="utf-8") as supervisor:
        _import_all(settings)
        _say(supervisor, READY)
        _wait_for(supervisor, CHECK)
        app, report = check.report(target, settings)
        _say(supervisor, report + "\n")
        _wait_for(supervisor, SERVE)
    return app


def _import_all(settings: Settings) -> None:
    """Import what a node needs. Much of it is imported when it is needed first: so a server without handlers is
    attached and forgotten."""
    import uvicorn.lifespan.on
    import uvicorn.protocols.http.httptools_impl  # noqa: F401
    from mcp.server import MCPServer

    # Of the node alone: `framehold up` speaks with it, and would wait a second for this import.
    from ..serve import target as targets

    targets.app_of(MCPServer("framehold standby"), settings)


def _say(supervisor: TextIO, line: str) -> None:
    supervisor.write(line)
    supervisor.flush()


def _wait_for(supervisor: TextIO, line: str) -> None:
    if supervisor.readline() != line:
        sys.exit(0)
