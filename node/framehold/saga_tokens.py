"""The tokens of sagas: what a resume doesn't say again, sealed, behind the prefix that routers read.

    h1.<call>.saga.<sealed>    a call that is held
    s1.saga.<sealed>           any other

Expiry, user and audience are those of the request state inside.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from framehold_core import token
from framehold_store.seal import Sealer

VERSION = 1

_MARK = "saga."
_MOST = 64
"""Characters of a token among which its mark is."""


class Saga(NamedTuple):
    """What a token seals: the call's parameters, and by key how many answers each question was given. `chosen` is
    what its `_meta` tells FastMCP of the tool, its version."""

    name: str
    arguments: dict[str, Any]
    chosen: Any
    given: dict[str, int]
    state: str | None


def is_one(wire: str) -> bool:
    """Whether a token says that it is a saga's; each request's state is asked."""
    return _MARK in wire[:_MOST] and _sealed(wire) is not None


def written(saga: Saga) -> str:
    """What is sealed, as text."""
    return json.dumps([VERSION, *saga], separators=(",", ":"))


def sealed(saga: Saga, sealer: Sealer) -> str:
    """The token of a saga, which names the call that its state names."""
    routed = token.parse(saga.state or "")
    call = None if routed is None else routed.call
    blob = sealer.seal("saga", written(saga).encode(), call=call or "", n=0, kind="saga", key="")
    marked = _MARK + _encoded(blob)
    return token.stateless(marked) if call is None else token.hold(call, marked)


def opened(wire: str, sealer: Sealer) -> Saga | None:
    """What a saga's token seals, None where a release wrote it that this one doesn't know.

    Raises:
        SealError, ValueError: it was not made by this fleet, or not for the call that it names.
    """
    routed, within = token.parse(wire), _sealed(wire)
    call = "" if routed is None else routed.call or ""
    text = sealer.open("saga", _decoded(within or ""), call=call, n=0, kind="saga", key="")
    version, *saga = json.loads(text)
    return Saga(*saga) if version == VERSION else None


def _sealed(wire: str) -> str | None:
    """The sealed part of a saga's token; None for what is none."""
    routed = token.parse(wire)
    return None if routed is None or not routed.sealed.startswith(_MARK) else routed.sealed[len(_MARK) :]


def _encoded(blob: bytes) -> str:
    return base64.urlsafe_b64encode(blob).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """The bytes of a text that is spelled as `_encoded` spells it. Raises ValueError."""
    blob = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _encoded(blob) != text:
        raise ValueError("another spelling")
    return blob
