"""How the router handles each request: it relays it to the node that placement chose, relays it to the router's own
pages, or refuses it.

The law: a request that may have reached a node is sent to no other node (docs/protocol.md, rule 9). The exceptions are
a request whose token names its round, which takes effect once however often it is sent, and a new call of which its
node proves that nothing was started. A request is sent to the process that the lease names, and to no other
(`framehold_fleet.http_client`). It is relayed byte for byte, without the headers of one connection and the headers that
only the fleet may send.

    1  there is no connection to the node, or the node did not prove who it is: no byte was sent, and the request goes
       to the next node; if no node is left, the client gets 503. So it does if the node proves that it started nothing
       of a new call. A request without a token waits 2 s at most for that proof, unless no other node is left
    2  the connection to the node breaks before the response, or the lease of the node is gone: a round of a call that
       has a token is sent to the next node, which continues the call
    3  the connection breaks for any other request, or no response comes in time: the client gets 502 or 504, which say
       that nobody knows whether the request was run
    4  the connection breaks within the response: the connection of the client is broken too, because its response is
       not whole
    5  the client leaves: the connection to the node is closed at once, which is how the node learns of it
    6  the client reads slowly: the connection to the node is not read either, so that at most one read is buffered
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from framehold_core.ids import CallId, NodeId, prefix
from framehold_fleet.headers import CALL_ID
from framehold_fleet.http_client.node_connection import LinkFailure
from framehold_fleet.http_client.response_head import ResponseHead
from framehold_fleet.http_client.upstream import NodeLink, Opening, Upstream
from framehold_fleet.http_server.message import Request
from framehold_fleet.http_server.response import Response
from framehold_fleet.identity.statements import HELLO
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import Address, Receiver
from framehold_fleet.telemetry.log_bursts import LogBursts

from ..config import RouterSettings
from .declined import FURTHER, DeclinedResponse, proves_not_taken
from .placement import Placement, Placer
from .refusal import refuse
from .refused_hosts import MISDIRECTED
from .request_facts import Facts, RequestKind

_log = logging.getLogger(__name__)

_BODIED = frozenset((b"POST", b"PUT", b"PATCH"))
"""Methods whose requests say a length also without a body."""
_PROBES = frozenset((b"healthz", b"readyz"))
_PAGES = _PROBES | {b"dashboard", b"metrics"}
_NO_NODE = "Not served here: this is a router, and no node that could prove it"
_NODES_ONLY = "Not served here: a node's own address serves /admin"


class RequestRelay:
    """A router's handler of requests. `placer` chooses nodes; `read` finds the facts that placement needs; `pages` is
    the address of the server of the router's own pages."""

    def __init__(
        self,
        placer: Placer,
        read: Callable[[Request], Facts],
        upstream: Upstream,
        trust: Trust,
        settings: RouterSettings,
        pages: Address,
    ) -> None:
        self.placer = placer
        self.read = read
        self.upstream = upstream
        self.settings = settings
        self.shows_route = settings.route_headers
        self.pages = pages
        self.trust = trust
        self.bursts = LogBursts(_log)
        """The lines about requests that harm nobody: such a request goes to another node, or may be sent again."""
        self.refused: Callable[[int], None] = lambda status: None
        """Called with the status of each request that is refused before it is sent anywhere."""
        self._to_node: type[ToNode] = ToNode
        self._pages = _PAGES
        self._closed = {b"admin": _NODES_ONLY}
        """The first segments of paths that are refused, with the text of the refusal."""

    def __call__(self, request: Request, reply: Response) -> None:
        """Answer `request` on `reply`, now or later."""
        segment = request.head.segment
        if HELLO in request.head.fields:
            # Relayed, it would come back where a lease names this router, and lead to the next one.
            self.refused(404)
            refuse(request, reply, 404, _NO_NODE)
        elif segment in self._closed:
            self.refused(404)
            refuse(request, reply, 404, self._closed[segment])
        elif segment in self._pages:
            ToPages(self, request, reply).start()
        else:
            self._to_node(self, request, reply).start()

    def close_pages(self) -> None:
        """From now on refuse clients all pages but the probes: `administer` serves them on a port of their own."""
        self._pages = _PROBES
        elsewhere = "Not served here: the router's admin port (FRAMEHOLD_ADMIN_PORT) serves it"
        self._closed |= dict.fromkeys(_PAGES - _PROBES, elsewhere)

    def administer(self, request: Request, reply: Response) -> None:
        """Answer a request on the admin port: the router's pages, and nothing of a node."""
        if request.head.segment in _PAGES:
            ToPages(self, request, reply).start()
        else:
            text = "Not served here: the admin port serves /dashboard, /api/v1, /metrics, /healthz and /readyz"
            refuse(request, reply, 404, text)


class RelayedRequest:
    """One request that is relayed, and its response. It is the listener of the client's side and the conversation of
    the node's side."""

    __slots__ = ("link", "relay", "reply", "request", "status")

    def __init__(self, relay: RequestRelay, request: Request, reply: Response) -> None:
        self.relay = relay
        self.request = request
        self.reply = reply
        self.link: NodeLink | None = None
        self.status = 0
        """The status of the response; 0 until the response has begun."""
        reply.listener = self

    def send(self, receiver: Receiver | Address, more_headers: bytes) -> None:
        """Send the request to `receiver`: its head, `more_headers`, and its body."""
        head, body = self.request.head, self.request.body
        length = b"content-length: %d\r\n" % len(body) if body or head.method in _BODIED else b""
        lines = b"%b%b%b" % (head.lines, length, more_headers)
        self.link = self.relay.upstream.send(receiver, lines, body, self, mute=head.method == b"HEAD")

    # The client's side.

    def gone(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.abort()
            self.over()

    def pause(self) -> None:
        if self.link is not None:
            self.link.pause()

    def resume(self) -> None:
        if self.link is not None:
            self.link.resume()

    # The node's side.

    def began(self, head: ResponseHead, length: bytes | None) -> None:
        self.status = head.status
        # It will not be sent again.
        self.request = Request(self.request.head, b"")
        lines = head.lines(self.relay.shows_route)
        self.served(head.served_by)
        self.reply.begin(head.status, lines, length)

    def data(self, piece: bytes) -> None:
        self.reply.write(piece)

    def done(self, piece: bytes) -> None:
        self.link = None
        self.over()
        self.reply.end(piece)

    def failed(self, why: LinkFailure) -> None:
        self.link = None
        self.over()
        if self.status:
            text = "a response broke off (%s): the client's connection is closed too"
            _log.warning(text, why.value, extra=self.log_fields())
            self.reply.abort()
        elif why is LinkFailure.NOT_SENT:
            self.unreached()
        else:
            self.unanswered(why)

    def abandons(self) -> bool:
        return False

    def log_fields(self) -> dict[str, str]:
        """The `extra` of log lines about this request: its call and its node, as far as they are known."""
        return {}

    def refuse(self, status: int, message: str) -> None:
        """Answer the request with an error of the router itself."""
        refuse(self.request, self.reply, status, message)

    # What differs by where the request goes.

    def start(self) -> None:
        """Send the request."""

    def over(self) -> None:
        """Called once when the request is no longer in flight."""

    def served(self, node: str | None) -> None:
        """Called when the response has begun. `node` is the node that the response names, None if it names none."""

    def unreached(self) -> None:
        """Called when there was no connection: no byte was sent."""

    def unanswered(self, why: LinkFailure) -> None:
        """Called when bytes were sent and no response came."""


class ToPages(RelayedRequest):
    """A request to the router's own pages. It needs no placement, and carries no header of the fleet."""

    __slots__ = ()

    def start(self) -> None:
        self.send(self.relay.pages, b"")

    def unreached(self) -> None:
        self.refuse(503, "The router's own pages are not served at present; try again")

    def unanswered(self, why: LinkFailure) -> None:
        self.refuse(502, f"The router's own pages did not answer: {why.value}")


class ToNode(RelayedRequest):
    """A request to a node: to the node that the placer chooses, and to the next one if that can't be reached."""

    __slots__ = ("absent", "call", "declined", "facts", "kept", "node", "placement", "sent", "tried")

    def start(self) -> None:
        self.facts = self.relay.read(self.request)
        self.call: CallId | None = self.facts.call
        """The call that the token of the request names, or the one that begins; None for other requests. Nothing of it
        is verified."""
        self.node: NodeId | None = None
        """The node to which the request was sent last; None if it was sent to none."""
        self.tried: tuple[NodeId, ...] = ()
        self.sent: LinkFailure | None = None
        self.declined: DeclinedResponse | None = None
        """The last response by which a node declined the call."""
        self.kept: DeclinedResponse | None = None
        """The response that is being received, if it declines the call."""
        self.place()

    def place(self) -> None:
        """Send the request to a node that was not tried yet; refuse it if none is left."""
        relay = self.relay
        placement = self.chosen()
        if placement is None and self.sent is not None:
            self.unknown(self.sent)
            return
        if placement is None and self.declined is not None:
            self.give_up(self.declined)
            return
        if placement is None:
            which = f"none of {len(self.tried)} nodes accepted a connection" if self.tried else "no node is live"
            text = "%s: the request was answered with 503, and nothing was started"
            relay.bursts.warning(text, which, extra=self.log_fields())
            message = (
                f"No node could be reached ({which}): the request was not delivered and nothing was started. Retry"
            )
            self.refuse(503, message)
            return
        self.placement = placement
        self.call, self.node = placement.token_call or self.facts.call, placement.node
        self.absent = 0
        relay.placer.began(placement)
        minted = b"" if placement.call is None else b"%b: %b\r\n" % (CALL_ID, placement.call.encode())
        self.send(Receiver(placement.address, placement.boots), minted)

    def chosen(self) -> Placement | None:
        """The placement of the request on a node that was not tried yet; None if none is left."""
        return self.relay.placer.place(self.facts, self.tried)

    def log_fields(self) -> dict[str, str]:
        found = {} if self.call is None else {"call": prefix(self.call)}
        return found if self.node is None else {**found, "node": self.node}

    def served(self, node: str | None) -> None:
        if node is not None:
            self.relay.placer.learned(self.placement, node)

    def began(self, head: ResponseHead, length: bytes | None) -> None:
        if head.status == 503 and proves_not_taken(head, self.placement, self.relay.trust.statements):
            self.kept = DeclinedResponse(head.lines(self.relay.shows_route), self.declined)
            return
        self.relay.placer.refused_hosts.answered(self.placement.node, head.status)
        if head.status == MISDIRECTED:
            text = "node %s refused the Host %.60r (421); if it is one of yours, name it in %s of that node"
            host = self.request.head.fields.get(b"host", b"").decode("latin-1")
            setting, extra = "FRAMEHOLD_ALLOWED_HOSTS", self.log_fields()
            self.relay.bursts.warning(text, self.placement.node, host, setting, extra=extra)
        super().began(head, length)

    def data(self, piece: bytes) -> None:
        if self.kept is not None:
            self.kept.body += piece
        else:
            super().data(piece)

    def done(self, piece: bytes) -> None:
        if self.kept is not None:
            self.kept.body += piece
            self.kept.is_whole = True
            self.not_taken(self.kept)
        else:
            super().done(piece)

    def failed(self, why: LinkFailure) -> None:
        if self.kept is not None:
            self.not_taken(self.kept)
        else:
            super().failed(why)

    def not_taken(self, declined: DeclinedResponse) -> None:
        """The node has started nothing: send the call to another node, or give up."""
        node, self.declined = self.placement.node, declined
        self.link = self.kept = None
        self.over()
        text = "node %s takes no new call: nothing was started, the next node is tried"
        self.relay.bursts.warning(text, node, extra=self.log_fields())
        self.relay.placer.declined(self.placement)
        self.tried += (node,)
        if declined.count > FURTHER:
            self.give_up(declined)
        else:
            self.place()

    def give_up(self, declined: DeclinedResponse) -> None:
        """Answer with the response of the node that declined the call last."""
        if not declined.is_whole:
            self.refuse(503, "No node takes new calls at present: nothing was started. Retry")
            return
        self.status = 503
        self.reply.begin(503, declined.lines, declined.length)
        self.reply.end(declined.body)

    def over(self) -> None:
        self.relay.placer.ended(self.placement)

    def unreached(self) -> None:
        node = self.placement.node
        text = "node %s accepts no connection or does not say who it is: nothing was sent, the next node is tried"
        self.relay.bursts.warning(text, node, extra=self.log_fields())
        self.relay.placer.unreachable(self.placement)
        self.tried += (node,)
        self.place()

    def abandons(self) -> bool:
        """Whether to wait for the node no longer. Two checks in a row, a second apart at most, have to agree: the
        lease is gone and another node can continue the call; or, where no token names a call, the node has not said who
        it is, so that nothing was sent, and another node is left. A token's node holds the call, and is not hurried."""
        placer, facts = self.relay.placer, self.facts
        if facts.kind is RequestKind.RETRY:
            rather = not placer.stands(self.placement)
        else:
            unsent = isinstance(self.link, Opening) and self.link.trouble is not None
            rather = unsent and placer.where(facts, (*self.tried, self.placement.node)) is not None
        self.absent = self.absent + 1 if rather else 0
        return self.absent > 1

    def unanswered(self, why: LinkFailure) -> None:
        if self.facts.kind is not RequestKind.RETRY or why is LinkFailure.SILENT or self.sent is not None:
            # If a second node breaks off too, the round may have killed both: no third node is risked.
            self.unknown(why)
            return
        node = self.placement.node
        text = "node %s did not answer (%s): the round is sent to the next node, as it was"
        self.relay.bursts.warning(text, node, why.value, extra=self.log_fields())
        self.sent = why
        self.tried += (node,)
        self.place()

    def unknown(self, why: LinkFailure) -> None:
        """Answer that nobody knows whether the request was run."""
        text, node = "node %s did not answer (%s): the client is told that nobody knows what ran", self.placement.node
        _log.warning(text, node, why.value, extra=self.log_fields())
        if why is LinkFailure.SILENT:
            status, what = (
                504,
                f"sent nothing for {self.relay.settings.upstream_timeout:g} s (FRAMEHOLD_UPSTREAM_TIMEOUT)",
            )
        else:
            status, what = 502, "was lost, closed its connection, or broke HTTP, before it answered"
        message = (
            f"The node that had this request {what}: it was not sent to another, and whether it was run is not known. "
            "A retry with the same requestState is answered as once; without one, it starts anew"
        )
        self.refuse(status, message)
