"""Begins to watch the client of each request that takes long. One timer serves all requests: most end before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Receive

from .exchange import Exchange

WATCH_AFTER = 0.05
"""Seconds before a request is watched for its client's disconnect."""


class Watches:
    """The requests of one entry that are not watched yet, the oldest first. Belongs to one event loop."""

    def __init__(self) -> None:
        self._young: dict[Exchange, tuple[float, Callable[[], object], Receive]] = {}
        self._timer = False

    def add(self, exchange: Exchange, receive: Receive, cancel: Callable[[], object]) -> None:
        """Watch the client of this request after a while. `cancel` cancels the request if its client disconnects."""
        loop = asyncio.get_running_loop()
        self._young[exchange] = (loop.time(), cancel, receive)
        if not self._timer:
            self._timer = True
            loop.call_later(WATCH_AFTER, self._begin)

    def remove(self, exchange: Exchange) -> None:
        """The request has its response. A watch that has begun is ended by `Exchange.close`."""
        self._young.pop(exchange, None)

    def _begin(self) -> None:
        """Watch the requests that are old enough, and come again for the next one."""
        loop, self._timer = asyncio.get_running_loop(), False
        while self._young:
            exchange, (began, cancel, receive) = next(iter(self._young.items()))
            if (wait := began + WATCH_AFTER - loop.time()) > 0:
                self._timer = True
                loop.call_later(wait, self._begin)
                return
            del self._young[exchange]
            exchange.watch(cancel, receive)
