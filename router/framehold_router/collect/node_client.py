"""HTTP requests of the router to the nodes, with the secret of the fleet.

The law: the cost is bounded, however many readers ask. At most MAX_NODES_AT_ONCE requests run at a time, each for at
most `limit` seconds; a limited number of bytes is read of each answer; long answers are parsed one at a time. Equal
requests to one node at the same time share one answer.
The secret of the fleet is sent only to the addresses in the leases; redirects are not followed. An action is sent once.
If it is not answered, whether it was done is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, cast

import aiohttp
from pydantic import BaseModel, ValidationError

from ..fleet.membership import Member
from ..fleet.trust import Trust
from ..models.nodes import DoneView, ErrorView

MAX_NODES_AT_ONCE = 32
ANSWER_TIMEOUT = 1.0
"""Seconds after which a request to a node fails."""
ACTION_TIMEOUT = 5.0
"""Seconds after which an action fails: a node writes to the store before it answers one."""
MAX_ANSWER_BYTES = 64 * 1024
"""Bytes of an answer about one node at most."""
QUICK_BYTES = 4 * 1024
"""Answers of up to so many bytes are parsed at once: that takes less time than waiting for the turn of a long one."""

CREDENTIAL = "operator-credential"
"""The header of an action that names the operator's admin token. It is no internal header: with one a request counts as
a client's."""

View = TypeVar("View", bound=BaseModel)


class Unanswered(Exception):
    """A node gave no answer that can be read. `sent`: whether the request may have reached it. `status`: the HTTP
    status, if the node answered with an error."""

    def __init__(self, sent: bool, status: int | None = None) -> None:
        super().__init__("a node did not answer")
        self.sent, self.status = sent, status


class Outcome(NamedTuple):
    """A node's answer to an action: the HTTP status, and the body."""

    status: int
    body: DoneView | ErrorView


class NodeClient:
    """Sends requests to the nodes of one fleet. `limit`: seconds after which a GET fails. Belongs to one event loop;
    `close` it."""

    def __init__(self, trust: Trust, limit: float = ANSWER_TIMEOUT) -> None:
        name, secret = trust.header
        self._headers = {name.decode(): secret.decode()}
        self._limit = limit
        self._http: aiohttp.ClientSession | None = None
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
        about = (member.address or member.node, path, *sorted((query or {}).items()))
        task = self._under_way.get(about)
        if task is None:
            task = asyncio.create_task(self._ask(member, path, kind, query, max_bytes), name="framehold asks a node")
            self._under_way[about] = task
            task.add_done_callback(lambda _: self._under_way.pop(about, None))
            task.add_done_callback(_looked_at)
        # Shielded: if one reader is cancelled, the others still get the answer.
        return cast(View, await asyncio.shield(task))

    async def act(self, member: Member, path: str, body: Mapping[str, str], credential: str = "") -> Outcome:
        """Send `POST path` with `body` to `member`, and return its answer. `credential` names the admin token of the
        operator.

        Raises:
            Unanswered: the node gave no answer that can be read. If `sent` is false, it did nothing.
        """
        headers = {**self._headers, CREDENTIAL: credential}
        status, text = await self._exchange(
            "POST", member, path, MAX_ANSWER_BYTES, ACTION_TIMEOUT, json=dict(body), headers=headers
        )
        try:
            kind = DoneView if status < 300 else ErrorView
            return Outcome(status, kind.model_validate_json(text))
        except ValidationError:
            raise Unanswered(sent=True) from None

    async def close(self) -> None:
        """Cancel the requests under way, and close the connections."""
        tasks = tuple(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.close()

    async def _ask(
        self, member: Member, path: str, kind: type[View], query: Mapping[str, str] | None, max_bytes: int
    ) -> View:
        status, body = await self._exchange("GET", member, path, max_bytes, self._limit, params=query)
        if status != 200:
            raise Unanswered(sent=True, status=status)
        try:
            if len(body) <= QUICK_BYTES:
                return kind.model_validate_json(body)
            async with self._reading:
                # One long answer takes the loop milliseconds: other requests run between two of them.
                await asyncio.sleep(0)
                return kind.model_validate_json(body)
        except ValidationError:
            raise Unanswered(sent=True) from None

    async def _exchange(
        self, method: str, member: Member, path: str, max_bytes: int, limit: float, **more: Any
    ) -> tuple[int, bytes]:
        if member.address is None:
            raise Unanswered(sent=False)
        if self._http is None:
            # aiohttp has no limit of connections: waiting for one would count as time of the node.
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
            )
        url, timeout = member.url.rstrip("/") + path, aiohttp.ClientTimeout(total=limit)
        async with self._places:
            try:
                async with self._http.request(
                    method, url, allow_redirects=False, timeout=timeout, **{"headers": self._headers, **more}
                ) as response:
                    return response.status, await _body(response, max_bytes)
            except aiohttp.ClientConnectorError:
                raise Unanswered(sent=False) from None
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
                raise Unanswered(sent=True) from None


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > max_bytes:
            raise ValueError(f"a node's answer is beyond {max_bytes} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _looked_at(task: asyncio.Task[BaseModel]) -> None:
    """Fetch the exception of a task that nobody may wait for any more, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
