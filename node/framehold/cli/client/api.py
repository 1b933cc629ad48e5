"""The client of a router's API, for the commands of operators.

The law: the admin token is sent only to the address that the user named, in a header, and is never shown. A response
that is not one of this API ends the command with one line that says what was not done and what to do.
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
from framehold_router.models.calls import LeasesView
from framehold_router.models.nodes import DoneView, ErrorView

from . import addresses, local_fleets
from .credentials import Credentials

_TIMEOUT = httpx2.Timeout(15.0, connect=5.0)
_MAX_PAGE = 1000
"""The most calls that the router puts on a page."""
View = TypeVar("View", bound=BaseModel)
_TOKEN_HINT = "give --token or FRAMEHOLD_ADMIN_TOKEN"


class Refused(ConfigError):
    """The router refused a request. The message has the HTTP status and the router's reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class NoRouter(ConfigError):
    """No router answers at the address, or none of this release."""


@dataclass(frozen=True)
class Answer(Generic[View]):
    """A response of the router. `raw` is its whole JSON, with fields that this release doesn't know; `view` is the JSON
    as this release reads it."""

    raw: Any
    view: View


class Api:
    """The API of the router at `url`. Call `close` at the end, or use it as a context manager.

    Without a `token` it uses the admin token of a `framehold up` that the same user runs on this machine, if any.

    Raises:
        ConfigError: `url` is no http address or contains a user, or the token can't be sent in a header.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = addresses.base(url)
        if "@" in self.url:
            raise ConfigError(f"--url must not hold a user or a password; nothing was asked; {_TOKEN_HINT}")
        try:
            parts = urlsplit(self.url)
            fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fits = False
        if not fits:
            raise ConfigError(f"{url} is no address; name one as --url http://127.0.0.1:8080")
        token = token or local_fleets.admin_token(self.url)
        self.has_token = token is not None
        local = parts.hostname in local_fleets.LOCAL
        self._http = httpx2.Client(
            # To read the certificates of all authorities takes 40 ms, and nothing here would look at them.
            verify=not local or parts.scheme != "http",
            headers=dict(Credentials.of((), token).headers),
            timeout=_TIMEOUT,
            # Requests to this machine don't go through a proxy.
            trust_env=not local,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, what: str, kind: type[View], **query: Any) -> Answer[View]:
        """Read the path `what` below `/api/v1`. Fields of `query` that are None are not sent.

        Raises:
            Refused: the router refuses the request.
            NoRouter: no router of this release answers.
        """
        asked = {name: _query_value(value) for name, value in query.items() if value is not None}
        return self._request("GET", what, kind, asked)

    def all_leases(self, **query: Any) -> Iterator[Answer[LeasesView]]:
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
    ) -> Answer[View]:
        where = f"{self.url}/api/v1/{what}"
        undone = "; nothing was done" if method == "POST" else ""
        try:
            response = self._http.request(method, where, params=query, json=body)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._no_response_error(error, method) from None
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            how = "refuses this admin token" if self.has_token else "wants the admin token"
            raise Refused(401, f"401: {self.url} {how}{undone}; {_TOKEN_HINT}")
        if not response.is_success:
            raise _refusal(response, where, undone)
        try:
            raw = response.json()
            return Answer(raw, kind.model_validate(raw))
        except (ValidationError, ValueError):
            # It is not known whether an action was performed, so the message doesn't say.
            raise NoRouter(
                f"{where} is no router's of this release: its answer can't be read; {addresses.OTHER}"
            ) from None

    def _no_response_error(self, error: Exception, method: str) -> ConfigError:
        why = str(error) or type(error).__name__
        if method == "POST" and isinstance(error, httpx2.TimeoutException) and not _was_not_sent(error):
            return ConfigError(f"{self.url} did not answer in time; whether it was done is not known; look again")
        return NoRouter(
            f"no router answers at {self.url} ({why}); start a fleet with framehold up, or {addresses.OTHER}"
        )


def _was_not_sent(error: Exception) -> bool:
    return isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout)


def _refusal(response: httpx2.Response, where: str, undone: str) -> ConfigError:
    try:
        reason = ErrorView.model_validate_json(response.content).error
    except ValidationError:
        return NoRouter(f"{where} answers {response.status_code}: no router of this release{undone}; {addresses.OTHER}")
    return Refused(response.status_code, f"{response.status_code}: {reason}")


def _query_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
