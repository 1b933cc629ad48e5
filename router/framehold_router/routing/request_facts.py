"""The facts of a request that placement uses: from two headers, and two fields of its body.

The law: these are hints. Nothing here is authenticated, and nothing here refuses a request. A request that can't be
read may go to any node, and that node says what is wrong with it. Reading never raises. It takes time in proportion to
the size of the body, which is limited.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import NamedTuple

import msgspec

from framehold_core import token
from framehold_core.ids import CallId, NodeId
from framehold_fleet.http_server.message import Request
from framehold_fleet.members import session_ids

REVISION = b"2026-07-28"
"""The protocol revision on which a request may start a call that asks."""
_RESUME = "tools/resumeSaga"
METHODS = frozenset(("tools/call", "prompts/get", "resources/read"))
"""The methods that start or continue a call."""
WITH_SAGAS = METHODS | {"tools/callSaga", _RESUME}
"""The same where sagas are served (FRAMEHOLD_SAGAS): as calls. Elsewhere their names may be an author's own methods,
which run again if they are sent again."""


class RequestKind(StrEnum):
    """The kind of a request, as placement distinguishes them."""

    START = "start"
    """May start a call: it gets a fresh call id, and the node that the ring maps it to."""
    RETRY = "retry"
    """A further round of the call that its token names."""
    SESSION = "session"
    """Belongs to a session of the 2025 era, which lives on one node."""
    ANY = "any"
    """Any node can serve it."""


class Facts(NamedTuple):
    """The routing facts of a request. `call` is set for RETRY, `node` for SESSION."""

    kind: RequestKind
    call: CallId | None = None
    node: NodeId | None = None


class _RoutedParams(msgspec.Struct, gc=False):
    requestState: str | None = None
    sagaToken: str | None = None


class _RoutedBody(msgspec.Struct, gc=False):
    method: str = ""
    params: _RoutedParams | None = None


_decode = msgspec.json.Decoder(_RoutedBody).decode
_ANY = Facts(RequestKind.ANY)
_START = Facts(RequestKind.START)


def read(request: Request, methods: frozenset[str] = METHODS) -> Facts:
    """The routing facts of a request; never raises. `methods` are those that start or continue a call."""
    fields = request.head.fields
    named = fields.get(b"mcp-session-id")
    if named is not None:
        session = session_ids.parse(named.decode("latin-1").strip())
        if session is not None:
            return Facts(RequestKind.SESSION, node=session.node)
    if request.head.method != b"POST":
        return _ANY
    body = _body(request.body)
    if body is None or body.method not in methods:
        return _ANY
    params = body.params
    state = None if params is None else params.sagaToken if body.method == _RESUME else params.requestState
    call = token.named(state) if state else None
    if call is not None:
        return Facts(RequestKind.RETRY, call)
    return _START if fields.get(b"mcp-protocol-version", b"").strip() == REVISION else _ANY


def _body(data: bytes) -> _RoutedBody | None:
    """The fields of a body; None if it is no JSON object, or if one that its method has is of another type.

    A node reads with the standard library what a fast reader refuses: half of a surrogate pair, a byte order mark,
    UTF-16 and UTF-32. So does this. A node does not look at other fields, whatever they are, and neither does this."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        whole = json.loads(data)
        method, params = whole["method"], whole.get("params")
        name = "sagaToken" if method == _RESUME else "requestState"
        read = None if params is None else {name: params.get(name)}
        return msgspec.convert({"method": method, "params": read}, _RoutedBody)
    except (msgspec.MsgspecError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None
