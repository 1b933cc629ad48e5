"""Limits of an HTTP server, for tests of its parts."""

from __future__ import annotations

from framehold_fleet.limits import Limits


def limits_of(max_body: int, max_head: int, max_headers: int) -> Limits:
    """Limits of a request (bytes, bytes, headers); those of clients are large."""
    return Limits(
        max_body=max_body,
        max_head=max_head,
        max_headers=max_headers,
        max_connections=10_000,
        max_buffered=1 << 30,
        client_timeout=30.0,
        keep_alive=75.0,
        settings=frozenset(("MAX_BODY", "MAX_HEAD", "MAX_HEADERS")),
    )
