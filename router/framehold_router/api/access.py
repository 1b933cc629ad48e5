"""Access control: one check, which every request for a page passes.

The law: a page that is not marked as open is closed. Who shows the admin token reads and acts, who shows the read token
reads. Where either is set, reads need one, as Bearer or as the password of Basic, which a browser asks its user for.
Where none is set, reads are open on a socket that only this machine reaches, and closed on any other. Actions always
need the admin token, and as Bearer only: a browser may add a Basic password by itself to a request that another site's
page makes. Tokens are compared in constant time.

A browser asks its user for a password whenever Basic is offered. A script of the dashboard sends the header
`X-Requested-With` with any value; it is offered Bearer only.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from framehold_fleet.models.nodes import AccessView, Playground

from .signature import SCHEME


class Need(Enum):
    """What a request must show to get a page: nothing, a token if one is set, or always the admin token."""

    OPEN = "open"
    READ = "read"
    ACTION = "action"


class AccessRefusal(NamedTuple):
    """Why a request is refused: the status, the text, and the values of WWW-Authenticate."""

    status: int
    text: str
    challenges: tuple[str, ...] = ()


_SCRIPT = "X-Requested-With"
_BEARER = 'Bearer realm="framehold"'
_BASIC = 'Basic realm="framehold"'


CLOSED = (
    "this router listens beyond its own machine and has no token, so its API is closed: set FRAMEHOLD_ADMIN_TOKEN or "
    "FRAMEHOLD_READ_TOKEN, or bind it to 127.0.0.1"
)
_WRONG = "the token is missing or wrong: nothing was {}; show "
_NO_READING = _WRONG.format("returned") + "the admin token or the read token as Bearer, or as Basic's password"
_NO_ACTING = _WRONG.format("done") + "the admin token as Bearer (Basic does not do for actions)"
_NONE_SET = "actions need an admin token and none is set: nothing was done; set FRAMEHOLD_ADMIN_TOKEN"
_READS_ONLY = "this is the read token, which reads and does not act: nothing was done; show the admin token"


class Access:
    """The access control of one router. `admin` and `read` are its tokens, None or empty if they are not set.
    `is_exposed`: whether other machines can connect to the socket of the pages. `credential` is the name of the admin
    token in events; `playground` is the setting of that name, which the dashboard learns together with its access."""

    def __init__(
        self,
        admin: str | None = None,
        read: str | None = None,
        *,
        is_exposed: bool = False,
        credential: str = "",
        playground: Playground = "off",
    ) -> None:
        self._admin, self._read = (token.encode() if token else None for token in (admin, read))
        self.tokens = tuple(token for token in (admin, read) if token)
        self._is_set = bool(self.tokens)
        self._is_open = not (self._is_set or is_exposed)
        self.is_closed = is_exposed and not self._is_set
        """Whether nobody may read, because no token is set."""
        self._credential, self._playground = credential, playground

    def refusal(self, need: Need, headers: Mapping[str, str]) -> AccessRefusal | None:
        """Why a request with these headers is refused; None if it is allowed."""
        if need is Need.OPEN:
            return None
        acts, reads = self._rights(_shown(headers, need))
        if need is Need.ACTION:
            if self._admin is None:
                return AccessRefusal(403, _NONE_SET)
            if acts:
                return None
            return AccessRefusal(403, _READS_ONLY) if reads else AccessRefusal(401, _NO_ACTING, (_BEARER,))
        if reads:
            return None
        if self.is_closed:
            return AccessRefusal(403, f"{CLOSED}; nothing was returned")
        return AccessRefusal(401, _NO_READING, (_BEARER,) if _SCRIPT in headers else (_BASIC, _BEARER))

    def is_guess(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers shows a token, where one is set, and the token is wrong. A signature
        that is still there was made with a wrong token: a right one was replaced by its token."""
        if headers.get("Authorization", "").startswith(f"{SCHEME} "):
            return self._is_set
        shown = _shown(headers, Need.READ)
        return shown is not None and self._is_set and not self._rights(shown)[1]

    def view(self, headers: Mapping[str, str]) -> AccessView:
        """What a request with these headers may do."""
        acts, _ = self._rights(_shown(headers, Need.ACTION))
        _, reads = self._rights(_shown(headers, Need.READ))
        return AccessView(
            token_set=self._is_set,
            token_right=acts,
            may_read=reads,
            credential=self._credential if acts else "",
            playground=self._playground if acts or self._is_open else "off",
        )

    def _rights(self, shown: bytes | None) -> tuple[bool, bool]:
        """Whether who shows this token may act, and whether it may read."""
        acts, reads = (
            shown is not None and token is not None and hmac.compare_digest(shown, token)
            for token in (self._admin, self._read)
        )
        return acts, acts or reads or self._is_open


def _shown(headers: Mapping[str, str], need: Need) -> bytes | None:
    """The token that a request shows; None if it shows none, or shows it in a way that does not do for `need`."""
    scheme, _, credentials = headers.get("Authorization", "").partition(" ")
    scheme, credentials = scheme.lower(), credentials.strip()
    if scheme == "bearer":
        return credentials.encode("utf-8", "surrogateescape")
    if scheme != "basic" or need is Need.ACTION:
        return None
    try:
        _, colon, password = b64decode(credentials, validate=True).partition(b":")
    except ValueError:
        return None
    return password if colon else None
