"""The internal headers of the fleet: those of a request, and those that its response gets.

A client's own `framehold-*` headers have no effect: without the fleet's secret they are dropped. No handler ever sees
an internal header, and so no handler sees the secret.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Any

from starlette.types import Message, Scope, Send

from framehold_core.ids import CallId, is_call_id
from framehold_router.fleet.trust import (
    CALL_ID,
    CODE,
    NODE,
    NOT_TAKEN,
    PREFIX,
    ROUTE,
    VIA,
    Header,
    Trust,
    without_internal,
)

_KEY = "framehold"


class Hop:
    """The last step of one request on its way to this node.

    - `came`: when the request reached this process, in seconds since 1970 on the store's clock
    - `call`: the id that a router made for its call, or None
    - `inside`: whether a part of this fleet sent it in its own name, not for a client
    - `relayed`: whether a node sent it, so that it is not relayed again (docs/protocol.md, rule 19)
    - `node`, `route`: the node that serves it, and the way by which it got there
    - `code`: `kept` if the round runs kept code, else empty
    - `offers`: whether the request may still be passed on to a node that need not hold its call (docs/protocol.md,
      rule 28); `offered_to`: the address of such a node that is to get it now, else None
    - `proof`: the value of the header NOT_TAKEN of the response; empty if it has none
    - `weight`: bytes that the value of its body takes at most; 0 for a light one
    - `arguments`: the names of the arguments that the tool of a heavy request has; None: not known
    - `with_headers`: whether the response gets headers with `node`, `route`, `code` and `proof`
    """

    __slots__ = (
        *("call", "came", "code", "inside", "node", "offered_to", "offers", "proof", "relayed", "route"),
        *("arguments", "weight", "with_headers"),
    )

    def __init__(self, node: str, trusted: dict[bytes, bytes] | None, with_headers: bool, came: float = 0.0) -> None:
        """`trusted` are the internal headers of the request, without the secret; None if the secret is missing."""
        # A part of the fleet that forwards a client's request sends further headers beside the secret. Such a request
        # is not from inside: a client must not reach /admin through it.
        self.came = came
        self.inside = trusted == {}
        trusted = trusted or {}
        call = trusted[CALL_ID].decode("latin-1") if CALL_ID in trusted else ""
        self.call = CallId(call) if call and is_call_id(call) else None
        self.relayed = trusted.get(VIA) == b"node"
        self.with_headers = with_headers or VIA in trusted
        self.node = node.encode()
        self.route = b"any"
        self.code = self.proof = b""
        self.offers, self.weight = False, 0
        self.arguments: Collection[str] | None = None
        self.offered_to: str | None = None

    def distrust_call(self, body: bytes) -> None:
        """Drop `call` if it stands in `body`, the request's body: then the client chose it, and what stands in front of
        this node copied it (docs/protocol.md, rule 18)."""
        if self.call is not None and self.call.encode() in body:
            self.call = None

    def prove_not_taken(self, trust: Trust) -> None:
        """Have the response prove to the router that nothing was started of the call whose id it made."""
        if self.call is not None:
            self.proof = trust.not_taken(self.call)

    def adding_headers(self, send: Send) -> Send:
        """A `send` that adds the headers of `headers()` to the response, if `with_headers`; else `send` itself."""
        if not self.with_headers:
            return send

        def extended(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self.headers()]}
            return send(message)

        return extended

    def headers(self) -> list[Header]:
        """The internal headers of the response: the node that served the request, the request's route, whether kept
        code runs, and the proof that nothing was started."""
        found = [(NODE, self.node), (ROUTE, self.route)]
        if self.proof:
            found.append((NOT_TAKEN, self.proof))
        return [*found, (CODE, self.code)] if self.code else found


def received(scope: Scope, trust: Trust, node: str, with_headers: bool, came: float) -> Hop:
    """Remove the internal headers from a request, of HTTP or of WebSocket, and keep them as its `Hop`. `node` is this
    node's id, `came` is as for `Hop`."""
    # httptools keeps white space round a header's value; h11 and the protocol don't.
    headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
    trusted: dict[bytes, bytes] | None = None
    # No name contains a line feed, so one search over the joined names is enough.
    if PREFIX in b"\n".join([name for name, _ in headers]):
        trusted, headers = trust.believed(headers), without_internal(headers)
    scope["headers"] = headers
    hop = scope[_KEY] = Hop(node, trusted, with_headers, came)
    return hop


def of(request: Any) -> Hop | None:
    """The hop of a request object of the SDK; None on a transport without HTTP."""
    hop = getattr(request, "scope", {}).get(_KEY)
    return hop if isinstance(hop, Hop) else None
