"""The tokens of sagas: the parameters of a call, sealed, behind the prefix that routers read.

    h1.<call>.saga.<sealed>    a call under strategy hold
    s1.saga.<sealed>           any other call

The request state inside has the expiry, the user and the audience.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from framehold_core import token
from framehold_store.seal import Sealer

VERSION = 1

_MARK = "saga."
_MARK_WITHIN = 64
"""The mark of a saga's token is within this many characters from the token's beginning."""


class Saga(NamedTuple):
    """The content of a token.

    - `name`, `arguments`: the tool, and its arguments
    - `chosen`: the version of the tool that the client chose in `_meta` for FastMCP, or None
    - `given`: how many answers each question has got, by key
    - `state`: the request state of the call; None in round 1
    """

    name: str
    arguments: dict[str, Any]
    chosen: Any
    given: dict[str, int]
    state: str | None


def is_one(wire: str) -> bool:
    """Whether a token is marked as a saga's. It is fast, since each request's state is checked."""
    return _MARK in wire[:_MARK_WITHIN] and _sealed(wire) is not None


def written(saga: Saga) -> str:
    """The content of a token as text, before it is sealed."""
    return json.dumps([VERSION, *saga], separators=(",", ":"))


def sealed(saga: Saga, sealer: Sealer) -> str:
    """The token of a saga. Its prefix has the call id of the state inside."""
    routed = token.parse(saga.state or "")
    call = None if routed is None else routed.call
    blob = sealer.seal("saga", written(saga).encode(), call=call or "", n=0, kind="saga", key="")
    marked = _MARK + _encoded(blob)
    return token.stateless(marked) if call is None else token.hold(call, marked)


def opened(wire: str, sealer: Sealer) -> Saga | None:
    """The content of a saga's token; None if it has a format that this release doesn't know.

    Raises:
        SealError, ValueError: the token was not made by this fleet, or not for the call in its prefix.
    """
    routed, within = token.parse(wire), _sealed(wire)
    call = "" if routed is None else routed.call or ""
    text = sealer.open("saga", _decoded(within or ""), call=call, n=0, kind="saga", key="")
    version, *saga = json.loads(text)
    return Saga(*saga) if version == VERSION else None


def _sealed(wire: str) -> str | None:
    """The sealed part of a saga's token; None if `wire` is not such a token."""
    routed = token.parse(wire)
    return None if routed is None or not routed.sealed.startswith(_MARK) else routed.sealed[len(_MARK) :]


def _encoded(blob: bytes) -> str:
    return base64.urlsafe_b64encode(blob).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """The bytes that `text` encodes. Raises ValueError if `_encoded` would write them otherwise."""
    blob = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _encoded(blob) != text:
        raise ValueError("another spelling")
    return blob
