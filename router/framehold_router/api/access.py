"""Access control: one check, which every request for a page passes.

The law: a page that is not marked as open is closed. Without an admin token reads are open. With one, reads need it, as
Bearer or as the password of Basic, which a browser asks its user for. Actions always need it, and as Bearer only: a
browser may add a Basic password by itself to a request that another site's page makes. Tokens are compared in constant
time.

A browser asks its user for a password whenever Basic is offered. A script of the dashboard sends the header
`X-Requested-With` with any value; it is offered Bearer only.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from ..models.nodes import AccessView, Playground


class Need(Enum):
    """What a request must show to get a page: nothing, the token if one is set, or always the token."""

    OPEN = "open"
    READ = "read"
    ACTION = "action"


class Refusal(NamedTuple):
    """Why a request is refused: the status, the text, and the values of WWW-Authenticate."""

    status: int
    text: str
    challenges: tuple[str, ...] = ()


_SCRIPT = "X-Requested-With"
_BEARER = 'Bearer realm="framehold"'
_BASIC = 'Basic realm="framehold"'


class Access:
    """The access control of one router; `token` is its admin token, None if none is set, and `credential` its name in
    events. `playground` is the setting of that name, which the dashboard learns together with its access."""

    def __init__(self, token: str | None, credential: str = "", playground: Playground = "off") -> None:
        self._token = token.encode() if token else None
        self._credential, self._playground = credential, playground

    def refusal(self, need: Need, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request with these headers is refused; None if it is allowed."""
        if need is Need.OPEN or (need is Need.READ and self._token is None):
            return None
        if self._token is None:
            return Refusal(
                403, "actions need an admin token and none is set: nothing was done; set FRAMEHOLD_ADMIN_TOKEN"
            )
        if self._right(need, headers):
            return None
        if need is Need.READ:
            text = (
                "the admin token is missing or wrong: nothing was returned; show it as Bearer, or as Basic's password"
            )
            return Refusal(401, text, (_BEARER,) if _SCRIPT in headers else (_BASIC, _BEARER))
        text = (
            "the admin token is missing or wrong: nothing was done; show it as Bearer (Basic does not do for actions)"
        )
        return Refusal(401, text, (_BEARER,))

    def view(self, headers: Mapping[str, str]) -> AccessView:
        """What a request with these headers may do."""
        right = self._right(Need.ACTION, headers)
        return AccessView(
            token_set=self._token is not None,
            token_right=right,
            credential=self._credential if right else "",
            playground=self._playground,
        )

    def _right(self, need: Need, headers: Mapping[str, str]) -> bool:
        """Whether these headers show the admin token as `need` takes it."""
        scheme, _, credentials = headers.get("Authorization", "").partition(" ")
        shown = _shown(scheme.lower(), credentials.strip(), need)
        return shown is not None and self._token is not None and hmac.compare_digest(shown, self._token)


def _shown(scheme: str, credentials: str, need: Need) -> bytes | None:
    """The token in the credentials of a request; None if there is none, or their scheme does not do for `need`."""
    if scheme == "bearer":
        return credentials.encode("utf-8", "surrogateescape")
    if scheme != "basic" or need is Need.ACTION:
        return None
    try:
        _, colon, password = b64decode(credentials, validate=True).partition(b":")
    except ValueError:
        return None
    return password if colon else None
