"""An HTTP client that doesn't give up at once where sending a request again does no harm.

The law: a request that somebody may have got is sent again only if it carries a `requestState`, for such a round is
answered as once, however often it arrives. Any other is sent again only if no connection was made for it, to a server
that answered before: one that never did is more likely named wrongly than away.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

PATIENCE = 15.0
"""Seconds from the first failure of a request until the last try."""
_AWAY = (502, 503, 504)
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout)
_FIRST, _MOST = 0.2, 2.0
"""Seconds between two tries."""
now = time.monotonic
_WAITS = "the call waits on its node until its token expires"


class PatientClient(httpx2.AsyncClient):
    """`notice` hears once per request that it is being tried again; other options are the client's own.

    Its own `send` is what is wrapped, not its transport: proxies that the environment names come with that one.
    """

    def __init__(self, notice: Callable[[str], None], patience: float = PATIENCE, **options: Any) -> None:
        super().__init__(**options)
        self._notice, self._patience = notice, patience
        self.trouble = ""
        """Why a request came to nothing for good, and what became of it."""
        self._met = False
        self.parked = False
        """Whether there is a call that has asked something."""
        self.rounds = 0
        """How many rounds of calls of tools were begun."""
        self.last: Mapping[str, Any] | None = None
        """The parameters of the last round of a call of a tool that went on with one."""
        self.status = 0
        """Of the last response to what the client posted."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """As the client's own, with more patience.

        Raises:
            httpx2.TransportError: there was no answer; `trouble` says what became of the request.
        """
        method, params = _looked_at(request)
        state = bool(params.get("requestState"))
        if method == "tools/call":
            self.rounds += 1
            self.last = params if state else None
        self.parked = self.parked or state
        pause, end, unsent = _FIRST, 0.0, True
        while True:
            found = await self._tried(request, state, options)
            if isinstance(found, httpx2.Response) and (not state or found.status_code not in _AWAY):
                return found
            unsent = unsent and isinstance(found, _UNSENT)
            if not end:
                # Who was waited for in vain once is not waited for again.
                again = state or (unsent and self._met)
                end = now() + (self._patience if again and not self.trouble else 0)
            left = end - now()
            wait = max(min(pause, left), _retry_after(found))
            if left <= 0 or wait > left:
                self.trouble = self.trouble or _told(found, unsent, state)
                if isinstance(found, httpx2.Response):
                    return found
                raise found
            if pause == _FIRST:
                self._notice(f"the server can't be reached; trying again for {self._patience:g} s ...")
            await asyncio.sleep(wait)
            pause = min(pause * 2, _MOST)

    async def _tried(
        self, request: httpx2.Request, state: bool, options: dict[str, Any]
    ) -> httpx2.Response | httpx2.TransportError:
        """One try. A round's response is read to its end: one that breaks off is a failure like any other."""
        try:
            response = await super().send(request, **options)
            if state:
                try:
                    await response.aread()
                finally:
                    await response.aclose()
        except httpx2.TransportError as error:
            return error
        self._met = True
        if request.method == "POST":
            self.status = response.status_code
        return response


def plainly(error: BaseException) -> str:
    """What happened to a request, in words that need no knowledge of the client."""
    if isinstance(error, _UNSENT):
        return "the server can't be reached"
    if isinstance(error, httpx2.TimeoutException):
        return "the server didn't answer in time"
    if isinstance(error, httpx2.TransportError):
        return "the connection broke before the answer was there"
    return str(error) or type(error).__name__


def _looked_at(request: httpx2.Request) -> tuple[str, Mapping[str, Any]]:
    """The method and the parameters of a message."""
    try:
        message = json.loads(request.content)
        params = message.get("params")
    except (ValueError, AttributeError, httpx2.RequestNotRead):
        return "", {}
    return str(message.get("method")), params if isinstance(params, dict) else {}


def _retry_after(found: httpx2.Response | httpx2.TransportError) -> float:
    """Seconds; 0 where nothing is said, or a date."""
    said = found.headers.get("retry-after", "") if isinstance(found, httpx2.Response) else ""
    return float(said) if said.isascii() and said.isdigit() else 0.0


def _told(found: httpx2.Response | httpx2.TransportError, unsent: bool, state: bool) -> str:
    if isinstance(found, httpx2.Response):
        return f"{_words(found)}; if it didn't run, {_WAITS}"
    if unsent:
        return f"{plainly(found)}; nothing was sent" + (f"; {_WAITS}" if state else "")
    return f"{plainly(found)}; whether it ran is not known" + (f"; if it didn't, {_WAITS}" if state else "")


def _words(response: httpx2.Response) -> str:
    """What a server says of its own trouble, else the number."""
    try:
        return str(response.json()["error"]["message"]).rstrip(".")
    except (ValueError, LookupError, TypeError):
        return f"the server answers {response.status_code}"
