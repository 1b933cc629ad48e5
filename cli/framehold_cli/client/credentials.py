"""Headers that authorize a caller, and error messages for a server that refuses the caller.

The law: no message shows the value of a header, nor text of a malformed `--header` that may be a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx2

from framehold_core.errors import ConfigError

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_AUTHORIZATION, _HOST, _ORIGIN = "authorization", "host", "origin"


@dataclass(frozen=True)
class Credentials:
    """Headers of every request, by their names in lower case."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, words: Sequence[str], token: str | None) -> Credentials:
        """Make credentials from `NAME=VALUE` words and a bearer token.

        Raises:
            ConfigError: a word is not NAME=VALUE, a header is given twice, or a value can't be sent.
        """
        found: dict[str, str] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or not _NAME.fullmatch(name):
                raise ConfigError("a --header is not NAME=VALUE; nothing was called; write it as --header X-Team=blue")
            _add(found, name.lower(), value.strip(), f"--header {name}")
        if token is not None:
            _add(found, _AUTHORIZATION, f"Bearer {token.strip()}" if token.strip() else "", "--token")
        return cls(found)

    def refused(self, url: str, status: int) -> str:
        """Why the server at `url` answered with 401, 403 or 421, in words for the user; empty for any other status."""
        sent = _AUTHORIZATION in self.headers
        if status == httpx2.codes.MISDIRECTED_REQUEST:
            host = "of --header" if _HOST in self.headers else repr(httpx2.URL(url).netloc.decode())
            return f"a node at {url} refuses the Host {host} (421); name it in FRAMEHOLD_ALLOWED_HOSTS of each node"
        if status == 401 and not sent:
            return f"{url} wants a token (401); give one with --token, or another header with --header NAME=VALUE"
        if status == 403 and _ORIGIN in self.headers:
            do = "if it is one of yours, name it in FRAMEHOLD_ALLOWED_ORIGINS of each node"
            return f"{url} refuses this client (403), maybe for the Origin of --header; {do}"
        if status in (401, 403) and sent:
            return f"{url} refuses this token ({status}); give another one with --token"
        if status == 403:
            return f"{url} refuses this client (403); if it wants a token, give one with --token"
        return ""


def sendable(value: str, option: str) -> str:
    """A value that a header can have, as it is given.

    Raises:
        ConfigError: no header can have it.
    """
    if not value or not value.isascii() or not value.isprintable():
        raise ConfigError(f"{option} needs a value of printable ASCII characters; nothing was called")
    return value


def _add(found: dict[str, str], name: str, value: str, option: str) -> None:
    if name in found:
        raise ConfigError(f"the header {name} is given twice; nothing was called")
    found[name] = sendable(value, option)
