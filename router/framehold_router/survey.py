"""Asks every node how it is, all at once: what the leases say is as old as their last heartbeat.

The law: bounded, whoever asks. At most CONNECTIONS nodes are asked at a time, each for at most LIMIT seconds; those who
want to know at the same moment share one survey, and its result stands for FRESH seconds. The fleet's secret goes to
the addresses in the leases and is never carried on by a redirect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp
from pydantic import ValidationError

from .api_models import NodeView, Said
from .internal import Trust
from .membership import STRANGE, Fleet, Member

CONNECTIONS = 32
LIMIT = 1.0
"""Seconds until a node that doesn't answer is called unreachable."""
FRESH = 0.5
UNREACHABLE = "unreachable"

_PATH = "/admin/node"
_LONGEST = 64 * 1024


class Survey:
    """What the nodes of a fleet say of themselves. Belongs to one event loop; `close` it."""

    def __init__(self, fleet: Callable[[], Fleet], trust: Trust, limit: float = LIMIT) -> None:
        self._fleet, self._limit = fleet, limit
        name, secret = trust.header
        self._headers = {name.decode(): secret.decode()}
        self._http: aiohttp.ClientSession | None = None
        self._places = asyncio.Semaphore(CONNECTIONS)
        self._under_way: asyncio.Task[list[NodeView]] | None = None
        self._until = 0.0

    async def nodes(self) -> list[NodeView]:
        """All nodes in order of their names."""
        task = self._under_way
        if task is None or (task.done() and asyncio.get_running_loop().time() >= self._until):
            task = self._under_way = asyncio.create_task(self._ask_all(), name="framehold survey")
        # One reader who leaves must not take the answer from the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Stop asking."""
        if self._under_way is not None:
            self._under_way.cancel()
            await asyncio.wait((self._under_way,))
        if self._http is not None:
            await self._http.close()

    async def _ask_all(self) -> list[NodeView]:
        if self._http is None:
            # No limit of connections in there: waiting for one would count against a node's time.
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=self._limit),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        members = sorted(self._fleet().members.values(), key=lambda member: member.node)
        answers = await asyncio.gather(*(self._ask(self._http, member) for member in members))
        self._until = asyncio.get_running_loop().time() + FRESH
        return list(answers)

    async def _ask(self, http: aiohttp.ClientSession, member: Member) -> NodeView:
        if member.address is None:
            return _from_lease(member)
        url = member.url.rstrip("/") + _PATH
        async with self._places:
            try:
                async with http.get(url, headers=self._headers, allow_redirects=False) as response:
                    said = Said.model_validate_json(await _body(response)) if response.status == 200 else None
            except (aiohttp.ClientError, TimeoutError, OSError, ValidationError, ValueError):
                said = None
        # Another node at this address: the lease is of one that has gone.
        if said is None or said.node_id != member.node:
            return _from_lease(member)
        return NodeView(**said.model_dump(), address=member.url, started=member.stats.started)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _LONGEST:
            raise ValueError(f"a node's answer is beyond {_LONGEST} bytes")
    return body


def _from_lease(member: Member) -> NodeView:
    return NodeView(
        node_id=member.node,
        incarnation=member.inc,
        boot=member.boot,
        state=STRANGE if member.state == STRANGE else UNREACHABLE,
        address=member.url,
        **member.stats._asdict(),
    )
