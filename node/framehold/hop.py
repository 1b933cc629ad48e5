"""What a request brought along from inside the fleet, and what its response tells in return.

A client's own `framehold-*` headers count for nothing: without the fleet's secret beside them they are dropped, and no
handler ever sees one, the secret least of all.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from starlette.types import Message, Scope, Send

from framehold_core.ids import CallId, is_call_id
from framehold_router.internal import CALL_ID, NODE, PREFIX, ROUTE, VIA, Header, Trust, without_internal

_KEY = "framehold"


class Hop:
    """One request's last step to this node. `call` is the id that a router gave its call; `inside` whether a part of
    this fleet sent it in its own name, not for a client; `relayed` whether a node sent it, so that it is not relayed
    again (rule 19). `node` and `route` are told on the response, if `told`."""

    __slots__ = ("call", "inside", "node", "relayed", "route", "told")

    def __init__(self, node: str, said: dict[bytes, bytes] | None, tell: bool) -> None:
        # Whoever passes a client's request on says more than the secret: a client must not reach /admin through it.
        self.inside, believed = said == {}, said or {}
        call = believed[CALL_ID].decode("latin-1") if CALL_ID in believed else ""
        self.call = CallId(call) if call and is_call_id(call) else None
        self.relayed = believed.get(VIA) == b"node"
        self.told = tell or VIA in believed
        self.node = node.encode()
        self.route = b"any"

    def telling(self, send: Send) -> Send:
        """`send`, with who served and how on the response's head."""
        if not self.told:
            return send

        def told(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self.headers()]}
            return send(message)

        return told

    def headers(self) -> list[Header]:
        """Who served, and how the request found it."""
        return [(NODE, self.node), (ROUTE, self.route)]


def received(scope: Scope, trust: Trust, node: str, tell: bool) -> Hop:
    """Take the internal headers off a request, and keep what they said beside it."""
    # httptools keeps white space round a header's value; h11 and the protocol don't.
    headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
    believed: dict[bytes, bytes] | None = None
    # Names are joined by what none of them has, to be looked through in one go.
    if PREFIX in b"\n".join([name for name, _ in headers]):
        believed, headers = trust.believed(headers), without_internal(headers)
    scope["headers"] = headers
    hop = scope[_KEY] = Hop(node, believed, tell)
    return hop


def of(request: Any) -> Hop | None:
    """The hop of the SDK's request object; None on a transport that has none."""
    hop = getattr(request, "scope", {}).get(_KEY)
    return hop if isinstance(hop, Hop) else None
