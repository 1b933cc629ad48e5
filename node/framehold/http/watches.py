"""Begins to watch the client of each request that takes long. One timer serves all requests: most end before it.

The law: an app's `receive` runs with the context variables of its own request, and no timer holds those of any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context

from starlette.types import Receive

from .exchange import Exchange

WATCH_AFTER = 0.05
"""Seconds before a request is watched for its client's disconnect."""


class Watches:
    """The requests of one entry that are not watched yet, the oldest first."""

    def __init__(self) -> None:
        self._young: dict[Exchange, tuple[float, Callable[[], object], Receive, Context]] = {}
        self._timed: asyncio.AbstractEventLoop | None = None
        """The event loop in which the timer runs; a timer ends with its loop. None: it does not run."""

    def add(self, exchange: Exchange, receive: Receive, cancel: Callable[[], object], variables: Context) -> None:
        """Watch the client of this request after a while. `cancel` cancels the request if its client disconnects;
        `variables` are its context variables."""
        loop = asyncio.get_running_loop()
        self._young[exchange] = (loop.time(), cancel, receive, variables)
        if self._timed is not loop:
            self._wait(loop, WATCH_AFTER)

    def remove(self, exchange: Exchange) -> None:
        """The request has its response. A watch that has begun is ended by `Exchange.close`."""
        self._young.pop(exchange, None)

    def _wait(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._timed = loop
        # All requests share it: it takes over nothing of the one that arms it.
        loop.call_later(seconds, self._begin, context=Context())

    def _begin(self) -> None:
        """Watch the requests that are old enough, and come again for the next one."""
        loop, self._timed = asyncio.get_running_loop(), None
        while self._young:
            exchange, (began, cancel, receive, variables) = next(iter(self._young.items()))
            if (wait := began + WATCH_AFTER - loop.time()) > 0:
                self._wait(loop, wait)
                return
            del self._young[exchange]
            exchange.watch(cancel, receive, variables.copy())
