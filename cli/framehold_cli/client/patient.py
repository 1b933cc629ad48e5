"""An HTTP client that retries requests where a retry does no harm.

The law:

- A request that a server may have received is sent again only if it has a `requestState`: a server runs that round
  once, however often it arrives.
- Any other request is sent again only if no connection was made for it, and if the server answered an earlier request.
  A server that never answered is more likely a wrong address than one that is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

PATIENCE = 15.0
"""Seconds from the first failure of a request until its last retry."""
CALLS = ("tools/call", "prompts/get", "resources/read")
"""The methods that call something of a server which may ask."""
_AWAY = (502, 503, 504)
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout)
_FIRST_PAUSE, _MAX_PAUSE = 0.2, 2.0
"""Seconds: the pause before the first retry, which doubles, and the longest pause."""
SILENCE = 2.0
"""Seconds without a response to a retry of a round after which the user hears why."""
_SILENT = (
    "no answer yet: the tool takes its time, or its node is gone and another one goes on with the call when the lease "
    "has run out"
)
now = time.monotonic
_WAITS = "if its node is still there, the call waits on it until its token expires"


class PatientClient(httpx2.AsyncClient):
    """Calls `notice` with one line when it begins to retry a request, and `silent` when a retry of a round has had no
    answer for long. It retries nothing once `ended` returns true. `options` are those of `httpx2.AsyncClient`.

    It overrides `send` and keeps the transport, because proxies that the environment names come with the default
    transport.
    """

    def __init__(
        self,
        notice: Callable[[str], None],
        patience: float = PATIENCE,
        ended: Callable[[], bool] = lambda: False,
        silent: Callable[[str], None] = lambda _: None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._notice = notice
        self._patience = patience
        self._ended = ended
        self._silent, self._was_silent = silent, False
        self.trouble = ""
        """Why a request failed for good, and what happened to the call, for the user; empty before a failure."""
        self._has_answered = False
        """Whether the server answered any request."""
        self.parked = False
        """Whether a call has asked a question."""
        self.rounds = 0
        """How many requests were begun that call something."""
        self.last: Mapping[str, Any] | None = None
        """The parameters of the last request that called something, if it had a `requestState`; else None."""
        self.state = ""
        """The `requestState` that the server sent last, as far as it is known; else the last one that was sent."""
        self.status = 0
        """The HTTP status of the last response to a POST; 0 before the first."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, with retries.

        Raises:
            httpx2.TransportError: there was no response. `trouble` says what happened to the request.
        """
        method, params = _method_and_params(request)
        state = bool(params.get("requestState"))
        if method in CALLS:
            self.rounds += 1
            self.last = params if state else None
            self.state = str(params.get("requestState") or "")
        self.parked = self.parked or state
        pause, end, unsent = _FIRST_PAUSE, 0.0, True
        while True:
            found = await self._try_once(request, state, options)
            if isinstance(found, httpx2.Response) and (not state or not _is_away(found)):
                return await self._noted(found) if method in CALLS else found
            unsent = unsent and isinstance(found, _UNSENT)
            if not end:
                # After a request has failed for good no later one is retried.
                again = state or (unsent and self._has_answered)
                end = now() + (self._patience if again and not self.trouble else 0)
            left = end - now()
            wait = max(min(pause, left), _retry_after(found))
            if (ended := self._ended()) or left <= 0 or wait > left:
                self.trouble = self.trouble or _outcome(found, unsent, state, ended)
                if isinstance(found, httpx2.Response):
                    return found
                raise found
            if pause == _FIRST_PAUSE:
                self._notice(f"the server can't be reached; trying again for {self._patience:g} s ...")
            await asyncio.sleep(wait)
            pause = min(pause * 2, _MAX_PAUSE)

    async def _try_once(
        self, request: httpx2.Request, state: bool, options: dict[str, Any]
    ) -> httpx2.Response | httpx2.TransportError:
        """Send a request once. The response to a retry of a round is read to its end, so that a break counts as a
        failure."""
        silent = asyncio.get_running_loop().call_later(SILENCE, self._is_silent) if state else None
        try:
            response = await super().send(request, **options)
            if state:
                try:
                    await response.aread()
                finally:
                    await response.aclose()
        except httpx2.TransportError as error:
            return error
        finally:
            if silent is not None:
                silent.cancel()
        self._has_answered = True
        if request.method == "POST":
            self.status = response.status_code
        return response

    def _is_silent(self) -> None:
        if not self._was_silent:
            self._was_silent = True
            self._silent(_SILENT)

    async def _noted(self, response: httpx2.Response) -> httpx2.Response:
        """The response, of which the `requestState` is noted. One that streams is left to its reader: a server of the
        older revision waits for answers in the middle of it."""
        if response.headers.get("content-type", "").startswith("application/json"):
            with contextlib.suppress(ValueError, LookupError, TypeError):
                self.state = str(json.loads(await response.aread())["result"]["requestState"])
        return response


def plainly(error: BaseException) -> str:
    """The error of a request in words for a user who doesn't know the HTTP client."""
    if isinstance(error, _UNSENT):
        return "the server can't be reached"
    if isinstance(error, httpx2.TimeoutException):
        return "the server didn't answer in time"
    if isinstance(error, httpx2.TransportError):
        return "the connection broke before the answer was there"
    return str(error) or type(error).__name__


def _method_and_params(request: httpx2.Request) -> tuple[str, Mapping[str, Any]]:
    """The method and the parameters of a request's JSON-RPC message; empty if its body has none."""
    try:
        message = json.loads(request.content)
        params = message.get("params")
    except (ValueError, AttributeError, httpx2.RequestNotRead):
        return "", {}
    return str(message.get("method")), params if isinstance(params, dict) else {}


def _is_away(response: httpx2.Response) -> bool:
    """Whether the same request may succeed later: by the status, or, where the response had begun to stream before that
    was known, by the data of its error."""
    return response.status_code in _AWAY or _in_stream(response) is not None


def _in_stream(response: httpx2.Response) -> float | None:
    """The `retryAfter` (seconds) in the data of the error that ends an event stream; None if there is none."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        return None
    try:
        found = _error(response)["data"]["retryAfter"]
    except (ValueError, LookupError, TypeError):
        return None
    return float(found) if isinstance(found, int | float) else None


def _error(response: httpx2.Response) -> Any:
    """The error of a response that was read to its end: of its JSON body, or of its stream's last event.

    Raises:
        ValueError, LookupError, TypeError: it has none.
    """
    *_, last = ("", *(line for line in response.text.splitlines() if line.startswith("data:")))
    return json.loads(last.removeprefix("data:") or response.text)["error"]


def _retry_after(found: httpx2.Response | httpx2.TransportError) -> float:
    """The seconds of a Retry-After header, or what stands for it in a stream; 0 if there is none, or if it is a
    date."""
    if not isinstance(found, httpx2.Response):
        return 0.0
    header = found.headers.get("retry-after", "")
    return float(header) if header.isascii() and header.isdigit() else _in_stream(found) or 0.0


def _outcome(found: httpx2.Response | httpx2.TransportError, unsent: bool, state: bool, ended: bool) -> str:
    if ended:
        ran = "nothing was sent" if unsent else "whether it ran is not known"
        return f"the framehold up that served it has ended; {ran}"
    if isinstance(found, httpx2.Response):
        return f"{_server_reason(found)}; if it didn't run, {_WAITS}"
    if unsent:
        return f"{plainly(found)}; nothing was sent" + (f"; {_WAITS}" if state else "")
    return f"{plainly(found)}; whether it ran is not known" + (f"; if it didn't, {_WAITS}" if state else "")


def _server_reason(response: httpx2.Response) -> str:
    """The error message in a server's response; without one, the HTTP status in words."""
    try:
        return str(_error(response)["message"]).rstrip(".")
    except (ValueError, LookupError, TypeError):
        return f"the server answers {response.status_code}"
