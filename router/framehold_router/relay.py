"""What becomes of each request: relayed to the node that placement chose, shown by the pages, or refused.

The law: a request that may have reached a node is sent to no other (PROTOCOL rule 9), unless its token names the round
that it is for: then it is answered as once, wherever it goes. What a node or router sent is never relayed again (rule
19). What is passed on is what came, byte for byte, less what is a connection's own or may
only be said within the fleet.

    1  no connection to a node: the next one is asked for, until none is left (503). No byte of the request had left
    2  the node's connection breaks before a response, or its lease is gone: a round of a call that has a token is sent
       to the next node, which carries the call on
    3  any other request whose connection breaks, or for which nothing comes: 502 or 504, which say that nobody knows
       whether it was run
    4  it breaks within the response: the client's connection is broken too, since what it has isn't whole
    5  the client leaves: the node's connection is closed at once, which is how a node learns of it
    6  the client reads slowly: the node's connection is not read either, so that no more than a read's worth is kept
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Protocol

from framehold_core.ids import NodeId

from .config import RouterSettings
from .envelope import Facts, Kind
from .internal import CALL_ID, VIA, Header, Trust
from .link import Failure, Link
from .message import Address, Reply, Request
from .placement import Placement
from .rewrite import MCP, passed_back, rebuilt, refuse, room
from .upstream import Upstream

_log = logging.getLogger(__name__)

_PAGES = frozenset((b"dashboard", b"metrics", b"healthz", b"readyz"))


class Placer(Protocol):
    """Chooses nodes, and is told what became of its choices."""

    def place(self, facts: Facts, tried: Collection[NodeId]) -> Placement | None: ...

    def began(self, node: NodeId) -> None: ...

    def ended(self, node: NodeId) -> None:
        """Once for each `began`."""

    def unreachable(self, node: NodeId) -> None: ...

    def learned(self, placement: Placement, served_by: str) -> None: ...

    def stands(self, placement: Placement) -> bool:
        """Whether the node that was chosen is still there, or nobody else is."""


class Relay:
    """A router's handler of requests. `pages` is the address of what it answers by itself, `read` finds the facts that
    placement needs, `to_node` carries what is for a node."""

    def __init__(
        self,
        placer: Placer,
        read: Callable[[Request], Facts],
        upstream: Upstream,
        trust: Trust,
        settings: RouterSettings,
        pages: Address,
        to_node: type[ToNode] | None = None,
    ) -> None:
        self.placer = placer
        self.read = read
        self.upstream = upstream
        self.settings = settings
        self.pages = pages
        self._trust = trust
        self.refused: Callable[[int], None] = lambda status: None
        """Told of each request that is neither for a node nor for the pages."""
        self._to_node = to_node or ToNode
        self.badge = b"%b: %b\r\n%b: router\r\n" % (*trust.header, VIA)

    def __call__(self, request: Request, reply: Reply) -> None:
        """Answer `request`, now or later."""
        head, internal = rebuilt(request)
        if internal and self._trust.believed(internal) is not None:
            message = (
                "This request has been through a router or node of this fleet already: it was not relayed again. "
                "Check that no node's FRAMEHOLD_ADVERTISE_URL names a router or a load balancer"
            )
            _log.error("a request came back: it was not relayed again. Does a FRAMEHOLD_ADVERTISE_URL name a router?")
            self.refused(508)
            refuse(request, reply, 508, message)
            return
        place = MCP if request.target == MCP else room(request.target)
        if place == b"admin":
            self.refused(404)
            refuse(request, reply, 404, "Not served here: a node's own address serves /admin")
        elif place in _PAGES:
            ToPages(self, request, reply, head).start()
        else:
            self._to_node(self, request, reply, head).start()


class Exchange:
    """One request on its way and its response on the way back."""

    __slots__ = ("head", "link", "relay", "reply", "request", "status")

    def __init__(self, relay: Relay, request: Request, reply: Reply, head: bytes) -> None:
        self.relay = relay
        self.request = request
        self.reply = reply
        self.head = head
        self.link: Link | None = None
        self.status = 0
        """The response's, once it has begun."""
        reply.listener = self

    def send(self, address: Address, more: bytes) -> None:
        """Send the head, `more` of it, and the body."""
        request = self.request
        data = b"%b%b\r\n%b" % (self.head, more, request.body)
        self.link = self.relay.upstream.send(address, data, self, mute=request.method == b"HEAD")

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

    def began(self, status: int, headers: list[Header]) -> None:
        self.status = status
        kept, served_by = passed_back(headers, self.relay.settings.route_headers)
        self.served(served_by)
        self.reply.begin(status, kept)

    def data(self, piece: bytes) -> None:
        self.reply.write(piece)

    def done(self, piece: bytes) -> None:
        self.link = None
        self.over()
        self.reply.end(piece)

    def failed(self, why: Failure) -> None:
        self.link = None
        self.over()
        if self.status:
            _log.warning("a response broke off (%s): the client's connection is closed too", why.value)
            self.reply.abort()
        elif why is Failure.NOT_SENT:
            self.unreached()
        else:
            self.unanswered(why)

    def abandons(self) -> bool:
        return False

    def refuse(self, status: int, message: str) -> None:
        """Answer in the router's own name."""
        refuse(self.request, self.reply, status, message)

    # What differs by where the request goes.

    def start(self) -> None:
        """Send the request."""

    def over(self) -> None:
        """The request is no longer in flight."""

    def served(self, node: str | None) -> None:
        """The response has begun, and names the node that served if one did."""

    def unreached(self) -> None:
        """There was no connection, and no byte was sent."""

    def unanswered(self, why: Failure) -> None:
        """Bytes were sent, and no response came."""


class ToPages(Exchange):
    """To the router's own pages: neither placed nor badged."""

    __slots__ = ()

    def start(self) -> None:
        self.send(self.relay.pages, b"")

    def unreached(self) -> None:
        self.refuse(503, "The router's own pages are not served at present; try again")

    def unanswered(self, why: Failure) -> None:
        self.refuse(502, f"The router's own pages did not answer: {why.value}")


class ToNode(Exchange):
    """To a node: the chosen one, or the next where that one can't be reached."""

    __slots__ = ("absent", "facts", "placement", "sent", "tried")

    def start(self) -> None:
        self.facts = self.relay.read(self.request)
        self.tried: tuple[NodeId, ...] = ()
        self.sent: Failure | None = None
        self.place()

    def place(self) -> None:
        """Send the request to a node that wasn't tried."""
        relay = self.relay
        placement = self.chosen()
        if placement is None and self.sent is not None:
            self.unknown(self.sent)
            return
        if placement is None:
            which = f"none of {len(self.tried)} nodes accepted a connection" if self.tried else "no node is live"
            _log.warning("%s: the request was answered with 503, and nothing was started", which)
            message = (
                f"No node could be reached ({which}): the request was not delivered and nothing was started. Retry"
            )
            self.refuse(503, message)
            return
        self.placement = placement
        self.absent = 0
        relay.placer.began(placement.node)
        minted = b"" if placement.call is None else b"%b: %b\r\n" % (CALL_ID, placement.call.encode())
        self.send(placement.address, relay.badge + minted)

    def chosen(self) -> Placement | None:
        """The node that it goes to, of those that weren't tried."""
        return self.relay.placer.place(self.facts, self.tried)

    def served(self, node: str | None) -> None:
        if node is not None:
            self.relay.placer.learned(self.placement, node)

    def over(self) -> None:
        self.relay.placer.ended(self.placement.node)

    def unreached(self) -> None:
        node = self.placement.node
        told = "node %s accepts no connection: nothing was sent, the next node is tried"
        _log.warning(told, node, extra={"node": node})
        self.relay.placer.unreachable(node)
        self.tried += (node,)
        self.place()

    def abandons(self) -> bool:
        """Whether the node has lost its lease, for long enough that it is no hiccup: another carries the call on."""
        self.absent = 0 if self.relay.placer.stands(self.placement) else self.absent + 1
        return self.absent > 1 and self.facts.kind is Kind.RETRY

    def unanswered(self, why: Failure) -> None:
        if self.facts.kind is not Kind.RETRY or why is Failure.SILENT or self.sent is not None:
            # A second node that breaks off may have died of the round: no third one is risked for this request.
            self.unknown(why)
            return
        node = self.placement.node
        told = "node %s did not answer (%s): the round is sent to the next node, as it was"
        _log.warning(told, node, why.value, extra={"node": node})
        self.sent = why
        self.tried += (node,)
        self.place()

    def unknown(self, why: Failure) -> None:
        """Nobody knows whether the request was run."""
        told, node = "node %s did not answer (%s): the client is told that nobody knows what ran", self.placement.node
        _log.warning(told, node, why.value, extra={"node": node})
        if why is Failure.SILENT:
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
