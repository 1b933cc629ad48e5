"""Who may see and do what: one check, which every request for a page passes.

The law: what is not said to be open is closed. Reads are open where no admin token is set; where one is, they need it,
as Bearer or as the password of Basic, which a browser asks its user for. Actions always need it, and as Bearer alone:
nothing that a browser adds by itself, for another site's page, lets it act. Tokens are compared in constant time.

A browser asks its user for a password wherever Basic is offered. A script that asks for itself says so by the header
`X-Requested-With`, whatever it holds, and is offered Bearer alone.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from .about_nodes import AccessView


class Need(Enum):
    """What a page asks of those who want it."""

    OPEN = "open"
    READ = "read"
    ACTION = "action"


class Refusal(NamedTuple):
    """Why somebody is turned away, and how to ask instead."""

    status: int
    text: str
    challenges: tuple[str, ...] = ()


_SCRIPT = "X-Requested-With"
_BEARER = 'Bearer realm="framehold"'
_BASIC = 'Basic realm="framehold"'


class Access:
    """The check of one router; `token` is its admin token, if it has one."""

    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token else None

    def refusal(self, need: Need, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request with these headers is not answered; None where it is."""
        if need is Need.OPEN or (need is Need.READ and self._token is None):
            return None
        if self._token is None:
            return Refusal(
                403, "actions need an admin token and none is set: nothing was done; set FRAMEHOLD_ADMIN_TOKEN"
            )
        if self._right(need, headers):
            return None
        if need is Need.READ:
            text = "the admin token is missing or wrong: nothing was told; show it as Bearer, or as Basic's password"
            return Refusal(401, text, (_BEARER,) if _SCRIPT in headers else (_BASIC, _BEARER))
        text = (
            "the admin token is missing or wrong: nothing was done; show it as Bearer (Basic does not do for actions)"
        )
        return Refusal(401, text, (_BEARER,))

    def told(self, headers: Mapping[str, str]) -> AccessView:
        """What whoever shows these headers may do."""
        return AccessView(token_set=self._token is not None, token_right=self._right(Need.ACTION, headers))

    def _right(self, need: Need, headers: Mapping[str, str]) -> bool:
        """Whether these headers show the admin token as `need` takes it."""
        scheme, _, said = headers.get("Authorization", "").partition(" ")
        shown = _shown(scheme.lower(), said.strip(), need)
        return shown is not None and self._token is not None and hmac.compare_digest(shown, self._token)


def _shown(scheme: str, said: str, need: Need) -> bytes | None:
    """The token that a request shows."""
    if scheme == "bearer":
        return said.encode("utf-8", "surrogateescape")
    if scheme != "basic" or need is Need.ACTION:
        return None
    try:
        _, colon, password = b64decode(said, validate=True).partition(b":")
    except ValueError:
        return None
    return password if colon else None
