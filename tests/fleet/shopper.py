"""A client of the shop's tools (`shop`)."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.processes import DEADLINE
from tests.wire import Caller, Reply, accepted


class Shopper:
    """One call of a tool of the shop."""

    def __init__(self, caller: Caller, tool: str, name: str) -> None:
        self._caller, self._tool, self.name = caller, tool, name
        self.heard: Reply

    async def begin(self) -> Reply:
        """Round 1."""
        return await self.send()

    async def answer(self, **content: Any) -> Reply:
        """Answer what was asked, until the answer is taken."""
        (key,) = self.heard.asked
        params = {"requestState": self.heard.token, "inputResponses": {key: accepted(**content)}}
        async with asyncio.timeout(DEADLINE):
            while (reply := await self.send(**params)).status == 503:
                await asyncio.sleep(0.05)
        return reply

    async def send(self, **params: Any) -> Reply:
        whole = {"name": self._tool, "arguments": {"name": self.name}, **params}
        reply = await self._caller.send("tools/call", whole)
        if reply.message.get("result", {}).get("resultType") == "input_required":
            self.heard = reply
        return reply
