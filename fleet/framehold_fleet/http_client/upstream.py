"""The pool of connections to nodes: it sends requests and delivers responses, and keeps connections open.

The law: the sender of a request learns whether a byte of it may have been sent. No byte of a request is sent to a
process that has not proved on this connection that it is the one that the lease names.

    1  send: the request goes to the idle connection that was used last, or to a new one. Only connecting needs a task
    2  a new connection is asked who listens there (`identity.statements`), before the request. The answer costs one
       round trip, once for each connection
    3  there is no connection within the time limit, or no proof: NOT_SENT. The request may go to another node
    4  the connection is lost, or the bytes that come are not HTTP, after bytes were sent: BROKEN. A node that closes an
       idle connection while a request is on its way to it also gives BROKEN, because the cases can't be distinguished.
       Nothing comes for too long: SILENT
    5  the sender gives up while the connection is made: the connection is kept for the next request

The question goes to a path that reaches Framehold's app. An app of the author's may have mounted it anywhere, so the
path that was answered last is asked, then that of the request.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple

from framehold_core.clock import Clock

from ..http_server.request_head import MCP
from ..identity.plane import PROOF
from ..identity.statements import HELLO, Role
from ..identity.trust import Trust
from ..members.address import Address, Receiver, TlsAddress, printed
from ..telemetry.log_bursts import LogBursts
from .node_connection import Conversation, LinkFailure, NodeConnection, NodeConnections
from .response_head import ResponseHead

_log = logging.getLogger(__name__)

_NO_DESCRIPTOR = "out of file descriptors: no connection to any node can be made; raise the limit (ulimit -n)"
_NO_PROOF = (
    "what listens at %.200s did not prove that it is the process that the lease names: nothing was sent. A node that "
    "was started again just now proves it when its old lease has run out. Else: does a "
    "FRAMEHOLD_ADVERTISE_URL name a router or a load balancer, or has another process taken this address?"
)

_NO_TLS = (
    "no TLS with the node at %.200s (%s): nothing was sent. Did the authority of FRAMEHOLD_FLEET_CA sign its "
    "certificate, for this host?"
)

REFUSED = "the connection was refused: nobody listens there"


class NotReached(Exception):
    """There is no connection to a process; the text says why. `absent`: another process listens there, or none."""

    def __init__(self, why: str, absent: bool = False) -> None:
        super().__init__(why)
        self.absent = absent


class Opening:
    """A connection that is being made, and the request that waits for it. It is the link of that request. `trouble` is
    what it waits for, or why it has failed; None when the request was sent."""

    trouble: NotReached | None = NotReached("it accepts no connection")

    def __init__(self, head: bytes, body: bytes, conversation: Conversation, mute: bool) -> None:
        self.head = head
        self._body = body
        self._mute = mute
        self._conversation: Conversation | None = conversation
        self._link: NodeConnection | None = None
        self._paused = False

    def opened(self, link: NodeConnection) -> bool:
        """Send the request on the new connection. Returns False if the request was given up: then the connection is
        free."""
        conversation, self._conversation = self._conversation, None
        body, self._body = self._body, b""
        if conversation is None:
            return False
        if not link.take(self.head, body, conversation, self._mute):
            conversation.failed(LinkFailure.NOT_SENT)
            return True
        self._link, self.trouble = link, None
        if self._paused:
            link.pause()
        return True

    def failed(self) -> None:
        """Report to the conversation that there is no connection."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.failed(LinkFailure.NOT_SENT)

    def abandons(self) -> bool:
        """Whether the request would rather go elsewhere than wait."""
        return self._conversation is not None and self._conversation.abandons()

    def abort(self) -> None:
        self._conversation = None
        if self._link is not None:
            self._link.abort()

    def pause(self) -> None:
        self._paused = True
        if self._link is not None:
            self._link.pause()

    def resume(self) -> None:
        self._paused = False
        if self._link is not None:
            self._link.resume()


NodeLink = NodeConnection | Opening
"""By it a conversation pauses, resumes and aborts its connection. It is valid until `done` or `failed`."""


class Way(NamedTuple):
    """How Framehold's app may be reached: the path of a request for it, and the line of its host."""

    path: bytes
    host: bytes

    @classmethod
    def of(cls, head: bytes) -> Way:
        """That of a request."""
        first, *lines = head.split(b"\r\n")
        host = next((line for line in lines if line.startswith(b"host:")), b"host: framehold")
        return cls(first.split(b" ")[1].partition(b"?")[0], host)


class Greeting:
    """The conversation that asks who listens on a new connection. `proof` is what the response has to show; None
    without a response. `abandons` as for a `Conversation`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, abandons: Callable[[], bool]) -> None:
        self.proof: asyncio.Future[bytes | None] = loop.create_future()
        self.abandons = abandons
        self.status = 0
        """The HTTP status of the response."""

    def began(self, head: ResponseHead, length: bytes | None) -> None:
        self.status = head.status
        self._is(next((value for name, value in head.headers if name == PROOF), b""))

    def data(self, piece: bytes) -> None:
        """An answer has no body: what comes is of a stranger, and the connection is closed."""

    def done(self, piece: bytes) -> None:
        """The connection may carry a request."""

    def failed(self, why: LinkFailure) -> None:
        self._is(None)

    def _is(self, proof: bytes | None) -> None:
        if not self.proof.done():
            self.proof.set_result(proof)


class Upstream:
    """All connections of one process to nodes, in one `role`. `connect_timeout`: seconds until a node that accepts no
    connection counts as out of reach. `timeout`: seconds for which a node may send nothing."""

    def __init__(
        self,
        trust: Trust,
        role: Role,
        clock: Clock,
        *,
        connect_timeout: float,
        timeout: float,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.connections = NodeConnections(self.loop, timeout)
        self._statements, self._tls = trust.statements, trust.tls
        self._role, self._clock = role, clock
        self._connect_timeout = connect_timeout
        self._path = MCP
        """The path under which a node of this fleet answered last."""
        self._latest = Way(MCP, b"host: framehold")
        self._idle: dict[Receiver | Address, list[NodeConnection]] = {}
        self._openings: dict[asyncio.Task[None], Opening] = {}
        self._bursts = LogBursts(_log)
        self._pause = min(1.0, timeout / 4)
        self._timer = self.loop.call_later(self._pause, self._sweep)

    def send(
        self, receiver: Receiver | Address, head: bytes, body: bytes, conversation: Conversation, *, mute: bool = False
    ) -> NodeLink:
        """Send a request; its response goes to `conversation`. `receiver`: a node, or an address of this process
        itself. `head` has all lines but the empty one at its end. `mute`: the response has no body (HEAD)."""
        idle = self._idle.get(receiver)
        if idle is None:
            idle = self._idle[receiver] = []
        while idle:
            link = idle.pop()
            if link.take(head, body, conversation, mute):
                return link
        opening = Opening(head, body, conversation, mute)
        if self.connections.closed:
            self.loop.call_soon(opening.failed)
            return opening
        task = self.loop.create_task(self._open(receiver, idle, opening))
        self._openings[task] = opening
        task.add_done_callback(lambda done: self._openings.pop(done, None))
        return opening

    async def reaches(self, receiver: Receiver) -> bool:
        """Whether the receiver listens, and proves who it is. The connection is kept for a request."""
        idle = self._idle.setdefault(receiver, [])
        opening = Opening(b"", b"", Greeting(self.loop, lambda: False), False)
        try:
            idle.append(await self._introduced(receiver, idle, self._latest, opening))
        except NotReached:
            return False
        return True

    async def _open(self, receiver: Receiver | Address, idle: list[NodeConnection], opening: Opening) -> None:
        try:
            if not isinstance(receiver, Receiver):
                link = await self._connected(receiver, idle)
            else:
                self._latest = way = Way.of(opening.head)
                link = await self._introduced(receiver, idle, way, opening)
        except NotReached as error:
            opening.trouble = error
            opening.failed()
            return
        if not opening.opened(link):
            idle.append(link)

    async def _connected(self, address: Address, idle: list[NodeConnection]) -> NodeConnection:
        link = NodeConnection(self.connections, idle)
        try:
            async with asyncio.timeout(self._connect_timeout):
                if isinstance(address, str):
                    await self.loop.create_unix_connection(lambda: link, address)
                else:
                    tls = self._checking() if isinstance(address, TlsAddress) else None
                    await self.loop.create_connection(lambda: link, address[0], address[1], ssl=tls)
        except (OSError, TimeoutError, ValueError) as error:
            # A ValueError comes from a host name that IDNA can't encode: the conversation must get its failure too.
            raise self._not_reached(address, error) from None
        return link

    def _checking(self) -> ssl.SSLContext:
        """What checks the certificates of nodes. Without an authority of the fleet, those that this machine believes
        are read once: that takes tens of milliseconds, in which no other request goes on."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    def _not_reached(self, address: Address, error: Exception) -> NotReached:
        """Why there is no connection; logged where an operator has to correct something."""
        if isinstance(error, ssl.SSLError):
            self._bursts.warning(_NO_TLS, printed(address), error.reason or error, extra={})
            return NotReached(f"there is no TLS with it ({error.reason or error})")
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
            self._bursts.line(logging.ERROR, _NO_DESCRIPTOR, extra={})
            return NotReached("this router has no file descriptor for a connection (ulimit -n)")
        if isinstance(error, ConnectionRefusedError):
            return NotReached(REFUSED, absent=True)
        if isinstance(error, TimeoutError):
            return NotReached("it accepts no connection")
        if isinstance(error, socket.gaierror | ValueError):
            return NotReached("its host name is not known here")
        return NotReached(f"no connection can be made ({getattr(error, 'strerror', None) or error})")

    async def _introduced(
        self, receiver: Receiver, idle: list[NodeConnection], way: Way, opening: Opening
    ) -> NodeConnection:
        """A connection on which the receiver has proved who it is.

        Raises:
            NotReached: there is none.
        """
        for path in dict.fromkeys((self._path, way.path)):
            link = await self._connected(receiver.address, [])
            mute = opening.trouble = NotReached("it accepts a connection, and does not say who it is")
            nonce, greeting = self._clock.fresh(16).hex(), Greeting(self.loop, opening.abandons)
            asked = "".join(receiver.boots[:1]).encode()
            hello = b"GET %b HTTP/1.1\r\n%b\r\n%b: %b.%b\r\n" % (path, way.host, HELLO, nonce.encode(), asked)
            if not link.take(hello, b"", greeting, False):
                raise NotReached("it accepts a connection, which is lost before anything is sent")
            shown = await greeting.proof
            found = self._statements.introduced(shown, nonce, receiver.boots) if shown else None
            if found is not None and link.introduce(
                self._statements.stating(self._role, found, self._clock.time), idle
            ):
                self._path = path
                return link
            link.close()
            if shown is None:
                raise mute
            if found is not None:
                raise NotReached("it closes the connection on which it has said who it is")
        self._bursts.warning(_NO_PROOF, printed(receiver.address), extra={})
        said = f" (asked who it is, it answered HTTP {greeting.status})" if greeting.status != 204 else ""
        raise NotReached(f"what listens there is not the process that the lease names{said}", absent=True)

    async def close(self) -> None:
        """Break off all requests, and close all connections."""
        self.connections.closed = True
        self._timer.cancel()
        openings = dict(self._openings)
        for task in openings:
            task.cancel()
        await asyncio.gather(*openings, return_exceptions=True)
        # From Python 3.12 on gather may return before the callbacks of these tasks have run.
        self._openings.clear()
        for opening in openings.values():
            opening.failed()
        for link in tuple(self.connections.open):
            link.close()

    def _sweep(self) -> None:
        self._timer = self.loop.call_later(self._pause, self._sweep)
        now = self.loop.time()
        for link in tuple(self.connections.open):
            link.sweep(now)
        if not self._openings:
            # Processes come and go: what no connection belongs to is forgotten.
            used = {id(link.idle) for link in self.connections.open}
            self._idle = {receiver: idle for receiver, idle in self._idle.items() if id(idle) in used}
