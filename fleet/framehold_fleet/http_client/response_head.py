"""The head of a node's response, and what a client gets of it. Its values are treated as those of a request's head
are (`framehold_fleet.http_server.request_head`)."""

from __future__ import annotations

from framehold_fleet.headers import CODE, NODE, ROUTE, Header, end_to_end

from ..http_server.request_head import CONNECTION, NAMES_NOTHING, passes

_ROUTE = frozenset((NODE, ROUTE, CODE))


class ResponseHead:
    """The head of a response of a node. Names of `headers` are in lower case; the length of the body is not among
    them. `served_by`: the node that served, None if the response names none."""

    __slots__ = ("_lines", "_shown", "headers", "served_by", "status")

    def __init__(self, status: int, headers: list[Header]) -> None:
        self.status = status
        self.headers = headers
        self.served_by: str | None = None
        self._shown: bool | None = None
        self._lines = b""

    def lines(self, show_route: bool) -> bytes:
        """The lines of the headers that a client gets, without the length. `show_route`: whether it also gets the
        headers that name the node, the route and kept code. Sets `served_by`."""
        if self._shown is not show_route:
            self._lines = b"".join(self._passed_back(self.headers, show_route))
            self._shown = show_route
        return self._lines

    def _passed_back(self, headers: list[Header], show_route: bool) -> list[bytes]:
        parts: list[bytes] = []
        self.served_by = None
        for name, value in headers:
            if passes[name] or (show_route and name in _ROUTE):
                parts += (name, b": ", value, b"\r\n")
            if name == NODE:
                self.served_by = value.decode("latin-1")
            elif name == CONNECTION and value.lower() not in NAMES_NOTHING:
                return self._passed_back(end_to_end(headers), show_route)
        return parts
