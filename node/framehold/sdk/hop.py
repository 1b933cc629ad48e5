"""The internal headers of the fleet: those of a request, and those that its response gets.

A client's own `framehold-*` headers have no effect: they are believed as far as the role goes that the sender has
proved, and for one connection. No handler ever sees one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from framehold_core.ids import CallId, is_call_id
from framehold_fleet.headers import CALL_ID, CODE, NODE, NOT_TAKEN, PREFIX, ROUTE, Header, without_internal
from framehold_fleet.identity.plane import PROOF
from framehold_fleet.identity.statements import HELLO, Role

from ..engine.peers import boots
from ..engine.runtime import Runtime

KEY = "framehold"
"""The key of a `Hop` in the ASGI scope of its request."""
_FORWARDED = b"x-forwarded-for"


class Hop:
    """The last step of one request on its way to this node.

    - `came`: when the request reached this process, in seconds since 1970 on the store's clock
    - `call`: the id that a router made for its call, or None; also None once a call has begun under it
    - `role`: for whom the sender asks, as it has proved; None: it is anybody
    - `inside`: whether a part of this fleet sent it in its own name, not for a client
    - `relayed`: whether a node sent it, so that it is not relayed again (docs/protocol.md, rule 19)
    - `introduction`: the answer to a sender that asks who listens here; None: it asks something else
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
        *("call", "came", "code", "inside", "introduction", "node", "offered_to", "offers", "proof", "relayed", "role"),
        *("arguments", "route", "weight", "with_headers"),
    )

    def __init__(
        self, node: str, with_headers: bool, role: Role | None = None, call: bytes = b"", came: float = 0.0
    ) -> None:
        """`call` is the value of the request's CALL_ID."""
        self.came = came
        self.role = role
        self.inside = role is Role.ADMIN
        self.relayed = role is Role.NODE
        named = call.decode("latin-1") if role in (Role.ROUTER, Role.CLIENT) else ""
        self.call = CallId(named) if named and is_call_id(named) else None
        self.with_headers = with_headers or role in (Role.ROUTER, Role.NODE)
        self.introduction: bytes | None = None
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

    def prove_not_taken(self, runtime: Runtime) -> None:
        """Have the response prove to the router that nothing was started of the call whose id it made."""
        if self.call is not None and self.role is Role.ROUTER:
            self.proof = runtime.peers.trust.statements.not_taken(runtime.heartbeat.lease.boot, self.call)

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


def received(scope: Scope, receive: Receive, runtime: Runtime) -> Hop:
    """Remove the internal headers from a request, of HTTP or of WebSocket, and keep as its `Hop` what they prove."""
    node, with_headers, now = runtime.peers.node, runtime.settings.route_headers, runtime.clock.time()
    # httptools keeps white space round a header's value; h11 and the protocol don't.
    headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
    # No name contains a line feed, so one search over the joined names is enough.
    if PREFIX in b"\n".join([name for name, _ in headers]):
        internal, headers = dict(headers), without_internal(headers)
        call, peer = internal.get(CALL_ID, b""), _peer(scope, receive)
        role = _role(scope, runtime, (internal.get(PROOF, b""), call, peer), now)
        hop = Hop(node, with_headers, role, call, now)
        if HELLO in internal and scope["type"] == "http" and peer is not None:
            statements = runtime.peers.trust.statements
            hop.introduction = statements.answer(internal[HELLO], boots(runtime.heartbeat), peer)
    else:
        hop = Hop(node, with_headers, came=now)
    scope["headers"] = headers
    scope[KEY] = hop
    return hop


async def introduce(proof: bytes, send: Send) -> None:
    """Answer a sender that asks who listens here."""
    await send({"type": "http.response.start", "status": 204, "headers": [(PROOF, proof)]})
    await send({"type": "http.response.body", "body": b""})


def _role(scope: Scope, runtime: Runtime, said: tuple[bytes, bytes, str | None], now: float) -> Role | None:
    """For whom a request is sent, as its sender has proved: the values of PROOF and CALL_ID, and the peer."""
    (shown, call, peer), trust = said, runtime.peers.trust
    if shown.startswith(b"v1p."):
        path = scope.get("raw_path") or scope["path"].encode()
        is_planes = trust.plane_proof(shown, scope.get("method", "GET").encode(), path, call, now)
        return Role.CLIENT if is_planes else None
    if not shown or peer is None:
        return None
    return trust.statements.role(shown, boots(runtime.heartbeat), peer, now)


def _peer(scope: Scope, receive: Receive) -> str | None:
    """The address and port from which this process sees the connection of a request come; None: not known.

    uvicorn believes X-Forwarded-For from its own machine, and puts what a client wrote into `client`. So its transport
    is asked; where a middleware hides that, `client` counts only if that header can't have written it."""
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    found = None if transport is None else transport.get_extra_info("peername")
    if isinstance(found, tuple):
        return f"{found[0]}:{found[1]}"
    client = scope.get("client")
    if client is None:
        return None
    host = client[0].encode()
    written = any(host in value for name, value in scope["headers"] if name == _FORWARDED)
    return None if written else f"{client[0]}:{client[1]}"


def of(request: Any) -> Hop | None:
    """The hop of a request object of the SDK; None on a transport without HTTP."""
    hop = getattr(request, "scope", {}).get(KEY)
    return hop if isinstance(hop, Hop) else None
