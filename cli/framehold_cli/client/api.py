"""The client of a router's API, for the commands of operators.

The law: the admin token is never sent and never shown. Requests are signed with it (`framehold_router.api.signature`),
and the router shows that it has the token too, before it is asked for anything and with each response. A response that
is not one of this API, or not one of a router with that token, ends the command with one line that says what was not
done and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
from pydantic import BaseModel, ValidationError

from framehold_core.errors import ConfigError
from framehold_fleet.models.calls import LeasesView
from framehold_fleet.models.nodes import DoneView, ErrorView
from framehold_router.api import signature

from . import addresses, local_fleets
from .credentials import sendable

_TIMEOUT = httpx2.Timeout(15.0, connect=5.0)
_MAX_PAGE = 1000
"""The most calls that the router puts on a page."""
View = TypeVar("View", bound=BaseModel)
_HINT = "give --token or FRAMEHOLD_ADMIN_TOKEN"


class ApiRefused(ConfigError):
    """The router refused a request. The message has the HTTP status and the router's reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Unproved(ApiRefused):
    """Who answers at the address does not show that it has the admin token."""

    def __init__(self, url: str, undone: str) -> None:
        super().__init__(
            401,
            f"401: {url} does not prove that it has this admin token: it has another one or none, or somebody else "
            f"listens there; the token was not sent, and {undone}; give the token of that router, none if it has none, "
            f"or {addresses.OTHER}",
        )


class NoRouter(ConfigError):
    """No router answers at the address, or none of this release."""


@dataclass(frozen=True)
class ApiResponse(Generic[View]):
    """A response of the router. `raw` is its whole JSON, with fields that this release doesn't know; `view` is the JSON
    as this release reads it."""

    raw: Any
    view: View


class ApiClient:
    """The API of the router at `url`. Call `close` at the end, or use it as a context manager.

    Without a `token` it uses the admin token of a `framehold up` that the same user runs on this machine, if any.
    `other`: what a user can do where no router answers there.

    Raises:
        ConfigError: `url` is no http address or contains a user, or the token can't be sent in a header.
    """

    def __init__(self, url: str, token: str | None = None, other: str = addresses.OTHER) -> None:
        self.url, self._other = addresses.base(url), other
        if "@" in self.url:
            raise ConfigError(f"--url must not hold a user or a password; nothing was asked; {_HINT}")
        try:
            parts = urlsplit(self.url)
            fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fits = False
        if not fits:
            raise ConfigError(f"{url} is no address; name one as --url http://127.0.0.1:8080")
        token = token or local_fleets.admin_token(self.url)
        self._token = None if token is None else sendable(token.strip(), "--token")
        self._is_proved = token is None
        local = parts.hostname in local_fleets.LOCAL
        self._http = httpx2.Client(
            # To read the certificates of all authorities takes 40 ms, and nothing here would look at them.
            verify=not local or parts.scheme != "http",
            timeout=_TIMEOUT,
            # Requests to this machine don't go through a proxy.
            trust_env=not local,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    @property
    def has_token(self) -> bool:
        """Whether requests are signed with an admin token."""
        return self._token is not None

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, what: str, kind: type[View], **query: Any) -> ApiResponse[View]:
        """Read the path `what` below `/api/v1`. Fields of `query` that are None are not sent.

        Raises:
            Refused: the router refuses the request.
            NoRouter: no router of this release answers.
        """
        asked = {name: _query_value(value) for name, value in query.items() if value is not None}
        return self._request("GET", what, kind, asked)

    def all_leases(self, **query: Any) -> Iterator[ApiResponse[LeasesView]]:
        """Read all pages of the list of calls, one after another. Raises what `get` raises."""
        after: str | None = None
        while True:
            answer = self.get("leases", LeasesView, **{**query, "limit": _MAX_PAGE, "after": after})
            yield answer
            if (after := answer.view.next) is None:
                return

    def act(self, *path: str, **body: str) -> DoneView:
        """Perform an action: POST `body` as JSON, if there is any, to the path below `/api/v1` that these words make.

        Raises:
            Refused: the router refuses the action.
            NoRouter: no router of this release answers."""
        return self._request("POST", "/".join(quote(word, safe="") for word in path), DoneView, {}, body or None).view

    def _request(
        self, method: str, what: str, kind: type[View], query: dict[str, str], body: dict[str, str] | None = None
    ) -> ApiResponse[View]:
        where = f"{self.url}/api/v1/{what}"
        undone = "; nothing was done" if method == "POST" else ""
        if not self._is_proved:
            self._send("GET", f"{self.url}/api/v1/access", undone="nothing was asked or done")
            self._is_proved = True
        response = self._send(method, where, query, body)
        if response.status_code == httpx2.codes.UNAUTHORIZED and not self.has_token:
            raise ApiRefused(401, f"401: {self.url} wants the admin token{undone}; {_HINT}")
        if not response.is_success:
            raise self._refusal(response, where, undone)
        try:
            raw = response.json()
            return ApiResponse(raw, kind.model_validate(raw))
        except (ValidationError, ValueError):
            # It is not known whether an action was performed, so the message doesn't say.
            raise NoRouter(f"{where} is no router's of this release: its answer can't be read; {self._other}") from None

    def _send(
        self,
        method: str,
        where: str,
        query: dict[str, str] | None = None,
        body: dict[str, str] | None = None,
        undone: str = "its answer is not believed",
    ) -> httpx2.Response:
        """Send a request, signed if there is a token: then the response has the router's proof. `undone`: what was not
        done if it has none."""
        try:
            request = self._http.build_request(method, where, params=query, json=body)
            signed = self._signed(request)
            response = self._http.send(request)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._no_response_error(error, method) from None
        if signed is None or response.headers.get(signature.PROOF) == signed.proof:
            return response
        if response.is_success or response.status_code == httpx2.codes.UNAUTHORIZED:
            raise Unproved(self.url, undone)
        # A gateway's, or that of another server.
        raise NoRouter(f"{where} answers {response.status_code}: no router of this release; {self._other}")

    def _signed(self, request: httpx2.Request) -> signature.Signed | None:
        if self._token is None:
            return None
        # What stands before the API in the address is of a proxy, and the router does not get it.
        target = request.url.raw_path.decode().removeprefix(urlsplit(self.url).path)
        signed = signature.sign(self._token, request.method, target, request.content)
        request.headers["Authorization"] = signed.authorization
        return signed

    def _no_response_error(self, error: Exception, method: str) -> ConfigError:
        why = str(error) or type(error).__name__
        if method == "POST" and isinstance(error, httpx2.TimeoutException) and not _was_not_sent(error):
            return ConfigError(f"{self.url} did not answer in time; whether it was done is not known; look again")
        return NoRouter(f"no router answers at {self.url} ({why}); start a fleet with framehold up, or {self._other}")

    def _refusal(self, response: httpx2.Response, where: str, undone: str) -> ConfigError:
        try:
            reason = ErrorView.model_validate_json(response.content).error
        except ValidationError:
            return NoRouter(f"{where} answers {response.status_code}: no router of this release{undone}; {self._other}")
        return ApiRefused(response.status_code, f"{response.status_code}: {reason}")


def _was_not_sent(error: Exception) -> bool:
    return isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout)


def _query_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
