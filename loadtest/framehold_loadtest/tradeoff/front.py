"""HAProxy in front of servers: in turn, or by session for clients of 2025.

It is configured for this use: it checks its servers, sends a connection that one server refuses to another, and passes
each event of a stream on at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from framehold_loadtest.local.listeners import Listener, free_ports, haproxy_server, pick_cores

_CONFIG = """
global
    maxconn 4000
defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    option redispatch
    option http-no-delay
    retries 3
frontend mcp
    bind 127.0.0.1:{port}
    default_backend nodes
backend nodes
    balance roundrobin
{sticky}
    default-server check inter 500ms fall 2 rise 1
{servers}
"""
_BY_SESSION = """
    stick-table type string len 64 size 100k expire 30m
    stick store-response res.hdr(mcp-session-id)
    stick match req.hdr(mcp-session-id)
"""


@contextlib.contextmanager
def haproxy(servers: Sequence[int], *, by_session: bool = False) -> Iterator[Listener]:
    """HAProxy in front of servers on these ports.

    Raises:
        NotAvailable: it is not installed, or does not start.
    """
    (port,) = free_ports(1)
    lines = "\n".join(f"    server node-{number} 127.0.0.1:{node}" for number, node in enumerate(servers, 1))
    config = _CONFIG.format(port=port, servers=lines, sticky=_BY_SESSION if by_session else "")
    with haproxy_server(pick_cores().load, config, port, {}) as proxy:
        yield proxy
