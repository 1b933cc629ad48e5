"""The limits of an HTTP server."""

from __future__ import annotations

from framehold_core.value import Value


class Limits(Value):
    """How much clients may hold. In bytes: `max_body`, `max_head` (also of the framing of a chunked body), and
    `max_buffered`, which all requests hold together while they are received and until they are answered. `max_headers`
    counts the headers of a request, `max_connections` the connections. In seconds: `client_timeout` for a client to
    send its request or to read on, `keep_alive` for an idle connection.

    `settings` has the names of those limits that an operator can set, as in `MAX_BODY`: errors name these."""

    max_body: int
    max_head: int
    max_headers: int
    max_connections: int
    max_buffered: int
    client_timeout: float
    keep_alive: float
    settings: frozenset[str] = frozenset()

    def named(self, limit: str) -> str:
        """The setting of a limit, as the end of an error's text: ` (FRAMEHOLD_MAX_BODY)`; empty if it has none."""
        return f" (FRAMEHOLD_{limit})" if limit in self.settings else ""
