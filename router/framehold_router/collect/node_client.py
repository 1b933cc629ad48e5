"""HTTP requests of the router to the admin APIs of nodes, in its own name.

The law: the cost is bounded, however many readers ask. At most MAX_NODES_AT_ONCE requests run at a time, each for at
most `limit` seconds; a limited number of bytes is read of each answer; long answers are parsed one at a time. Equal
requests to one node at the same time share one answer.
A request is sent only to the process that the lease names, when it has proved who it is, on its admin port if it has
one. Redirects are not followed. An action is sent once. If it is not answered, whether it was done is unknown.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError

from framehold_core.clock import Clock
from framehold_fleet.headers import CREDENTIAL
from framehold_fleet.http_client.incoming import BrokenOff, IncomingResponse
from framehold_fleet.http_client.node_connection import LinkFailure
from framehold_fleet.http_client.upstream import NodeLink, Opening, Upstream
from framehold_fleet.identity.statements import Role
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import Receiver, TlsAddress
from framehold_fleet.members.membership import Member
from framehold_fleet.models.nodes import DoneView, ErrorView
from framehold_store.system_clock import system_clock

MAX_NODES_AT_ONCE = 32
ANSWER_TIMEOUT = 1.0
"""Seconds after which a request to a node fails."""
ACTION_TIMEOUT = 5.0
"""Seconds after which an action fails: a node writes to the store before it answers one."""
MAX_ANSWER_BYTES = 64 * 1024
"""Bytes of an answer at most, without what it lists."""
MAX_STATUS_BYTES = 2 * 1024 * 1024
"""Bytes of the status of a node, or of its tools, at most: more than its lists can take. A text has 200 characters of 6
bytes of JSON at most. The longest status has fewer than 1200 texts (3 for each of 200 pauses, 300 for marks and kept
code, 200 for code that is not kept, 44 others), beside 32 KiB of names of tools."""
QUICK_BYTES = 4 * 1024
"""Answers of up to so many bytes are parsed at once: that takes less time than waiting for the turn of a long one."""

_UNREADABLE = "its answer can't be read"

View = TypeVar("View", bound=BaseModel)


class Unanswered(Exception):
    """A node gave no answer that can be read; the text says what was seen. `sent`: whether the request may have reached
    it. `status`: the HTTP status, if the node answered all the same. `absent`: another process listens at its address,
    or none."""

    def __init__(self, why: str, sent: bool = True, status: int | None = None, absent: bool = False) -> None:
        super().__init__(why)
        self.sent, self.status, self.absent = sent, status, absent


class ActionResponse(NamedTuple):
    """A node's answer to an action: the HTTP status, and the body."""

    status: int
    body: DoneView | ErrorView


class NodeClient:
    """Sends requests to the nodes of one fleet. `limit`: seconds after which a GET fails. Belongs to one event loop;
    `close` it."""

    def __init__(self, trust: Trust, limit: float = ANSWER_TIMEOUT, clock: Clock | None = None) -> None:
        self._trust, self._limit, self._clock = trust, limit, clock or system_clock()
        self._upstream: Upstream | None = None
        self._places, self._reading = asyncio.Semaphore(MAX_NODES_AT_ONCE), asyncio.Lock()
        self._under_way: dict[tuple[Any, ...], asyncio.Task[BaseModel]] = {}

    async def ask(
        self,
        member: Member,
        path: str,
        kind: type[View],
        query: Mapping[str, str] | None = None,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> View:
        """The answer of `member` to `GET path`, parsed as `kind`; at most `max_bytes` of it are read.

        Raises:
            Unanswered: the node has no address, or gave no answer that can be read.
        """
        # A node without an address is keyed by its name, not by its URL: any lease may have any URL.
        target = f"{path}?{urlencode(query)}" if query else path
        about = (member.address or member.node, member.boot, target)
        task = self._under_way.get(about)
        if task is None:
            task = asyncio.create_task(self._ask(member, target, kind, max_bytes), name="framehold asks a node")
            self._under_way[about] = task
            task.add_done_callback(lambda _: self._under_way.pop(about, None))
            task.add_done_callback(_looked_at)
        # Shielded: if one reader is cancelled, the others still get the answer.
        return cast(View, await asyncio.shield(task))

    async def act(self, member: Member, path: str, body: Mapping[str, str], credential: str = "") -> ActionResponse:
        """Send `POST path` with `body` to `member`, and return its answer. `credential` names the admin token of the
        operator.

        Raises:
            Unanswered: the node gave no answer that can be read. If `sent` is false, it did nothing.
        """
        headers = {"content-type": "application/json", CREDENTIAL: credential}
        status, text = await self._exchange(
            b"POST", member, path, MAX_ANSWER_BYTES, ACTION_TIMEOUT, headers, json.dumps(dict(body)).encode()
        )
        try:
            kind = DoneView if status < 300 else ErrorView
            return ActionResponse(status, kind.model_validate_json(text))
        except ValidationError:
            raise Unanswered(_UNREADABLE, status=200) from None

    async def close(self) -> None:
        """Cancel the requests under way, and close the connections."""
        tasks = tuple(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._upstream is not None:
            await self._upstream.close()

    async def _ask(self, member: Member, target: str, kind: type[View], max_bytes: int) -> View:
        status, body = await self._exchange(b"GET", member, target, max_bytes, self._limit)
        if status != 200:
            serves = ", so something serves there, and not its admin API" if status == 404 else ""
            raise Unanswered(f"it answered HTTP {status}{serves}", status=status)
        try:
            if len(body) <= QUICK_BYTES:
                return kind.model_validate_json(body)
            async with self._reading:
                # One long answer takes the loop milliseconds: other requests run between two of them.
                await asyncio.sleep(0)
                return kind.model_validate_json(body)
        except ValidationError:
            raise Unanswered(_UNREADABLE, status=200) from None

    async def _exchange(
        self,
        method: bytes,
        member: Member,
        target: str,
        max_bytes: int,
        limit: float,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: bytes = b"",
    ) -> tuple[int, bytes]:
        if member.admin is None:
            raise Unanswered("its lease has no address to which anything is sent", sent=False)
        if self._upstream is None:
            limits = {"connect_timeout": ACTION_TIMEOUT, "timeout": ACTION_TIMEOUT}
            self._upstream = Upstream(self._trust, Role.ADMIN, self._clock, **limits)
        head = _head(method, member.admin, f"{member.prefix}{target}", headers, body)
        incoming = IncomingResponse()
        async with self._places:
            try:
                async with asyncio.timeout(limit):
                    incoming.link = link = self._upstream.send(
                        Receiver(member.admin, (member.boot,) if member.boot else ()), head, body, incoming
                    )
                    return (await incoming.head()).status, await _body(incoming, max_bytes)
            except BrokenOff as error:
                raise _unanswered(link, "the connection broke before it answered", error.why) from None
            except TimeoutError:
                raise _unanswered(link, f"it did not answer within {limit:g} s") from None
            except ValueError:
                raise Unanswered(_UNREADABLE, status=200) from None
            finally:
                incoming.abort()


def _head(
    method: bytes, address: tuple[str, int] | TlsAddress, target: str, headers: Mapping[str, str], body: bytes
) -> bytes:
    host, port = address[:2]
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
    length = b"content-length: %d\r\n" % len(body) if body else b""
    at = f"[{host}]".encode() if ":" in host else host.encode()
    return b"%b %b HTTP/1.1\r\nhost: %b:%d\r\n%b%b" % (method, target.encode(), at, port, lines, length)


def _unanswered(link: NodeLink, why: str, failure: LinkFailure | None = None) -> Unanswered:
    """Why there is no answer over `link`: `why`, unless the request was not sent."""
    if isinstance(link, Opening) and (trouble := link.trouble) is not None:
        return Unanswered(str(trouble), sent=False, absent=trouble.absent)
    return Unanswered(why, sent=failure is not LinkFailure.NOT_SENT)


async def _body(incoming: IncomingResponse, max_bytes: int) -> bytes:
    pieces, size = [], 0
    async for piece in incoming.pieces():
        size += len(piece)
        if size > max_bytes:
            raise ValueError(f"a node's answer is beyond {max_bytes} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _looked_at(task: asyncio.Task[BaseModel]) -> None:
    """Fetch the exception of a task that nobody may wait for any more, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
