"""A router's API, as the commands of an operator ask it.

The law: the admin token goes to the address that was named and nowhere else, in a header, and is never shown. Whatever
is no answer of this API ends in one line that says what was not done and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
from pydantic import BaseModel, ValidationError

from framehold_core.errors import ConfigError
from framehold_router.api.about_nodes import DoneView, ErrorView

from . import addresses, kept_token
from .credentials import Credentials

_TIMEOUT = httpx2.Timeout(15.0, connect=5.0)
View = TypeVar("View", bound=BaseModel)
_GIVE = "give --token or FRAMEHOLD_ADMIN_TOKEN"


class Refused(ConfigError):
    """The router answered, and did not do it: its own words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Answer(Generic[View]):
    """What the router said: `raw` as it was sent, with what only newer releases know, and as this release reads it."""

    raw: Any
    view: View


class Api:
    """One router's API. `close` it, or use it as a context.

    Without a `token` that of a `framehold up` on this machine is taken, where the same user runs it.

    Raises:
        ConfigError: `url` is no address, or the token can't be sent.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = addresses.base(url)
        if "@" in self.url:
            raise ConfigError(f"--url must not hold a user or a password; nothing was asked; {_GIVE}")
        try:
            parts = urlsplit(self.url)
            fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fits = False
        if not fits:
            raise ConfigError(f"{url} is no address; name one as --url http://127.0.0.1:8080")
        token = token or kept_token.found(self.url)
        self.has_token = token is not None
        self._http = httpx2.Client(
            headers=dict(Credentials.of((), token).headers),
            timeout=_TIMEOUT,
            # What stands between this machine and itself is no proxy's business.
            trust_env=parts.hostname not in kept_token.LOCAL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def get(self, what: str, kind: type[View], **query: Any) -> Answer[View]:
        """Read `what`, with those parts of the query that are not None.

        Raises:
            Refused: the router says why not.
            ConfigError: no router of this release answers.
        """
        asked = {name: _spelt(value) for name, value in query.items() if value is not None}
        return self._answer("GET", what, kind, asked)

    def act(self, *path: str) -> DoneView:
        """Do something: its path, a word each. Raises as `get`."""
        return self._answer("POST", "/".join(quote(word, safe="") for word in path), DoneView, {}).view

    def _answer(self, method: str, what: str, kind: type[View], query: dict[str, str]) -> Answer[View]:
        where = f"{self.url}/api/v1/{what}"
        undone = "; nothing was done" if method == "POST" else ""
        try:
            response = self._http.request(method, where, params=query)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._silent(error, method) from None
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            how = "refuses this admin token" if self.has_token else "wants the admin token"
            raise Refused(401, f"401: {self.url} {how}{undone}; {_GIVE}")
        if not response.is_success:
            raise _refusal(response, where, undone)
        try:
            raw = response.json()
            return Answer(raw, kind.model_validate(raw))
        except (ValidationError, ValueError):
            # Of an action nobody can say then whether it was done.
            raise ConfigError(f"{where} is no router's of this release: its answer can't be read; {_ANOTHER}") from None

    def _silent(self, error: Exception, method: str) -> ConfigError:
        why = str(error) or type(error).__name__
        if method == "POST" and isinstance(error, httpx2.TimeoutException) and not _unsent(error):
            return ConfigError(f"{self.url} did not answer in time; whether it was done is not known; look again")
        return ConfigError(f"no router answers at {self.url} ({why}); start a fleet with framehold up, or {_ANOTHER}")


_ANOTHER = "name another --url"


def _unsent(error: Exception) -> bool:
    return isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout)


def _refusal(response: httpx2.Response, where: str, undone: str) -> ConfigError:
    try:
        said = ErrorView.model_validate_json(response.content).error
    except ValidationError:
        return ConfigError(f"{where} answers {response.status_code}: no router of this release{undone}; {_ANOTHER}")
    return Refused(response.status_code, f"{response.status_code}: {said}")


def _spelt(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
