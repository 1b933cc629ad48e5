"""Asks nodes by HTTP, in the fleet's own name.

The law: bounded, whoever asks. At most CONNECTIONS nodes are asked at a time, each for at most `limit` seconds, and of
each answer no more is read than its kind may have, long ones one at a time. Those who ask one node the same at the same
moment share its answer.
The fleet's secret goes to the addresses in the leases and is never carried on by a redirect. An action is sent once: of
one that was not answered nobody knows whether it was done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, cast

import aiohttp
from pydantic import BaseModel, ValidationError

from ..internal import Trust
from ..membership import Member
from .about_nodes import DoneView, ErrorView

CONNECTIONS = 32
LIMIT = 1.0
"""Seconds until a node that doesn't answer is passed over."""
ACTING = 5.0
"""Seconds for what has to be written before it is answered."""
LONGEST = 64 * 1024
"""Bytes of an answer about one node."""
SHORT = 4 * 1024
"""Bytes that are read in less time than it takes to wait for one's turn."""

View = TypeVar("View", bound=BaseModel)


class Unanswered(Exception):
    """A node did not answer, or nothing that could be read. `sent` tells whether the request may have reached it;
    `status` is that of an answer which is no success."""

    def __init__(self, sent: bool, status: int | None = None) -> None:
        super().__init__("a node did not answer")
        self.sent, self.status = sent, status


class Outcome(NamedTuple):
    """What a node made of an action: its status, and its sentence."""

    status: int
    said: DoneView | ErrorView


class Asker:
    """Asks the nodes of one fleet. Belongs to one event loop; `close` it."""

    def __init__(self, trust: Trust, limit: float = LIMIT) -> None:
        name, secret = trust.header
        self._headers = {name.decode(): secret.decode()}
        self._limit = limit
        self._http: aiohttp.ClientSession | None = None
        self._places, self._reading = asyncio.Semaphore(CONNECTIONS), asyncio.Lock()
        self._under_way: dict[tuple[Any, ...], asyncio.Task[BaseModel]] = {}

    async def ask(
        self,
        member: Member,
        path: str,
        kind: type[View],
        query: Mapping[str, str] | None = None,
        longest: int = LONGEST,
    ) -> View:
        """What `member` says to `GET path`.

        Raises:
            Unanswered: it said nothing that could be read, or has no address.
        """
        # What has no address shares its URL with nobody: any lease may name any node's.
        about = (member.address or member.node, path, *sorted((query or {}).items()))
        task = self._under_way.get(about)
        if task is None:
            task = asyncio.create_task(self._ask(member, path, kind, query, longest), name="framehold asks a node")
            self._under_way[about] = task
            task.add_done_callback(lambda _: self._under_way.pop(about, None))
            task.add_done_callback(_looked_at)
        # One reader who leaves must not take the answer from the others.
        return cast(View, await asyncio.shield(task))

    async def act(self, member: Member, path: str, body: Mapping[str, str]) -> Outcome:
        """Have `member` do `POST path`.

        Raises:
            Unanswered: nobody knows what it did, or, where nothing was `sent`, it did nothing.
        """
        status, text = await self._exchange("POST", member, path, LONGEST, ACTING, json=dict(body))
        try:
            kind = DoneView if status < 300 else ErrorView
            return Outcome(status, kind.model_validate_json(text))
        except ValidationError:
            raise Unanswered(sent=True) from None

    async def close(self) -> None:
        """Stop asking."""
        tasks = tuple(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.close()

    async def _ask(
        self, member: Member, path: str, kind: type[View], query: Mapping[str, str] | None, longest: int
    ) -> View:
        status, body = await self._exchange("GET", member, path, longest, self._limit, params=query)
        if status != 200:
            raise Unanswered(sent=True, status=status)
        try:
            if len(body) <= SHORT:
                return kind.model_validate_json(body)
            async with self._reading:
                # Requests go on between two: what one node remembers takes the loop milliseconds.
                await asyncio.sleep(0)
                return kind.model_validate_json(body)
        except ValidationError:
            raise Unanswered(sent=True) from None

    async def _exchange(
        self, method: str, member: Member, path: str, longest: int, limit: float, **more: Any
    ) -> tuple[int, bytes]:
        if member.address is None:
            raise Unanswered(sent=False)
        if self._http is None:
            # No limit of connections in there: waiting for one would count against a node's time.
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
            )
        url, timeout = member.url.rstrip("/") + path, aiohttp.ClientTimeout(total=limit)
        async with self._places:
            try:
                async with self._http.request(
                    method, url, headers=self._headers, allow_redirects=False, timeout=timeout, **more
                ) as response:
                    return response.status, await _body(response, longest)
            except aiohttp.ClientConnectorError:
                raise Unanswered(sent=False) from None
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
                raise Unanswered(sent=True) from None


async def _body(response: aiohttp.ClientResponse, longest: int) -> bytes:
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > longest:
            raise ValueError(f"a node's answer is beyond {longest} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _looked_at(task: asyncio.Task[BaseModel]) -> None:
    """Whoever asked may have left: an answer that nobody waits for is no error."""
    if not task.cancelled():
        task.exception()
