"""One call of a tool on trial, as its client keeps it: what it was asked last, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2

from tests.kit.client import Caller, Reply, accepted

AGAIN = (502, 503, 504)
"""Statuses after which a request with a token is sent again: it is answered as once."""
PATIENCE = 30.0
"""Seconds for which a client comes again. Longer than any fault of these tests lasts, on any machine."""
LOST = "entered once, stopped at an unknown point after round 1 of its questions, and may still be running"
"""What the client of an unmarked call is told that was lost in its second round (docs/protocol.md, I6)."""
_numbers = itertools.count(1)


async def ended(request: asyncio.Task[Reply]) -> Reply | None:
    """A request's response; None where its connection broke."""
    try:
        return await request
    except httpx2.TransportError:
        return None


def again(reply: Reply) -> bool:
    """Whether a request is to be sent again. Where the response was a stream already, the error says so alone."""
    error = reply.message.get("error", {})
    return reply.status in AGAIN or (error.get("code") == -32603 and "send the same request again" in error["message"])


async def taken(send: Callable[[], Awaitable[Reply]]) -> Reply:
    """Send until the request is taken."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(httpx2.TransportError):
                if not again(reply := await send()):
                    return reply
            await asyncio.sleep(0.05)


class Client(Caller):
    """A client that can be anywhere; each place is a view of one pool of connections."""

    def __init__(self) -> None:
        super().__init__("")

    def at(self, url: str) -> Caller:
        """The same client, which sends to `url`."""
        view = copy.copy(self)
        view.url = url
        return view


class Trial:
    """A call of `shape` in a column. Its name is its own, so that the ledger can tell calls apart; `more` are
    arguments beside it."""

    def __init__(self, client: Client, shape: str, column: str, **more: Any) -> None:
        self.tool, self.name = f"{shape}_{column}", f"{shape}-{column}-{next(_numbers)}"
        self.arguments: Mapping[str, Any] = {"name": self.name, **more}
        self.user = "ann"
        self.heard: Reply
        """The last reply that asked something."""
        self.client = client

    @property
    def owner(self) -> str:
        """The node that asked last."""
        return self.heard.headers["framehold-node"]

    @property
    def done(self) -> str:
        """What it says at its end, if each question was answered with its own key."""
        return f"{self.name}: <one> <two>"

    async def begin(self, url: str) -> Reply:
        """Round 1, sent once."""
        return self._kept(await self.send(url, {}))

    async def begin_at_last(self, url: str) -> Reply:
        """Round 1, sent until it is taken."""
        async with asyncio.timeout(PATIENCE):
            while again(reply := await self.begin(url)):
                await asyncio.sleep(0.05)
        return reply

    async def answer(self, url: str, reply: Reply | None = None, **text: Any) -> Reply:
        """Answer what was asked last, or in `heard`, once; each question with its own key unless it was `said`
        otherwise."""
        asked = reply or self.heard
        answers = {key: accepted(**(text or {"word": f"<{key}>"})) for key in asked.asked}
        return await self.send(url, {"requestState": asked.token, "inputResponses": answers})

    async def insist(self, *urls: str) -> Reply:
        """Answer what was asked last, at these places in turn, until the answer is taken."""
        places = itertools.cycle(urls)
        return self._kept(await taken(lambda: self.answer(next(places))))

    async def finish(self, *urls: str) -> str:
        """Answer all there is to answer; what the tool says at its end."""
        while (reply := await self.insist(*urls)).message.get("result", {}).get("resultType") == "input_required":
            pass
        return reply.text

    async def send(self, url: str, params: Mapping[str, Any], user: str | None = None) -> Reply:
        """One request as it is, by this call's user or another."""
        whole = {"name": self.tool, "arguments": dict(self.arguments), **params}
        headers = {"authorization": f"Bearer {user or self.user}"}
        # A deadline of its own: a node that is at work sends pings for ever.
        async with asyncio.timeout(PATIENCE):
            return await self.client.at(url).send("tools/call", whole, headers=headers)

    async def greet(self, url: str) -> Reply:
        """A call of a tool that never asks."""
        headers = {"authorization": f"Bearer {self.user}"}
        params = {"name": "greet", "arguments": {"name": self.name}}
        return await self.client.at(url).send("tools/call", params, headers=headers)

    async def list_tools(self, url: str) -> Reply:
        """What a client asks before it calls."""
        return await self.client.at(url).send("tools/list", {}, headers={"authorization": f"Bearer {self.user}"})

    def answering(self, url: str, reply: Reply | None = None, **text: Any) -> asyncio.Task[Reply]:
        """`answer`, on its way."""
        return asyncio.create_task(self.answer(url, reply, **text))

    def insisting(self, url: str) -> asyncio.Task[Reply]:
        """`insist`, on its way. A node whose own lease was late does not believe at once that another one is gone."""
        return asyncio.create_task(self.insist(url))

    def _kept(self, reply: Reply) -> Reply:
        if reply.message.get("result", {}).get("resultType") == "input_required":
            self.heard = reply
        return reply


Trials = Callable[..., Trial]
"""Makes calls: `trial(shape, column)`, with further arguments by name."""
